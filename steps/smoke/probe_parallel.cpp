// P11 and P13: many requests at once, each with a word of its own to say back, some with a JSON schema; then, one at a
// time, whether the server still answers as before.
#include <fmt/format.h>

#include <algorithm>

#include "orchestrator/base/text.hpp"
#include "steps/smoke/filler.hpp"
#include "steps/smoke/known_answers.hpp"
#include "steps/smoke/probe.hpp"

namespace millwright {
namespace {

// Refused or not served in time: a server may have too little room for so many. One that hangs for good is found by
// what is asked after it.
bool overloaded(const ChatOutcome& outcome) {
  const std::string& found = outcome.trouble.symptom_class;
  return outcome.status == 429 || outcome.status == 503 || found == "hang" || found == "too_slow";
}

Value json_format() {
  return {{"type", "json_schema"},
          {"json_schema",
           {{"name", "capital"},
            {"schema",
             {{"type", "object"},
              {"properties", {{"capital", {{"type", "string"}}}}},
              {"required", Value::array({"capital"})},
              {"additionalProperties", false}}}}}};
}

class ParallelProbe final : public Probe {
 public:
  std::string name() const override { return "parallel"; }
  std::string title() const override { return "in parallel"; }

  ProbeReport run(SmokeSession& session) const override {
    ProbeReport report;
    bool structured = false;
    Finding finding = ask_for_schema(session, structured, report);
    int asked = 0, right = 0, refused = 0;
    std::vector<ChatCall> doubtful;
    for (int round = 0; round < kRounds && !finding && !session.stopped(); ++round) {
      std::vector<ChatCall> calls = make_calls(session, round, structured);
      for (ChatCall& call : calls) call.alongside = static_cast<int>(calls.size());
      const std::vector<ChatOutcome> outcomes = session.chat_together(calls);
      for (std::size_t i = 0; i < calls.size(); ++i) {
        const bool schema = !calls[i].response_format.is_null();
        Finding here =
            overloaded(outcomes[i]) ? Finding{} : judge(session, outcomes[i], i, calls.size(), round, schema);
        Exchange& exchange = record(report, session, calls[i], outcomes[i], here);
        exchange.expected = schema ? "JSON as the schema says" : code_word(seed(round, i));
        exchange.right = !here && (schema || holds_answer(outcomes[i].reply.content.text, {exchange.expected}));
        ++asked;
        if (exchange.right) ++right;
        if (overloaded(outcomes[i])) {
          ++refused;
        } else if (!here && !schema && (!exchange.right || outcomes[i].reply.finish_reason == "length")) {
          doubtful.push_back(calls[i]);
        }
        if (here && !finding) finding = std::move(here);
      }
    }
    if (!finding) finding = ask_alone(session, std::move(doubtful), asked, report);
    conclude(report, session.rules(), finding);
    if (!finding)
      report.summary = fmt::format("{} of {} right, {} at once", right, asked, session.rules().parallel_requests);
    if (refused > 0) report.notes.push_back(fmt::format("{} were refused or not served in time", refused));
    return report;
  }

 private:
  static constexpr int kRounds = 2;
  static constexpr int kLeastDoubts = 4;    // where numbers differ with the size of a batch, an answer may flip
  static constexpr int kShareOfDoubts = 8;  // one in so many

  static unsigned seed(int round, std::size_t i) {
    return static_cast<unsigned>(round) * 40 + static_cast<unsigned>(i);
  }

  static std::vector<ChatCall> make_calls(const SmokeSession& session, int round, bool structured) {
    std::vector<ChatCall> calls;
    for (int i = 0; i < session.rules().parallel_requests; ++i) {
      ChatCall call;
      call.name = fmt::format("parallel-{}-{}", round + 1, i + 1);
      call.ask = "Repeat this exactly: " + code_word(seed(round, static_cast<std::size_t>(i)));
      call.max_tokens = session.rules().answer_tokens;
      calls.push_back(std::move(call));
    }
    if (!structured) return calls;
    for (int i = 0; i < 2; ++i) {
      ChatCall call;
      call.name = fmt::format("parallel-{}-json-{}", round + 1, i + 1);
      call.ask = "What is the capital of France? Answer in JSON.";
      call.max_tokens = session.rules().answer_tokens;
      call.response_format = json_format();
      calls.push_back(std::move(call));
    }
    return calls;
  }

  // Alone, the server gives JSON for a schema: so it must in parallel. A parser that takes JSON for thinking shows
  // here only.
  static Finding ask_for_schema(SmokeSession& session, bool& structured, ProbeReport& report) {
    ChatCall call;
    call.name = "parallel-json-alone";
    call.ask = "What is the capital of France? Answer in JSON.";
    call.max_tokens = session.rules().answer_tokens;
    call.response_format = json_format();
    const ChatOutcome outcome = session.chat(call);
    structured = !outcome.trouble && is_json(outcome.reply.content.text);
    if (outcome.trouble) return {};
    Finding finding = judge_reply(session.rules(), outcome.reply, TextKind::answer);
    if (finding.symptom_class != "answer_in_reasoning") return {};
    record(report, session, call, outcome, finding).expected = "JSON as the schema says";
    return finding;
  }

