#include "tests/support/replay_surface.hpp"

#include <fstream>
#include <stdexcept>

#include "orchestrator/base/text.hpp"

namespace millwright {
namespace {

int count_tokens(const ReplayAnswer& answer) {
  if (answer.tokens) return *answer.tokens;
  int words = 1;
  for (const Value& field : {answer.content, answer.reasoning}) {
    if (field.is_string()) words += static_cast<int>(split(field.get_ref<const std::string&>(), ' ').size());
  }
  return words;
}

Value usage_of(const ReplayAnswer& answer, const ReplayRequest& request) {
  if (answer.usage == "none") return nullptr;
  const bool zero = answer.usage == "zero";
  const int tokens = zero ? 0 : count_tokens(answer);
  const int prompt = zero ? 0 : prompt_tokens(request);
  return {{"prompt_tokens", prompt}, {"completion_tokens", tokens}, {"total_tokens", prompt + tokens}};
}

std::string reasoning_name(const std::string& engine) { return engine == "vllm" ? "reasoning" : "reasoning_content"; }

Value logprobs_of(const ReplayAnswer& answer) {
  Value tokens = Value::array();
  if (answer.content.is_string()) {
    tokens.push_back({{"token", answer.content}, {"logprob", -0.01}, {"top_logprobs", Value::array()}});
  }
  return {{"content", tokens}};
}

}  // namespace

int prompt_tokens(const ReplayRequest& request) {
  return 10 + static_cast<int>(split(request.ask(), ' ').size() * 13 / 10);  // as English text has
}

ReplayReply plain_chat(const std::string& engine, const ReplayAnswer& answer, const ReplayRequest& request) {
  Value message = {{"role", "assistant"}, {"content", answer.content}};
  if (engine != "llama.cpp" || !answer.reasoning.is_null()) message[reasoning_name(engine)] = answer.reasoning;
  if (engine == "sglang" || !answer.tool_calls.is_null()) message["tool_calls"] = answer.tool_calls;
  Value choice = {{"index", 0}, {"message", message}, {"finish_reason", answer.finish}};
  if (engine == "sglang") choice["matched_stop"] = nullptr;
  if (request.flag("logprobs")) choice["logprobs"] = logprobs_of(answer);
  Value body = {{"id", "chatcmpl-1"},        {"object", "chat.completion"}, {"created", 1796000000},
                {"model", "replayed-model"}, {"choices", {choice}},         {"usage", usage_of(answer, request)}};
  if (engine == "llama.cpp") body["system_fingerprint"] = "b11669-replay";
  return json_reply(body);
}

namespace {

Value chunk_of(const Value& delta, const Value& finish) {
  return {{"object", "chat.completion.chunk"},
          {"model", "replayed-model"},
          {"choices", {{{"index", 0}, {"delta", delta}, {"finish_reason", finish}}}}};
}

// The deltas of a text, cut where words end.
void add_deltas(std::vector<ReplayPiece>& pieces, const std::string& name, const Value& text) {
  if (!text.is_string()) return;
  const auto& all = text.get_ref<const std::string&>();
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t end = std::min(all.find(' ', at + 1), all.size());
    pieces.push_back({sse(chunk_of({{name, all.substr(at, end - at)}}, nullptr)), Milliseconds(0)});
    at = end;
  }
}

// As engines stream a call: its name first, the arguments in pieces.
void add_tool_deltas(std::vector<ReplayPiece>& pieces, const Value& calls) {
  if (!calls.is_array()) return;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const Value& function = calls[i].at("function");
    const auto piece = [&](const Value& part) {
      const Value call = {{"index", i}, {"id", "call_1"}, {"type", "function"}, {"function", part}};
      pieces.push_back({sse(chunk_of({{"tool_calls", {call}}}, nullptr)), Milliseconds(0)});
    };
    piece({{"name", function.at("name")}, {"arguments", ""}});
    const auto arguments = function.at("arguments").get<std::string>();
    for (std::size_t at = 0; at < arguments.size(); at += 5) piece({{"arguments", arguments.substr(at, 5)}});
  }
}

// What a question of one of the deeper probes asks back: a code word of the prompt.
std::string echo_of(const std::string& ask) {
  for (const std::string mark : {"The code word is ", "Repeat this exactly: "}) {
    const std::size_t at = ask.find(mark);
    if (at == std::string::npos) continue;
    const std::size_t begin = at + mark.size();
    return ask.substr(begin, ask.find_first_of(". \n", begin) - begin);
  }
  return {};
}

}  // namespace

ReplayReply streamed_chat(const std::string& engine, const ReplayAnswer& answer, const ReplayRequest& request) {
  ReplayReply reply;
  reply.content_type = "text/event-stream";
  if (engine == "llama.cpp") reply.pieces.push_back({": ping\n\n", Milliseconds(0)});
  reply.pieces.push_back({sse(chunk_of({{"role", "assistant"}, {"content", nullptr}}, nullptr)), Milliseconds(0)});
  add_deltas(reply.pieces, reasoning_name(engine), answer.reasoning);
  add_deltas(reply.pieces, "content", answer.content);
  add_tool_deltas(reply.pieces, answer.tool_calls);
  reply.pieces.push_back({sse(chunk_of(Value::object(), answer.finish)), Milliseconds(0)});
  const Value options = request.json.value("stream_options", Value::object());
  if (options.value("include_usage", false) && answer.usage != "none") {
    reply.pieces.push_back({sse({{"choices", Value::array()}, {"usage", usage_of(answer, request)}}), Milliseconds(0)});
  }
  reply.pieces.push_back({"data: [DONE]\n\n", Milliseconds(0)});
  return reply;
}

