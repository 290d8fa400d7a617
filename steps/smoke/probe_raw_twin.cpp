// P6: after empty or garbled answers, the same without a chat template: tells a parser or template at fault from a
// model or kernel at fault. Explains a failure, never causes one.
#include <fmt/format.h>

#include "steps/smoke/probe.hpp"
#include "steps/smoke/utf8.hpp"

namespace millwright {
namespace {

class RawTwinProbe final : public Probe {
 public:
  std::string name() const override { return "raw_twin"; }
  std::string title() const override { return "raw completion"; }
  bool explains() const override { return true; }

  ProbeReport run(SmokeSession& session) const override {
    ProbeReport report;
    if (!session.answered) {
      report.summary = "nothing answers";
      return report;
    }
    const SmokeRules& rules = session.rules();
    const ChatOutcome outcome = session.complete(rules.raw_prompt, rules.raw_tokens);
    if (outcome.trouble) {
      report.summary = "not offered by this server";
      return report;
    }
    const std::string& text = outcome.reply.content.text;
    const Finding garbled = judge_text(rules, text, TextKind::answer);
    const bool sane = outcome.reply.content.has_text() && !garbled;
    Exchange exchange;
    exchange.asked = rules.raw_prompt;
    exchange.expected = "a sane continuation";
    exchange.got = text;
    exchange.right = sane;
    exchange.evidence = session.keep(name() + ".txt", outcome.raw);
    report.exchanges.push_back(std::move(exchange));
    report.verdict = ProbeVerdict::pass;
    report.summary =
        sane ? "sane ('" + printable(text, 60) + "'): the chat template or a parser is at fault, not the model"
             : "no better: the model, its weights or a kernel are at fault";
    return report;
  }
};

}  // namespace

std::unique_ptr<Probe> make_raw_twin_probe() { return std::make_unique<RawTwinProbe>(); }

}  // namespace millwright
