#include "orchestrator/transport/ssh_source.hpp"

#include <poll.h>
#include <unistd.h>

#include <list>
#include <optional>
#include <thread>

#include "orchestrator/base/text.hpp"
#include "orchestrator/transport/local_source.hpp"
#include "orchestrator/transport/ssh_link.hpp"
#include "orchestrator/transport/ssh_login.hpp"

namespace millwright {
namespace {

// Jump hosts of jump hosts; more than this is a loop in the configuration.
constexpr int kMaxJumps = 8;

std::string show(const SshSettings& ssh) { return ssh.user + "@" + ssh.host + ":" + std::to_string(ssh.port); }

HostKeyPolicy policy_of(const SshSettings& ssh) {
  if (ssh.strict_host_key_checking == "accept-new") return HostKeyPolicy::accept_new;
  if (ssh.strict_host_key_checking == "no") return HostKeyPolicy::off;
  return HostKeyPolicy::strict;  // "yes", and "ask" where nobody can be asked
}

// What a session runs over, beside its socket.
struct Carrier {
  std::shared_ptr<SshLink> jump;
  std::unique_ptr<Program> stream;
};

class Route {
 public:
  explicit Route(Target target) : target_(std::move(target)) {}

  Result<LoginSettings> settings() const {
    auto query = ssh_query(target_);
    if (!query) return Failure(query.error());
    auto ssh = resolve_ssh(*query);
    if (!ssh) return Failure(wrap(ssh.error(), "reading the ssh settings of " + target_.name));
    if (!target_.identity_file.empty()) {
      ssh->identity_files.insert(ssh->identity_files.begin(), target_.identity_file);
      if (!ssh->identities_named) ssh->identity_files.resize(1);
      ssh->identities_named = true;
    }
    if (!target_.known_hosts_file.empty()) ssh->user_known_hosts = {target_.known_hosts_file};
    LoginSettings login;
    login.policy = target_.host_key_policy.value_or(policy_of(*ssh));
    login.password = target_.password;
    login.name = show(*ssh);
    login.ssh = std::move(*ssh);
    return login;
  }

  Result<std::shared_ptr<SshLink>> open(SteadyPoint deadline, const Wakeup& wake) const {
    auto login = settings();
    if (!login) return Failure(login.error());
    auto jumps = jumps_of(login->ssh);
    if (!jumps) return Failure(jumps.error());
    return connect(*login, *jumps, deadline, wake, 0);
  }

 private:
  static Result<std::vector<JumpHost>> jumps_of(const SshSettings& ssh) {
    if (ssh.proxy_jump.empty()) return std::vector<JumpHost>();
    return parse_jumps(ssh.proxy_jump);
  }

  // A jump host reads the same configuration, but none of the target's own arguments.
  Result<LoginSettings> jump_settings(const JumpHost& jump) const {
    SshQuery query;
    query.host = jump.host;
    query.user = jump.user;
    query.port = jump.port;
    query.config_file = target_.ssh_config_file;
    for (std::size_t i = 0; i + 1 < target_.ssh_args.size(); ++i) {
      if (target_.ssh_args[i] == "-F") query.config_file = target_.ssh_args[i + 1];
    }
    auto ssh = resolve_ssh(query);
    if (!ssh) return Failure(ssh.error());
    if (!target_.known_hosts_file.empty()) ssh->user_known_hosts = {target_.known_hosts_file};
    if (!target_.identity_file.empty() && !ssh->identities_named) {
      ssh->identity_files.insert(ssh->identity_files.begin(), target_.identity_file);
    }
    LoginSettings login;
    login.policy = policy_of(*ssh);
    login.name = show(*ssh);
    login.ssh = std::move(*ssh);
    return login;
  }

  Result<std::shared_ptr<SshLink>> connect(const LoginSettings& login, std::vector<JumpHost> jumps,
                                           SteadyPoint deadline, const Wakeup& wake, int depth) const {
    if (depth > kMaxJumps) return fail(ErrorKind::invalid, "ProxyJump goes through more than 8 hosts: is it a loop?");
    auto carrier = std::make_shared<Carrier>();
    Descriptor socket;
    if (!jumps.empty()) {
      const JumpHost last = jumps.back();
      jumps.pop_back();
      auto through = jump_settings(last);
      if (!through) return Failure(wrap(through.error(), "reading the settings of jump host " + last.host));
      if (jumps.empty()) {
        auto own = jumps_of(through->ssh);
        if (!own) return Failure(own.error());
        jumps = std::move(*own);
      }
      auto link = connect(*through, std::move(jumps), deadline, wake, depth + 1);
      if (!link) return Failure(wrap(link.error(), "reaching " + login.name + " through " + through->name));
      auto stream = (*link)->open_stream(login.ssh.host, login.ssh.port, deadline);
      if (!stream) return Failure(wrap(stream.error(), "reaching " + login.name + " through " + through->name));
      carrier->jump = std::move(*link);
      carrier->stream = std::move(*stream);
      socket = Descriptor(dup(carrier->stream->input()));
    } else if (!login.ssh.proxy_command.empty()) {
      auto command = start_joined(login.ssh.proxy_command);
      if (!command) return Failure(wrap(command.error(), "starting ProxyCommand for " + login.name));
      socket = std::move(*command);
    } else {
      auto connected = connect_tcp(login.ssh.host, login.ssh.port, deadline, wake.fd());
      if (!connected) return Failure(connected.error());
      socket = std::move(*connected);
    }
    auto session = log_in(login, std::move(socket), deadline, wake);
    if (!session) return Failure(session.error());
    LinkSettings settings;
    if (login.ssh.alive_interval > 0) settings.alive_interval = Seconds(login.ssh.alive_interval);
    settings.alive_count = login.ssh.alive_count;
    return SshLink::start(std::move(*session), std::move(carrier), settings);
  }

