#include "tests/support/replay_rules.hpp"

#include <algorithm>
#include <stdexcept>

#include "orchestrator/base/text.hpp"

namespace millwright {
namespace {

void check_keys(const Value& given, const std::set<std::string>& known, const char* of) {
  if (!given.is_object()) throw std::runtime_error(std::string(of) + " is a mapping");
  for (const auto& [key, value] : given.items()) {
    if (known.count(key) == 0) throw std::runtime_error("unknown word '" + key + "' in " + of);
  }
}

const std::set<std::string> kKinds = {"stream",       "tools",        "logprobs",    "schema",   "tool_choice",
                                      "thinking",     "json",         "asks",        "parallel", "prompt_over",
                                      "prompt_words", "budget_under", "beyond_ascii"};
const std::set<std::string> kCounts = {"repeat", "after", "since", "every", "everywhere"};

bool beyond_ascii(const std::string& text) {
  return std::any_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
}

std::string thinking_of(const ReplayRequest& request) {
  const Value said = request.json.value("chat_template_kwargs", Value());
  if (!said.is_object() || !said.contains("enable_thinking")) return "unsaid";
  return said.at("enable_thinking").get<bool>() ? "on" : "off";
}

int words_of(const ReplayRequest& request) { return static_cast<int>(split(request.ask(), ' ').size()); }

bool has_json(const ReplayRequest& request) {
  return request.json.contains("tools") || request.ask().find("JSON") != std::string::npos;
}

}  // namespace

ReplayRule::ReplayRule(Value when) : when_(std::move(when)) {
  std::set<std::string> known = kKinds;
  known.insert(kCounts.begin(), kCounts.end());
  check_keys(when_, known, "when");
  if (!when_.contains("since")) return;
  known = kKinds;
  known.insert("times");
  check_keys(when_.at("since"), known, "since");
}

bool ReplayRule::fits(const Value& when, const ReplayRequest& request) const {
  const auto same = [&](const char* key, bool is) { return !when.contains(key) || when.at(key).get<bool>() == is; };
  const std::string ask = request.ask();
  const bool word_of_its_own = ask.rfind("Repeat this exactly: ", 0) == 0 &&
                               ask.find("maple-cedar-17") == std::string::npos && asked_.at(ask) == 1;
  if (!same("stream", request.flag("stream")) || !same("tools", request.json.contains("tools"))) return false;
  if (!same("logprobs", request.flag("logprobs")) || !same("schema", request.json.contains("response_format"))) {
    return false;
  }
  if (!same("json", has_json(request)) || !same("parallel", word_of_its_own)) return false;
  if (!same("beyond_ascii", beyond_ascii(ask))) return false;
  if (when.contains("tool_choice") && request.json.value("tool_choice", "") != when.at("tool_choice")) return false;
  if (when.contains("asks") && ask.find(when.at("asks").get<std::string>()) == std::string::npos) return false;
  if (when.contains("prompt_over") && prompt_tokens(request) <= when.at("prompt_over").get<int>()) return false;
  if (when.contains("budget_under") && request.json.value("max_tokens", 0) >= when.at("budget_under").get<int>()) {
    return false;
  }
  if (when.contains("prompt_words")) {
    const Value& words = when.at("prompt_words");
    if (words_of(request) % words.at("of").get<int>() != words.at("is").get<int>()) return false;
  }
  if (!when.contains("thinking")) return true;
  const Value& thinking = when.at("thinking");
  return std::find(thinking.begin(), thinking.end(), thinking_of(request)) != thinking.end();
}

bool ReplayRule::counted(const ReplayRequest& request) {
  if (when_.contains("repeat") && asked_.at(request.ask()) < when_.at("repeat").get<int>()) return false;
  if (when_.contains("after") && chats_ <= when_.at("after").get<int>()) return false;
  if (when_.contains("since") && since_ < when_.at("since").at("times").get<int>()) return false;
  return true;
}

bool ReplayRule::holds(const ReplayRequest& request) {
  ++chats_;
  ++asked_[request.ask()];
  const bool now = fits(when_, request) && counted(request);
  if (when_.contains("since") && fits(when_.at("since"), request)) ++since_;
  if (!now) return false;
  ++matched_;
  return !when_.contains("every") || matched_ % when_.at("every").get<int>() == 0;
}

void ReplaySpeaker::check(const Value& says) const {
  check_keys(says,
             {"content", "reasoning", "times", "finish", "tokens", "usage", "tool_calls", "budget", "error", "deltas",
              "gone", "hang", "cut"},
             "says");
  if (says.contains("error")) check_keys(says.at("error"), {"status", "message", "type", "flat"}, "error");
  const Value deltas = says.value("deltas", Value::array());
  for (const Value& delta : deltas) check_keys(delta, {"reasoning", "content", "role", "finish", "error"}, "deltas");
}

std::string ReplaySpeaker::fill(std::string text, const ReplayAnswer& healthy) const {
  const std::string answer = healthy.content.is_string() ? healthy.content.get<std::string>() : std::string();
  text = replace_all(text, "{answer}", answer);
  text = replace_all(text, "{previous}", previous_.empty() ? answer : previous_);
  for (const auto& [name, value] : texts_) text = replace_all(text, "{" + name + "}", value);
  return text;
}

Value ReplaySpeaker::field(const Value& says, const char* key, const ReplayAnswer& healthy) const {
  const Value given = says.value(key, Value());
  return given.is_string() ? Value(fill(given.get<std::string>(), healthy)) : given;
}

ReplayReply ReplaySpeaker::stream_of(const Value& says, const ReplayAnswer& healthy,
                                     const ReplayRequest& request) const {
  ReplayReply reply;
  reply.content_type = "text/event-stream";
  const Value& deltas = says.at("deltas");
  for (const Value& given : deltas) {
    if (given.contains("error")) {
      reply.pieces.push_back({sse({{"error", {{"message", given.at("error")}}}}), Milliseconds(0)});
      continue;
    }
    Value delta = Value::object();
    for (const char* key : {"role", "content", "reasoning"}) {
      if (!given.contains(key)) continue;
      const bool renamed = std::string_view(key) == "reasoning" && engine_ != "vllm";
      delta[renamed ? "reasoning_content" : key] = field(given, key, healthy);
    }
    reply.pieces.push_back({delta_event(delta, given.value("finish", Value())), Milliseconds(0)});
  }
  const Value options = request.json.value("stream_options", Value::object());
  const std::string usage = says.value("usage", "");
  if (options.value("include_usage", false) && usage != "none") {
    const int tokens = usage == "zero" ? 0 : says.value("tokens", 5);
    reply.pieces.push_back(
        {sse({{"choices", Value::array()}, {"usage", {{"completion_tokens", tokens}}}}), Milliseconds(0)});
  }
  reply.pieces.push_back({"data: [DONE]\n\n", Milliseconds(0)});
  return reply;
}

std::optional<ReplayReply> ReplaySpeaker::in_place(const Value& says, const ReplayAnswer& healthy,
                                                   const ReplayRequest& request) const {
  if (says.contains("error")) {
    const Value& error = says.at("error");
    return error_reply(error.at("status").get<int>(), error.value("message", ""), error.value("type", "ServerError"),
                       error.value("flat", false));
  }
  if (says.contains("deltas")) return stream_of(says, healthy, request);
  ReplayReply reply;
  if (says.value("gone", false)) {
    reply.ending = ReplayEnding::refuse;
  } else if (says.value("hang", false)) {
    reply.ending = ReplayEnding::hang;
  } else if (says.value("cut", false)) {
    reply = text_reply(R"({"choices":[{"message":{"content":")");
    reply.ending = ReplayEnding::cut;
  } else {
    return {};
  }
  return reply;
}

ReplayAnswer ReplaySpeaker::say(const Value& says, const ReplayRequest& request) {
  const ReplayAnswer healthy = healthy_answer(request);
  ReplayAnswer answer = healthy;
  if (says.contains("content") && says.value("content", Value()).dump().find("{answer}") == std::string::npos) {
    answer = {};
  }
  answer.instead = in_place(says, healthy, request);
  if (says.contains("content")) {
    Value content = field(says, "content", healthy);
    if (content.is_string()) {
      const auto once = content.get<std::string>();
      std::string whole;
      for (int i = 0; i < says.value("times", 1); ++i) whole += once;
      content = whole;
    }
    answer.content = content;
  }
  if (says.contains("reasoning")) answer.reasoning = field(says, "reasoning", healthy);
  if (says.contains("tool_calls")) {
    const Value& calls = says.at("tool_calls");
    answer.tool_calls = Value::array();
    for (const Value& call : calls) {
      answer.tool_calls.push_back({{"id", "call_1"}, {"type", "function"}, {"function", call}});
    }
  }
  answer.finish = says.value("finish", answer.finish);
  answer.usage = says.value("usage", "right");
  if (says.contains("tokens")) answer.tokens = says.at("tokens").get<int>();
  if (says.value("budget", false) && answer.content.is_string()) {
    std::vector<std::string> words = split(answer.content.get<std::string>(), ' ');
    const auto most = request.json.value("max_tokens", std::size_t{16});
    if (words.size() > most) {
      words.resize(most);
      answer.content = join(words, " ");
      answer.finish = "length";
    }
  }
  if (healthy.content.is_string()) previous_ = healthy.content.get<std::string>();
  return answer;
}

}  // namespace millwright
