#include "orchestrator/transport/ssh_login.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"
#include "orchestrator/transport/known_hosts.hpp"

namespace millwright {
namespace {

// AES in counter mode with its own checksum goes first: about a third faster than ChaCha20 where the CPU has AES.
constexpr const char* kCiphers =
    "aes128-gcm@openssh.com,aes256-gcm@openssh.com,chacha20-poly1305@openssh.com,aes256-ctr,aes192-ctr,aes128-ctr";

struct KeyFamily {
  std::string_view type;        // in known_hosts
  std::string_view algorithms;  // to ask for
};
constexpr KeyFamily kFamilies[] = {{"ssh-ed25519", "ssh-ed25519"},
                                   {"ecdsa-sha2-nistp256", "ecdsa-sha2-nistp256"},
                                   {"ecdsa-sha2-nistp384", "ecdsa-sha2-nistp384"},
                                   {"ecdsa-sha2-nistp521", "ecdsa-sha2-nistp521"},
                                   {"ssh-rsa", "rsa-sha2-512,rsa-sha2-256"}};

// The kinds of key that are known for this host first, so that a server with several shows one we can check.
std::string host_key_order(const std::vector<KnownHost>& known) {
  std::vector<std::string> first, rest;
  for (const KeyFamily& family : kFamilies) {
    const bool is_known = std::any_of(known.begin(), known.end(), [&](const KnownHost& entry) {
      return entry.mark == KnownHostMark::none && entry.type == family.type;
    });
    (is_known ? first : rest).emplace_back(family.algorithms);
  }
  first.insert(first.end(), rest.begin(), rest.end());
  return join(first, ",");
}

struct ServerKey {
  std::string type, base64, fingerprint;
};

Result<ServerKey> server_key(ssh_session session) {
  ssh_key raw = nullptr;
  if (ssh_get_server_publickey(session, &raw) != SSH_OK) return fail(ErrorKind::host_key, "the host showed no key");
  const std::unique_ptr<ssh_key_struct, decltype(&ssh_key_free)> key(raw, ssh_key_free);
  ServerKey result;
  result.type = ssh_key_type_to_char(ssh_key_type(key.get()));
  const char* curve = ssh_pki_key_ecdsa_name(key.get());
  if (ssh_key_type(key.get()) == SSH_KEYTYPE_ECDSA_P256 || ssh_key_type(key.get()) == SSH_KEYTYPE_ECDSA_P384 ||
      ssh_key_type(key.get()) == SSH_KEYTYPE_ECDSA_P521) {
    result.type = curve;
  }
  char* text = nullptr;
  if (ssh_pki_export_pubkey_base64(key.get(), &text) == SSH_OK) {
    result.base64 = text;
    ssh_string_free_char(text);
  }
  unsigned char* hash = nullptr;
  std::size_t size = 0;
  if (ssh_get_publickey_hash(key.get(), SSH_PUBLICKEY_HASH_SHA256, &hash, &size) == 0) {
    char* fingerprint = ssh_get_fingerprint_hash(SSH_PUBLICKEY_HASH_SHA256, hash, size);
    result.fingerprint = fingerprint != nullptr ? fingerprint : "";
    ssh_string_free_char(fingerprint);
    ssh_clean_pubkey_hash(&hash);
  }
  return result;
}

class HostKeyCheck {
 public:
  explicit HostKeyCheck(const LoginSettings& settings) : settings_(settings), ssh_(settings.ssh) {
    files_ = ssh_.user_known_hosts;
    files_.insert(files_.end(), ssh_.global_known_hosts.begin(), ssh_.global_known_hosts.end());
    name_ =
        ssh_.host_key_alias.empty() ? known_host_name(ssh_.host, ssh_.port) : known_host_name(ssh_.host_key_alias, 22);
    entries_ = find_known_hosts(files_, name_);
  }

  const std::vector<KnownHost>& entries() const { return entries_; }

