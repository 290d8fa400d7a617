// P3: a few questions that every chat model answers. Only this finds fluent wrong text, and most garbage.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "orchestrator/base/text.hpp"
#include "steps/smoke/known_answers.hpp"
#include "steps/smoke/probe.hpp"
#include "steps/smoke/utf8.hpp"

namespace millwright {
namespace {

struct Tally {
  int asked = 0;
  int right = 0;
  int truncated = 0;     // still thinking at the end of its budget: says nothing
  int right_but_on = 0;  // right, but did not stop
  int without_usage = 0;
  std::map<std::string, int> votes;           // class -> how many answers show it
  std::map<std::string, std::string> sample;  // class -> what was seen first
  bool stopped = false;                       // the server is gone: no use to ask on
  bool asked_longer = false;                  // one text that its budget cut was asked for again with a larger one
  bool thinks_in_text = false;                // and was thinking
};

class KnownAnswersProbe final : public Probe {
 public:
  std::string name() const override { return "known_answers"; }
  std::string title() const override { return "known answers"; }

  ProbeReport run(SmokeSession& session) const override {
    ProbeReport report;
    Tally tally;
    for (const KnownQuestion& question : session.questions()) {
      if (session.stopped() || tally.stopped) break;
      ask(session, question, report, tally);
    }
    session.known_asked = tally.asked;
    session.known_right = tally.right;
    const int total = static_cast<int>(session.questions().size());
    const int needed = std::min(session.rules().needed, total);
    Finding finding = conclude_tally(tally, needed);
    if (!finding && tally.asked < needed) {
      finding = {"too_slow", fmt::format("{} of {} asked before the deadline", tally.asked, total)};
    }
    report.summary = summary(tally, finding);
    conclude(report, session.rules(), finding);
    return report;
  }

 private:
  static void ask(SmokeSession& session, const KnownQuestion& question, ProbeReport& report, Tally& tally) {
    ChatCall call;
    call.name = "known_answers-" + question.id;
    call.ask = question.ask;
    call.max_tokens = session.rules().answer_tokens;
    ChatOutcome outcome = session.chat(call);
    outcome = ask_again_if_needed(session, call, std::move(outcome));
    ++tally.asked;
    const bool right = !outcome.trouble && holds_answer(outcome.reply.content.text, question.expect);
    Finding finding = outcome.trouble ? outcome.trouble : judge_reply(session.rules(), outcome.reply, TextKind::answer);
    if (!finding && outcome.reply.finish_reason == "length") finding = judge_longer(session, call, tally);
    count(tally, outcome.reply, finding, right);
    if (right && !finding) session.answered_right.push_back(question);
    if (!right && !finding) finding = {"wrong_answers", describe_reply(outcome.reply)};
    if (finding) {
      ++tally.votes[finding.symptom_class];
      tally.sample.emplace(finding.symptom_class, finding.what);
    }
    const std::string& found = finding.symptom_class;
    tally.stopped = found == "server_died" || found == "not_listening" || found == "hang" || found == "auth_required";
    if (!session.plain_first && !outcome.trouble) session.plain_first = outcome.reply;
    Exchange& exchange = record(report, session, call, outcome, finding);
    exchange.expected = join(question.expect, " or ");
    exchange.right = right && !finding;
    // Kept for the case that no answer has token counts, which the sum of all answers decides.
    if (right && !finding && tally.without_usage == 1)
      exchange.evidence = session.keep(call.name + ".txt", outcome.raw);
  }

  // Thinking that nobody took out of the text may be longer than the budget of a short answer: its closing tag, which
  // tells it from an answer without an end, comes later. One question is enough to know.
  static Finding judge_longer(SmokeSession& session, ChatCall call, Tally& tally) {
    if (!tally.asked_longer) {
      tally.asked_longer = true;
      call.name += "-longer";
      call.max_tokens = session.rules().thinking_tokens;
      const ChatOutcome outcome = session.chat(call);
      const Finding found =
          outcome.trouble ? Finding{} : judge_text(session.rules(), outcome.reply.content.text, TextKind::answer);
      tally.thinks_in_text = found.symptom_class == "reasoning_leak";
    }
    if (!tally.thinks_in_text) return {};
    return {"reasoning_leak", "thinking to the end of the budget, its closing tag after it"};
  }

