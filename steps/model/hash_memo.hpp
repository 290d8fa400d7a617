// Hashes of large files here, remembered as long as the files are unchanged, so that a model of 60 GB is not read for
// every plan. In $XDG_CACHE_HOME/millwright/sha256 (else ~/.cache), for this user alone; anything that is wrong with it
// means only that the file is read.
//
// Safe from any thread and process: an entry is replaced as a whole.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace millwright {

// What tells one state of a file from another: device, inode, size, and both times to the nanosecond. The time of the
// last change of the inode cannot be set back by hand. Empty: no such file.
std::string file_state(const std::string& path);

class HashMemo {
 public:
  // `folder` empty: remembers nothing.
  explicit HashMemo(std::string folder) : folder_(std::move(folder)) {}
  static HashMemo of_this_user();

  std::optional<std::string> find(const std::string& path, const std::string& state) const;
  // `state` as it was before the file was read. Not kept when the file has changed since, or so lately that a further
  // change might have the same times.
  void keep(const std::string& path, const std::string& state, const std::string& sha256) const;

 private:
  std::string entry(const std::string& path) const;
  std::string folder_;
};

}  // namespace millwright
