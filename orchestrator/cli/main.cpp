// Names the real implementations behind the seams, and nothing else.
#include <csignal>
#include <string>
#include <vector>

#include "orchestrator/base/clock.hpp"
#include "orchestrator/cli/app.hpp"
#include "orchestrator/cli/console.hpp"
#include "orchestrator/cli/wiring.hpp"
#include "orchestrator/journal/sqlite_journal.hpp"
#include "steps/contract/step.hpp"
#include "steps/core/register.hpp"

int main(int argc, char** argv) {
  // A reader that goes away ("| head") must not kill a run.
  std::signal(SIGPIPE, SIG_IGN);
  millwright::SystemClock clock;
  millwright::Wiring wiring;
  wiring.version = MILLWRIGHT_VERSION;
  wiring.clock = &clock;
  wiring.open_journal = millwright::open_sqlite_journal;
  wiring.register_steps = [](millwright::StepRegistry& registry, const millwright::Knowledge&) {
    millwright::register_core_steps(registry);
  };
  millwright::Console console = millwright::standard_console();
  return millwright::run_command_line(std::vector<std::string>(argv + 1, argv + argc), wiring, console);
}
