#include "orchestrator/cli/step_kinds.hpp"

namespace millwright {

tl::expected<StepKinds, std::vector<Error>> load_step_kinds(const Session& session) {
  auto knowledge = load_knowledge(knowledge_folders());
  if (!knowledge) return tl::unexpected(std::move(knowledge.error()));
  StepKinds kinds;
  kinds.knowledge = std::move(*knowledge);
  if (const auto registered = session.wiring.register_steps(kinds.registry, kinds.knowledge); !registered)
    return tl::unexpected(std::vector<Error>{registered.error()});
  return kinds;
}

}  // namespace millwright
