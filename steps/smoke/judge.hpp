// From a reply to a symptom class. Pure functions over data; safe from any thread.
#pragma once

#include <string>
#include <string_view>

#include "steps/smoke/chat_reply.hpp"
#include "steps/smoke/rules.hpp"
#include "steps/smoke/text_signs.hpp"

namespace millwright {

struct Finding {
  std::string symptom_class;  // empty: nothing found
  std::string what;           // the observation in words, for a line of the report
  explicit operator bool() const { return !symptom_class.empty(); }
};

// Which empty answer this is, by the decision table. Nothing for a reply with text or a legitimate empty one.
Finding decide_empty(const SmokeRules& rules, const ChatReply& reply);

// Signs in a text that was to be English: loops, runs, salad, lost bytes, control tokens, thinking.
enum class TextKind { answer, prose };
Finding judge_text(const SmokeRules& rules, std::string_view text, TextKind kind);

// The text part (content) of a readable reply: decide_empty, then judge_text.
Finding judge_reply(const SmokeRules& rules, const ChatReply& reply, TextKind kind);

// "content null, reasoning null, stop after 2 tokens"
std::string describe_reply(const ChatReply& reply);

}  // namespace millwright
