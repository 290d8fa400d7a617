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
    Tally tally;
    Finding finding;
    for (int length = 0; length < lengths_ && !finding && !session.stopped(); ++length) {
      finding = ask_again_and_again(session, length, tally, report);
    }
    conclude(report, session.rules(), finding);
    if (!finding)
      report.summary =
          fmt::format("{} of {} right, {} prompts, {} times each", tally.right, tally.asked, lengths_, repeats);
    return report;
  }

 private:
  static constexpr std::int64_t kEnough = 1024;  // tokens
  static constexpr std::int64_t kPromptTokens = 600;

  struct Tally {
    int asked = 0, right = 0;
  };
  enum class Answer { right, missed, unfinished };

  Finding ask_again_and_again(SmokeSession& session, int length, Tally& tally, ProbeReport& report) const {
    const int repeats = session.rules().repeats;
    bool first_right = false;
    int misses = 0;
    std::string missed;
    for (int turn = 0; turn < repeats && !session.stopped(); ++turn) {
      Answer answer = Answer::unfinished;
      std::string got;
      if (Finding finding = ask(session, length, turn, answer, got, report)) return finding;
      ++tally.asked;
      if (answer == Answer::right) ++tally.right;
      if (turn == 0) first_right = answer == Answer::right;
      if (turn == 0 || answer != Answer::missed) continue;
      ++misses;
      if (missed.empty()) missed = fmt::format("right the first time, at repeat {}: {}", turn + 1, got);
    }
    if (!first_right || misses == 0) return {};
    // What a cache has spoilt stays so; a weak model sways between two words.
    if (misses == repeats - 1 && !session.weak_model()) return {"prefix_cache_corruption", missed};
    report.notes.push_back(missed);
    return {};
  }

  Finding ask(SmokeSession& session, int length, int turn, Answer& answer, std::string& got,
              ProbeReport& report) const {
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
    got = describe_reply(outcome.reply);
    const bool right = !finding && holds_answer(outcome.reply.content.text, question.expect);
    if (finding.symptom_class == "length_truncated_reasoning") {
      finding = {};
    } else {
      answer = right ? Answer::right : Answer::missed;
    }
    // A parser's fault has nothing to do with what is in a cache.
    const bool parser = finding.symptom_class == "answer_in_reasoning";
    if (finding && !outcome.trouble && turn > 0 && !parser) finding.symptom_class = "prefix_cache_corruption";
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
