#include "steps/core/assert.hpp"

#include <gtest/gtest.h>

#include "tests/unit/steps_core/real_shell.hpp"

namespace millwright {
namespace {

using testing_tools::inputs_of;

const AssertStep kAssert;

Result<Change> plan(const Value& given) { return kAssert.plan(inputs_of(kAssert, given), {}); }

TEST(Assert, HoldsWhenAllHold) {
  const auto change = plan({{"that", {true, 5, "true", Value::array({1})}}});
  ASSERT_TRUE(change);
  EXPECT_TRUE(change->empty());
  EXPECT_EQ(change->summary, "all 4 hold");
  EXPECT_EQ(change->outputs["checked"], 4);
  EXPECT_EQ(plan(true)->summary, "it holds");
}

TEST(Assert, SaysWhichOneDoesNot) {
  for (const Value& no : {Value(false), Value(0), Value(""), Value("false"), Value(nullptr), Value::array()}) {
    const auto change = plan({{"that", Value::array({true, no})}});
    ASSERT_FALSE(change) << no;
    EXPECT_EQ(change.error().kind, ErrorKind::refused);
    EXPECT_EQ(change.error().message, "condition 2 of 2 does not hold");
  }
}

TEST(Assert, SaysWhatThePlaybookSays) {
  EXPECT_EQ(plan({{"that", {false}}, {"msg", "two GPUs are needed"}}).error().message,
            "two GPUs are needed (the condition does not hold)");
  const Value own = {{"that", Value::array({true, {{"that", false}, {"msg", "own"}}})}, {"msg", "general"}};
  EXPECT_EQ(plan(own).error().message, "own (condition 2 of 2 does not hold)");
}

TEST(Assert, ShowsHowTheConditionIsWritten) {
  const auto change = plan({{"that", {true, false}}, {"written", {"inputs.a", "inputs.port > 1023"}}});
  ASSERT_FALSE(change);
  EXPECT_EQ(change.error().message, "condition 2 of 2 does not hold: inputs.port > 1023");
}

TEST(Assert, BareTextIsNoCondition) {
  const auto checked = check_inputs(kAssert.signature(), {{"that", {"x == 1"}}});
  const auto errors = kAssert.check(Inputs(*checked));
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].hint, "conditions are expressions: write \"{{ x == 1 }}\"");
}

}  // namespace
}  // namespace millwright
