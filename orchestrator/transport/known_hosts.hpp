// known_hosts files as OpenSSH reads them: patterns, [host]:port, hashed names, @revoked and @cert-authority.
//
// Free functions over files; safe for concurrent use (appending is one write).
#pragma once

#include <string>
#include <vector>

#include "orchestrator/base/error.hpp"

namespace millwright {

enum class KnownHostMark { none, revoked, authority };

struct KnownHost {
  KnownHostMark mark = KnownHostMark::none;
  std::string type;    // "ssh-ed25519"
  std::string base64;  // the key
  std::string file;
  int line = 0;
};

// "host" for port 22, else "[host]:port", in lower case.
std::string known_host_name(const std::string& host, int port);

// All lines of these files whose patterns fit the name. Files that are not there are empty; lines that make no sense
// are skipped, as OpenSSH does.
std::vector<KnownHost> find_known_hosts(const std::vector<std::string>& files, const std::string& name);

enum class HashNames { no, yes };
// Appends one line; makes the file (0600) and its folder (0700) when missing.
Result<void> add_known_host(const std::string& file, const std::string& name, const std::string& type,
                            const std::string& base64, HashNames hash);

enum class KeyState { known, unknown, changed, revoked };

struct KeyVerdict {
  KeyState state = KeyState::unknown;
  KnownHost entry;                     // known, changed, revoked: the line that says so
  std::vector<KnownHost> other_types;  // unknown: keys of other types that are known
  std::vector<KnownHost> authorities;  // lines that could only vouch for a host certificate
};

KeyVerdict judge_host_key(const std::vector<KnownHost>& entries, const std::string& type, const std::string& base64);

// OpenSSH's wildcard match: '*' and '?'.
bool match_wildcard(std::string_view text, std::string_view pattern);

}  // namespace millwright
