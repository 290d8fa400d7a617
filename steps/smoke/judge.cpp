#include "steps/smoke/judge.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "steps/smoke/utf8.hpp"

namespace millwright {
namespace {

bool allows(const std::vector<std::string>& allowed, std::string_view value) {
  return allowed.empty() || std::find(allowed.begin(), allowed.end(), value) != allowed.end();
}

std::string_view state_name(FieldState state) {
  return state == FieldState::wrong_type ? std::string_view("wrong_type") : to_string(state);
}

bool fits(const SmokeRules& rules, const EmptyDecision& row, const ChatReply& reply) {
  if (!allows(row.content, state_name(reply.content.state))) return false;
  if (!allows(row.reasoning, state_name(reply.reasoning.state))) return false;
  if (!allows(row.finish, reply.finish_reason)) return false;
  if (row.tool_calls == "some" && reply.tool_calls == 0) return false;
  if (row.tool_calls == "none" && reply.tool_calls > 0) return false;
  if (!row.reasoning_has.empty() && find_marker(reply.reasoning.text, rules.marker_list(row.reasoning_has)).empty()) {
    return false;
  }
  if (row.max_tokens && (!reply.completion_tokens || *reply.completion_tokens > *row.max_tokens)) return false;
  return true;
}

int percent(double share) { return static_cast<int>(share * 100 + 0.5); }

Finding judge_loops(const SmokeThresholds& limits, const TextSigns& signs) {
  if (signs.longest_run >= limits.character_run) {
    return {"single_token_loop", fmt::format("one character {} times in a row", signs.longest_run)};
  }
  if (signs.characters >= limits.tail_min_characters && signs.tail_repetition >= limits.tail_repetition) {
    // A token is seldom longer than 12 characters.
    const bool one_token = signs.tail_pattern <= 12;
    return {one_token ? "single_token_loop" : "phrase_loop",
            fmt::format("the same {} characters repeat over the last {} % of the text", signs.tail_pattern,
                        percent(signs.tail_repetition))};
  }
  return {};
}

Finding judge_salad(const SmokeThresholds& limits, const TextSigns& signs, TextKind kind) {
  if (signs.letters >= limits.script_min_letters && signs.script_switches > limits.script_switches) {
    // One other script, with English around it, is another language; salad has several.
    const bool two_languages = signs.scripts == 2 && signs.common_words >= limits.common_words;
    return {two_languages ? "wrong_language" : "gibberish",
            fmt::format("scripts change {:.0f} times per 100 letters", signs.script_switches)};
  }
  if (signs.characters >= limits.tail_min_characters && signs.repetition >= limits.repetition) {
    return {"gibberish", fmt::format("{} % of the text are repetitions", percent(signs.repetition))};
  }
  if (signs.longest_word >= limits.word_characters && signs.foreign_letters < limits.foreign_letters) {
    return {"gibberish", fmt::format("a word of {} characters", signs.longest_word)};
  }
  if (signs.letters >= limits.script_min_letters && signs.foreign_letters > limits.foreign_letters) {
    return {"wrong_language", fmt::format("{} % of the letters are not Latin", percent(signs.foreign_letters))};
  }
  if (kind == TextKind::answer) return {};
  if (signs.words >= limits.distinct_min_words && signs.distinct_words < limits.distinct_words) {
    return {"phrase_loop", fmt::format("only {} % of the words differ", percent(signs.distinct_words))};
  }
  if (signs.words >= limits.common_min_words && signs.common_words < limits.common_words) {
    return {"gibberish", fmt::format("only {} % of the words are common English ones", percent(signs.common_words))};
  }
  return {};
}

// A thought that its budget cut is no fault, but it may be no thought at all. Thinking repeats itself and may be in
// another language; only what is neither is told.
Finding judge_thought(const SmokeThresholds& limits, std::string_view text) {
  const TextSigns signs = measure_text(text);
  if (signs.longest_run >= limits.character_run) {
    return {"single_token_loop", fmt::format("one character {} times in a row, as thinking", signs.longest_run)};
  }
  if (signs.words >= limits.common_min_words && signs.common_words < limits.common_words &&
      signs.foreign_letters < limits.foreign_letters) {
    return {"gibberish",
            fmt::format("only {} % of the words of the thinking are common English ones", percent(signs.common_words))};
  }
  return {};
}

}  // namespace

Finding decide_empty(const SmokeRules& rules, const ChatReply& reply) {
  for (const EmptyDecision& row : rules.decisions) {
    if (!fits(rules, row, reply)) continue;
    if (row.symptom_class.empty()) return {};
    return {row.symptom_class, describe_reply(reply)};
  }
  return {};
}

Finding judge_text(const SmokeRules& rules, std::string_view text, TextKind kind) {
  const TextSigns signs = measure_text(text);
  if (Finding loop = judge_loops(rules.thresholds, signs)) return loop;
  if (Finding salad = judge_salad(rules.thresholds, signs, kind)) return salad;
  if (const std::string marker = find_marker(text, rules.marker_list("think")); !marker.empty()) {
    return {"reasoning_leak", "the answer holds " + marker};
  }
  if (const std::string marker = find_marker(text, rules.marker_list("control")); !marker.empty()) {
    return {"control_token_leak", "the answer holds " + marker};
  }
  if (signs.replacement_characters > 0) {
    return {"detokenizer_corruption", fmt::format("{} replacement characters (U+FFFD)", signs.replacement_characters)};
  }
  if (signs.control_characters > 0) {
    return {"detokenizer_corruption", fmt::format("{} control characters", signs.control_characters)};
  }
  if (const std::string marker = find_marker(text, rules.marker_list("bytes")); !marker.empty()) {
    return {"detokenizer_corruption", "the answer holds the byte marker " + marker};
  }
  return {};
}

Finding judge_reply(const SmokeRules& rules, const ChatReply& reply, TextKind kind) {
  if (!reply.problem_class.empty()) return {reply.problem_class, reply.problem};
  if (Finding empty = decide_empty(rules, reply)) {
    const bool cut = empty.symptom_class == "length_truncated_reasoning";
    const Finding thought = cut ? judge_thought(rules.thresholds, reply.reasoning.text) : Finding{};
    return thought ? thought : empty;
  }
  if (!reply.content.has_text()) return {};
  if (Finding found = judge_text(rules, reply.content.text, kind)) return found;
  const std::string turn = find_marker(reply.content.text, rules.marker_list("other_turn"));
  if (!turn.empty()) return {"template_missing", "the model goes on with the other side's turn"};
  return {};
}

std::string describe_reply(const ChatReply& reply) {
  std::string out = fmt::format("content {}", to_string(reply.content.state));
  if (reply.content.has_text()) out = fmt::format("\"{}\"", printable(reply.content.text, 80));
  if (!reply.content.has_text() || reply.reasoning.has_text()) {
    out += reply.reasoning.has_text() ? fmt::format(", reasoning \"{}\"", printable(reply.reasoning.text, 60))
                                      : fmt::format(", reasoning {}", to_string(reply.reasoning.state));
  }
  out += reply.finish_reason.empty() ? ", no finish_reason" : fmt::format(", {}", printable(reply.finish_reason, 20));
  if (reply.completion_tokens) {
    out += fmt::format(" after {} token{}", *reply.completion_tokens, *reply.completion_tokens == 1 ? "" : "s");
  }
  return out;
}

}  // namespace millwright
