// P9: a code word in a long text, at its beginning, middle and end. Finds what goes wrong only past a number of tokens
// (chunked prefill, kv-cache data types, position scaling). A model too weak for it is told from a server that garbles.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "steps/smoke/filler.hpp"
#include "steps/smoke/known_answers.hpp"
#include "steps/smoke/probe.hpp"

namespace millwright {
namespace {

constexpr double kShareOfContext = 0.8;
constexpr double kFewestTokensPerWord = 0.8;  // below that the server miscounts
constexpr double kPatienceSeconds = 120;      // for one long prompt
constexpr std::int64_t kShortest = 512;       // tokens; below that it is no long text
// Less than any server reads at once: llama.cpp takes 512 (ggml-org/llama.cpp#26509), vLLM as few (vllm#4697).
constexpr std::int64_t kShortText = 300;
constexpr std::array kDepths = {0.1, 0.5, 0.9};

struct Round {
  std::int64_t tokens = 0;  // asked for
  int found = 0, asked = 0;
};

class NeedleProbe final : public Probe {
 public:
  NeedleProbe(std::string name, std::string title, bool whole)
      : name_(std::move(name)), title_(std::move(title)), whole_(whole) {}
  std::string name() const override { return name_; }
  std::string title() const override { return title_; }

  ProbeReport run(SmokeSession& session) const override {
    ProbeReport report;
    std::vector<Round> rounds;
    double tokens_per_word = session.rules().tokens_per_word;
    Finding finding;
    for (const std::int64_t tokens : lengths(session)) {
      if (session.stopped()) break;
      if (session.reading_time(tokens).value_or(0) > kPatienceSeconds) {
        report.notes.push_back(fmt::format("too slow a machine for {} tokens: not asked", tokens));
        break;
      }
      finding = ask_round(session, tokens, tokens_per_word, report, rounds);
      if (!finding) continue;
      if (rounds.size() == 1 && garbled_too(session, tokens, tokens_per_word, report, finding)) finding = {};
      break;
    }
    if (!finding && !session.weak_model()) finding = compare(rounds);
    conclude(report, session.rules(), finding);
    if (rounds.empty() && !finding) {
      report.verdict = ProbeVerdict::skipped;
      report.summary = report.notes.empty() ? "the context is too short for it" : report.notes.front();
    } else if (!finding) {
      report.summary = summary(rounds);
      if (rounds.front().found == 0 && report.notes.empty())
        report.notes.emplace_back("too weak a model to find words in a text; only its text was judged");
    }
    return report;
  }

 private:
  std::vector<std::int64_t> lengths(const SmokeSession& session) const {
    const auto limit =
        static_cast<std::int64_t>(kShareOfContext * static_cast<double>(session.server.max_length.value_or(0)));
    std::vector<std::int64_t> out;
    if (whole_) {
      if (limit > 0) out = {session.rules().needle_tokens.front(), limit};
    } else {
      out = session.rules().needle_tokens;
    }
    if (limit > 0) {
      for (std::int64_t& tokens : out) tokens = std::min(tokens, limit);
    }
    out.erase(std::unique(out.begin(), out.end()), out.end());
    std::erase_if(out, [](std::int64_t tokens) { return tokens < kShortest; });
    return out;
  }

  // A model that cannot read texts loses its way in a short one, too; what a server does to long prompts only, it does
  // not do to that.
  bool garbled_too(SmokeSession& session, std::int64_t tokens, double& tokens_per_word, ProbeReport& report,
                   const Finding& finding) const {
    if (finding.symptom_class != "long_context_corruption") return false;
    std::vector<Round> shorter;
    const Finding there = ask_round(session, kShortText, tokens_per_word, report, shorter);
    if (there.symptom_class != finding.symptom_class) return false;
    report.notes.push_back(
        fmt::format("too weak a model to read a text: garbled at {} tokens as at {}", kShortText, tokens));
    return true;
  }

