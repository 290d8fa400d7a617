// Shows libssh only some keys of an ssh-agent, in a wanted order: libssh offers all of them one after the other, which
// IdentitiesOnly forbids and MaxAuthTries punishes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "orchestrator/base/error.hpp"

namespace millwright {

enum class OtherKeys { hide, show_last };

// An agent of its own behind a socket, served by a thread that ends with the object.
class AgentFilter {
 public:
  virtual ~AgentFilter() = default;
  virtual int release_socket() = 0;  // for ssh_set_agent_socket, which closes it
};

// `first`: public keys as base64 blobs, in the order to be offered. Fails when the agent cannot be reached.
Result<std::unique_ptr<AgentFilter>> make_agent_filter(const std::string& agent_socket,
                                                       const std::vector<std::string>& first, OtherKeys others);

}  // namespace millwright
