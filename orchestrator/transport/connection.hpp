// The seam to a node: how commands, files and TCP get there. Real ones: ssh (libssh), local, and a hop into a container
// through another connection. Tests: ScriptedConnection (answers by pattern, remembers what was asked) and
// FaultyConnection (wraps any connection and breaks it on purpose).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/base/clock.hpp"
#include "orchestrator/base/error.hpp"

namespace millwright {

enum class Become { no, root };
enum class OutputStream { out, err };

struct CommandResult {
  int exit_code = 0;  // 128+n for signal n, as sh says
  std::string out;
  std::string err;
  bool truncated = false;
  Milliseconds elapsed{0};
};

// One POSIX sh script. It runs under /bin/sh in a fresh subshell (nothing leaks into the next one, but what `keep_as`
// keeps) with a set environment: PATH, LC_ALL=C, HOME, and `env`; nothing inherited.
struct Command {
  std::string script;
  std::string input;  // standard input; empty: /dev/null
  std::map<std::string, std::string> env;
  // The name of a shell variable: what is printed goes there instead of coming back, for the scripts behind it in the
  // same batch (and the same stretch of `become`), and is gone afterwards. Newlines at its end are lost.
  std::string keep_as;
  Become become = Become::no;
  Milliseconds deadline = std::chrono::minutes(1);  // then the script's processes are killed and `timeout` is returned
  std::uint64_t max_output = 4u << 20;              // per stream; the rest is dropped and `truncated` set
  std::function<void(OutputStream, std::string_view)> live;  // pieces as they come
  // When it has ended, on the caller's thread and before the next of its batch has: what the others of a long batch do
  // need not be waited for. Not called when the call fails before its end.
  std::function<void(const CommandResult&)> done;
};

struct Upload {
  std::string path;          // absolute, on the node
  std::string_view content;  // either this,
  std::string local_path;    // or a file here
  std::string mode = "0600";
  std::string owner;
  std::string group;
  Become become = Become::no;
  Milliseconds deadline = std::chrono::minutes(30);
  std::function<void(std::uint64_t done, std::uint64_t total)> progress;
};

struct TransportStats {
  std::uint64_t round_trips = 0;  // waits for the node after login; a batch is one
  std::uint64_t commands = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
};

// Listens on a loopback port of the controller and forwards to host:port as seen from the node, while it lives.
class Tunnel {
 public:
  virtual ~Tunnel() = default;
  virtual int local_port() const = 0;
};

// The connections of make_connector, ScriptedConnection, and FaultyConnection around them are safe for concurrent use:
// each call takes a shell (lane) of its own, at most eight at a time, so several steps of one host run side by side.
// Destroying one while a call is in progress is not allowed; interrupt it and wait.
class Connection {
 public:
  virtual ~Connection() = default;
  virtual std::string name() const = 0;  // for messages: "root@10.0.3.11:22", "lxc llm in root@10.0.3.11:22"
  // Errors are failures of the way to the node (connect, timeout, auth): a script that fails is a value.
  virtual Result<CommandResult> run(const Command& command) = 0;
  // All in one round trip (one for each stretch with the same `become`), in order. A command that runs out of time is
  // killed with all that it started, the rest is not run, and the whole call fails with timeout.
  virtual Result<std::vector<CommandResult>> run_batch(const std::vector<Command>& commands) = 0;
  // To a temporary name beside it, sha256-checked there, fsynced, mode and owner set, renamed.
  virtual Result<void> upload(const Upload& upload) = 0;
  virtual Result<std::string> download(const std::string& path, std::uint64_t max_bytes, Become become) = 0;
  virtual Result<std::unique_ptr<Tunnel>> open_tunnel(const std::string& host, int port) = 0;
  // Drops what is there and logs in again (after a reboot, or an action that cut the line). Fails at the deadline.
  virtual Result<void> reconnect(Milliseconds deadline) = 0;
  virtual bool alive() const = 0;
  virtual TransportStats stats() const = 0;
  virtual void interrupt() = 0;  // makes the call in progress return `interrupted` soon
};

enum class Via { ssh, local };
enum class HostKeyPolicy { strict, accept_new, off };  // StrictHostKeyChecking yes | accept-new | no

// Where a host is and how to get in; made by the inventory. Empty fields are filled from ~/.ssh/config, then defaults.
struct Target {
  std::string name;  // inventory name
  Via via = Via::ssh;
  std::string address;  // ansible_host; empty: name
  std::optional<int> port;
  std::string user;
  std::string identity_file;
  std::string ssh_config_file;                   // empty: ~/.ssh/config and /etc/ssh/ssh_config
  std::string known_hosts_file;                  // empty: as configured
  std::optional<HostKeyPolicy> host_key_policy;  // empty: as configured, else strict
  std::vector<std::string> ssh_args;             // ansible_ssh_common_args and the like: -o Key=Value, -J jump, -i file
  std::string password;                          // ansible_password, from a secret
  Become become = Become::no;
  std::string become_method = "sudo";
  std::string become_user = "root";
  std::string become_password;  // from a secret; goes to sudo on standard input only
  Milliseconds connect_timeout = std::chrono::seconds(15);
};

// A container, reached through the connection to the host it is in.
struct ContainerTarget {
  std::string backend;  // "lxc" | "pct" | "incus"
  std::string id;       // name or number
};

// Makes connections. Safe for concurrent use.
class Connector {
 public:
  virtual ~Connector() = default;
  virtual Result<std::unique_ptr<Connection>> connect(const Target& target) = 0;
  // A hop shares the host's session and keeps it; reconnecting one reconnects both. Lanes are independent.
  virtual Result<std::unique_ptr<Connection>> hop(Connection& host, const ContainerTarget& target) = 0;
};

}  // namespace millwright
