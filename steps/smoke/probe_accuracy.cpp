// P15: how many of the word problems come out right. No figure is too low by itself, as models differ; a drop below the
// model's own earlier score is what counts (baseline.hpp).
#include <fmt/format.h>

#include "steps/smoke/probe.hpp"
#include "steps/smoke/utf8.hpp"
#include "steps/smoke/word_problems.hpp"

namespace millwright {
namespace {

constexpr std::size_t kShownWrong = 5;

bool gone(const Finding& finding) {
  const std::string& found = finding.symptom_class;
  return found == "server_died" || found == "not_listening" || found == "hang" || found == "auth_required";
}

class AccuracyProbe final : public Probe {
 public:
  std::string name() const override { return "accuracy"; }
  std::string title() const override { return "accuracy"; }

  ProbeReport run(SmokeSession& session) const override {
    ProbeReport report;
    const std::vector<WordProblem> problems = word_problems(session.rules().accuracy_questions);
    int asked = 0;
    int right = 0;
    for (const WordProblem& problem : problems) {
      if (session.stopped()) break;
      const ChatCall call = call_of(session, asked, problem);
      const ChatOutcome outcome = session.chat(call);
      if (gone(outcome.trouble)) {
        record(report, session, call, outcome, outcome.trouble);
        conclude(report, session.rules(), outcome.trouble);
        return report;
      }
      ++asked;
      const bool well = !outcome.trouble && last_number(outcome.reply.content.text) == problem.answer;
      right += well ? 1 : 0;
      if (!well && report.notes.size() < kShownWrong)
        report.notes.push_back(fmt::format("{} = {}: got {}", printable(problem.ask, 120), problem.answer,
                                           outcome.trouble ? outcome.trouble.what : describe_reply(outcome.reply)));
      if (outcome.reply.completion_tokens) report.tokens = report.tokens.value_or(0) + *outcome.reply.completion_tokens;
    }
    if (asked < static_cast<int>(problems.size())) {
      report.verdict = ProbeVerdict::skipped;
      report.summary = fmt::format("{} of {} asked before the deadline", asked, problems.size());
      return report;
    }
    report.score = static_cast<double>(right) / asked;
    report.summary = fmt::format("{} of {} right", right, asked);
    conclude(report, session.rules(), {});
    return report;
  }

 private:
  static ChatCall call_of(const SmokeSession& session, int number, const WordProblem& problem) {
    ChatCall call;
    call.name = fmt::format("accuracy-{}", number + 1);
    call.ask = problem.ask + " Give the number only.";
    call.max_tokens =
        session.thinks && !session.thinking_off ? session.rules().thinking_tokens : session.rules().accuracy_tokens;
    return call;
  }
};

}  // namespace

std::unique_ptr<Probe> make_accuracy_probe() { return std::make_unique<AccuracyProbe>(); }

}  // namespace millwright
