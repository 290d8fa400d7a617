#include "smoke_cases.hpp"

#include "orchestrator/base/text.hpp"
#include "tests/support/replay_surface.hpp"

namespace millwright {
namespace {

std::string times(int count, std::string_view piece) {
  std::string out;
  for (int i = 0; i < count; ++i) out += piece;
  return out;
}

// Healthy but for the requests that `when` picks.
using Picker = std::function<bool(const ReplayRequest&)>;
ReplayModel healthy_but(Picker when, ReplayModel then) {
  return [=](const ReplayRequest& request) { return when(request) ? then(request) : healthy_answer(request); };
}

Picker streaming() {
  return [](const ReplayRequest& request) { return request.flag("stream"); };
}
Picker with_logprobs() {
  return [](const ReplayRequest& request) { return request.flag("logprobs"); };
}
Picker asking(const char* word) {
  return [word](const ReplayRequest& request) { return request.ask().find(word) != std::string::npos; };
}

// The healthy answer, changed.
ReplayModel changed(std::function<void(ReplayAnswer&)> change) {
  return [=](const ReplayRequest& request) {
    ReplayAnswer answer = healthy_answer(request);
    change(answer);
    return answer;
  };
}

ReplayReply with_ending(ReplayReply reply, ReplayEnding ending) {
  reply.ending = ending;
  return reply;
}

ReplayReply stream_of(std::vector<std::string> pieces, ReplayEnding ending = ReplayEnding::whole) {
  ReplayReply reply;
  reply.content_type = "text/event-stream";
  for (std::string& piece : pieces) reply.pieces.push_back({std::move(piece), Milliseconds(0)});
  reply.ending = ending;
  return reply;
}

std::string delta(const Value& inside, const Value& finish = nullptr) {
  return sse({{"choices", {{{"index", 0}, {"delta", inside}, {"finish_reason", finish}}}}});
}

ReplayReply reply_body(const Value& choices) {
  return json_reply({{"object", "chat.completion"}, {"choices", choices}, {"usage", {{"completion_tokens", 5}}}});
}

void add_healthy(std::vector<SmokeCase>& cases) {
  for (const char* engine : {"llama.cpp", "vllm", "sglang"}) {
    cases.push_back({std::string("healthy ") + engine, engine_surface(engine, healthy_answer), "pass", "", ""});
  }
  cases.push_back({"one wrong answer of five", engine_surface("vllm", healthy_but(asking("meow"), always("A dog."))),
                   "pass", "", ""});
  cases.push_back({"thinks and answers",
                   engine_surface("vllm", changed([](ReplayAnswer& a) { a.reasoning = "So..."; })), "pass", "", ""});
  // SGLang 0.5.11 with a context of 2048 and a template of 251 tokens refused to think 2048 tokens long (lab).
  const auto small_context = [](const ReplayRequest& request) {
    ReplayAnswer answer = healthy_answer(request);
    answer.reasoning = "So...";
    if (request.json.is_object() && request.json.value("max_tokens", 0) + 251 > 2048) {
      answer.instead =
          error_reply(400, "Requested token count exceeds the model's maximum context length of 2048 tokens",
                      "BadRequestError", false);
    }
    return answer;
  };
  cases.push_back({"a small context is not asked for more than it holds", engine_surface("llama.cpp", small_context),
                   "pass", "", ""});
  cases.push_back({"no log-probabilities",
                   engine_surface("vllm", healthy_but(with_logprobs(), instead(error_reply(400, "logprobs unsupported",
                                                                                           "BadRequestError", false)))),
                   "pass", "", ""});
}

void add_empty(std::vector<SmokeCase>& cases) {
  const auto empty = [&](const char* name, const char* engine, ReplayModel model, const char* symptom) {
    cases.push_back({name, engine_surface(engine, std::move(model)), "fail", symptom, "known_answers"});
  };
  empty("C001 the founding null: SGLang 0.5.9", "sglang", always(nullptr, "stop", 2), "immediate_eos_null");
  empty("C024 empty string at once", "llama.cpp", always("", "stop", 1), "immediate_eos");
  empty("C015 null after many tokens", "vllm", always(nullptr, "stop", 64), "null_content");
  empty("flipped bits: nothing to the end of the budget", "llama.cpp", always("", "length", 64), "null_content");
  empty("C023 newlines only", "llama.cpp", always("\n\n\n", "stop", 3), "newline_only");
  empty("C002 the answer as reasoning", "sglang", always(nullptr, "stop", 9, "The capital is Paris."),
        "answer_in_reasoning");
  empty("C007 the answer as reasoning", "vllm", always("", "stop", 9, "Paris, cat, blue, cold"), "answer_in_reasoning");
  empty("C111 a tool call as reasoning", "sglang", always(nullptr, "stop", 9, "<tool_call>{}</tool_call>"),
        "tool_call_in_reasoning");
  empty("C110 finish tool_calls, none there", "sglang", always(nullptr, "tool_calls", 9), "tool_call_unparsed");
  // SGLang 0.5.11 with --reasoning-parser qwen3 and a model that does not think (lab): right only when it is told not
  // to think, which hardly any client says, and told to think it refuses.
  const auto wrong_parser = [](const ReplayRequest& request) {
    ReplayAnswer answer = healthy_answer(request);
    const Value said = request.json.is_object() ? request.json.value("chat_template_kwargs", Value()) : Value();
    if (said.is_object() && said.value("enable_thinking", true)) {
      answer.instead = error_reply(400, "no such switch", "BadRequestError", false);
    } else if (!said.is_object()) {
      answer.reasoning = answer.content;
      answer.content = nullptr;
    }
    return answer;
  };
  cases.push_back({"C002 the answer as reasoning for whoever says nothing of thinking",
                   engine_surface("sglang", wrong_parser), "fail", "answer_in_reasoning", "thinking"});
  cases.push_back({"C013 thinks beyond every budget",
                   engine_surface("vllm", always(nullptr, "length", 64, "Let me think about it")), "inconclusive",
                   "length_truncated_reasoning", "known_answers"});
}

void add_garbage(std::vector<SmokeCase>& cases) {
  const auto garbage = [&](const char* name, const char* engine, ReplayModel model, const char* symptom) {
    cases.push_back({name, engine_surface(engine, std::move(model)), "fail", symptom, "known_answers"});
  };
  garbage("C034 only '!'", "vllm", always(times(64, "!"), "length", 64), "single_token_loop");
  garbage("C047 31 times G", "llama.cpp", always(times(31, "G"), "length", 31), "single_token_loop");
  garbage("C045 one CJK character", "llama.cpp", always(times(40, "\xE5\x95\x8A"), "length", 40), "single_token_loop");
  garbage("C046 padding repeated", "llama.cpp", always(times(32, "<pad>"), "length", 32), "single_token_loop");
  garbage("C052 a phrase repeated", "llama.cpp", always("endoftext " + times(12, "for you and me and "), "length", 60),
          "phrase_loop");
  garbage(
      "C063 salad of many scripts", "vllm",
      always("\xE8\x8D\x90 icha\xD1\x82\xD1\x80\xD0\xB8 words \xE5\xB7\xAE maxWidth \xD8\xA7\xD9\x84 tic \xED\x95\x9C "
             "asty \xD0\xB4\xD0\xB0 mtl",
             "length", 64),
      "gibberish");
  garbage("fluent and wrong", "vllm", always("That is a good question. I would say it is Berlin."), "wrong_answers");
  garbage(
      "C149 another language", "vllm",
      always(
          "\xE6\xB3\x95\xE5\x9B\xBD\xE7\x9A\x84\xE9\xA6\x96\xE9\x83\xBD\xE6\x98\xAF\xE5\xB7\xB4\xE9\xBB\x8E\xE5\xB7\xB4"
          "\xE9\xBB\x8E\xE5\xB7\xB4\xE9\xBB\x8E\xE5\x9F\x8E\xE5\xB8\x82\xE6\xB3\x95\xE5\x9B\xBD\xE7\x9A\x84"),
      "wrong_language");
  garbage("C147 replacement characters", "vllm",
          changed([](ReplayAnswer& a) { a.content = a.content.get<std::string>() + " \xEF\xBF\xBD"; }),
          "detokenizer_corruption");
  garbage("C027 thinking in the answer", "vllm",
          changed([](ReplayAnswer& a) { a.content = "Well, let me see.</think>" + a.content.get<std::string>(); }),
          "reasoning_leak");
  garbage("C032 control tokens", "vllm",
          changed([](ReplayAnswer& a) { a.content = a.content.get<std::string>() + "<|end|><|start_header_id|>"; }),
          "control_token_leak");
  garbage("right, then goes on as the other side", "vllm", changed([](ReplayAnswer& a) {
            a.content = a.content.get<std::string>() + "\nUser: and then?\nAssistant: well";
            a.finish = "length";
          }),
          "never_stops");
  garbage("C151 never stops", "sglang", changed([](ReplayAnswer& a) {
            a.content = a.content.get<std::string>() + " is what I say, and there is a lot more that I could tell";
            a.finish = "length";
          }),
          "never_stops");
  cases.push_back({"answers well, loops in prose",
                   engine_surface("vllm", healthy_but(asking("paragraph"), always("The sea " + times(60, "sea ")))),
                   "fail", "single_token_loop", "prose"});
}

void add_http(std::vector<SmokeCase>& cases) {
  const auto http = [&](const char* name, ReplayReply reply, const char* symptom, const char* verdict = "fail") {
    cases.push_back({name, engine_surface("vllm", instead(std::move(reply))), verdict, symptom, "first_token"});
  };
  http("C136 500 at the first request", error_reply(500, "CUDA error: no kernel image", "InternalServerError", false),
       "first_request_500");
  http("500 without a body", text_reply("", 500, "text/plain"), "first_request_500");
  http("502 of a proxy", text_reply("<html>Bad Gateway</html>", 502, "text/html"), "first_request_500");
  http("503 while loading", error_reply(503, "Loading model", "unavailable_error", false), "still_loading",
       "inconclusive");
  http("C143 flat 404 for the name", error_reply(404, "The model `x` does not exist.", "NotFoundError", true),
       "model_name_404");
  http("400 nested", error_reply(400, "bad request", "invalid_request_error", false), "request_refused");
  http("401", error_reply(401, "Invalid API key", "authentication_error", false), "auth_required", "inconclusive");
  http("429", error_reply(429, "slow down", "rate_limit", true), "rate_limited", "inconclusive");
  http("a flat error with status 200", error_reply(200, "boom", "ServerError", true), "error_in_200");
  http("HTML with status 200", text_reply("<html></html>", 200, "text/html"), "malformed_response");
  http("an empty body", text_reply(""), "malformed_response");
  http("JSON cut short", text_reply(R"({"choices":[{"message":{"content":"Par)"), "malformed_response");
  http("the connection cut", with_ending(text_reply(R"({"choices":[{"mess)"), ReplayEnding::cut), "cut_response");
  http("choices null", reply_body(nullptr), "malformed_response");
  http("choices empty", reply_body(Value::array()), "malformed_response");
  http("message is text", reply_body({{{"message", "Paris"}}}), "malformed_response");
  http("content is a number", reply_body({{{"message", {{"content", 42}}}}}), "malformed_response");
  http("content is an object", reply_body({{{"message", {{"content", Value::object()}}}}}), "malformed_response");
  ReplayReply redirect = text_reply("", 302, "text/html");
  redirect.headers["location"] = "/login";
  http("redirected to a login page", redirect, "not_openai", "inconclusive");
  http("more than any answer", text_reply(std::string(5u << 20, 'x'), 200, "text/plain"), "oversized_response");
  http("no answer at all", with_ending(ReplayReply{}, ReplayEnding::hang), "hang");
  http("half an answer, then silence", with_ending(text_reply(R"({"choices":[)"), ReplayEnding::hang), "too_slow",
       "inconclusive");
}

void add_ready(std::vector<SmokeCase>& cases) {
  const auto ready = [&](const char* name, ReplayReply reply, const char* verdict, const char* symptom) {
    cases.push_back({name, [reply](const ReplayRequest&) { return reply; }, verdict, symptom, "ready"});
  };
  ready("a web page", text_reply("<html>hello</html>", 200, "text/html"), "inconclusive", "not_openai");
  ready("no model", json_reply({{"object", "list"}, {"data", Value::array()}}), "fail", "no_model");
  ready("models of a wrong type", json_reply({{"data", 7}}), "inconclusive", "not_openai");
  ready("nothing but 404", error_reply(404, "Not Found", "x", false), "inconclusive", "not_openai");
  ready("still loading", error_reply(503, "Loading model", "unavailable_error", false), "inconclusive",
        "still_loading");
}

void add_stream(std::vector<SmokeCase>& cases) {
  const auto stream = [&](const char* name, ReplayReply reply, const char* verdict, const char* symptom) {
    cases.push_back({name, engine_surface("vllm", healthy_but(streaming(), instead(std::move(reply)))), verdict,
                     symptom, "stream"});
  };
  const std::string text = delta({{"content", "Paris"}});
  const std::string stop = delta(Value::object(), "stop");
  const std::string done = "data: [DONE]\n\n";
  stream("C144 an error inside a 200 stream", stream_of({sse({{"error", {{"message", "too long"}}}}), done}), "fail",
         "error_in_200");
  stream("C145 role, then stop", stream_of({delta({{"role", "assistant"}}), stop, done}), "degraded", "stream_empty");
  stream("a stream without [DONE]", stream_of({text, stop}), "degraded", "stream_malformed");
  stream("a stream that is cut", stream_of({text}, ReplayEnding::cut), "degraded", "stream_cut");
  stream("another answer", stream_of({delta({{"content", "Berlin"}}), stop, done}), "degraded", "stream_corruption");
  stream("lines that are no JSON", stream_of({text, "data: {oops\n\n", stop, done}), "degraded", "stream_malformed");
  stream("C028 thinking leaks", stream_of({delta({{"content", "so</think>Paris"}}), stop, done}), "degraded",
         "reasoning_leak_stream");
  stream("C142 no token counts", stream_of({text, stop, done}), "degraded", "usage_wrong");
  stream("a stream that is a web page", text_reply("<html>", 200, "text/html"), "degraded", "stream_malformed");
}

void add_later(std::vector<SmokeCase>& cases) {
  cases.push_back(
      {"C035 500 with log-probabilities",
       engine_surface("vllm", healthy_but(with_logprobs(), instead(error_reply(500,
                                                                               "Out of range float values are not JSON "
                                                                               "compliant",
                                                                               "InternalServerError", true)))),
       "fail", "logprob_500", "logprobs"});
  cases.push_back(
      {"NaN as log-probability",
       engine_surface("sglang", healthy_but(with_logprobs(),
                                            instead(text_reply(
                                                R"({"choices":[{"message":{"content":"Paris"},"finish_reason":)"
                                                R"("stop","logprobs":{"content":[{"token":"P","logprob":NaN}]}}]})")))),
       "fail", "logprob_500", "logprobs"});
  cases.push_back({"counts of zero tokens",
                   engine_surface("sglang",
                                  [](const ReplayRequest& request) {
                                    ReplayAnswer answer = healthy_answer(request);
                                    answer.tokens = 0;
                                    return answer;
                                  }),
                   "degraded", "usage_wrong", "known_answers"});
  cases.push_back({"500 in the middle",
                   engine_surface("vllm",
                                  [](const ReplayRequest& request) {
                                    return request.number > 3 ? instead(error_reply(500, "oops", "x", false))(request)
                                                              : healthy_answer(request);
                                  }),
                   "fail", "http_error", "known_answers"});
  cases.push_back({"dies at the second chat",
                   engine_surface("vllm",
                                  [](const ReplayRequest& request) {
                                    return request.number > 3
                                               ? instead(with_ending(ReplayReply{}, ReplayEnding::refuse))(request)
                                               : healthy_answer(request);
                                  }),
                   "fail", "", "known_answers"});
}

}  // namespace

std::vector<SmokeCase> smoke_cases() {
  std::vector<SmokeCase> cases;
  add_healthy(cases);
  add_empty(cases);
  add_garbage(cases);
  add_http(cases);
  add_ready(cases);
  add_stream(cases);
  add_later(cases);
  return cases;
}

}  // namespace millwright
