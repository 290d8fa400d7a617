// Launchers that are shipped as data, run by Python with an engine of five lines.
#include <gtest/gtest.h>

#include "orchestrator/base/shell.hpp"
#include "tests/unit/steps_core/real_shell.hpp"

namespace millwright {
namespace {

constexpr const char* kEngine = R"py(import logging, os, sys
logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(message)s")
logging.getLogger("engine").info(f"server_args={sys.argv[1:]}")
print(__name__, sys.argv[1:], "MILLWRIGHT_API_KEY" in os.environ)
)py";

TEST(Launcher, SGLangGetsItsKeyAndDoesNotLogIt) {
  const testing_tools::RealShell shell;
  shell.write("sglang/__init__.py", "");
  shell.write("sglang/launch_server.py", kEngine);
  // As the installer places it.
  const std::string start = "cp " + shell_quote(SOURCE_DIR "/playbooks/knowledge/launchers/sglang.py") + " " +
                            shell_quote(shell.path("launcher.py")) + "\nexport PYTHONDONTWRITEBYTECODE=1\n";
  const std::string run = "python3 " + shell_quote(shell.path("launcher.py")) + " --port 30000\n";
  const Answer with_key = shell.run(start + "MILLWRIGHT_API_KEY=s3cret " + run, "-eu");
  EXPECT_EQ(with_key.out, "__main__ ['--port', '30000', '--api-key', 's3cret'] False\n") << with_key.err;
  EXPECT_EQ(with_key.err, "server_args=['--port', '30000', '--api-key', '***']\n");
  const Answer without = shell.run(start + run, "-eu");
  EXPECT_EQ(without.out, "__main__ ['--port', '30000'] False\n") << without.err;
}

}  // namespace
}  // namespace millwright
