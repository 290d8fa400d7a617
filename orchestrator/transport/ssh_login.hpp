// From a socket to a session that is logged in: key exchange, host key, authentication.
#pragma once

#include <string>

#include "orchestrator/transport/descriptor.hpp"
#include "orchestrator/transport/ssh_config.hpp"
#include "orchestrator/transport/ssh_link.hpp"

namespace millwright {

struct LoginSettings {
  SshSettings ssh;
  HostKeyPolicy policy = HostKeyPolicy::strict;
  std::string password;  // empty: none
  std::string name;      // for messages: "root@10.0.3.11:22"
};

// Blocks the calling thread, at most until the deadline; `wake` becoming readable ends it as `interrupted`.
// Errors: connect, host_key, auth, timeout, interrupted. Owns the socket from the call on.
Result<SshSession> log_in(const LoginSettings& settings, Descriptor socket, SteadyPoint deadline, const Wakeup& wake);

// Calls `step` until it no longer says `again`, waiting for the socket between calls.
class SessionWait {
 public:
  SessionWait(ssh_session session, SteadyPoint deadline, const Wakeup& wake)
      : session_(session), deadline_(deadline), wake_(wake) {}
  Result<int> until(const std::function<int()>& step, int again) const;

 private:
  ssh_session session_;
  SteadyPoint deadline_;
  const Wakeup& wake_;
};

// Proves who we are. `peer_known` no: the host's key was not verified (policy off), so passwords stay here.
enum class PeerKnown { yes, no };
Result<void> authenticate(ssh_session session, const LoginSettings& settings, const SessionWait& wait, PeerKnown peer);

}  // namespace millwright
