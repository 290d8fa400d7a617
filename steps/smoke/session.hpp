// One smoke test while it runs: what the probes share. Used from one thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "steps/smoke/chat_reply.hpp"
#include "steps/smoke/judge.hpp"
#include "steps/smoke/smoke.hpp"

namespace millwright {

class ChatStream;

struct ChatCall {
  std::string name;  // for evidence: "known_answers-capital"
  std::string ask;
  int max_tokens = 64;
  bool stream = false;
  bool include_usage = false;
  bool logprobs = false;
  bool first = false;              // the first request: its own timeout
  bool think = false;              // ask for thinking, whatever the session has switched off
  bool plain = false;              // say nothing about thinking, as most clients do
  std::int64_t prompt_tokens = 0;  // about as many, for prompts that take long to read
  int alongside = 1;               // requests that are sent at once: the server may take one after the other
  Value tools;                     // list of tool definitions; null: none
  std::string tool_choice = "auto";
  Value response_format;  // null: none
};

struct ChatOutcome {
  ChatReply reply;
  Finding trouble;  // transport, HTTP status or an unreadable reply; nothing when the reply can be judged
  int status = 0;   // 0: no response
  double seconds = 0;
  bool unreached = false;                    // no response at all
  std::optional<double> first_text_seconds;  // streams only
  std::string raw;                           // request and response as evidence
};

struct GetOutcome {
  std::optional<HttpResponse> response;
  Finding trouble;
  std::string raw;
};

class SmokeSession {
 public:
  SmokeSession(HttpClient& http, Clock& clock, const SmokeRules& rules, const SmokeOptions& options);

  // Seconds that reading a prompt of so many tokens takes at most, by what was seen; nothing before a long one was
  // read.
  std::optional<double> reading_time(std::int64_t prompt_tokens) const;
  const SmokeRules& rules() const { return rules_; }
  const SmokeOptions& options() const { return options_; }
  Clock& clock() { return clock_; }
  const std::vector<KnownQuestion>& questions() const;

  ChatOutcome chat(const ChatCall& call);
  // So many tokens of an answer, or what the server's context has room for, where that is known.
  int within_context(int tokens) const;
  // All at once, each from a thread of its own; outcomes in the order of the calls.
  std::vector<ChatOutcome> chat_together(const std::vector<ChatCall>& calls);
  // /v1/completions: the text goes to the model without a chat template. The answer is in reply.content.
  ChatOutcome complete(const std::string& prompt, int max_tokens);
  GetOutcome get(const std::string& path_after_v1, Milliseconds timeout);
  GetOutcome get_root(const std::string& path, Milliseconds timeout);  // beside /v1
  // Keeps raw bytes; returns the name to show, empty when nobody keeps.
  std::string keep(const std::string& name, std::string_view raw);
  bool stopped() const;  // cancelled, or the deadline passed
  Milliseconds left() const;

  ServerFacts server;
  bool answered = false;      // a chat got a 200 before
  bool reachable = false;     // anything answered before
  bool thinking_off = false;  // ask for no thinking: the model thinks by itself
  bool thinks = false;        // an answer came with reasoning
  // Of the known questions. Who missed one is a weak model: another fluent miss says nothing about its server.
  int known_asked = 0, known_right = 0;
  bool weak_model() const { return known_right < known_asked; }
  std::optional<double> first_token_seconds;
  std::optional<double> tokens_per_second;
  std::vector<KnownQuestion> answered_right;  // without any fault, in this test
  // The plain reply to the first question, for comparison with the streamed one.
  std::optional<ChatReply> plain_first;

 private:
  // A slow machine is no hang: more time where the answers so far say that it is needed.
  Milliseconds patience(const ChatCall& call) const;
  HttpRequest request(const std::string& method, const std::string& url, Milliseconds timeout) const;
  GetOutcome get_url(const std::string& url, Milliseconds timeout);
  std::string chat_body(const ChatCall& call) const;
  // One exchange; changes nothing of the session, so that several may run at once.
  ChatOutcome exchange(const ChatCall& call) const;
  void receive(const ChatCall& call, const HttpResponse& response, ChatStream& stream, ChatOutcome& outcome) const;
  void learn(const ChatOutcome& outcome);
  Finding judge_transport(const Error& error) const;

  HttpClient& http_;
  Clock& clock_;
  const SmokeRules& rules_;
  const SmokeOptions& options_;
  std::string base_;  // ends in /v1
  double slowest_token_seconds_ = 0;
  double slowest_chat_seconds_ = 0;          // of one short question
  double slowest_prompt_token_seconds_ = 0;  // 0: no long prompt was read yet
};

// The class of a response's status and completeness; nothing for a whole 2xx. `answered`: a chat succeeded before.
Finding judge_response(const HttpRequest& request, const HttpResponse& response, bool answered);

}  // namespace millwright