  Result<PeerKnown> judge(const ServerKey& key) const {
    KeyVerdict verdict = judge_host_key(entries_, key.type, key.base64);
    if (verdict.state == KeyState::unknown && ssh_.port != 22 && ssh_.host_key_alias.empty()) {
      // As OpenSSH: a line without a port vouches for the same key on another port.
      const KeyVerdict plain =
          judge_host_key(find_known_hosts(files_, known_host_name(ssh_.host, 22)), key.type, key.base64);
      if (plain.state == KeyState::known || plain.state == KeyState::revoked) verdict = plain;
    }
    switch (verdict.state) {
      case KeyState::known:
        return PeerKnown::yes;
      case KeyState::revoked:
        return fail(make_error(ErrorKind::host_key,
                               "the host key of " + settings_.name + " is revoked: " + place(verdict.entry))
                        .with_hint("somebody marked this key as stolen; do not use this host until it has a new one"));
      case KeyState::changed:
        if (settings_.policy == HostKeyPolicy::off) return PeerKnown::no;
        return fail(changed(key, verdict.entry));
      case KeyState::unknown:
        break;
    }
    if (settings_.policy == HostKeyPolicy::off) return PeerKnown::no;
    if (settings_.policy == HostKeyPolicy::accept_new && verdict.other_types.empty()) return learn(key);
    return fail(unknown(key, verdict));
  }

 private:
  static std::string place(const KnownHost& entry) { return entry.file + ":" + std::to_string(entry.line); }

  Result<PeerKnown> learn(const ServerKey& key) const {
    if (ssh_.user_known_hosts.empty()) return PeerKnown::yes;
    auto added = add_known_host(ssh_.user_known_hosts[0], name_, key.type, key.base64,
                                ssh_.hash_known_hosts ? HashNames::yes : HashNames::no);
    if (!added) return Failure(added.error());
    return PeerKnown::yes;
  }

  Error changed(const ServerKey& key, const KnownHost& entry) const {
    return make_error(ErrorKind::host_key, "the host key of " + settings_.name + " has changed: it shows " + key.type +
                                               " " + key.fingerprint + ", but " + place(entry) + " has another one")
        .with_hint(
            "somebody may sit in between, or the host was installed anew. Compare on its console: ssh-keygen -lf "
            "/etc/ssh/ssh_host_*_key.pub; if it is right: ssh-keygen -R " +
            shell_quote(name_) + " -f " + shell_quote(entry.file));
  }

  Error unknown(const ServerKey& key, const KeyVerdict& verdict) const {
    std::string message = "the host key of " + settings_.name + " is not known: " + key.type + " " + key.fingerprint;
    if (!verdict.other_types.empty()) {
      message += " (a key of type " + verdict.other_types[0].type + " is: " + place(verdict.other_types[0]) + ")";
    } else if (!verdict.authorities.empty()) {
      message += " (" + place(verdict.authorities[0]) + " trusts host certificates, which millwright cannot check)";
    }
    const std::string file = ssh_.user_known_hosts.empty() ? "~/.ssh/known_hosts" : ssh_.user_known_hosts[0];
    // One line that adds exactly the key that was shown, whatever answers later.
    return make_error(ErrorKind::host_key, message)
        .with_hint(
            "compare the fingerprint on the host's console (ssh-keygen -lf /etc/ssh/ssh_host_*_key.pub), then:\n    "
            "echo " +
            shell_quote(name_ + " " + key.type + " " + key.base64) + " >> " + shell_quote(file));
  }