  Finding ask_round(SmokeSession& session, std::int64_t tokens, double& tokens_per_word, ProbeReport& report,
                    std::vector<Round>& rounds) const {
    Round round{tokens};
    Finding garbled;
    int times_garbled = 0;
    for (const double depth : kDepths) {
      if (session.stopped()) break;
      const auto words = static_cast<std::size_t>(static_cast<double>(tokens) / tokens_per_word);
      const auto seed = static_cast<unsigned>(tokens * 10 + static_cast<std::int64_t>(depth * 10));
      const std::string code = code_word(seed);
      ChatCall call;
      call.name = fmt::format("{}-{}-{:.0f}", name_, tokens, depth * 100);
      call.ask = prompt(words, depth, code, seed);
      call.max_tokens = session.rules().answer_tokens;
      call.prompt_tokens = tokens;
      const ChatOutcome outcome = session.chat(call);
      if (outcome.status == 400 || outcome.status == 413) break;  // longer than the server takes
      if (outcome.reply.prompt_tokens.value_or(0) > 0 && words > 0) {
        tokens_per_word = std::max(kFewestTokensPerWord,
                                   static_cast<double>(*outcome.reply.prompt_tokens) / static_cast<double>(words));
      }
      Finding finding =
          outcome.trouble ? outcome.trouble : judge_reply(session.rules(), outcome.reply, TextKind::answer);
      if (finding && !outcome.trouble && !thinking_budget(finding)) finding.symptom_class = "long_context_corruption";
      if (thinking_budget(finding)) finding = {};
      Exchange& exchange = record(report, session, call, outcome, finding);
      exchange.asked = fmt::format("a code word at {:.0f} % of {} tokens", depth * 100, tokens);
      exchange.expected = code;
      exchange.right = !finding && holds_answer(outcome.reply.content.text, {code});
      ++round.asked;
      if (exchange.right) ++round.found;
      if (!finding) continue;
      finding.what = fmt::format("at {} tokens: {}", tokens, finding.what);
      if (outcome.trouble) {
        rounds.push_back(round);
        return finding;
      }
      garbled = finding;
      ++times_garbled;
    }
    if (round.asked > 0) rounds.push_back(round);
    // What garbles long prompts garbles them wherever the word is; a weak model loses its way in one of three.
    if (times_garbled * 2 > round.asked) return garbled;
    if (garbled) report.notes.push_back(fmt::format("{} of {} {}", times_garbled, round.asked, garbled.what));
    return {};
  }

  // A thinking model that spends its budget says nothing on long prompts.
  static bool thinking_budget(const Finding& finding) { return finding.symptom_class == "length_truncated_reasoning"; }

  static std::string prompt(std::size_t words, double depth, const std::string& code, unsigned seed) {
    const auto before = static_cast<std::size_t>(static_cast<double>(words) * depth);
    return "Read this text.\n\n" + filler_text(before, seed) + "The code word is " + code + ". " +
           filler_text(words - before, seed + 1) + "\n\nWhat is the code word? Answer with the code word only.";
  }

  // Found while the text was short and never in a longer one: the server, not the model.
  static Finding compare(const std::vector<Round>& rounds) {
    if (rounds.size() < 2 || rounds.front().found * 3 < rounds.front().asked * 2) return {};
    for (const Round& round : rounds) {
      if (round.asked == static_cast<int>(kDepths.size()) && round.found == 0) {
        return {"long_context_corruption",
                fmt::format("found {} of {} at {} tokens, none of {} at {}", rounds.front().found, rounds.front().asked,
                            rounds.front().tokens, round.asked, round.tokens)};
      }
    }
    return {};
  }

  static std::string summary(const std::vector<Round>& rounds) {
    std::string out;
    for (const Round& round : rounds) {
      out +=
          fmt::format("{}{} of {} found at {} tokens", out.empty() ? "" : ", ", round.found, round.asked, round.tokens);
    }
    return out;
  }

  std::string name_, title_;
  bool whole_;
};

}  // namespace

std::unique_ptr<Probe> make_needle_probe() { return std::make_unique<NeedleProbe>("needle", "long text", false); }
std::unique_ptr<Probe> make_needle_long_probe() {
  return std::make_unique<NeedleProbe>("needle_long", "whole context", true);
}

}  // namespace millwright
