// docs/how-to-add-a-step-kind.md shows code that compiles and keeps the contract.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "orchestrator/base/text.hpp"
#include "tests/unit/steps_core/line_step.hpp"
#include "tests/unit/steps_core/real_shell.hpp"

namespace millwright {
namespace {

using testing_tools::inputs_of;
using testing_tools::RealShell;

std::string text_of(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(std::string(SOURCE_DIR) + "/" + path).rdbuf();
  return out.str();
}

TEST(HowTo, TheDocumentShowsExactlyThisCode) {
  const std::string document = text_of("docs/how-to-add-a-step-kind.md");
  const std::string code = text_of("tests/unit/steps_core/line_step.cpp");
  ASSERT_FALSE(code.empty());
  EXPECT_NE(document.find("```cpp\n" + code + "```"), std::string::npos)
      << "copy tests/unit/steps_core/line_step.cpp into the document";
}

TEST(HowTo, TheExampleKeepsTheContract) {
  RealShell shell;
  for (const char* content : {"", "one\n", "no newline at the end"}) {
    shell.write("modules", content, 0640);
    shell.expect_contract(LineStep(), {{"path", shell.path("modules")}, {"line", "vfio-pci it's"}});
  }
  shell.write("modules", "a\n");
  const auto acted = shell.apply(LineStep(), inputs_of(LineStep(), {{"path", shell.path("modules")}, {"line", "b"}}));
  shell.write("modules", "a\nb\nc\n");
  EXPECT_EQ(shell.undo(acted), std::vector<int>{kUndoRefused});
  EXPECT_FALSE(shell.plan(LineStep(), inputs_of(LineStep(), {{"path", shell.path("none")}, {"line", "b"}})));
}

}  // namespace
}  // namespace millwright
