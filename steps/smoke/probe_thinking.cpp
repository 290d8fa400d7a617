// P4: a model that thinks must also answer: the thinking in its own field, the answer in content.
#include <fmt/format.h>

#include "steps/smoke/known_answers.hpp"
#include "steps/smoke/probe.hpp"

namespace millwright {
namespace {

class ThinkingProbe final : public Probe {
 public:
  std::string name() const override { return "thinking"; }
  std::string title() const override { return "thinking"; }

  ProbeReport run(SmokeSession& session) const override {
    ProbeReport report;
    if (!session.thinks) {
      report.summary = "no answer came with thinking";
      return report;
    }
    const KnownQuestion& question = session.questions().front();
    ChatCall call;
    call.name = name();
    call.ask = question.ask;
    call.think = true;
    call.max_tokens = session.rules().thinking_tokens;
    ChatOutcome outcome = session.chat(call);
    // A server that refuses the switch thinks, or takes the answer for thinking, when nobody says anything about it:
    // that is how its clients will ask.
    if (outcome.status == 400) {
      call.plain = true;
      outcome = session.chat(call);
    }
    const int most = session.within_context(session.rules().long_thinking_tokens);
    if (!outcome.trouble && outcome.reply.finish_reason == "length" && most > call.max_tokens) {
      call.max_tokens = most;
      outcome = session.chat(call);
    }
    const Finding finding =
        outcome.trouble ? outcome.trouble : judge_reply(session.rules(), outcome.reply, TextKind::answer);
    Exchange& exchange = record(report, session, call, outcome, finding);
    exchange.expected = "an answer in content after the thinking";
    conclude(report, session.rules(), finding);
    if (finding) return report;
    report.summary = outcome.reply.reasoning.has_text() ? "thinks, then answers" : "answers without thinking";
    if (!holds_answer(outcome.reply.content.text, question.expect)) report.notes.emplace_back("the answer is wrong");
    return report;
  }
};

}  // namespace

std::unique_ptr<Probe> make_thinking_probe() { return std::make_unique<ThinkingProbe>(); }

}  // namespace millwright
