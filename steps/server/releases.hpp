// What servers, releases and engine environments a node has, and what of it nothing needs. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "orchestrator/base/error.hpp"
#include "orchestrator/base/value.hpp"

namespace millwright {

struct ReleaseRow {
  int number = 0;
  bool current = false;
  std::string engine, version, model, device;
  std::string model_sha256;  // empty: not known
  std::string environment;   // folder
  std::string command;       // one line, for people
  std::string host;          // as it was told to listen
  int port = 0;              // 0: not known
  std::string context;       // tokens, of the command line; empty: the engine's own
  // The rest of its command line: without the program and what is said above.
  std::vector<std::string> flags;
  std::string run;          // that made it
  std::string verdict;      // of its last test that passed: "pass", "degraded"; empty: never
  std::string verified_at;  // ISO 8601, UTC

  bool verified() const { return !verdict.empty(); }
};

struct ServerRow {
  std::string name;
  std::string active;  // systemd's ActiveState
  std::string host;    // where the current release listens, as a client on the node sees it
  int port = 0;
  bool has_key = false;              // the current release asks for an API key
  std::vector<ReleaseRow> releases;  // by number

  const ReleaseRow* find(int number) const;
};

struct EnvironmentRow {
  std::string folder;
  std::uint64_t bytes = 0;           // files that it shares with another one are counted in both
  bool whole = false;                // false: an installation that was interrupted
  std::vector<std::string> used_by;  // "llm 3"
};

struct NodeReleases {
  std::vector<ServerRow> servers;
  std::vector<EnvironmentRow> environments;
  std::uint64_t together = 0;  // of all environments, shared files once
};

// POSIX sh that only reads; needs root.
std::string releases_script();
// invalid: a text that this script did not print.
Result<NodeReleases> parse_releases(const std::string& text);

enum class ReleaseFlags { left_out, shown };
std::string releases_table(const std::string& node, const NodeReleases& found,
                           ReleaseFlags flags = ReleaseFlags::left_out);
Value releases_json(const std::string& node, const NodeReleases& found);

// What may go: releases that neither run nor are the last verified one of their server (which is kept until the next
// one is verified), environments that no release which stays was made with, and interrupted installations.
struct Unneeded {
  std::vector<std::pair<std::string, int>> releases;  // server, number
  std::vector<EnvironmentRow> environments;

  bool empty() const { return releases.empty() && environments.empty(); }
};
Unneeded unneeded(const NodeReleases& found);
// Removes them. What has come into use since is left, and said on standard error (status 1).
std::string prune_script(const Unneeded& gone);

}  // namespace millwright
