#include "steps/smoke/later.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "direct_http.hpp"
#include "rules_fixture.hpp"
#include "tests/support/replay_surface.hpp"

namespace millwright {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

const std::string kLoop(64, '!');

// A server that is well until so long after its start.
class Later : public ::testing::Test {
 protected:
  Later() {
    options_.url = "http://server:1/v1";
    options_.recheck = {minutes(10), hours(1)};
  }

  SmokeReport run(Milliseconds well_for, const ReplayModel& then = always(kLoop, "length", 64)) {
    const SteadyPoint start = clock_.steady();
    const ReplayModel model = [this, start, well_for, then](const ReplayRequest& request) {
      return clock_.steady() - start < well_for ? healthy_answer(request) : then(request);
    };
    http_.emplace(engine_surface("sglang", model), clock_);
    return run_smoke(*http_, clock_, *shipped_rules(), options_);
  }
  static std::vector<std::string> names(const SmokeReport& report) {
    std::vector<std::string> out;
    for (const ProbeReport& probe : report.probes) out.push_back(probe.name);
    return out;
  }

  ManualClock clock_;
  std::optional<DirectHttp> http_;
  SmokeOptions options_;
};

TEST_F(Later, AServerThatStaysWellPassesAfterTheLastTime) {
  const SteadyPoint start = clock_.steady();
  const SmokeReport report = run(hours(100));
  EXPECT_EQ(report.verdict, VerdictKind::pass) << report.sentence;
  ASSERT_EQ(report.probes.size(), 9u);
  EXPECT_EQ(report.probes[7].name, "known_answers_after_10m");
  EXPECT_EQ(report.probes[8].name, "known_answers_after_1h");
  EXPECT_EQ(report.probes[8].summary, "5 of 5 right");
  EXPECT_GE(clock_.steady() - start, hours(1));
  EXPECT_LT(clock_.steady() - start, hours(1) + minutes(5)) << "times count from the test, not from each other";
}

TEST_F(Later, AServerThatIsPoisonedBetweenTheTimesIsFound) {
  std::vector<std::string> kept;
  options_.keep = [&](const std::string& name, std::string_view) {
    kept.push_back(name);
    return name;
  };
  const SmokeReport report = run(minutes(30));
  EXPECT_EQ(report.verdict, VerdictKind::fail);
  EXPECT_EQ(report.symptom_class, "poisoned_server");
  ASSERT_EQ(report.probes.size(), 9u);
  EXPECT_EQ(report.probes[7].verdict, ProbeVerdict::pass);
  EXPECT_EQ(report.probes[8].summary.find("right before, now single_token_loop: 5 of 5"), 0u)
      << report.probes[8].summary;
  ASSERT_EQ(kept.size(), 5u);
  EXPECT_EQ(kept[0], "after-1h-known_answers-capital.txt");
}

TEST_F(Later, TheFirstTimeThatFailsIsTheLast) {
  const SmokeReport report = run(minutes(5));
  EXPECT_EQ(report.symptom_class, "poisoned_server");
  EXPECT_EQ(names(report).back(), "known_answers_after_10m");
}

TEST_F(Later, AServerThatDiedKeepsItsOwnClass) {
  ReplayReply gone;
  gone.ending = ReplayEnding::refuse;
  const SmokeReport report = run(minutes(5), instead(gone));
  EXPECT_EQ(report.verdict, VerdictKind::fail);
  EXPECT_EQ(report.symptom_class, "server_died");
}

TEST_F(Later, AServerThatFailsAtOnceIsNotWaitedFor) {
  const SteadyPoint start = clock_.steady();
  const SmokeReport report = run(Milliseconds(0));
  EXPECT_EQ(report.symptom_class, "single_token_loop");
  EXPECT_LT(clock_.steady() - start, minutes(10));
}

TEST_F(Later, TheWayToTheServerIsOpenedAnew) {
  int opened = 0;
  options_.way_again = [&]() -> Result<std::string> { return "http://again" + std::to_string(++opened) + ":1/v1"; };
  run(hours(100));
  EXPECT_EQ(opened, 2);
  EXPECT_EQ(http_->requests.back().url, "http://again2:1/v1/chat/completions");
  options_.way_again = []() -> Result<std::string> { return fail(ErrorKind::connect, "no route"); };
  const SmokeReport lost = run(hours(100));
  EXPECT_EQ(lost.verdict, VerdictKind::inconclusive) << "says nothing on the server";
  EXPECT_NE(lost.sentence.find("no route"), std::string::npos);
}

TEST_F(Later, WaitingIsToldAndEndsWhenItIsCancelled) {
  std::vector<std::string> told;
  options_.on_wait = [&](const std::string& text) { told.push_back(text); };
  options_.cancelled = [&] { return told.size() >= 3; };
  const SteadyPoint start = clock_.steady();
  const SmokeReport report = run(hours(100));
  EXPECT_TRUE(report.cancelled);
  EXPECT_EQ(report.verdict, VerdictKind::inconclusive);
  ASSERT_EQ(told.size(), 3u);
  EXPECT_EQ(told[0], "known answers again in 10 m 00 s");
  EXPECT_LT(clock_.steady() - start, minutes(10));
}

TEST_F(Later, TheDeadlineEndsTheWaiting) {
  options_.deadline = clock_.steady() + minutes(20);
  const SmokeReport report = run(hours(100));
  EXPECT_EQ(report.verdict, VerdictKind::inconclusive);
  EXPECT_EQ(report.probes.back().summary, "no time left");
  EXPECT_LT(clock_.steady() - ManualClock().steady(), minutes(30));
}

TEST(RecheckTimes, AreDurationsOfADayAtMost) {
  EXPECT_EQ(read_recheck_times({"1h", "10m", "60m"}).value(), (std::vector<Milliseconds>{minutes(10), hours(1)}));
  EXPECT_TRUE(read_recheck_times({}).value().empty());
  for (const char* wrong : {"0s", "25h", "soon", ""}) EXPECT_FALSE(read_recheck_times({wrong})) << wrong;
}

}  // namespace
}  // namespace millwright
