// The words of a replayed case: which requests (`when`) get what (`says`).
#pragma once

#include <map>
#include <set>
#include <string>

#include "tests/support/replay_surface.hpp"

namespace millwright {

// Which chats a case is about. Every condition named must hold:
//   stream, tools, logprobs, schema   true: only requests that ask for it; false: only those that do not
//   tool_choice   that value of it
//   thinking      list of: off, on (said so), unsaid
//   json          true: tools, or JSON in the question
//   asks          the question holds this text
//   beyond_ascii  true: the question holds other than ASCII
//   parallel      true: one of the requests that are sent at once, known by a word that nobody asked for before
//   prompt_over   more tokens than this in the prompt
//   prompt_words  {of: 64, is: 1}: so many words modulo `of`
//   budget_under  fewer tokens than this are asked for
//   repeat        N: the same question for the N-th time or later
//   after         N: the N+1-th chat or a later one
//   since         {tools: true, ..., times: N}: N requests of that kind came before; what is bad then stays bad
//   every         N: each N-th of those for which all the rest holds
//   everywhere    true: all paths, chats or not; alone
class ReplayRule {
 public:
  // Throws std::runtime_error for a condition that does not exist, and as nlohmann does for a value of a wrong type.
  explicit ReplayRule(Value when);
  // Once for each chat, in order: some conditions count.
  bool holds(const ReplayRequest& request);
  bool everywhere() const { return when_.value("everywhere", false); }

 private:
  bool fits(const Value& when, const ReplayRequest& request) const;
  bool counted(const ReplayRequest& request);

  Value when_;
  std::map<std::string, int> asked_;  // question -> how often, this time included
  int chats_ = 0, matched_ = 0, since_ = 0;
};

// Says things in an engine's voice. What can be said:
//   content, reasoning   text or null; {answer} is the right answer, {previous} the one before, {NAME} a text of the
//   file times                so often the content finish, tokens       "stop" and a count of words without them usage
//   none, zero tool_calls           list, as the API has it, or of {name, arguments} budget               true: ends
//   where max_tokens ends, finish length error                {status, message, type, flat} deltas               of a
//   stream, each {reasoning, content, role, finish} gone, hang, cut      true: no connection, no byte, half of a body
// Nothing at all is the right answer.
class ReplaySpeaker {
 public:
  ReplaySpeaker(std::string engine, std::map<std::string, std::string> texts)
      : engine_(std::move(engine)), texts_(std::move(texts)) {}
  // Throws std::runtime_error for a word that does not exist.
  void check(const Value& says) const;
  ReplayAnswer say(const Value& says, const ReplayRequest& request);

 private:
  std::string fill(std::string text, const ReplayAnswer& healthy) const;
  Value field(const Value& says, const char* key, const ReplayAnswer& healthy) const;
  std::optional<ReplayReply> in_place(const Value& says, const ReplayAnswer& healthy,
                                      const ReplayRequest& request) const;
  ReplayReply stream_of(const Value& says, const ReplayAnswer& healthy, const ReplayRequest& request) const;

  std::string engine_;
  std::map<std::string, std::string> texts_;
  std::string previous_;
};

}  // namespace millwright