  // A server that does not know how to switch thinking off says 400; a model that thinks on needs a larger budget.
  static ChatOutcome ask_again_if_needed(SmokeSession& session, ChatCall& call, ChatOutcome outcome) {
    if (outcome.status == 400 && session.thinking_off) {
      session.thinking_off = false;
      outcome = session.chat(call);
    }
    const bool thinking = !outcome.trouble && !outcome.reply.content.has_text() && outcome.reply.reasoning.has_text() &&
                          outcome.reply.finish_reason == "length";
    if (!thinking) return outcome;
    if (!session.thinking_off) {
      session.thinking_off = true;
      ChatOutcome again = session.chat(call);
      if (!again.trouble && again.reply.finish_reason != "length") return again;
      if (again.status == 400) session.thinking_off = false;
    }
    call.max_tokens = session.rules().thinking_tokens;
    return session.chat(call);
  }

  static void count(Tally& tally, const ChatReply& reply, Finding& finding, bool right) {
    if (right) ++tally.right;
    if (finding.symptom_class == "length_truncated_reasoning") ++tally.truncated;
    const bool other_turn = finding.symptom_class == "template_missing";
    if (right && (!finding || other_turn) && reply.finish_reason == "length") {
      ++tally.right_but_on;
      finding = {"never_stops", "the answer came, but no end of it: " + describe_reply(reply)};
    }
    if (reply.content.has_text() && reply.completion_tokens.value_or(0) == 0) ++tally.without_usage;
  }

  // The class that most answers show. Among equals the one that was seen first in the alphabet is as good as another,
  // but a wrong answer without any sign says least.
  static Finding majority(const Tally& tally) {
    // A server that is gone explains whatever was seen while it went.
    for (const char* gone : {"server_died", "hang"}) {
      if (const auto found = tally.sample.find(gone); found != tally.sample.end()) return {found->first, found->second};
    }
    Finding best;
    int most = 0;
    for (const auto& [name, votes] : tally.votes) {
      const bool weak = name == "wrong_answers" || name == "length_truncated_reasoning";
      const int weight = weak ? votes * 2 - 1 : votes * 2;
      if (weight > most) {
        most = weight;
        best = {name, tally.sample.at(name)};
      }
    }
    return best;
  }

  static Finding conclude_tally(const Tally& tally, int needed) {
    if (tally.right < needed) {
      if (tally.truncated > 0 && tally.right + tally.truncated >= needed) {
        return {"length_truncated_reasoning", tally.sample.at("length_truncated_reasoning")};
      }
      return majority(tally);
    }
    // Right answers with a fault in most of them (control tokens, no end).
    for (const auto& [name, votes] : tally.votes) {
      if (votes * 2 > tally.asked && name != "wrong_answers") return {name, tally.sample.at(name)};
    }
    if (tally.without_usage == tally.asked) return {"usage_wrong", "answers without token counts"};
    return {};
  }

  static std::string summary(const Tally& tally, const Finding& finding) {
    if (!finding) return fmt::format("{} of {} right", tally.right, tally.asked);
    const auto votes = tally.votes.find(finding.symptom_class);
    const int count = votes == tally.votes.end() ? tally.asked : votes->second;
    return fmt::format("{} of {} {}: {}", count, tally.asked, count == 1 ? "shows it" : "show it", finding.what);
  }
};

}  // namespace

std::unique_ptr<Probe> make_known_answers_probe() { return std::make_unique<KnownAnswersProbe>(); }

}  // namespace millwright