std::string delta_event(const Value& delta, const Value& finish) { return sse(chunk_of(delta, finish)); }

namespace {

Value models_of(const std::string& engine, std::optional<int> context) {
  Value entry = {
      {"id", "replayed-model"}, {"object", "model"}, {"owned_by", engine == "llama.cpp" ? "llamacpp" : engine}};
  if (engine == "llama.cpp") {
    entry["meta"] = {{"n_ctx", context.value_or(2048)}, {"n_ctx_train", 32768}};
  } else {
    entry["max_model_len"] = context.value_or(32768);
    entry["root"] = "replayed-model";
  }
  return {{"object", "list"}, {"data", {entry}}};
}

}  // namespace

ReplayReply json_reply(const Value& body, int status) { return text_reply(body.dump(), status); }

ReplayReply text_reply(std::string body, int status, std::string content_type) {
  ReplayReply reply;
  reply.status = status;
  reply.content_type = std::move(content_type);
  reply.pieces.push_back({std::move(body), Milliseconds(0)});
  return reply;
}

ReplayReply error_reply(int status, const std::string& message, const std::string& type, bool flat) {
  Value error = {{"message", message}, {"type", type}, {"param", nullptr}, {"code", status}};
  if (flat) {
    error["object"] = "error";
    return json_reply(error, status);
  }
  return json_reply({{"error", error}}, status);
}

std::string sse(const Value& chunk) { return "data: " + chunk.dump() + "\n\n"; }

ReplayAnswer tool_answer(const std::string& name, const std::string& arguments) {
  ReplayAnswer answer;
  answer.finish = "tool_calls";
  answer.tool_calls = {
      {{"id", "call_1"}, {"type", "function"}, {"function", {{"name", name}, {"arguments", arguments}}}}};
  return answer;
}

ReplayAnswer healthy_answer(const ReplayRequest& request) {
  const std::string ask = request.ask();
  const auto says = [&](const char* word) { return ask.find(word) != std::string::npos; };
  ReplayAnswer answer;
  if (const std::string echo = echo_of(ask); !echo.empty()) {
    answer.content = echo;
    return answer;
  }
  if (const std::size_t names = ask.find("nothing else: "); names != std::string::npos) {
    answer.content = ask.substr(names + 14);
    return answer;
  }
  if (request.json.contains("tools")) return tool_answer("get_weather", R"({"city": "Paris"})");
  if (request.json.contains("response_format")) {
    answer.content = R"({"capital": "Paris"})";
    return answer;
  }
  answer.content = says("France")     ? "Paris"
                   : says("sky")      ? "Blue."
                   : says("opposite") ? "The opposite of hot is cold."
                   : says("meow")     ? "A cat."
                   : says("hello")    ? "Hello! How can I help you today?"
                                      : "People like the sea because it is never the same twice. The light on the "
                                        "water changes with every hour, and the sound of the waves is a rest for the "
                                        "mind. Many come to swim or to fish, but most of them only want to look.";
  return answer;
}

ReplayModel always(Value content, std::string finish, std::optional<int> tokens, Value reasoning) {
  return [=](const ReplayRequest&) {
    ReplayAnswer answer;
    answer.content = content;
    answer.reasoning = reasoning;
    answer.finish = finish;
    answer.tokens = tokens;
    return answer;
  };
}

ReplayModel instead(ReplayReply reply) {
  return [reply](const ReplayRequest&) {
    ReplayAnswer answer;
    answer.instead = reply;
    return answer;
  };
}

ReplayBehaviour engine_surface(const std::string& engine, ReplayModel model, std::optional<int> context) {
  return [engine, model, context](const ReplayRequest& request) -> ReplayReply {
    if (request.path == "/v1/models") return json_reply(models_of(engine, context));
    if (request.path == "/health") return engine == "llama.cpp" ? json_reply({{"status", "ok"}}) : text_reply("");
    if (request.path == "/version" && engine == "vllm") return json_reply({{"version", "0.23.0"}});
    if (request.path == "/get_server_info" && engine == "sglang") return json_reply({{"version", "0.5.9"}});
    if (request.path != "/v1/chat/completions") return error_reply(404, "Not Found", "not_found", engine == "sglang");
    const ReplayAnswer answer = model(request);
    if (answer.instead) return *answer.instead;
    return request.flag("stream") ? streamed_chat(engine, answer, request) : plain_chat(engine, answer, request);
  };
}

ReplayBehaviour recorded(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw std::runtime_error("no recording " + path);
  std::map<std::string, ReplayReply> replies;
  const auto key = [](const std::string& where, const std::string& ask, bool stream, bool logprobs) {
    return where + "|" + ask + "|" + (stream ? "s" : "") + (logprobs ? "l" : "");
  };
  for (std::string line; std::getline(in, line);) {
    const Value row = Value::parse(line);
    ReplayReply reply = text_reply(row.at("body").get<std::string>(), row.at("status").get<int>());
    if (row.value("stream", false)) reply.content_type = "text/event-stream";
    replies[key(row.at("path").get<std::string>(), row.value("ask", ""), row.value("stream", false),
                row.value("logprobs", false))] = reply;
  }
  return [replies, key](const ReplayRequest& request) {
    const auto found = replies.find(key(request.path, request.ask(), request.flag("stream"), request.flag("logprobs")));
    if (found == replies.end()) return error_reply(404, "not recorded: " + request.path, "not_found", false);
    return found->second;
  };
}

}  // namespace millwright
