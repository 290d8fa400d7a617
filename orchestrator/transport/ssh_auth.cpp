// Public keys (files, certificates, agent), then a password where one is given.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>

#include "orchestrator/base/text.hpp"
#include "orchestrator/transport/agent_filter.hpp"
#include "orchestrator/transport/ssh_login.hpp"

namespace millwright {
namespace {

using Key = std::unique_ptr<ssh_key_struct, decltype(&ssh_key_free)>;

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool is_encrypted(const std::string& text) {
  if (text.find("BEGIN OPENSSH PRIVATE KEY") == std::string::npos) return text.find("ENCRYPTED") != std::string::npos;
  // base64 of the format's name and the cipher "none"
  return text.find("b3BlbnNzaC1rZXktdjEAAAAABG5vbmU") == std::string::npos;
}

enum class Attempt { accepted, denied };

class Authenticator {
 public:
  Authenticator(ssh_session session, const LoginSettings& settings, const SessionWait& wait, PeerKnown peer)
      : session_(session), settings_(settings), ssh_(settings.ssh), wait_(wait), peer_(peer) {}

  Result<void> run() {
    for (const auto step : {&Authenticator::keys, &Authenticator::passwords}) {
      auto attempt = (this->*step)();
      if (!attempt) return Failure(attempt.error());
      if (*attempt == Attempt::accepted) return {};
    }
    return fail(refused());
  }

 private:
  Result<Attempt> keys() {
    if (!ssh_.public_key_auth) return note("public keys: switched off");
    // A key that was named is tried first, as ssh does; the agent's come before keys that merely lie around.
    for (const bool named_turn : {true, false}) {
      if (named_turn == ssh_.identities_named) {
        for (const std::string& path : ssh_.identity_files) {
          auto attempt = identity(path);
          if (!attempt || *attempt == Attempt::accepted) return attempt;
        }
      }
      if (named_turn) {
        auto attempt = agent();
        if (!attempt || *attempt == Attempt::accepted) return attempt;
      }
    }
    return Attempt::denied;
  }

  Attempt note(const std::string& text) {
    tried_.push_back(text);
    return Attempt::denied;
  }

  Result<Attempt> judge(const Result<int>& rc, const std::string& what) {
    if (!rc) {
      Error error = rc.error();
      if (error.kind == ErrorKind::timeout) error.message = settings_.name + " did not answer the login in time";
      return fail(wrap(std::move(error), "trying " + what));
    }
    if (*rc == SSH_AUTH_SUCCESS) return Attempt::accepted;
    if (*rc == SSH_AUTH_ERROR && ssh_is_connected(session_) == 0) {
      note(what + ": the server hung up (" + ssh_get_error(session_) + ")");
      return fail(refused());
    }
    if (*rc == SSH_AUTH_PARTIAL) return note(what + ": accepted, but the server wants a second factor");
    return note(what + ": refused");
  }

  Result<Attempt> identity(const std::string& path) {
    struct stat status {};
    if (stat(path.c_str(), &status) != 0) {
      if (ssh_.identities_named) note("key " + path + ": no such file");
      return Attempt::denied;
    }
    if (status.st_uid == geteuid() && (status.st_mode & 077) != 0) {
      return note("key " + path + ": ignored, others may read it (chmod 600)");
    }
    if (is_encrypted(read_file(path))) {
      encrypted_ = true;
      return note("key " + path + ": has a passphrase");
    }
    ssh_key raw = nullptr;
    if (ssh_pki_import_privkey_file(path.c_str(), nullptr, nullptr, nullptr, &raw) != SSH_OK) {
      return note("key " + path + ": is not a private key that libssh can read");
    }
    const Key key(raw, ssh_key_free);
    for (const std::string& certificate : certificates_of(path)) {
      auto attempt = with_certificate(path, certificate);
      if (!attempt || *attempt == Attempt::accepted) return attempt;
    }
    return judge(wait_.until([&] { return ssh_userauth_publickey(session_, nullptr, key.get()); }, SSH_AUTH_AGAIN),
                 "key " + path);
  }

  std::vector<std::string> certificates_of(const std::string& path) const {
    std::vector<std::string> all = ssh_.certificate_files;
    const std::string beside = path + "-cert.pub";
    if (access(beside.c_str(), R_OK) == 0) all.push_back(beside);
    return all;
  }

  Result<Attempt> with_certificate(const std::string& path, const std::string& certificate) {
    ssh_key raw_key = nullptr, raw_certificate = nullptr;
    if (ssh_pki_import_cert_file(certificate.c_str(), &raw_certificate) != SSH_OK) {
      return note("certificate " + certificate + ": cannot be read");
    }
    const Key parsed(raw_certificate, ssh_key_free);
    // A copy of the key: the certificate becomes part of it.
    ssh_pki_import_privkey_file(path.c_str(), nullptr, nullptr, nullptr, &raw_key);
    const Key key(raw_key, ssh_key_free);
    if (ssh_pki_copy_cert_to_privkey(parsed.get(), key.get()) != SSH_OK) return Attempt::denied;  // of another key
    return judge(wait_.until([&] { return ssh_userauth_publickey(session_, nullptr, key.get()); }, SSH_AUTH_AGAIN),
                 "certificate " + certificate);
  }