  const LoginSettings& settings_;
  const SshSettings& ssh_;
  std::vector<std::string> files_;
  std::string name_;
  std::vector<KnownHost> entries_;
};

Result<void> set_algorithms(ssh_session session, const SshSettings& ssh, const std::vector<KnownHost>& known) {
  const std::string order = ssh.host_key_algorithms.empty() ? host_key_order(known) : ssh.host_key_algorithms;
  const std::string ciphers = ssh.ciphers.empty() ? kCiphers : ssh.ciphers;
  const struct {
    ssh_options_e option;
    const std::string& value;
    const char* name;
  } all[] = {{SSH_OPTIONS_HOSTKEYS, order, "HostKeyAlgorithms"},
             {SSH_OPTIONS_CIPHERS_C_S, ciphers, "Ciphers"},
             {SSH_OPTIONS_CIPHERS_S_C, ciphers, "Ciphers"},
             {SSH_OPTIONS_HMAC_C_S, ssh.macs, "MACs"},
             {SSH_OPTIONS_HMAC_S_C, ssh.macs, "MACs"},
             {SSH_OPTIONS_KEY_EXCHANGE, ssh.key_exchange, "KexAlgorithms"},
             {SSH_OPTIONS_PUBLICKEY_ACCEPTED_TYPES, ssh.public_key_algorithms, "PubkeyAcceptedAlgorithms"}};
  for (const auto& one : all) {
    if (one.value.empty() || ssh_options_set(session, one.option, one.value.c_str()) == 0) continue;
    return fail(make_error(ErrorKind::invalid, std::string("none of the algorithms in ") + one.name + " '" + one.value +
                                                   "' is known to libssh")
                    .with_hint("post-quantum key exchange needs a newer libssh; leave the setting out for this host"));
  }
  return {};
}

Result<SshSession> new_session(const LoginSettings& settings, Descriptor socket, const std::vector<KnownHost>& known) {
  const int off = 0;
  int fd = socket.release();
  SshSession session(ssh_new());
  ssh_options_set(session.get(), SSH_OPTIONS_FD, &fd);
  ssh_options_set(session.get(), SSH_OPTIONS_PROCESS_CONFIG, &off);
  ssh_options_set(session.get(), SSH_OPTIONS_HOST, settings.ssh.host.c_str());
  ssh_options_set(session.get(), SSH_OPTIONS_USER, settings.ssh.user.c_str());
  // libssh is given no file to look at: host keys are judged here.
  ssh_options_set(session.get(), SSH_OPTIONS_KNOWNHOSTS, "/dev/null");
  ssh_options_set(session.get(), SSH_OPTIONS_GLOBAL_KNOWNHOSTS, "/dev/null");
  if (!settings.ssh.identity_agent.empty()) {
    ssh_options_set(session.get(), SSH_OPTIONS_IDENTITY_AGENT, settings.ssh.identity_agent.c_str());
  }
  if (auto done = set_algorithms(session.get(), settings.ssh, known); !done) return Failure(done.error());
  ssh_set_blocking(session.get(), 0);
  return session;
}

}  // namespace

Result<int> SessionWait::until(const std::function<int()>& step, int again) const {
  while (true) {
    const int fd = ssh_get_fd(session_);
    const int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &one, sizeof one);
    const int rc = step();
    if (rc != again) return rc;
    const bool pending = (ssh_get_poll_flags(session_) & SSH_WRITE_PENDING) != 0;
    std::vector<pollfd> set{{ssh_get_fd(session_), static_cast<short>(POLLIN | (pending ? POLLOUT : 0)), 0},
                            {wake_.fd(), POLLIN, 0}};
    if (poll_until(set, deadline_) == 0) return fail(ErrorKind::timeout, "no answer in time");
    if (set[1].revents != 0) return fail(ErrorKind::interrupted, "interrupted while logging in");
  }
}

Result<SshSession> log_in(const LoginSettings& settings, Descriptor socket, SteadyPoint deadline, const Wakeup& wake) {
  const HostKeyCheck check(settings);
  auto session = new_session(settings, std::move(socket), check.entries());
  if (!session) return Failure(wrap(session.error(), "connecting to " + settings.name));
  const SessionWait wait(session->get(), deadline, wake);
  const auto connected = wait.until([&] { return ssh_connect(session->get()); }, SSH_AGAIN);
  if (!connected) {
    Error error = connected.error();
    if (error.kind == ErrorKind::timeout) {
      error.message = settings.name + " accepted the connection but did not greet in time";
      error.hint = "is it an ssh server, and is it overloaded?";
    }
    return fail(std::move(error));
  }
  if (*connected != SSH_OK) {
    return fail(
        make_error(ErrorKind::connect, "no ssh session with " + settings.name + ": " + ssh_get_error(session->get()))
            .with_hint("is it an ssh server? `ssh -v` to it shows what it offers"));
  }
  auto key = server_key(session->get());
  if (!key) return Failure(key.error());
  auto known = check.judge(*key);
  if (!known) return Failure(known.error());
  if (auto done = authenticate(session->get(), settings, wait, *known); !done) return Failure(done.error());
  return session;
}

}  // namespace millwright
