// Names the real implementations behind the seams, and nothing else.
#include <csignal>
#include <string>
#include <vector>

#include "orchestrator/base/clock.hpp"
#include "orchestrator/base/knowledge.hpp"
#include "orchestrator/cli/app.hpp"
#include "orchestrator/cli/console.hpp"
#include "orchestrator/cli/wiring.hpp"
#include "orchestrator/journal/sqlite_journal.hpp"
#include "orchestrator/transport/connector.hpp"
#include "orchestrator/transport/curl_http.hpp"
#include "steps/container/register.hpp"
#include "steps/contract/step.hpp"
#include "steps/core/register.hpp"
#include "steps/gpu/register.hpp"
#include "steps/log/log_signs.hpp"
#include "steps/model/register.hpp"
#include "steps/server/register.hpp"
#include "steps/smoke/register.hpp"
#include "steps/smoke/remedies.hpp"

namespace {

using namespace millwright;

Result<void> register_all(StepRegistry& registry, const Knowledge& knowledge) {
  const auto rules = load_smoke_rules(knowledge);
  if (!rules) return fail(rules.error());
  auto signs = log_signs(knowledge, "");
  if (!signs) return fail(signs.error());
  register_core_steps(registry);
  register_gpu_steps(registry, knowledge);
  register_container_steps(registry);
  register_model_steps(registry);
  register_server_steps(registry, knowledge);
  register_smoke_steps(registry, *rules, std::move(*signs));
  return {};
}

Result<std::unique_ptr<RemedyAdvisor>> ladder(const Knowledge& knowledge) {
  auto advisor = LadderAdvisor::from(knowledge);
  if (!advisor) return fail(advisor.error());
  return std::unique_ptr<RemedyAdvisor>(std::move(*advisor));
}

}  // namespace

int main(int argc, char** argv) {
  // A reader that goes away ("| head") must not kill a run.
  std::signal(SIGPIPE, SIG_IGN);
  SystemClock clock;
  Wiring wiring;
  wiring.version = MILLWRIGHT_VERSION;
  wiring.clock = &clock;
  wiring.open_journal = open_sqlite_journal;
  wiring.make_connector = make_connector;
  wiring.make_http = make_curl_http_client;
  wiring.register_steps = register_all;
  wiring.make_remedies = ladder;
  Console console = standard_console();
  return run_command_line(std::vector<std::string>(argv + 1, argv + argc), wiring, console);
}
