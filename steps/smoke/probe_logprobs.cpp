// P12: log-probabilities are numbers at most 0. NaN in the logits hides in plain replies and shows here.
#include <fmt/format.h>

#include <algorithm>

#include "steps/smoke/probe.hpp"

namespace millwright {
namespace {

class LogprobsProbe final : public Probe {
 public:
  std::string name() const override { return "logprobs"; }
  std::string title() const override { return "log-probabilities"; }

  ProbeReport run(SmokeSession& session) const override {
    ProbeReport report;
    ChatCall call;
    call.name = name();
    call.ask = session.questions().front().ask;
    call.max_tokens = session.rules().answer_tokens;
    call.logprobs = true;
    const ChatOutcome outcome = session.chat(call);
    if (not_offered(outcome)) {
      report.verdict = ProbeVerdict::skipped;
      report.summary = "not offered by this server";
      return report;
    }
    const Finding finding = judge(session.rules(), outcome);
    record(report, session, call, outcome, finding).expected = "numbers, at most 0";
    conclude(report, session.rules(), finding);
    if (!finding) report.summary = fmt::format("{} tokens", outcome.reply.logprobs.size());
    return report;
  }

 private:
  static bool not_offered(const ChatOutcome& outcome) {
    if (outcome.status >= 400 && outcome.status < 500) return true;
    if (outcome.status == 501) return true;
    return !outcome.trouble && (!outcome.reply.has_logprobs || outcome.reply.logprobs.empty());
  }

  static Finding judge(const SmokeRules& rules, const ChatOutcome& outcome) {
    if (outcome.status >= 500) return {"logprob_500", outcome.trouble.what};
    if (outcome.trouble) return outcome.trouble;
    const auto& tokens = outcome.reply.logprobs;
    const auto missing = std::count_if(tokens.begin(), tokens.end(), [](const auto& t) { return !t.logprob; });
    if (missing > 0) return {"logprob_500", fmt::format("{} of {} are no numbers", missing, tokens.size())};
    const auto positive = std::count_if(tokens.begin(), tokens.end(),
                                        [&](const auto& t) { return *t.logprob > rules.thresholds.logprob_max; });
    if (positive > 0) return {"logprob_500", fmt::format("{} of {} are above 0", positive, tokens.size())};
    return {};
  }
};

}  // namespace

std::unique_ptr<Probe> make_logprobs_probe() { return std::make_unique<LogprobsProbe>(); }

}  // namespace millwright
