#include "steps/core/template.hpp"

#include <gtest/gtest.h>

#include "tests/unit/steps_core/real_shell.hpp"

namespace millwright {
namespace {

using testing_tools::inputs_of;
using testing_tools::RealShell;

const TemplateStep kTemplate;

TEST(TemplateStep, TheRenderedTextBecomesTheFile) {
  RealShell shell;
  shell.write("t.in", "port {{ inputs.port }}\n");
  const InputSpec* source = kTemplate.signature().find_input("source");
  ASSERT_NE(source, nullptr);
  EXPECT_EQ(source->rendered_into, "content");
  const Value given = {{"path", shell.path("t.conf")}, {"source", shell.path("t.in")}, {"content", "port 8080\n"}};
  shell.expect_contract(kTemplate, given);
  shell.apply(kTemplate, inputs_of(kTemplate, given));
  EXPECT_EQ(shell.read("t.conf"), "port 8080\n");
}

TEST(TemplateStep, WithoutTextItIsAMistake) {
  RealShell shell;
  const auto change = shell.plan(kTemplate, inputs_of(kTemplate, {{"path", shell.path("t.conf")}}));
  ASSERT_FALSE(change);
  EXPECT_EQ(change.error().kind, ErrorKind::invalid);
  EXPECT_THROW(inputs_of(kTemplate, {{"path", "/x"}, {"source", "/does/not/exist"}}), std::runtime_error);
}

}  // namespace
}  // namespace millwright
