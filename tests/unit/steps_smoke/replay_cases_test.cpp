// The public cases of servers that "started fine" (tests/data/smoke), each replayed and told by its class.
#include "tests/support/replay_case.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "direct_http.hpp"
#include "orchestrator/base/yaml.hpp"
#include "rules_fixture.hpp"
#include "steps/smoke/smoke.hpp"

namespace millwright {

void PrintTo(const ReplayCase& row, std::ostream* out) { *out << row.id << " (" << row.place << ")"; }

namespace {

const std::vector<ReplayCase>& all_cases() {
  static const std::vector<ReplayCase> cases = load_replay_cases(std::string(TEST_DATA) + "/smoke/cases");
  return cases;
}

std::vector<ReplayCase> replayed_cases() {
  std::vector<ReplayCase> out;
  for (const ReplayCase& row : all_cases()) {
    if (row.not_expressible.empty()) out.push_back(row);
  }
  return out;
}

// id -> [class, what cured it]
Value public_ids() { return load_yaml(std::string(TEST_DATA) + "/smoke/case_ids.yml")->to_value().at("ids"); }

const ProbeReport* decisive(const SmokeReport& report) {
  for (const ProbeReport& probe : report.probes) {
    if (probe.symptom_class == report.symptom_class) return &probe;
  }
  return nullptr;
}

class ReplayedCase : public testing::TestWithParam<ReplayCase> {};

TEST_P(ReplayedCase, IsToldByItsClass) {
  const ReplayCase& row = GetParam();
  ManualClock clock;
  DirectHttp http(replay_of(row), clock);
  SmokeOptions options;
  options.url = "http://server:1";
  options.level = row.level;
  const SmokeReport report = run_smoke(http, clock, *shipped_rules(), options);
  EXPECT_EQ(to_string(report.verdict), row.verdict) << to_json(report).dump(1);
  EXPECT_EQ(report.symptom_class, row.observed);
  if (row.probe.empty()) return;
  ASSERT_NE(decisive(report), nullptr);
  EXPECT_EQ(decisive(report)->name, row.probe);
}

INSTANTIATE_TEST_SUITE_P(Public, ReplayedCase, testing::ValuesIn(replayed_cases()),
                         [](const auto& given) { return given.param.id; });

TEST(ReplayCases, CoverEveryPublicCaseOnce) {
  const Value ids = public_ids();
  EXPECT_EQ(ids.size(), 141u);
  std::set<std::string> covered;
  for (const ReplayCase& row : all_cases()) {
    ASSERT_TRUE(ids.contains(row.id)) << row.place << ": " << row.id << " is no public case";
    EXPECT_TRUE(covered.insert(row.id).second) << row.id;
    EXPECT_EQ(row.public_class, ids.at(row.id).at(0)) << row.place;
    EXPECT_NE(shipped_rules()->classes.find(row.observed.empty() ? row.public_class : row.observed), nullptr)
        << row.place;
  }
  for (const auto& [id, what] : ids.items()) EXPECT_EQ(covered.count(id), 1u) << id << " is not covered";
}

// What helped in public is among what is tried here, for the class that is seen and the engine that it was.
TEST(ReplayCases, HaveTheirCureOnTheLadder) {
  const Value& remedies = shipped_knowledge().file("remedies");
  for (const ReplayCase& row : replayed_cases()) {
    if (row.cure.empty()) continue;
    ASSERT_TRUE(remedies.at("remedies").contains(row.cure)) << row.place << ": " << row.cure;
    EXPECT_EQ(remedies.at("remedies").at(row.cure).value("engine", row.engine), row.engine) << row.place;
    ASSERT_TRUE(remedies.at("ladders").contains(row.observed)) << row.place << ": no ladder for " << row.observed;
    const Value& ladder = remedies.at("ladders").at(row.observed);
    EXPECT_NE(std::find(ladder.begin(), ladder.end(), row.cure), ladder.end())
        << row.place << ": " << row.cure << " is not on the ladder of " << row.observed;
  }
}

// Where another version helped, that is the cure.
TEST(ReplayCases, CuresAreOfTheKindThatHelped) {
  const Value ids = public_ids();
  const std::set<std::string> versions = {"newer-version", "older-version"};
  for (const ReplayCase& row : replayed_cases()) {
    const std::string kind = ids.at(row.id).at(1).get<std::string>();
    if (kind == "upgrade") {
      EXPECT_EQ(versions.count(row.cure), 1u) << row.place << ": " << row.id;
    }
  }
}

std::string content_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// The tables of docs/smoke-cases.md, made of the data.
std::string tables() {
  struct Count {
    int all = 0, own = 0, other = 0, none = 0;
  };
  std::map<std::string, Count> counts;
  std::map<std::string, std::string> others, none;  // class seen or reason -> ids
  for (const ReplayCase& row : all_cases()) {
    for (const std::string& name : {row.public_class, std::string("all")}) {
      Count& count = counts[name];
      ++count.all;
      (!row.not_expressible.empty() ? count.none : row.observed == row.public_class ? count.own : count.other)++;
    }
    if (!row.not_expressible.empty()) none[row.not_expressible] += " " + row.id;
    if (row.not_expressible.empty() && row.observed != row.public_class) {
      others[row.public_class + " | " + row.observed + " | " + row.because] += " " + row.id;
    }
  }
  const Count all = counts.at("all");
  counts.erase("all");
  std::string out =
      "| class | cases | replayed, told by it | replayed, told by another | not expressible |\n|---|---|---|---|---|\n";
  const auto line = [&](const std::string& name, const Count& c) {
    out += fmt::format("| {} | {} | {} | {} | {} |\n", name, c.all, c.own, c.other, c.none);
  };
  for (const auto& [name, count] : counts) line(name, count);
  line("all", all);
  out += "\n| filed as | told as | because | cases |\n|---|---|---|---|\n";
  for (const auto& [row, ids] : others) out += fmt::format("| {} |{} |\n", row, ids);
  out += "\n| not expressible, because | cases |\n|---|---|\n";
  for (const auto& [reason, ids] : none) out += fmt::format("| {} |{} |\n", reason, ids);
  return out;
}

TEST(ReplayCases, ThePageTellsWhatTheDataHolds) {
  const std::string page = content_of(std::string(SOURCE_DIR) + "/docs/smoke-cases.md");
  EXPECT_NE(page.find(tables()), std::string::npos) << "docs/smoke-cases.md should hold:\n" << tables();
}

// A mistake is told by file and line.
TEST(ReplayCases, AMistakeInARowIsAnError) {
  const std::string good =
      "id: C1, class: hang, seen: s, source: s, engine: vllm, level: quick, verdict: fail, uncured: u";
  const auto problem = [&](const std::string& row) -> std::string {
    const std::string folder = testing::TempDir() + "/replay-" + std::to_string(::getpid());
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/rows.yml") << "cases:\n  - {" + row + "}\n";
    try {
      for (const ReplayCase& loaded : load_replay_cases(folder)) replay_of(loaded);
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(problem(good + ", says: {hang: true}"), "");
  EXPECT_EQ(problem(good + ", sais: {}"), "rows.yml:2: unknown key 'sais' of a case");
  EXPECT_EQ(problem(good), "rows.yml:2: C1 lacks 'says'");
  EXPECT_EQ(problem(good + ", says: {hangs: true}"), "rows.yml:2: C1: unknown word 'hangs' in says");
  EXPECT_EQ(problem(good + ", says: {}, when: {streaming: true}"), "rows.yml:2: C1: unknown word 'streaming' in when");
  EXPECT_EQ(problem(good + ", says: {}, when: {since: {after: 2}}"), "rows.yml:2: C1: unknown word 'after' in since");
  EXPECT_EQ(problem(good + ", says: {}, observed: hung"), "rows.yml:2: C1: observed and because go together");
  EXPECT_EQ(problem(good + ", says: {}, cure: c"), "rows.yml:2: C1: cure or uncured, one of them");
  EXPECT_EQ(problem(good + ", says: {}}\n  - {" + good + ", says: {}"), "rows.yml:3: C1 comes twice");
  EXPECT_EQ(problem(good + ", not_expressible: r"),
            "rows.yml:2: C1 is not expressible: it has id, class, seen and source beside");
}

}  // namespace
}  // namespace millwright
