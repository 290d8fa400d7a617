#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "direct_http.hpp"
#include "rules_fixture.hpp"
#include "steps/smoke/smoke.hpp"
#include "steps/smoke/word_problems.hpp"
#include "tests/support/replay_surface.hpp"

namespace millwright {
namespace {

// Answers every word problem, the first `wrong` of them wrongly, and everything else as a good model does.
ReplayModel solver(int wrong, std::string after = " apples.") {
  return [wrong, after](const ReplayRequest& request) {
    const std::vector<WordProblem> problems = word_problems(50);
    for (std::size_t i = 0; i < problems.size(); ++i) {
      if (request.ask() != problems[i].ask + " Give the number only.") continue;
      ReplayAnswer answer;
      const long off = static_cast<int>(i) < wrong ? 1 : 0;
      answer.content = "That is " + std::to_string(problems[i].answer + off) + after;
      answer.tokens = 5;
      return answer;
    }
    return healthy_answer(request);
  };
}

SmokeReport run(ReplayModel model, SmokeOptions options = {}) {
  ManualClock clock;
  DirectHttp http(engine_surface("vllm", std::move(model)), clock);
  options.url = "http://server:1";
  return run_smoke(http, clock, *shipped_rules(), options);
}

TEST(WordProblems, AreFiftyDifferentOnesWithTheirAnswers) {
  const std::vector<WordProblem> problems = word_problems(50);
  std::set<std::string> asks;
  for (const WordProblem& problem : problems) {
    asks.insert(problem.ask);
    EXPECT_GT(problem.answer, 0) << problem.ask;
    EXPECT_EQ(problem.ask.find('{'), std::string::npos) << problem.ask;
  }
  EXPECT_EQ(asks.size(), 50u);
  EXPECT_EQ(word_problems(10)[7].ask, problems[7].ask) << "the same ones every time";
}

// Worked out by hand from the numbers in the text, one of each template.
TEST(WordProblems, AnswersAreThoseOfTheTexts) {
  for (const WordProblem& problem : word_problems(50)) {
    std::vector<long> n;
    for (std::size_t i = 0; i < problem.ask.size(); ++i) {
      if (std::isdigit(static_cast<unsigned char>(problem.ask[i])) == 0) continue;
      n.push_back(std::stol(problem.ask.substr(i)));
      while (i < problem.ask.size() && std::isdigit(static_cast<unsigned char>(problem.ask[i])) != 0) ++i;
    }
    ASSERT_GE(n.size(), 3u) << problem.ask;
    const auto about = [&](const char* word) { return problem.ask.find(word) != std::string::npos; };
    if (about("crates") || about("an hour")) {
      EXPECT_EQ(problem.answer, n[0] * n[1] - n[2]) << problem.ask;
    }
    if (about("ferry")) {
      EXPECT_EQ(problem.answer, n[0] * n[1] * n[2]) << problem.ask;
    }
    if (about("pages")) {
      EXPECT_EQ(problem.answer, n[0] + n[1] + 2 * n[1] + n[2]) << problem.ask;
    }
    if (about("tank")) {
      EXPECT_EQ(problem.answer, n[0] + n[1] * n[2]) << problem.ask;
    }
    if (about("seats")) {
      EXPECT_EQ(problem.answer, n[0] * n[1] - n[2]) << problem.ask;
    }
    if (about("well and back")) {
      EXPECT_EQ(problem.answer, 2 * n[0] * n[1] + n[2]) << problem.ask;
    }
    if (about("rope")) {
      EXPECT_EQ(problem.answer, n[0] - n[1] * n[2]) << problem.ask;
    }
    if (about("beads")) {
      EXPECT_EQ(problem.answer, n[0] + n[0] + n[1] + n[2]) << problem.ask;
    }
    if (about("rolls")) {
      EXPECT_EQ(problem.answer, n[0] * n[1] / n[2] + n.back()) << problem.ask;
    }
  }
}

TEST(LastNumber, IsWhatAnAnswerEndsWith) {
  EXPECT_EQ(last_number("42"), 42);
  EXPECT_EQ(last_number("3 x 4 = 12, so **1,250** coins."), 1250);
  EXPECT_EQ(last_number("\\boxed{17}"), 17);
  EXPECT_EQ(last_number("the rest is 12.00 metres"), 12);
  EXPECT_EQ(last_number("12.5"), std::nullopt);
  EXPECT_EQ(last_number("first 7, 8"), 8);
  EXPECT_EQ(last_number("-5"), -5);
  EXPECT_EQ(last_number("10-4"), 4);
  EXPECT_EQ(last_number("none"), std::nullopt);
  EXPECT_EQ(last_number(""), std::nullopt);
  EXPECT_EQ(last_number(std::string(400, '9')), std::nullopt);
}

TEST(Accuracy, IsReportedAndJudgesNothingByItself) {
  SmokeOptions options;
  options.accuracy = true;
  const SmokeReport report = run(solver(19), options);
  EXPECT_EQ(report.verdict, VerdictKind::pass);
  EXPECT_EQ(report.probes.back().name, "accuracy");
  EXPECT_EQ(report.probes.back().summary, "31 of 50 right");
  EXPECT_EQ(report.probes.back().notes.size(), 5u);
  EXPECT_DOUBLE_EQ(report.accuracy.value(), 0.62);
  EXPECT_EQ(to_json(report).at("accuracy"), 0.62);
}

TEST(Accuracy, IsAskedWhereItIsWanted) {
  EXPECT_FALSE(run(solver(0)).accuracy.has_value());
  SmokeOptions thorough;
  thorough.level = "thorough";
  thorough.accuracy = true;
  const SmokeReport report = run(solver(0), thorough);
  EXPECT_EQ(report.accuracy, 1.0);
  EXPECT_EQ(std::count_if(report.probes.begin(), report.probes.end(),
                          [](const ProbeReport& probe) { return probe.name == "accuracy"; }),
            1);
}

TEST(Accuracy, AServerThatDiesMeanwhileIsNamed) {
  SmokeOptions options;
  options.accuracy = true;
  ReplayReply gone;
  gone.ending = ReplayEnding::refuse;
  const SmokeReport report = run(
      [&](const ReplayRequest& request) {
        if (request.ask().find("ferry") == std::string::npos) return solver(0)(request);
        ReplayAnswer answer;
        answer.instead = gone;
        return answer;
      },
      options);
  EXPECT_EQ(report.symptom_class, "server_died");
  EXPECT_FALSE(report.accuracy.has_value());
}

}  // namespace
}  // namespace millwright