  // Neither damaged nor right, or without an end: a weak model's own, unless it does better alone, and often.
  static Finding ask_alone(SmokeSession& session, std::vector<ChatCall> doubtful, int asked, ProbeReport& report) {
    const auto enough = static_cast<std::size_t>(std::max(kLeastDoubts, asked / kShareOfDoubts));
    if (doubtful.size() < enough) return {};
    std::size_t better = 0;
    for (std::size_t i = 0; i < doubtful.size() && better < enough && !session.stopped(); ++i) {
      ChatCall& call = doubtful[i];
      call.name += "-alone";
      call.alongside = 1;
      const ChatOutcome outcome = session.chat(call);
      const std::string word = call.ask.substr(call.ask.rfind(' ') + 1);
      const bool right = !outcome.trouble && outcome.reply.finish_reason != "length" &&
                         !judge_reply(session.rules(), outcome.reply, TextKind::answer) &&
                         holds_answer(outcome.reply.content.text, {word});
      record(report, session, call, outcome, outcome.trouble).expected = word + ", alone";
      if (right) ++better;
    }
    if (better < enough) return {};
    return {"concurrency_corruption",
            fmt::format("{} of {} wrong or without an end in parallel, at least {} of them right alone",
                        doubtful.size(), asked, better)};
  }

  static bool is_json(const std::string& text) { return Value::parse(text, nullptr, false).is_object(); }

  static Finding judge(const SmokeSession& session, const ChatOutcome& outcome, std::size_t at, std::size_t count,
                       int round, bool schema) {
    if (outcome.trouble) {
      // Alone it answered; a server error that only many at once bring is of this kind.
      if (outcome.status >= 500) return {"concurrency_corruption", outcome.trouble.what};
      return outcome.trouble;
    }
    const std::string& text = outcome.reply.content.text;
    Finding found = judge_reply(session.rules(), outcome.reply, TextKind::answer);
    if (found.symptom_class == "length_truncated_reasoning") return {};
    if (schema) {
      if (outcome.reply.finish_reason == "length" || is_json(text)) return {};
      return {"concurrency_corruption",
              "no JSON although a schema was given, alone it was: " + describe_reply(outcome.reply)};
    }
    // A parser's fault has nothing to do with others beside it.
    if (found.symptom_class == "answer_in_reasoning") return found;
    if (found) return {"concurrency_corruption", "in parallel: " + found.what};
    for (std::size_t other = 0; other < count; ++other) {
      const std::string word = code_word(seed(round, other));
      if (other == at || word == code_word(seed(round, at)) || !holds_answer(text, {word})) continue;
      return {"concurrency_corruption", fmt::format("request {} got the word of request {}", at + 1, other + 1)};
    }
    return {};
  }
};

class RecheckProbe final : public Probe {
 public:
  std::string name() const override { return "recheck"; }
  std::string title() const override { return "after the load"; }

  ProbeReport run(SmokeSession& session) const override {
    ProbeReport report;
    int right = 0, asked = 0;
    Finding finding;
    for (const KnownQuestion& question : session.questions()) {
      if (session.stopped()) break;
      ChatCall call;
      call.name = "recheck-" + question.id;
      call.ask = question.ask;
      call.max_tokens =
          session.thinks && !session.thinking_off ? session.rules().thinking_tokens : session.rules().answer_tokens;
      const ChatOutcome outcome = session.chat(call);
      Finding here = outcome.trouble ? outcome.trouble : judge_reply(session.rules(), outcome.reply, TextKind::answer);
      if (here.symptom_class == "length_truncated_reasoning") here = {};
      if (here && !outcome.trouble) here.symptom_class = "poisoned_server";
      Exchange& exchange = record(report, session, call, outcome, here);
      exchange.expected = join(question.expect, " or ");
      exchange.right = !here && holds_answer(outcome.reply.content.text, question.expect);
      ++asked;
      if (exchange.right) ++right;
      if (here && !finding) finding = std::move(here);
    }
    // One answer less may be chance: under load the same sums are added in another order.
    const int before = std::min(session.known_right, asked);
    const bool far_fewer = right < std::min(session.rules().needed, asked) && right + 1 < before;
    if (!finding && far_fewer && !session.thinks) {
      finding = {"poisoned_server", fmt::format("{} of {} right before the load, {} after it", before, asked, right)};
    }
    conclude(report, session.rules(), finding);
    if (!finding) report.summary = fmt::format("{} of {} right", right, asked);
    return report;
  }
};

}  // namespace

std::unique_ptr<Probe> make_parallel_probe() { return std::make_unique<ParallelProbe>(); }
std::unique_ptr<Probe> make_recheck_probe() { return std::make_unique<RecheckProbe>(); }

}  // namespace millwright
