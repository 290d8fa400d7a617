#include "steps/smoke/chat_reply.hpp"

#include <cmath>

#include "orchestrator/base/text.hpp"

namespace millwright {
namespace {

std::string_view type_word(const Value& value) {
  switch (value.type()) {
    case Value::value_t::null:
      return "null";
    case Value::value_t::boolean:
      return "a boolean";
    case Value::value_t::string:
      return "a string";
    case Value::value_t::array:
      return "a list";
    case Value::value_t::object:
      return "an object";
    default:
      return "a number";
  }
}

std::string wrong(std::string_view path, const Value& value, std::string_view wanted) {
  return std::string(path) + " is " + std::string(type_word(value)) + ", not " + std::string(wanted);
}

const Value* member(const Value& parent, std::string_view key) {
  if (!parent.is_object()) return nullptr;
  const auto it = parent.find(std::string(key));
  return it == parent.end() ? nullptr : &*it;
}

FieldState state_of(std::string_view text) {
  if (text.empty()) return FieldState::empty;
  return trim(text).empty() ? FieldState::blank : FieldState::text;
}

// Content as a list of parts ([{"type": "text", "text": "..."}]) is what the API allows in requests only.
std::optional<std::string> joined_parts(const Value& parts) {
  std::string text;
  for (const Value& part : parts) {
    const Value* piece = member(part, "text");
    if (piece == nullptr || !piece->is_string()) return std::nullopt;
    text += piece->get_ref<const std::string&>();
  }
  return text;
}

std::optional<std::int64_t> read_count(const Value& usage, std::string_view key, std::vector<std::string>& surprises) {
  const Value* count = member(usage, key);
  if (count == nullptr || count->is_null()) return std::nullopt;
  const std::string path = "usage." + std::string(key);
  if (count->is_number_unsigned() && count->get<std::uint64_t>() <= INT64_MAX) return count->get<std::int64_t>();
  if (count->is_number_integer() && !count->is_number_unsigned()) {
    const auto value = count->get<std::int64_t>();
    if (value >= 0) return value;
    surprises.push_back(path + " is negative");
    return std::nullopt;
  }
  surprises.push_back(wrong(path, *count, "a whole number"));
  return std::nullopt;
}

std::string text_or_empty(const Value& parent, std::string_view key) {
  const Value* found = member(parent, key);
  return found != nullptr && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace

void add_tool_call(const Value& call, std::vector<ToolCall>& tools, std::size_t at) {
  constexpr std::size_t most_calls = 64, most_text = 65536;
  if (!call.is_object() || at >= most_calls) return;
  if (at >= tools.size()) tools.resize(at + 1);
  const Value* function = member(call, "function");
  if (function == nullptr || !function->is_object()) return;
  for (const auto& [key, into] : {std::pair("name", &tools[at].name), std::pair("arguments", &tools[at].arguments)}) {
    const Value* found = member(*function, key);
    if (found == nullptr || found->is_null()) continue;
    // Some servers send the arguments as an object: kept as text that says so when it is parsed.
    *into +=
        found->is_string() ? found->get<std::string>() : found->dump(-1, ' ', false, Value::error_handler_t::replace);
    if (into->size() > most_text) into->resize(most_text);
  }
}

namespace {

void read_tool_calls(const Value& message, ChatReply& reply) {
  const Value* calls = member(message, "tool_calls");
  if (calls == nullptr || calls->is_null()) return;
  if (calls->is_array()) {
    reply.tool_calls = static_cast<int>(calls->size());
    for (const Value& call : *calls) add_tool_call(call, reply.tools, reply.tools.size());
  } else {
    reply.surprises.push_back(wrong("choices[0].message.tool_calls", *calls, "a list"));
  }
}

void malformed(ChatReply& reply, std::string what) {
  reply.problem_class = "malformed_response";
  reply.problem = what;
  reply.surprises.push_back(std::move(what));
}

const Value* first_choice(const Value& document, ChatReply& reply) {
  const Value* choices = member(document, "choices");
  if (choices == nullptr) {
    malformed(reply, "the reply has no choices");
  } else if (!choices->is_array()) {
    malformed(reply, wrong("choices", *choices, "a list"));
  } else if (choices->empty()) {
    malformed(reply, "choices is an empty list");
  } else if (!choices->front().is_object()) {
    malformed(reply, wrong("choices[0]", choices->front(), "an object"));
  } else {
    return &choices->front();
  }
  return nullptr;
}

}  // namespace

std::string_view to_string(FieldState state) {
  switch (state) {
    case FieldState::absent:
      return "absent";
    case FieldState::null:
      return "null";
    case FieldState::empty:
      return "empty";
    case FieldState::blank:
      return "blank";
    case FieldState::text:
      return "text";
    case FieldState::wrong_type:
      return "of a wrong type";
  }
  return "absent";
}

TextField read_text_field(const Value& parent, std::string_view key, std::string_view path,
                          std::vector<std::string>& surprises) {
  const Value* found = member(parent, key);
  if (found == nullptr) return {};
  if (found->is_null()) return {FieldState::null, ""};
  if (found->is_string()) {
    const auto& text = found->get_ref<const std::string&>();
    return {state_of(text), text};
  }
  const std::string where = std::string(path) + "." + std::string(key);
  surprises.push_back(wrong(where, *found, "a string"));
  if (found->is_array() && !found->empty()) {
    if (const auto text = joined_parts(*found)) return {state_of(*text), *text};
  }
  return {FieldState::wrong_type, ""};
}

void read_reasoning(const Value& message, std::string_view path, ChatReply& reply) {
  for (const std::string_view name : {"reasoning_content", "reasoning"}) {
    TextField field = read_text_field(message, name, path, reply.surprises);
    if (field.state == FieldState::absent) continue;
    if (reply.reasoning.state != FieldState::absent && !field.has_text()) continue;
    if (reply.reasoning.has_text()) continue;
    reply.reasoning = std::move(field);
    reply.reasoning_name = std::string(name);
  }
}

std::string read_finish_reason(const Value& choice, std::vector<std::string>& surprises) {
  const Value* reason = member(choice, "finish_reason");
  if (reason == nullptr || reason->is_null()) return "";
  if (reason->is_string()) return reason->get<std::string>();
  surprises.push_back(wrong("choices[0].finish_reason", *reason, "a string"));
  return "";
}

void read_usage(const Value& document, ChatReply& reply) {
  const Value* usage = member(document, "usage");
  if (usage == nullptr || usage->is_null()) return;
  if (!usage->is_object()) {
    reply.surprises.push_back(wrong("usage", *usage, "an object"));
    return;
  }
  reply.has_usage = true;
  if (auto count = read_count(*usage, "prompt_tokens", reply.surprises)) reply.prompt_tokens = count;
  if (auto count = read_count(*usage, "completion_tokens", reply.surprises)) reply.completion_tokens = count;
}

void read_logprobs(const Value& choice, ChatReply& reply) {
  const Value* logprobs = member(choice, "logprobs");
  if (logprobs == nullptr || logprobs->is_null()) return;
  const Value* content = member(*logprobs, "content");
  if (content == nullptr || !content->is_array()) {
    if (!logprobs->is_object()) reply.surprises.push_back(wrong("choices[0].logprobs", *logprobs, "an object"));
    return;
  }
  reply.has_logprobs = true;
  for (const Value& entry : *content) {
    TokenLogprob token;
    token.token = text_or_empty(entry, "token");
    const Value* value = member(entry, "logprob");
    if (value != nullptr && value->is_number() && std::isfinite(value->get<double>())) {
      token.logprob = value->get<double>();
    }
    reply.logprobs.push_back(std::move(token));
  }
}

ServerError find_error(const Value& document) {
  ServerError error;
  if (!document.is_object()) return error;
  if (const Value* nested = member(document, "error"); nested != nullptr && !nested->is_null()) {
    error.found = true;
    if (nested->is_string()) error.message = nested->get<std::string>();
    error.message += text_or_empty(*nested, "message");
    error.type = text_or_empty(*nested, "type");
    if (error.message.empty()) error.message = "an error object without a message";
    return error;
  }
  const bool flat = text_or_empty(document, "object") == "error";
  for (const std::string_view key : {"message", "detail", "error_msg"}) {
    const Value* found = member(document, key);
    if (found == nullptr || found->is_null() || (!flat && document.contains("choices"))) continue;
    error.found = true;
    error.message = found->is_string() ? found->get<std::string>() : std::string("an error without a message");
    error.type = text_or_empty(document, "type");
    return error;
  }
  if (flat) {
    error.found = true;
    error.message = "an error object without a message";
  }
  return error;
}

namespace {

// The document when it is a reply at all; else what is wrong is in `reply`.
std::optional<Value> read_document(std::string_view body, ChatReply& reply) {
  std::string why;
  std::optional<Value> document = parse_json(body, reply.surprises, why);
  if (!document) {
    malformed(reply, why);
    return {};
  }
  if (!document->is_object()) {
    malformed(reply, wrong("the reply", *document, "an object"));
    return {};
  }
  if (const ServerError error = find_error(*document); error.found) {
    reply.problem_class = "error_in_200";
    reply.problem = error.message;
    reply.error_message = error.message;
    reply.error_type = error.type;
    return {};
  }
  return document;
}

}  // namespace

ChatReply read_chat_reply(std::string_view body) {
  ChatReply reply;
  const std::optional<Value> document = read_document(body, reply);
  if (!document) return reply;
  reply.model = text_or_empty(*document, "model");
  reply.engine_hint = text_or_empty(*document, "system_fingerprint");
  read_usage(*document, reply);
  const Value* choice = first_choice(*document, reply);
  if (choice == nullptr) return reply;
  reply.finish_reason = read_finish_reason(*choice, reply.surprises);
  read_logprobs(*choice, reply);
  const Value* message = member(*choice, "message");
  if (message == nullptr || !message->is_object()) {
    malformed(reply,
              message == nullptr ? "choices[0] has no message" : wrong("choices[0].message", *message, "an object"));
    return reply;
  }
  reply.content = read_text_field(*message, "content", "choices[0].message", reply.surprises);
  read_reasoning(*message, "choices[0].message", reply);
  read_tool_calls(*message, reply);
  if (reply.content.state == FieldState::wrong_type) {
    reply.problem_class = "malformed_response";
    reply.problem = reply.surprises.back();
    for (const std::string& surprise : reply.surprises) {
      if (starts_with(surprise, "choices[0].message.content")) reply.problem = surprise;
    }
  }
  return reply;
}

ChatReply read_completion_reply(std::string_view body) {
  ChatReply reply;
  const std::optional<Value> document = read_document(body, reply);
  if (!document) return reply;
  read_usage(*document, reply);
  if (const Value* choice = first_choice(*document, reply)) {
    reply.content = read_text_field(*choice, "text", "choices[0]", reply.surprises);
    reply.finish_reason = read_finish_reason(*choice, reply.surprises);
  }
  return reply;
}

}  // namespace millwright
