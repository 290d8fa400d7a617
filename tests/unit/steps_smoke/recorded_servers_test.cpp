// Exchanges recorded from a real llama-server 0.7.0 serving a healthy small model and three damaged copies of it.
#include <gtest/gtest.h>

#include "direct_http.hpp"
#include "rules_fixture.hpp"
#include "steps/smoke/smoke.hpp"
#include "tests/support/replay_surface.hpp"

namespace millwright {
namespace {

SmokeReport run_recorded(const std::string& name) {
  ManualClock clock;
  DirectHttp http(recorded(std::string(TEST_DATA) + "/smoke/llama_cpp_" + name + ".ndjson"), clock);
  SmokeOptions options;
  options.url = "http://server:1";
  return run_smoke(http, clock, *shipped_rules(), options);
}

TEST(RecordedServers, AHealthySmallModelPasses) {
  const SmokeReport report = run_recorded("ok");
  EXPECT_EQ(report.verdict, VerdictKind::pass) << to_json(report).dump(1);
  EXPECT_EQ(report.server.engine, "llama.cpp");
  EXPECT_EQ(report.server.version, "b11669");
  EXPECT_EQ(report.server.max_length, 2048);
  for (const ProbeReport& probe : report.probes) {
    const bool thinks_not = probe.name == "thinking";
    EXPECT_EQ(probe.verdict, thinks_not ? ProbeVerdict::skipped : ProbeVerdict::pass) << probe.name;
  }
}

TEST(RecordedServers, EachDamagedModelIsNamed) {
  EXPECT_EQ(run_recorded("bits").symptom_class, "null_content");  // flipped bits: empty content to the budget's end
  EXPECT_EQ(run_recorded("swap").symptom_class, "gibberish");     // rows reversed: repeated word pieces
  EXPECT_EQ(run_recorded("nan").symptom_class, "gibberish");      // NaN: salad of many scripts
  for (const char* name : {"bits", "swap", "nan"}) {
    const SmokeReport report = run_recorded(name);
    EXPECT_EQ(report.verdict, VerdictKind::fail) << name;
    EXPECT_EQ(report.probes.at(2).name, "known_answers");
    EXPECT_EQ(report.probes.at(2).verdict, ProbeVerdict::fail) << to_json(report).dump(1);
  }
}

}  // namespace
}  // namespace millwright