  // Keys of the agent that belong to an identity file go first; with IdentitiesOnly no others are shown.
  Result<Attempt> agent() {
    if (ssh_.identity_agent.empty()) return note("agent: none (SSH_AUTH_SOCK is not set)");
    auto filter = make_agent_filter(ssh_.identity_agent, public_keys(),
                                    ssh_.identities_only ? OtherKeys::hide : OtherKeys::show_last);
    if (!filter) return note("agent: " + filter.error().message);
    const int socket = (*filter)->release_socket();
    ssh_set_agent_socket(session_, socket);
    auto rc = wait_.until([&] { return ssh_userauth_agent(session_, nullptr); }, SSH_AUTH_AGAIN);
    filters_.push_back(std::move(*filter));
    return judge(rc, ssh_.identities_only ? "the agent's copies of these keys" : "keys of the agent");
  }

  std::vector<std::string> public_keys() const {
    std::vector<std::string> keys;
    for (const std::string& path : ssh_.identity_files) {
      std::istringstream words(read_file(path + ".pub"));
      std::string type, base64;
      if (words >> type >> base64) keys.push_back(base64);
    }
    return keys;
  }

  Result<Attempt> passwords() {
    if (settings_.password.empty()) return note("password: none given");
    if (peer_ == PeerKnown::no) return note("password: kept, because the host key is not verified");
    int methods = ssh_userauth_list(session_, nullptr);
    if (methods == 0) {
      auto attempt =
          judge(wait_.until([&] { return ssh_userauth_none(session_, nullptr); }, SSH_AUTH_AGAIN), "no credentials");
      if (!attempt || *attempt == Attempt::accepted) return attempt;
      tried_.pop_back();
      methods = ssh_userauth_list(session_, nullptr);
    }
    if ((methods & SSH_AUTH_METHOD_INTERACTIVE) != 0 && ssh_.keyboard_auth) {
      auto attempt = keyboard();
      if (!attempt || *attempt == Attempt::accepted) return attempt;
    }
    if ((methods & SSH_AUTH_METHOD_PASSWORD) == 0 || !ssh_.password_auth) return Attempt::denied;
    return judge(wait_.until([&] { return ssh_userauth_password(session_, nullptr, settings_.password.c_str()); },
                             SSH_AUTH_AGAIN),
                 "password");
  }

  // The password answers a question once; a question that is asked again means it was wrong.
  Result<Attempt> keyboard() {
    bool answered = false;
    while (true) {
      auto rc = wait_.until([&] { return ssh_userauth_kbdint(session_, nullptr, nullptr); }, SSH_AUTH_AGAIN);
      if (!rc || *rc != SSH_AUTH_INFO) return judge(rc, "keyboard-interactive with the password");
      const int prompts = ssh_userauth_kbdint_getnprompts(session_);
      if (prompts > 0 && answered) return note("keyboard-interactive with the password: refused");
      for (int i = 0; i < prompts; ++i) {
        char echo = 0;
        ssh_userauth_kbdint_getprompt(session_, static_cast<unsigned>(i), &echo);
        ssh_userauth_kbdint_setanswer(session_, static_cast<unsigned>(i), echo == 0 ? settings_.password.c_str() : "");
        answered = true;
      }
    }
  }

  Error refused() const {
    Error error =
        make_error(ErrorKind::auth,
                   settings_.name + " refused the login. Tried: " + (tried_.empty() ? "nothing" : join(tried_, "; ")));
    const int methods = ssh_userauth_list(session_, nullptr);
    std::vector<std::string> accepted;
    if ((methods & SSH_AUTH_METHOD_PUBLICKEY) != 0) accepted.emplace_back("publickey");
    if ((methods & SSH_AUTH_METHOD_PASSWORD) != 0) accepted.emplace_back("password");
    if ((methods & SSH_AUTH_METHOD_INTERACTIVE) != 0) accepted.emplace_back("keyboard-interactive");
    if (!accepted.empty()) error.message += ". It accepts: " + join(accepted, ", ");
    error.with_hint(encrypted_
                        ? "load the key with a passphrase into the agent: ssh-add FILE"
                        : "put the public key into ~/.ssh/authorized_keys there, or set ansible_ssh_private_key_file "
                          "or ansible_password");
    return error;
  }

  ssh_session session_;
  const LoginSettings& settings_;
  const SshSettings& ssh_;
  const SessionWait& wait_;
  PeerKnown peer_;
  std::vector<std::string> tried_;
  bool encrypted_ = false;
  std::vector<std::unique_ptr<AgentFilter>> filters_;  // libssh may ask them until the login is over
};

}  // namespace

Result<void> authenticate(ssh_session session, const LoginSettings& settings, const SessionWait& wait, PeerKnown peer) {
  return Authenticator(session, settings, wait, peer).run();
}

}  // namespace millwright
