#include "steps/core/register.hpp"

#include "steps/core/assert.hpp"
#include "steps/core/command.hpp"
#include "steps/core/file.hpp"
#include "steps/core/package.hpp"
#include "steps/core/reboot.hpp"
#include "steps/core/script.hpp"
#include "steps/core/service.hpp"
#include "steps/core/template.hpp"
#include "steps/core/wait.hpp"

namespace millwright {

void register_core_steps(StepRegistry& registry) {
  registry.add(std::make_unique<CommandStep>());
  registry.add(std::make_unique<ScriptStep>());
  registry.add(std::make_unique<FileStep>());
  registry.add(std::make_unique<TemplateStep>());
  registry.add(std::make_unique<PackageStep>());
  registry.add(std::make_unique<ServiceStep>());
  registry.add(std::make_unique<RebootStep>());
  registry.add(std::make_unique<WaitStep>());
  registry.add(std::make_unique<AssertStep>());
}

}  // namespace millwright
