// Variables of a playbook that are made of each other.
#include <gtest/gtest.h>

#include "tests/unit/engine/harness.hpp"

namespace millwright::testing {
namespace {

// Each holds the one before it `times` times over.
std::string chain(int length, int times, const std::string& begin) {
  std::string out = "name: x\nhosts: all\nvars:\n  v0: " + begin + "\n";
  for (int i = 1; i < length; ++i) {
    out += "  v" + std::to_string(i) + ": \"";
    for (int t = 0; t < times; ++t) out += "{{ vars.v" + std::to_string(i - 1) + " }}";
    out += "\"\n";
  }
  return out + "steps:\n  - {id: a, uses: note, with: {path: \"{dir}/a\", text: \"{{ vars.v" +
         std::to_string(length - 1) + " | length }}\"}}\n";
}

TEST(Variables, ThatDoubleEachOtherEndWithAnError) {
  Bench bench;
  ASSERT_TRUE(bench.apply(chain(60, 2, "xxxx"))) << render(*bench.error);
  EXPECT_EQ(bench.results(), std::vector<std::string>{"h1 a failed"});
  const Value error = bench.events(EventType::step_finished).at(0).data["error"];
  EXPECT_NE(error["message"].get<std::string>().find("too large"), std::string::npos) << error;
  EXPECT_EQ(error["where"].get<std::string>().rfind("test.yml:", 0), 0u) << error;
}

// Small at the end, but with as many ways through them as no machine could follow one by one.
TEST(Variables, ThatNameEachOtherManyTimesAreLookedAtOnce) {
  Bench bench;
  ASSERT_TRUE(bench.apply(chain(40, 4, "''"))) << render(*bench.error);
  EXPECT_EQ(bench.results(), std::vector<std::string>{"h1 a changed"});
  EXPECT_EQ(read_file(bench.dir("h1") + "/a"), "0");
}

TEST(Variables, OfMoreThanSixteenLevelsWaitForTheStepThatTheyRead) {
  Bench bench;
  std::string text = chain(25, 1, "\"{{ steps.first.text }}\"");
  text.insert(text.find("  - {id: a"), "  - {id: first, uses: note, with: {path: \"{dir}/first\", text: four}}\n");
  bench.options.mode = Mode::plan;
  ASSERT_TRUE(bench.apply(text)) << render(*bench.error);
  EXPECT_EQ(bench.events(EventType::step_planned).back().data["state"], "unknown");
}

TEST(Variables, TogetherHaveALimit) {
  Bench bench;
  std::string text = "name: x\nhosts: all\nvars:\n  seed: \"{{ '" + std::string(1000, 'x') + "' * 15000 }}\"\n";
  for (int i = 0; i < 4; ++i) text += "  w" + std::to_string(i) + ": \"{{ vars.seed }}\"\n";
  text += "steps:\n  - {id: a, uses: note, with: {path: \"{dir}/a\", text: x}}\n";
  ASSERT_TRUE(bench.apply(text)) << render(*bench.error);
  EXPECT_EQ(bench.results(), std::vector<std::string>{"h1 a failed"});
  const std::string message = bench.events(EventType::step_finished).at(0).data["error"]["message"].get<std::string>();
  EXPECT_NE(message.find("the variables of the playbook are too large"), std::string::npos) << message;
}

}  // namespace
}  // namespace millwright::testing
