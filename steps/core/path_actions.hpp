// The state of one path on a node, and the actions that change it, each with a save and an undo that puts exactly that
// state back. Shared by `file` and `template`; of use to any step kind that places files.
//
// Pure functions; may be used from any thread. Paths are absolute, without newline, without a trailing slash.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "steps/contract/change.hpp"

namespace millwright::core {

enum class PathType { absent, file, directory, link, other };
std::string_view to_string(PathType type);

struct PathState {
  PathType type = PathType::absent;
  std::string mode;  // "0644"; files and directories
  std::string uid, gid, owner, group;
  std::uint64_t size = 0;  // bytes; of a directory what `du` says, where that was asked
  std::string sha256;      // files
  std::string target;      // links
  std::string kind;        // of `other`: "fifo", "socket" ...
  std::string ancestor;    // absent: the nearest folder above that exists, or what is in the way of it
  bool ancestor_is_folder = true;
  std::string content;  // of a file, where it was asked and may be shown
};

enum class TreeSize { ask, skip };  // walking a directory takes time

// When to print what is in a regular file as well: when it is not what is wanted, and may be shown.
struct ContentAsked {
  std::uint64_t max_bytes = 0;
  bool also_private = false;  // false: only of a file that everybody may read
  std::string unless_sha256;
};

// Shell text that prints the state; `parse_path_state` reads it. Needs stat -c and sha256sum (coreutils or busybox).
std::string path_state_script(std::string_view path, TreeSize tree, const std::optional<ContentAsked>& content = {});
// What path_state_script of many paths have in common: three programs for all of them, where each alone starts two.
// Nothing for a path whose name the answer could not hold.
std::optional<SharedLook> path_look(std::string_view path);
Result<PathState> parse_path_state(const Answer& answer, std::string_view path);

// The answer to path_state_script when the path is like this; empty members may be anything.
struct ExpectedPath {
  PathType type = PathType::absent;
  std::string mode, owner, group;  // owner and group by name or number, as wanted
  std::string sha256;              // files
  std::string target;              // links
};
Expectation expect_path_state(std::string key, const ExpectedPath& path);

// What should be so; empty members are left as they are.
struct Attributes {
  std::string mode, owner, group;
};

// Writes content over a file or where nothing is. `sha256` is that of the content.
Action write_action(const FilePlacement& file, const std::string& sha256, const PathState& before);
// Sets mode, owner and group of a file or directory.
Action attributes_action(const std::string& path, const Attributes& wanted, const PathState& before);
// Makes a folder and the missing ones above it (0755); the attributes are the last one's.
Action folder_action(const std::string& path, const Attributes& wanted);
// Makes a symbolic link, or points an existing one elsewhere.
Action link_action(const std::string& path, const std::string& target, const PathState& before);
// Removes a file, link or whole directory; a directory disappears at once (renamed first) and is kept as an archive.
Action remove_action(const std::string& path, const PathState& before);

}  // namespace millwright::core
