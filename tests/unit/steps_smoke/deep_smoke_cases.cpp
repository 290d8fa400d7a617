#include <atomic>
#include <map>
#include <memory>

#include "smoke_cases.hpp"
#include "tests/support/replay_surface.hpp"

namespace millwright {
namespace {

constexpr const char* kRun = "!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!";

bool is_long(const ReplayRequest& request, std::size_t characters) { return request.ask().size() > characters; }
bool in_parallel(const ReplayRequest& request) {
  return request.ask().rfind("Repeat this exactly: ", 0) == 0 &&
         request.ask().find("maple-cedar-17") == std::string::npos;
}
bool with_tools(const ReplayRequest& request) { return request.json.contains("tools"); }

using Picker = std::function<bool(const ReplayRequest&)>;
ReplayModel healthy_but(Picker when, ReplayModel then) {
  return [=](const ReplayRequest& request) { return when(request) ? then(request) : healthy_answer(request); };
}

// A model that misses a known answer misses others, too, and not always the same ones.
void add_weak(std::vector<SmokeCase>& cases) {
  const auto seen = std::make_shared<std::map<std::string, int>>();
  const auto weak = [=](const ReplayRequest& request) {
    const int times = ++(*seen)[request.ask()];
    const bool misses = request.ask().find("meow") != std::string::npos ||                     // always
                        (request.ask().find("opposite") != std::string::npos && times > 1) ||  // after the load
                        is_long(request, 30000) ||                                             // any long text
                        (is_long(request, 1500) && times > 1);                                 // any repeat
    return misses ? always("I would say that it is a dog.")(request) : healthy_answer(request);
  };
  cases.push_back({"fluent misses of a weak model", engine_surface("vllm", weak), "pass", "", "", "thorough"});
  const auto times = std::make_shared<std::map<std::string, int>>();
  const auto sways = [=](const ReplayRequest& request) {
    return is_long(request, 1500) && ++(*times)[request.ask()] == 2 ? always("It is Berlin.")(request)
                                                                    : healthy_answer(request);
  };
  cases.push_back(
      {"one of three repeats is fluent and wrong", engine_surface("vllm", sways), "pass", "", "", "standard"});
}

void add_passing(std::vector<SmokeCase>& cases) {
  const auto pass = [&](const char* name, const char* engine, ReplayModel model) {
    cases.push_back({name, engine_surface(engine, std::move(model)), "pass", "", "", "thorough"});
  };
  pass("healthy llama.cpp, thorough", "llama.cpp", healthy_answer);
  pass("healthy vllm, thorough", "vllm", healthy_answer);
  pass("healthy sglang, thorough", "sglang", healthy_answer);
  pass("never finds a word in a text", "vllm",
       healthy_but([](const ReplayRequest& r) { return is_long(r, 5000); }, always("I do not see one in this text.")));
  // vLLM with a model of 270 million parameters (lab).
  const auto word_at_the_beginning = [](const ReplayRequest& r) {
    return is_long(r, 5000) && r.ask().find("The code word is") < r.ask().size() / 4;
  };
  pass("loses its way in one long text of three", "vllm", healthy_but(word_at_the_beginning, always(kRun)));
  pass("garbles every text that it is to read, however short", "vllm",
       healthy_but([](const ReplayRequest& r) { return r.ask().find("The code word is") != std::string::npos; },
                   always(kRun)));
  add_weak(cases);
  pass("calls no tool", "vllm", healthy_but(with_tools, always("I cannot look up the weather, sorry.")));
  pass("has no tools", "vllm",
       healthy_but(with_tools, instead(error_reply(400, "\"auto\" tool choice requires --enable-auto-tool-choice",
                                                   "BadRequestError", false))));
  pass("knows no schemas", "vllm",
       healthy_but([](const ReplayRequest& r) { return r.json.contains("response_format"); },
                   instead(error_reply(400, "response_format is not supported", "x", false))));
  pass("takes a few at once and refuses the rest", "vllm",
       healthy_but([](const ReplayRequest& r) { return in_parallel(r) && r.number % 3 == 0; },
                   instead(error_reply(429, "too many requests", "rate_limit", false))));
}

void add_long(std::vector<SmokeCase>& cases) {
  cases.push_back(
      {"C082 garbage past a number of tokens",
       engine_surface("vllm", healthy_but([](const ReplayRequest& r) { return is_long(r, 30000); }, always(kRun))),
       "fail", "long_context_corruption", "needle", "standard"});
  cases.push_back({"fluent and wrong past a number of tokens",
                   engine_surface("sglang", healthy_but([](const ReplayRequest& r) { return is_long(r, 30000); },
                                                        always("The text tells of a village by the sea."))),
                   "fail", "long_context_corruption", "needle", "standard"});
  cases.push_back(
      {"garbage near the end of the context only",
       engine_surface("sglang", healthy_but([](const ReplayRequest& r) { return is_long(r, 90000); }, always(kRun))),
       "fail", "long_context_corruption", "needle_long", "thorough"});
}

void add_repeats(std::vector<SmokeCase>& cases) {
  const auto repeated = [](ReplayModel then) -> ReplayModel {
    const auto seen = std::make_shared<std::map<std::string, int>>();
    return [=](const ReplayRequest& request) {
      return is_long(request, 1500) && ++(*seen)[request.ask()] > 1 ? then(request) : healthy_answer(request);
    };
  };
  cases.push_back({"C090 garbage out of the prefix cache", engine_surface("vllm", repeated(always(kRun))), "fail",
                   "prefix_cache_corruption", "repeat", "standard"});
  cases.push_back({"another answer out of the prefix cache", engine_surface("vllm", repeated(always("It is Berlin."))),
                   "fail", "prefix_cache_corruption", "repeat", "standard"});
  const auto length = std::make_shared<std::string>();
  cases.push_back({"wrong again at one length only",
                   engine_surface("sglang",
                                  [=](const ReplayRequest& request) {
                                    const std::string& ask = request.ask();
                                    const bool at_33 =
                                        ask.find(
                                            "so so so so so so so so so so so so so so so so so so so so so "
                                            "so so so so so so so so so so so so ") != std::string::npos;
                                    if (!at_33) return healthy_answer(request);
                                    if (length->empty()) {
                                      *length = ask;
                                      return healthy_answer(request);
                                    }
                                    return always(kRun)(request);
                                  }),
                   "fail", "prefix_cache_corruption", "repeat_lengths", "thorough"});
}

void add_parallel(std::vector<SmokeCase>& cases) {
  const auto fails = [&](const char* name, ReplayModel model, const char* symptom, const char* probe) {
    cases.push_back({name, engine_surface("vllm", std::move(model)), "fail", symptom, probe, "standard"});
  };
  fails("garbage in parallel", healthy_but(in_parallel, always(kRun)), "concurrency_corruption", "parallel");
  const auto last = std::make_shared<ReplayAnswer>();
  fails(
      "one gets the answer of another",
      [=](const ReplayRequest& request) {
        const ReplayAnswer own = healthy_answer(request);
        if (!in_parallel(request)) return own;
        const ReplayAnswer given = last->content.is_null() ? own : *last;
        *last = own;
        return given;
      },
      "concurrency_corruption", "parallel");
  const auto schemas = std::make_shared<int>(0);
  fails(
      "JSON alone, text in parallel",
      [=](const ReplayRequest& request) {
        ReplayAnswer answer = healthy_answer(request);
        if (request.json.contains("response_format") && ++*schemas > 1) answer.content = "The capital is Paris.";
        return answer;
      },
      "concurrency_corruption", "parallel");
  fails("500 in parallel",
        healthy_but(in_parallel, instead(error_reply(500, "CUDA error", "InternalServerError", false))),
        "concurrency_corruption", "parallel");
  const auto poisoned = std::make_shared<bool>(false);
  fails(
      "C042 good, then bad for all after the load",
      [=](const ReplayRequest& request) {
        if (in_parallel(request)) *poisoned = true;
        return *poisoned && !in_parallel(request) && !request.json.contains("response_format")
                   ? always(kRun)(request)
                   : healthy_answer(request);
      },
      "poisoned_server", "recheck");
}

void add_tools(std::vector<SmokeCase>& cases) {
  const auto tools = [&](const char* name, const char* engine, ReplayModel then, const char* verdict,
                         const char* symptom) {
    cases.push_back({name, engine_surface(engine, healthy_but(with_tools, std::move(then))), verdict, symptom, "tools",
                     "standard"});
  };
  tools("C113 the call as text", "vllm",
        always("<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_call>"), "fail",
        "tool_call_unparsed");
  tools("C111 the call as thinking", "sglang",
        always(nullptr, "stop", 20, "<tool_call>{\"name\": \"get_weather\"}</tool_call>"), "fail",
        "tool_call_in_reasoning");
  tools("finished for a call that is not there", "sglang", always(nullptr, "tool_calls", 20), "fail",
        "tool_call_unparsed");
  tools(
      "arguments that are no JSON", "vllm",
      [](const ReplayRequest&) { return tool_answer("get_weather", "{\"city\": "); }, "degraded", "tool_call_shape");
  tools(
      "a tool that was not offered", "vllm", [](const ReplayRequest&) { return tool_answer("get_time", "{}"); },
      "degraded", "tool_call_shape");
  tools(
      "C118 no call as a stream", "vllm",
      [](const ReplayRequest& request) {
        return request.flag("stream") ? always("<tool_call>{}</tool_call>")(request) : healthy_answer(request);
      },
      "degraded", "tool_call_stream_only");
}

}  // namespace

std::vector<SmokeCase> deep_smoke_cases() {
  std::vector<SmokeCase> cases;
  add_passing(cases);
  add_long(cases);
  add_repeats(cases);
  add_parallel(cases);
  add_tools(cases);
  return cases;
}

}  // namespace millwright
