// P7: the same question as a stream gives the same answer, one [DONE], token counts, and no error object.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "steps/smoke/known_answers.hpp"
#include "steps/smoke/probe.hpp"

namespace millwright {
namespace {

class StreamProbe final : public Probe {
 public:
  std::string name() const override { return "stream"; }
  std::string title() const override { return "streaming"; }

  ProbeReport run(SmokeSession& session) const override {
    ProbeReport report;
    const KnownQuestion& question = session.questions().front();
    ChatCall call;
    call.name = name();
    call.ask = question.ask;
    call.max_tokens = session.rules().answer_tokens;
    call.stream = true;
    call.include_usage = true;
    ChatOutcome outcome = session.chat(call);
    if (outcome.status == 400) {  // stream_options is unknown to older servers
      call.include_usage = false;
      outcome = session.chat(call);
    }
    const Finding finding = outcome.trouble ? outcome.trouble : compare(session, outcome.reply, question, call);
    record(report, session, call, outcome, finding).expected = "as without streaming";
    conclude(report, session.rules(), finding);
    if (outcome.first_text_seconds) session.first_token_seconds = outcome.first_text_seconds;
    if (!finding) {
      report.summary = fmt::format("same answer in {} chunks", outcome.reply.stream->chunks);
      if (outcome.first_text_seconds) {
        report.summary += fmt::format(", first text after {:.2f} s", *outcome.first_text_seconds);
      }
    }
    return report;
  }

 private:
  static Finding compare(const SmokeSession& session, const ChatReply& streamed, const KnownQuestion& question,
                         const ChatCall& call) {
    const ChatReply* plain = session.plain_first ? &*session.plain_first : nullptr;
    const bool plain_text = plain != nullptr && plain->content.has_text();
    if (plain_text && !streamed.content.has_text()) {
      if (streamed.reasoning.has_text()) return {"stream_corruption", "the streamed answer arrives as reasoning"};
      return {"stream_empty", describe_reply(streamed)};
    }
    Finding found = judge_reply(session.rules(), streamed, TextKind::answer);
    if (!found && plain != nullptr && holds_thought(*plain, streamed)) {
      return {"reasoning_leak_stream", "what is thinking without streaming is in the answer with it"};
    }
    if (found.symptom_class == "reasoning_leak") return {"reasoning_leak_stream", found.what};
    if (found) return {plain_text ? "stream_corruption" : found.symptom_class, found.what};
    if (plain_text && normal_form(plain->content.text) != normal_form(streamed.content.text) &&
        !holds_answer(streamed.content.text, question.expect)) {
      return {"stream_corruption", "another answer than without streaming: " + describe_reply(streamed)};
    }
    if (call.include_usage && !streamed.has_usage) return {"usage_wrong", "no token counts although asked for"};
    return plain_text ? compare_counts(*plain, streamed) : Finding{};
  }

  // The end of the plain thought within the streamed answer, and not within the plain one.
  static bool holds_thought(const ChatReply& plain, const ChatReply& streamed) {
    constexpr std::size_t least = 20;  // characters; less may be in an answer by chance
    constexpr std::size_t most = 40;
    const std::string thought = normal_form(plain.reasoning.text);
    if (thought.size() < least) return false;
    const std::string end = thought.substr(thought.size() - std::min(most, thought.size()));
    return normal_form(streamed.content.text).find(end) != std::string::npos &&
           normal_form(plain.content.text).find(end) == std::string::npos;
  }

  // The same text has as many tokens either way; servers differ by the end token.
  static Finding compare_counts(const ChatReply& plain, const ChatReply& streamed) {
    const bool comparable = plain.content.text == streamed.content.text && !plain.reasoning.has_text() &&
                            !streamed.reasoning.has_text() && plain.completion_tokens && streamed.completion_tokens;
    if (!comparable) return {};
    constexpr std::int64_t grace = 2;
    if (std::abs(*plain.completion_tokens - *streamed.completion_tokens) <= grace) return {};
    return {"usage_wrong", fmt::format("the same text counts {} tokens, {} as a stream", *plain.completion_tokens,
                                       *streamed.completion_tokens)};
  }
};

}  // namespace

std::unique_ptr<Probe> make_stream_probe() { return std::make_unique<StreamProbe>(); }

}  // namespace millwright