  const Target target_;
};

class SshSource final : public ProgramSource {
 public:
  SshSource(Route route, std::string name) : route_(std::move(route)), name_(std::move(name)) {}

  std::string name() const override { return name_; }
  Result<std::unique_ptr<Program>> start(const std::string& command, SteadyPoint deadline) override {
    const auto current = link();
    if (!current) return fail(ErrorKind::connect, "not connected to " + name_);
    auto program = current->open_program(command, deadline);
    return program ? std::move(program) : Failure(wrap(program.error(), "on " + name_));
  }
  Result<std::unique_ptr<Program>> dial(const std::string& host, int port, SteadyPoint deadline) override {
    const auto current = link();
    if (!current) return fail(ErrorKind::connect, "not connected to " + name_);
    return current->open_stream(host, port, deadline);
  }

  Result<void> open_once(SteadyPoint deadline) { return open(deadline, Tries::once); }
  // A server that restarts or a machine that boots refuses for a while, so that is no reason to give up early.
  Result<void> reconnect(SteadyPoint deadline) override { return open(deadline, Tries::until_deadline); }
  bool alive() const override {
    const auto current = link();
    return current && current->alive();
  }
  void interrupt() override {
    const Lock lock(mutex_);
    for (const Wakeup* wake : waiting_) wake->set();
    if (link_) link_->interrupt();
  }

 private:
  enum class Tries { once, until_deadline };

  // Waits a little; false when there is no time left, or somebody has interrupted.
  static bool pause(SteadyPoint deadline, const Wakeup& wake) {
    constexpr Milliseconds between = std::chrono::milliseconds(250);
    const SteadyPoint until = std::chrono::steady_clock::now() + between;
    if (until >= deadline) return false;
    std::vector<pollfd> set = {{wake.fd(), POLLIN, 0}};
    return poll_until(set, until) == 0;
  }

  // Logging in needs a deep stack, once. On a thread of its own that memory goes back to the system, which counts with
  // thousands of connections.
  Result<std::shared_ptr<SshLink>> log_in(SteadyPoint deadline, const Wakeup& wake) const {
    std::optional<Result<std::shared_ptr<SshLink>>> opened;
    std::thread([&] { opened = route_.open(deadline, wake); }).join();
    return std::move(*opened);
  }

  Result<void> open(SteadyPoint deadline, Tries tries) {
    Wakeup wake;
    {
      const Lock lock(mutex_);
      if (link_) link_->hang_up();
      link_.reset();
      waiting_.push_back(&wake);
    }
    auto opened = log_in(deadline, wake);
    while (!opened && tries == Tries::until_deadline && opened.error().kind == ErrorKind::connect &&
           pause(deadline, wake)) {
      opened = log_in(deadline, wake);
    }
    const Lock lock(mutex_);
    waiting_.remove(&wake);
    if (!opened) return Failure(opened.error());
    link_ = std::move(*opened);
    return {};
  }

  std::shared_ptr<SshLink> link() const {
    const Lock lock(mutex_);
    return link_;
  }

  const Route route_;
  const std::string name_;
  mutable Mutex mutex_;
  std::shared_ptr<SshLink> link_ MW_GUARDED_BY(mutex_);
  std::list<const Wakeup*> waiting_ MW_GUARDED_BY(mutex_);
};

}  // namespace

Result<SshQuery> ssh_query(const Target& target) {
  SshQuery query;
  query.host = target.address.empty() ? target.name : target.address;
  query.user = target.user;
  query.port = target.port;
  query.config_file = target.ssh_config_file;
  for (const std::string& word : target.ssh_args) {
    // "-o Key=Value" may come as one word or as two.
    const std::size_t blank = word.find(' ');
    if (starts_with(word, "-") && blank == 2) {
      query.args.push_back(word.substr(0, 2));
      query.args.emplace_back(trim(std::string_view(word).substr(3)));
    } else {
      query.args.push_back(word);
    }
  }
  if (query.host.empty()) return fail(ErrorKind::invalid, "a host without a name or address");
  return query;
}

Result<std::shared_ptr<ProgramSource>> make_ssh_source(const Target& target) {
  Route route(target);
  auto settings = route.settings();
  if (!settings) return Failure(settings.error());
  const Milliseconds timeout =
      settings->ssh.connect_timeout > 0 ? Seconds(settings->ssh.connect_timeout) : target.connect_timeout;
  auto source = std::make_shared<SshSource>(std::move(route), settings->name);
  auto connected = source->open_once(std::chrono::steady_clock::now() + timeout);
  if (!connected) return Failure(connected.error());
  return source;
}

}  // namespace millwright
