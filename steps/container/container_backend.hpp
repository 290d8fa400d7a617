// What a container backend does: asks and plans for one container, as a step kind does. One file a backend.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/base/error.hpp"
#include "steps/container/container_spec.hpp"
#include "steps/contract/change.hpp"

namespace millwright {

// Stateless; safe from any thread.
class ContainerBackend {
 public:
  virtual ~ContainerBackend() = default;
  virtual std::string name() const = 0;  // "lxc"; also the backend of ContainerTarget
  virtual std::vector<Question> ask(const ContainerSpec& spec) const = 0;
  virtual Result<Change> plan(const ContainerSpec& spec, const Answers& answers) const = 0;
};

const ContainerBackend& lxc_backend();

}  // namespace millwright
