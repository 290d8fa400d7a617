#include "steps/smoke/went_bad.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "orchestrator/base/text.hpp"
#include "steps/smoke/probe.hpp"

namespace millwright {
namespace {

constexpr int kQuestions = 3;  // a server that errs every other time gets one of them right

bool about_text(const SmokeRules& rules, const ProbeReport& report) {
  if (report.verdict != ProbeVerdict::fail && report.verdict != ProbeVerdict::degraded) return false;
  constexpr std::array<std::string_view, 7> nothing_to_read = {
      "hang", "too_slow", "poisoned_server", "cut_response", "logprob_500", "oversized_response", "first_request_500"};
  if (std::find(nothing_to_read.begin(), nothing_to_read.end(), report.symptom_class) != nothing_to_read.end())
    return false;
  const SymptomClass* known = rules.classes.find(report.symptom_class);
  return known != nullptr && known->stage != "ready" && known->stage != "service";
}

}  // namespace

void check_whether_all_went_bad(SmokeSession& session, ProbeReport& report) {
  const std::vector<KnownQuestion> questions = session.answered_right;
  if (questions.empty() || !about_text(session.rules(), report)) return;
  Finding garbage;
  for (int turn = 0; turn < kQuestions; ++turn) {
    if (session.stopped()) return;
    const KnownQuestion& question = questions[static_cast<std::size_t>(turn) % questions.size()];
    ChatCall call;
    call.name = fmt::format("{}-again-{}", report.name, turn + 1);
    call.ask = fmt::format("Question number {}. {}", turn + 1, question.ask);
    call.max_tokens = session.rules().answer_tokens;
    const ChatOutcome outcome = session.chat(call);
    if (outcome.trouble) return;
    const Finding finding = judge_reply(session.rules(), outcome.reply, TextKind::answer);
    record(report, session, call, outcome, finding).expected = join(question.expect, " or ");
    if (!finding || finding.symptom_class == "length_truncated_reasoning") return;
    garbage = finding;
  }
  report.notes.push_back("first seen as " + report.symptom_class + ": " + report.summary);
  report.summary = "what was answered right before is garbage now: " + garbage.what;
  conclude(report, session.rules(), {"poisoned_server", garbage.what});
}

}  // namespace millwright
