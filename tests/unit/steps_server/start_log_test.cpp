#include "steps/server/start_log.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "orchestrator/base/text.hpp"
#include "tests/unit/planner/planner_test_data.hpp"

namespace millwright {
namespace {

std::string read(const std::string& name) {
  std::ifstream in(TEST_DATA "/engine_logs/" + name, std::ios::binary);
  EXPECT_TRUE(in) << name;
  return std::string((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
}

class StartLogTest : public ::testing::Test {
 protected:
  StartLogTest()
      : profile_(engine_profile(*load_knowledge({SOURCE_DIR "/playbooks/knowledge"}), "llama.cpp").value()) {}
  EngineProfile profile_;
};

TEST_F(StartLogTest, RealStartsBecomeReady) {
  for (const char* name : {"llama.cpp-0.7.0-ok.log", "xllamacpp-2026.10.11549-ok.log"}) {
    StartLog log(profile_);
    log.add(read(name));
    EXPECT_TRUE(log.ready()) << name;
    EXPECT_FALSE(log.failure().has_value()) << name << ": " << log.failure()->line;
    EXPECT_EQ(log.facts().count("context_per_slot"), 1U) << name;
  }
}

TEST_F(StartLogTest, PiecesAreTheSameAsTheWhole) {
  const std::string text = read("llama.cpp-0.7.0-ok.log");
  StartLog log(profile_);
  for (const char c : text) log.add(std::string_view(&c, 1));
  EXPECT_TRUE(log.ready());
  EXPECT_EQ(log.facts().at("context_per_slot"), "2048");
  EXPECT_EQ(log.facts().at("slots"), "4");
  EXPECT_EQ(log.text(), text);
}

TEST_F(StartLogTest, StagesOnlyGoForward) {
  StartLog log(profile_);
  log.add("load_model: loading model '/m.gguf'\n");
  EXPECT_EQ(log.stage(), "loading the model");
  log.add("srv: model loaded\nload_model: loading model again\n");
  EXPECT_EQ(log.stage(), "model loaded");
  EXPECT_FALSE(log.ready());
}

TEST_F(StartLogTest, StagesCount) {
  EngineProfile engine = profile_;
  engine.stages = {{std::regex("shards: .*\\| *([0-9]+)/([0-9]+)"), "weights {1} of {2}", 0.2, 0.6},
                   {std::regex("Capturing: *([0-9]+)%"), "graphs {1} %", 0.6, 0.8},
                   {std::regex("warming up"), "warming up", 0.9, 0.9}};
  StartLog log(engine);
  log.add("Loading shards:   0% Completed | 0/4\n");
  EXPECT_EQ(log.stage(), "weights 0 of 4");
  log.add("Loading shards:  50% Completed | 2/4\n");
  EXPECT_EQ(log.stage(), "weights 2 of 4");
  EXPECT_DOUBLE_EQ(log.fraction(), 0.4);
  // A bar that is drawn over itself is one line.
  log.add("Capturing: 10%|#\rCapturing: 55%|#####\n");
  EXPECT_EQ(log.stage(), "graphs 55 %");
  EXPECT_DOUBLE_EQ(log.fraction(), 0.6 + 0.2 * 0.55);
  log.add("Loading shards: 100% Completed | 4/4\nwarming up\n");
  EXPECT_EQ(log.stage(), "warming up");
}

TEST_F(StartLogTest, AnEngineTooOldForTheModelIsNamed) {
  StartLog log(profile_);
  log.add(read("xllamacpp-0.1.10-unknown-architecture.log"));
  const UnitState unit =
      parse_unit_state("ActiveState=failed\nSubState=failed\nResult=exit-code\nExecMainCode=1\nExecMainStatus=1\n");
  const Diagnosis found = diagnose(unit, log);
  EXPECT_EQ(found.symptom_class, "model_arch_unsupported");
  EXPECT_NE(found.sentence.find("gemma3"), std::string::npos);
  EXPECT_GT(found.line_number, 0);
}

TEST_F(StartLogTest, TheWayAProcessEndsIsReadWhenTheLogSaysNothing) {
  const auto by = [this](const std::string& text) { return diagnose(parse_unit_state(text), StartLog(profile_)); };
  EXPECT_EQ(by("ActiveState=failed\nResult=oom-kill\nExecMainCode=2\nExecMainStatus=9\n").symptom_class, "oom_killed");
  EXPECT_EQ(by("ActiveState=failed\nResult=signal\nExecMainCode=2\nExecMainStatus=4\n").symptom_class,
            "illegal_instruction");
  EXPECT_EQ(by("ActiveState=failed\nResult=core-dump\nExecMainCode=3\nExecMainStatus=11\n").symptom_class, "segfault");
  EXPECT_EQ(by("ActiveState=failed\nResult=exit-code\nExecMainCode=1\nExecMainStatus=203\n").symptom_class,
            "file_missing");
  EXPECT_EQ(by("ActiveState=failed\nResult=start-limit-hit\nExecMainCode=1\nExecMainStatus=1\n").symptom_class,
            "crash_loop");
  EXPECT_EQ(by("ActiveState=inactive\nResult=success\nExecMainCode=1\nExecMainStatus=0\n").symptom_class,
            "start_failed");
}

TEST_F(StartLogTest, AUnitThatIsAboutToBeStartedAgainHasEnded) {
  EXPECT_TRUE(parse_unit_state("ActiveState=activating\nSubState=auto-restart\n").ended());
  EXPECT_TRUE(parse_unit_state("ActiveState=active\nSubState=running\nNRestarts=1\n").ended());
  EXPECT_FALSE(parse_unit_state("ActiveState=activating\nSubState=start\nNRestarts=0\n").ended());
  EXPECT_FALSE(parse_unit_state("ActiveState=active\nSubState=running\nNRestarts=0\n").ended());
}

// A start that is followed and a log that is read afterwards have rows of their own; the class is one.
TEST_F(StartLogTest, RealFailuresAreNamedAsThePlannersReaderNamesThem) {
  const auto knowledge = load_knowledge({SOURCE_DIR "/playbooks/knowledge"});
  int seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TEST_DATA "/planner/logs")) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() != ".log" || name.find("ok.log") != std::string::npos || starts_with(name, "composed"))
      continue;
    const std::string engine = name.substr(0, name.find('-'));
    const auto reading = planner::read_log(planner::shipped(), planner::log_text(name), engine);
    ASSERT_TRUE(reading && reading->failure) << name;
    const EngineProfile profile = engine_profile(*knowledge, engine).value();
    StartLog log(profile);
    log.add(planner::log_text(name));
    ASSERT_TRUE(log.failure().has_value()) << name;
    EXPECT_EQ(log.failure()->symptom_class, reading->failure->symptom_class) << name;
    ++seen;
  }
  EXPECT_GE(seen, 14);
}

TEST_F(StartLogTest, EveryFailureClassIsInTheClosedList) {
  const auto knowledge = load_knowledge({SOURCE_DIR "/playbooks/knowledge"});
  const Value& classes = knowledge->file("classes").at("classes");
  for (const LogFailure& failure : profile_.failures) {
    EXPECT_TRUE(classes.contains(failure.symptom_class)) << failure.symptom_class;
  }
}

}  // namespace
}  // namespace millwright
