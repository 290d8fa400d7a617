// Behaviours for ReplayServer: the surface of an engine around an answer that the case gives.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/replay_server.hpp"

namespace millwright {

// What the model "says". Values are put into the reply as they are, so any type is possible.
struct ReplayAnswer {
  Value content;
  Value reasoning;
  std::string finish = "stop";
  Value tool_calls;
  std::optional<int> tokens;           // absent: a count of the words in content
  std::string usage = "right";         // "none": no counts at all; "zero": counts of nothing
  std::optional<ReplayReply> instead;  // sent in place of all that
};
using ReplayModel = std::function<ReplayAnswer(const ReplayRequest&)>;

// Right answers to the questions of probes.yml, code words given back, the tool called, JSON for a schema, a paragraph
// otherwise.
ReplayAnswer healthy_answer(const ReplayRequest& request);
ReplayAnswer tool_answer(const std::string& name, const std::string& arguments);
// The same content to everything.
ReplayModel always(Value content, std::string finish = "stop", std::optional<int> tokens = {},
                   Value reasoning = nullptr);
// A reply in place of every chat.
ReplayModel instead(ReplayReply reply);

// "llama.cpp", "vllm" or "sglang": /v1/models, /version, /health and chat (plain and streamed) in that engine's shape.
// `context` replaces the context length that such an engine tells here (2048 for llama.cpp, 32768 for the others).
ReplayBehaviour engine_surface(const std::string& engine, ReplayModel model, std::optional<int> context = {});

// One answer in the engine's shape, as a whole and as a stream.
ReplayReply plain_chat(const std::string& engine, const ReplayAnswer& answer, const ReplayRequest& request);
ReplayReply streamed_chat(const std::string& engine, const ReplayAnswer& answer, const ReplayRequest& request);
// What is counted as the tokens of a prompt: of the last message, with a template around it.
int prompt_tokens(const ReplayRequest& request);

// Exchanges recorded from a real server (tests/data/smoke/*.ndjson), found again by question, stream and logprobs.
ReplayBehaviour recorded(const std::string& path);

ReplayReply json_reply(const Value& body, int status = 200);
ReplayReply text_reply(std::string body, int status = 200, std::string content_type = "application/json");
ReplayReply error_reply(int status, const std::string& message, const std::string& type, bool flat);
std::string sse(const Value& chunk);
// One event of a stream of chat.
std::string delta_event(const Value& delta, const Value& finish = nullptr);

}  // namespace millwright
