// What ~/.ssh/config and the command-line-like arguments of an inventory say about a host, resolved as `ssh -G` does.
//
// Reads files and (for Match exec) runs commands; safe for concurrent use.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/base/error.hpp"
#include "orchestrator/transport/connection.hpp"

namespace millwright {

// Values as written, tokens not yet replaced, by keyword in lower case; the first one seen stands, and keywords that
// add up (IdentityFile, CertificateFile) keep all of theirs in order.
using SshValues = std::map<std::string, std::vector<std::string>>;

struct SshQuery {
  std::string host;               // as a person would give it to ssh
  std::vector<std::string> args;  // -o Key=Value, -J, -i, -p, -l, -F and short flags that change nothing here
  std::string config_file;        // empty: ~/.ssh/config, then /etc/ssh/ssh_config; "none": neither
  std::string user;               // stronger than everything in files; empty: not given
  std::optional<int> port;
  std::string home;        // empty: of the user that runs this
  std::string local_user;  // likewise
};

// Settings ready for use: tokens and ~ replaced, defaults filled in.
struct SshSettings {
  std::string original_host;
  std::string host;  // HostName
  int port = 22;
  std::string user;
  std::vector<std::string> identity_files;  // defaults included when none is named
  bool identities_named = false;
  bool identities_only = false;
  std::vector<std::string> certificate_files;
  std::string identity_agent;  // socket path; empty: none
  std::string proxy_jump;      // empty: none
  std::string proxy_command;   // tokens replaced; empty: none
  std::vector<std::string> user_known_hosts;
  std::vector<std::string> global_known_hosts;
  std::string strict_host_key_checking = "ask";
  std::string host_key_alias;
  bool hash_known_hosts = false;
  int connect_timeout = 0;  // seconds, 0: not given
  int alive_interval = 0;   // seconds, 0: not given
  int alive_count = 3;
  bool public_key_auth = true, password_auth = true, keyboard_auth = true;
  std::string key_exchange, ciphers, macs, host_key_algorithms, public_key_algorithms;  // empty: libssh's own
  std::string address_family = "any";
};

// Errors name file:line (SourceMark) or the argument: unknown keywords are let pass as OpenSSH's IgnoreUnknown would
// not, that is, they are errors; so are Match criteria that this program cannot judge (canonical, final...).
Result<SshValues> read_ssh_config(const SshQuery& query);
Result<SshSettings> resolve_ssh(const SshQuery& query);

// "[user@]host[:port]" or "ssh://[user@]host[:port]".
struct JumpHost {
  std::string user, host;
  std::optional<int> port;
};
Result<std::vector<JumpHost>> parse_jumps(const std::string& text);

}  // namespace millwright
