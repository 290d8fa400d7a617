#include "steps/smoke/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "orchestrator/base/text.hpp"
#include "steps/smoke/chat_stream.hpp"
#include "steps/smoke/utf8.hpp"

namespace millwright {
namespace {

std::string base_of(std::string url) {
  while (!url.empty() && url.back() == '/') url.pop_back();
  if (!ends_with(url, "/v1")) url += "/v1";
  return url;
}

bool holds(std::string_view text, std::string_view word) { return text.find(word) != std::string_view::npos; }

std::string error_text(const HttpResponse& response) {
  std::vector<std::string> surprises;
  std::string why;
  if (const auto document = parse_json(response.body, surprises, why)) {
    if (const ServerError error = find_error(*document); error.found) return printable(error.message, 400);
  }
  return printable(response.body, 200);
}

std::string raw_request(const HttpRequest& request) {
  return request.method + " " + request.url + "\n" + request.body + "\n\n";
}

std::string raw_response(const HttpResponse& response, std::size_t limit) {
  std::string raw = fmt::format("HTTP {}\n", response.status);
  for (const auto& [name, value] : response.headers) raw += name + ": " + value + "\n";
  raw += "\n" + response.body.substr(0, limit);
  if (response.body.size() > limit) raw += fmt::format("\n[{} more bytes]", response.body.size() - limit);
  if (!response.complete) raw += fmt::format("\n[cut off: {}]", response.transport_error);
  return raw;
}

bool timed_out(const HttpRequest& request, const HttpResponse& response) {
  return response.elapsed + Milliseconds(50) >= request.total_timeout || holds(response.transport_error, "imed out") ||
         holds(response.transport_error, "imeout");
}

constexpr std::int64_t kLongPrompt = 400;  // tokens from which reading it takes longer than answering

double seconds_between(SteadyPoint from, SteadyPoint to) { return std::chrono::duration<double>(to - from).count(); }

// What nginx, Apache and Go say to plain HTTP on a port for HTTPS.
bool speaks_tls(std::string_view message) {
  return holds(message, "HTTP request was sent to HTTPS port") || holds(message, "HTTP request to an HTTPS server") ||
         holds(message, "speaking plain HTTP to an SSL-enabled server port");
}

Finding judge_client_error(int status, const std::string& message) {
  if (status == 401 || status == 403) return {"auth_required", fmt::format("HTTP {}: {}", status, message)};
  if (status == 429) return {"rate_limited", fmt::format("HTTP 429: {}", message)};
  if (status == 404 && (holds(message, "odel") || holds(message, "NotFound"))) {
    return {"model_name_404", fmt::format("HTTP 404: {}", message)};
  }
  if (speaks_tls(message)) return {"tls_error", fmt::format("HTTP {}: {}; the URL begins with http:", status, message)};
  if (status == 404 || status == 405) return {"not_openai", fmt::format("HTTP {}: {}", status, message)};
  return {"request_refused", fmt::format("HTTP {}: {}", status, message)};
}

}  // namespace

Finding judge_response(const HttpRequest& request, const HttpResponse& response, bool answered) {
  const int status = response.status;
  if (status >= 300 && status < 400) {
    const auto location = response.headers.find("location");
    return {"not_openai",
            fmt::format("HTTP {}: redirected to {}", status,
                        location == response.headers.end() ? "nowhere" : printable(location->second, 100))};
  }
  if (status >= 400) {
    const std::string message = error_text(response);
    if (status == 503 && (holds(message, "oading") || holds(message, "unavailable") || trim(message).empty())) {
      return {"still_loading", fmt::format("HTTP 503: {}", message)};
    }
    if (status < 500) return judge_client_error(status, message);
    return {answered ? "http_error" : "first_request_500", fmt::format("HTTP {}: {}", status, message)};
  }
  if (!response.complete) {
    if (response.body.size() >= request.max_body) {
      return {"oversized_response", fmt::format("more than {} bytes", request.max_body)};
    }
    if (holds(response.transport_error, "the headers are larger")) {
      return {"oversized_response", response.transport_error};
    }
    if (timed_out(request, response)) {
      return {response.body.empty() ? "hang" : "too_slow",
              fmt::format("{} bytes in {:.0f} s, then the deadline", response.body.size(),
                          static_cast<double>(request.total_timeout.count()) / 1000)};
    }
    return {"cut_response",
            fmt::format("cut off after {} bytes: {}", response.body.size(), printable(response.transport_error, 120))};
  }
  return {};
}

SmokeSession::SmokeSession(HttpClient& http, Clock& clock, const SmokeRules& rules, const SmokeOptions& options)
    : http_(http), clock_(clock), rules_(rules), options_(options), base_(base_of(options.url)) {
  server.model = options.model;
}

const std::vector<KnownQuestion>& SmokeSession::questions() const {
  return options_.questions.empty() ? rules_.questions : options_.questions;
}

Milliseconds SmokeSession::left() const {
  if (!options_.deadline) return std::chrono::hours(24);
  return std::max(Milliseconds(0), std::chrono::duration_cast<Milliseconds>(*options_.deadline - clock_.steady()));
}

bool SmokeSession::stopped() const { return (options_.cancelled && options_.cancelled()) || left().count() == 0; }

std::string SmokeSession::keep(const std::string& name, std::string_view raw) {
  return options_.keep ? options_.keep(name, raw) : std::string();
}

HttpRequest SmokeSession::request(const std::string& method, const std::string& url, Milliseconds timeout) const {
  HttpRequest request;
  request.method = method;
  request.url = url;
  request.connect_timeout = std::min(rules_.connect_timeout, left());
  request.total_timeout = std::max(Milliseconds(1), std::min(timeout, left()));
  request.max_body = rules_.body_bytes;
  request.cancelled = options_.cancelled;
  request.headers["Accept"] = "application/json, text/event-stream";
  if (!options_.api_key.empty()) request.headers["Authorization"] = "Bearer " + options_.api_key;
  return request;
}

Finding SmokeSession::judge_transport(const Error& error) const {
  const std::string what = printable(error.message, 200);
  if (holds(what, "SSL") || holds(what, "TLS") || holds(what, "certificate")) return {"tls_error", what};
  if (error.kind == ErrorKind::timeout) {
    // Who takes the request and is silent listens.
    return {reachable || holds(what, "bytes received") ? "hang" : "not_listening", what};
  }
  if (holds(what, "not in HTTP")) return {"not_openai", what};
  const bool mid_answer = holds(what, "reset") || holds(what, "mpty reply") || holds(what, "no HTTP answer");
  if (mid_answer && reachable) return {answered ? "cut_response" : "first_request_500", what};
  if (reachable) return {"server_died", what};
  return {mid_answer ? "not_openai" : "not_listening", what};
}

GetOutcome SmokeSession::get(const std::string& path_after_v1, Milliseconds timeout) {
  return get_url(base_ + path_after_v1, timeout);
}

GetOutcome SmokeSession::get_root(const std::string& path, Milliseconds timeout) {
  return get_url(base_.substr(0, base_.size() - 3) + path, timeout);
}

GetOutcome SmokeSession::get_url(const std::string& url, Milliseconds timeout) {
  const HttpRequest get = request("GET", url, timeout);
  GetOutcome outcome;
  auto response = http_.send(get);
  outcome.raw = raw_request(get);
  if (!response) {
    outcome.trouble = judge_transport(response.error());
    outcome.raw += "no response: " + response.error().message;
    return outcome;
  }
  reachable = true;
  outcome.trouble = judge_response(get, *response, true);
  outcome.raw += raw_response(*response, rules_.kept_bytes);
  outcome.response = std::move(*response);
  return outcome;
}

// Servers refuse what cannot fit in the model's context together with the prompt; half of it leaves room for any
// template.
int SmokeSession::within_context(int tokens) const {
  if (!server.max_length) return tokens;
  constexpr std::int64_t least = 16;
  return static_cast<int>(std::min<std::int64_t>(tokens, std::max(least, *server.max_length / 2)));
}

std::string SmokeSession::chat_body(const ChatCall& call) const {
  Value body = {{"messages", Value::array({{{"role", "user"}, {"content", call.ask}}})},
                {"temperature", 0},
                {"max_tokens", within_context(call.max_tokens)}};
  if (!server.model.empty()) body["model"] = server.model;
  if (call.stream) body["stream"] = true;
  if (call.include_usage) body["stream_options"] = {{"include_usage", true}};
  if (call.logprobs) {
    body["logprobs"] = true;
    body["top_logprobs"] = 3;
  }
  if (!call.plain && (call.think || thinking_off)) body["chat_template_kwargs"] = {{"enable_thinking", call.think}};
  if (!call.tools.is_null()) {
    body["tools"] = call.tools;
    body["tool_choice"] = call.tool_choice;
  }
  if (!call.response_format.is_null()) body["response_format"] = call.response_format;
  return body.dump(-1, ' ', false, Value::error_handler_t::replace);
}

std::optional<double> SmokeSession::reading_time(std::int64_t prompt_tokens) const {
  if (slowest_prompt_token_seconds_ == 0) return {};
  return slowest_prompt_token_seconds_ * static_cast<double>(prompt_tokens);
}

Milliseconds SmokeSession::patience(const ChatCall& call) const {
  if (call.first) return options_.first_token_timeout;
  constexpr double margin = 4;
  double needed = margin * slowest_token_seconds_ * call.max_tokens;
  if (call.alongside > 1) needed += margin * slowest_chat_seconds_ * call.alongside;
  if (call.prompt_tokens >= kLongPrompt) {
    const auto reading = reading_time(call.prompt_tokens);
    if (!reading) return options_.first_token_timeout;
    needed += margin * *reading;
  }
  return std::max(rules_.request_timeout, std::chrono::ceil<Milliseconds>(std::chrono::duration<double>(needed)));
}

ChatOutcome SmokeSession::chat(const ChatCall& call) {
  ChatOutcome outcome = exchange(call);
  learn(outcome);
  return outcome;
}

std::vector<ChatOutcome> SmokeSession::chat_together(const std::vector<ChatCall>& calls) {
  std::vector<ChatOutcome> outcomes(calls.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    threads.emplace_back([this, &calls, &outcomes, i] { outcomes[i] = std::as_const(*this).exchange(calls[i]); });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < calls.size(); ++i) learn(outcomes[i]);
  return outcomes;
}

ChatOutcome SmokeSession::complete(const std::string& prompt, int max_tokens) {
  HttpRequest post = request("POST", base_ + "/completions", rules_.request_timeout);
  post.headers["Content-Type"] = "application/json";
  Value body = {{"prompt", prompt}, {"max_tokens", max_tokens}, {"temperature", 0}};
  if (!server.model.empty()) body["model"] = server.model;
  post.body = body.dump(-1, ' ', false, Value::error_handler_t::replace);
  ChatOutcome outcome;
  auto response = http_.send(post);
  outcome.raw = raw_request(post);
  if (!response) {
    outcome.trouble = judge_transport(response.error());
    outcome.unreached = true;
    return outcome;
  }
  outcome.status = response->status;
  outcome.raw += raw_response(*response, rules_.kept_bytes);
  outcome.trouble = judge_response(post, *response, answered);
  if (!outcome.trouble) outcome.reply = read_completion_reply(response->body);
  if (!outcome.reply.problem_class.empty()) outcome.trouble = {outcome.reply.problem_class, outcome.reply.problem};
  return outcome;
}

ChatOutcome SmokeSession::exchange(const ChatCall& call) const {
  HttpRequest post = request("POST", base_ + "/chat/completions", patience(call));
  post.headers["Content-Type"] = "application/json";
  post.body = chat_body(call);
  const SteadyPoint start = clock_.steady();
  ChatOutcome outcome;
  ChatStream stream;
  bool want_more = true;
  post.on_data = [&](std::string_view piece) {
    if (call.stream && want_more) {
      want_more = stream.feed(piece);
      if (stream.has_text() && !outcome.first_text_seconds) {
        outcome.first_text_seconds = seconds_between(start, clock_.steady());
      }
    }
    return want_more && !(options_.cancelled && options_.cancelled());
  };
  auto response = http_.send(post);
  outcome.seconds = seconds_between(start, clock_.steady());
  outcome.raw = raw_request(post);
  if (!response) {
    outcome.unreached = true;
    outcome.trouble = judge_transport(response.error());
    outcome.raw += "no response: " + response.error().message;
    return outcome;
  }
  outcome.status = response->status;
  outcome.raw += raw_response(*response, rules_.kept_bytes);
  const bool ended_by_us = call.stream && !want_more;
  if (!ended_by_us) outcome.trouble = judge_response(post, *response, answered);
  if (ended_by_us) response->complete = true;
  receive(call, *response, stream, outcome);
  return outcome;
}

void SmokeSession::receive(const ChatCall& call, const HttpResponse& response, ChatStream& stream,
                           ChatOutcome& outcome) const {
  if (response.status < 200 || response.status >= 300) {
    ChatReply error = read_chat_reply(response.body);
    outcome.reply.error_message = error.error_message;
    return;
  }
  if (call.stream) {
    outcome.reply = stream.finish(response.complete ? ChatStream::Ending::whole : ChatStream::Ending::cut);
    if (outcome.trouble.symptom_class == "cut_response") outcome.trouble = {"stream_cut", outcome.trouble.what};
  } else {
    outcome.reply = read_chat_reply(response.body);
    // Some servers close without ending the body; what arrived may still be whole.
    if (outcome.trouble.symptom_class == "cut_response" && outcome.reply.problem_class.empty()) {
      outcome.reply.surprises.push_back("the connection was cut after the last byte of the reply");
      outcome.trouble = {};
    }
  }
  if (!outcome.trouble && !outcome.reply.problem_class.empty()) {
    outcome.trouble = {outcome.reply.problem_class, outcome.reply.problem};
  }
}

void SmokeSession::learn(const ChatOutcome& outcome) {
  if (!outcome.unreached) reachable = true;
  if (outcome.trouble) return;
  if (outcome.reply.reasoning.has_text()) thinks = true;
  const std::int64_t read = outcome.reply.prompt_tokens.value_or(0);
  if (read >= kLongPrompt) {
    slowest_prompt_token_seconds_ =
        std::max(slowest_prompt_token_seconds_, outcome.seconds / static_cast<double>(read));
  } else if (answered) {  // not the first one, which may have compiled kernels
    slowest_chat_seconds_ = std::max(slowest_chat_seconds_, outcome.seconds);
  }
  if (outcome.reply.completion_tokens.value_or(0) > 0) {
    const double each = outcome.seconds / static_cast<double>(*outcome.reply.completion_tokens);
    if (read < kLongPrompt) slowest_token_seconds_ = std::max(slowest_token_seconds_, each);
  }
  answered = true;
}

}  // namespace millwright
