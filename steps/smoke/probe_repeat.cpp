// P10: the same long prompt again and again, so that the server answers out of its prefix cache; on the thorough level
// with lengths that differ by one token each, since some faults need a length of its own.
#include <fmt/format.h>

#include "steps/smoke/filler.hpp"
#include "steps/smoke/known_answers.hpp"
#include "steps/smoke/probe.hpp"

namespace millwright {
namespace {

class RepeatProbe final : public Probe {
 public:
  RepeatProbe(std::string name, std::string title, int lengths)
      : name_(std::move(name)), title_(std::move(title)), lengths_(lengths) {}
  std::string name() const override { return name_; }
  std::string title() const override { return title_; }

  ProbeReport run(SmokeSession& session) const override {
    ProbeReport report;
    const int repeats = session.rules().repeats;
    if (session.server.max_length.value_or(kEnough) < kEnough) {
      report.summary = "the context is too short for it";
      return report;
    }
    int asked = 0, right = 0;
    Finding finding;
    for (int length = 0; length < lengths_ && !finding && !session.stopped(); ++length) {
      bool first_right = false;
      for (int turn = 0; turn < repeats && !finding && !session.stopped(); ++turn) {
        bool answered_right = false;
        finding = ask(session, length, turn, first_right, answered_right, report);
        if (turn == 0) first_right = answered_right;
        ++asked;
        if (answered_right) ++right;
      }
    }
    conclude(report, session.rules(), finding);
    if (!finding)
      report.summary = fmt::format("{} of {} right, {} prompts, {} times each", right, asked, lengths_, repeats);
    return report;
  }

 private:
  static constexpr std::int64_t kEnough = 1024;  // tokens
  static constexpr std::int64_t kPromptTokens = 600;

  Finding ask(SmokeSession& session, int length, int turn, bool first_right, bool& right, ProbeReport& report) const {
    const KnownQuestion& question = session.questions().front();
    ChatCall call;
    call.name = fmt::format("{}-{}-{}", name_, length, turn + 1);
    call.ask = filler_text(session.rules().repeat_words, 7);
    for (int i = 0; i < length; ++i) call.ask += "so ";
    call.ask += "\n\nThat text does not matter. " + question.ask;
    call.max_tokens = session.rules().answer_tokens;
    call.prompt_tokens = kPromptTokens;
    const ChatOutcome outcome = session.chat(call);
    Finding finding = outcome.trouble ? outcome.trouble : judge_reply(session.rules(), outcome.reply, TextKind::answer);
    right = !finding && holds_answer(outcome.reply.content.text, question.expect);
    const bool again = turn > 0;
    if (finding.symptom_class == "length_truncated_reasoning") finding = {};
    // A parser's fault has nothing to do with what is in a cache.
    const bool parser = finding.symptom_class == "answer_in_reasoning";
    if (finding && !outcome.trouble && again && !parser) finding.symptom_class = "prefix_cache_corruption";
    if (!finding && again && first_right && !right) {
      finding = {"prefix_cache_corruption",
                 fmt::format("right the first time, at repeat {}: {}", turn + 1, describe_reply(outcome.reply))};
    }
    Exchange& exchange = record(report, session, call, outcome, finding);
    exchange.asked = fmt::format("a long prompt, time {}: {}", turn + 1, question.ask);
    exchange.expected = question.expect.front();
    exchange.right = right;
    return finding;
  }

  std::string name_, title_;
  int lengths_;
};

}  // namespace

std::unique_ptr<Probe> make_repeat_probe() { return std::make_unique<RepeatProbe>("repeat", "same again", 1); }
std::unique_ptr<Probe> make_repeat_lengths_probe() {
  // One more than 64: chunk sizes are powers of two, and a fault was seen only where length mod 64 is 1 (sglang PR
  // 29633).
  constexpr int lengths = 65;
  return std::make_unique<RepeatProbe>("repeat_lengths", "same again, 65 lengths", lengths);
}

}  // namespace millwright
