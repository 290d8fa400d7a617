// P5: a paragraph, long enough for loops and salad to show. Never a list or JSON: those repeat by nature.
#include <fmt/format.h>

#include "steps/smoke/probe.hpp"

namespace millwright {
namespace {

constexpr std::size_t kTooShortToJudge = 20;  // words: small models answer a paragraph with a sentence

class ProseProbe final : public Probe {
 public:
  std::string name() const override { return "prose"; }
  std::string title() const override { return "prose"; }

  ProbeReport run(SmokeSession& session) const override {
    ProbeReport report;
    ChatCall call;
    call.name = name();
    call.ask = session.rules().prose_ask;
    call.max_tokens = session.rules().prose_tokens;
    const ChatOutcome outcome = session.chat(call);
    Finding finding = outcome.trouble ? outcome.trouble : judge_reply(session.rules(), outcome.reply, TextKind::prose);
    record(report, session, call, outcome, finding).expected = "prose in English";
    conclude(report, session.rules(), finding);
    if (finding) return report;
    const TextSigns signs = measure_text(outcome.reply.content.text);
    report.summary = fmt::format("{} words", signs.words);
    const auto tokens = outcome.reply.completion_tokens.value_or(0);
    if (tokens >= 8 && outcome.seconds > 0) {
      session.tokens_per_second = static_cast<double>(tokens) / outcome.seconds;
      report.summary += fmt::format(", {:.1f} tokens/s", *session.tokens_per_second);
    }
    if (signs.words < kTooShortToJudge) report.notes.emplace_back("the text is too short to say much");
    return report;
  }
};

}  // namespace

std::unique_ptr<Probe> make_prose_probe() { return std::make_unique<ProseProbe>(); }

}  // namespace millwright
