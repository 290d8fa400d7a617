// Characters of several bytes, plainly and as a stream: tokens hold parts of them, and a detokeniser may lose some.
// What the model says is its own matter; only lost bytes within what it gave back count.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "steps/smoke/probe.hpp"

namespace millwright {
namespace {

constexpr std::array<std::string_view, 3> kWords = {"Z\u00fcrich", "\u4e1c\u4eac",
                                                    "\u041c\u043e\u0441\u043a\u0432\u0430"};

class OtherScriptsProbe final : public Probe {
 public:
  std::string name() const override { return "other_scripts"; }
  std::string title() const override { return "other scripts"; }

  ProbeReport run(SmokeSession& session) const override {
    ProbeReport report;
    Finding finding;
    std::ptrdiff_t given_back = 0;
    for (const bool stream : {false, true}) {
      if (finding || session.stopped()) break;
      ChatCall call;
      call.name = fmt::format("{}-{}", name(), stream ? "stream" : "plain");
      call.ask = fmt::format("Say these three names again, nothing else: {}, {}, {}", kWords[0], kWords[1], kWords[2]);
      call.max_tokens = session.rules().answer_tokens;
      call.stream = stream;
      const ChatOutcome outcome = session.chat(call);
      given_back = words_in(outcome.reply.content.text);
      finding = outcome.trouble ? outcome.trouble : judge(session.rules(), outcome.reply, given_back);
      record(report, session, call, outcome, finding).expected = "the names, no byte lost";
    }
    conclude(report, session.rules(), finding);
    if (!finding) {
      report.summary = fmt::format("{} of {} names given back, no byte lost", given_back, kWords.size());
    } else if (report.symptom_class == "detokenizer_corruption") {
      // English is answered well, so the server is of use.
      report.verdict = ProbeVerdict::degraded;
    }
    return report;
  }

 private:
  static std::ptrdiff_t words_in(const std::string& text) {
    return std::count_if(kWords.begin(), kWords.end(),
                         [&](std::string_view word) { return text.find(word) != std::string::npos; });
  }

  // A model that is too weak to say the names writes broken bytes by itself. One that gave two of the three back and
  // lost bytes of the third, before the end of its budget, did not.
  static Finding judge(const SmokeRules& rules, const ChatReply& reply, std::ptrdiff_t given_back) {
    if (!reply.problem_class.empty()) return {reply.problem_class, reply.problem};
    if (given_back != 2 || reply.finish_reason == "length") return {};
    const Finding found = judge_text(rules, reply.content.text, TextKind::answer);
    const std::string& text = reply.content.text;
    const bool lost = measure_text(text).replacement_characters > 0;
    if (lost) return {"detokenizer_corruption", "bytes of a character are lost: " + describe_reply(reply)};
    return found.symptom_class == "detokenizer_corruption" ? found : Finding{};
  }
};

}  // namespace

std::unique_ptr<Probe> make_other_scripts_probe() { return std::make_unique<OtherScriptsProbe>(); }

}  // namespace millwright
