// P2: one chat with a long deadline, since kernels may be compiled at the first request. What it says is judged by the
// next probe; here only that something readable comes.
#include <fmt/format.h>

#include "orchestrator/base/text.hpp"
#include "steps/smoke/probe.hpp"

namespace millwright {
namespace {

class FirstTokenProbe final : public Probe {
 public:
  std::string name() const override { return "first_token"; }
  std::string title() const override { return "first token"; }

  ProbeReport run(SmokeSession& session) const override {
    ProbeReport report;
    ChatCall call;
    call.name = name();
    call.ask = session.rules().first_token_ask;
    call.max_tokens = session.rules().first_token_tokens;
    call.first = true;
    const ChatOutcome outcome = session.chat(call);
    record(report, session, call, outcome, outcome.trouble);
    conclude(report, session.rules(), outcome.trouble);
    if (outcome.trouble) return report;
    learn(session, outcome.reply);
    session.first_token_seconds = outcome.seconds;
    report.summary = fmt::format("{:.1f} s", outcome.seconds);
    if (!outcome.reply.content.has_text() && !outcome.reply.reasoning.has_text()) report.summary += ", without text";
    return report;
  }

 private:
  static void learn(SmokeSession& session, const ChatReply& reply) {
    if (reply.reasoning.has_text()) session.thinking_off = true;
    // llama.cpp: "b11669-Debian".
    if (session.server.version.empty() && reply.engine_hint.size() > 1 && reply.engine_hint.front() == 'b') {
      if (session.server.engine == "llama.cpp") session.server.version = split(reply.engine_hint, '-').front();
    }
    if (session.server.model.empty()) session.server.model = reply.model;
  }
};

}  // namespace

std::unique_ptr<Probe> make_first_token_probe() { return std::make_unique<FirstTokenProbe>(); }

}  // namespace millwright
