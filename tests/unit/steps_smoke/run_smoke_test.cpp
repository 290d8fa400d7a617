#include <gtest/gtest.h>

#include "direct_http.hpp"
#include "rules_fixture.hpp"
#include "smoke_cases.hpp"
#include "steps/smoke/smoke.hpp"
#include "tests/support/replay_surface.hpp"

namespace millwright {
namespace {

SmokeReport run(ReplayBehaviour behaviour, SmokeOptions options = {}) {
  ManualClock clock;
  DirectHttp http(std::move(behaviour), clock);
  options.url = "http://server:1/v1/";
  return run_smoke(http, clock, *shipped_rules(), options);
}

const ProbeReport* decisive(const SmokeReport& report) {
  for (const ProbeReport& probe : report.probes) {
    if (!probe.symptom_class.empty()) return &probe;
  }
  return nullptr;
}

TEST(RunSmoke, EveryCaseGetsItsVerdictAndClass) {
  for (const SmokeCase& c : smoke_cases()) {
    if (c.symptom_class.empty() && c.verdict != "pass") continue;  // depends on the socket
    std::vector<std::string> kept;
    SmokeOptions options;
    options.keep = [&](const std::string& name, std::string_view bytes) {
      EXPECT_FALSE(bytes.empty());
      kept.push_back(name);
      return name;
    };
    const SmokeReport report = run(c.behaviour, options);
    EXPECT_EQ(to_string(report.verdict), c.verdict) << c.name << "\n" << to_json(report).dump(1);
    EXPECT_EQ(report.symptom_class, c.symptom_class) << c.name;
    if (c.probe.empty()) continue;
    EXPECT_FALSE(kept.empty()) << c.name << ": no evidence";
    ASSERT_NE(decisive(report), nullptr) << c.name;
    EXPECT_EQ(decisive(report)->name, c.probe) << c.name;
    EXPECT_FALSE(report.sentence.empty()) << c.name;
    EXPECT_FALSE(report.first_remedy.empty()) << c.name;
  }
}

TEST(RunSmoke, EveryDeepCaseGetsItsVerdictAndClass) {
  for (const SmokeCase& c : deep_smoke_cases()) {
    SmokeOptions options;
    options.level = c.level;
    const SmokeReport report = run(c.behaviour, options);
    EXPECT_EQ(to_string(report.verdict), c.verdict) << c.name << "\n" << to_json(report).dump(1);
    EXPECT_EQ(report.symptom_class, c.symptom_class) << c.name;
    if (c.probe.empty()) continue;
    ASSERT_NE(decisive(report), nullptr) << c.name;
    EXPECT_EQ(decisive(report)->name, c.probe) << c.name;
  }
}

TEST(RunSmoke, TheRawTwinTellsAParserFromAModel) {
  for (const bool sane : {true, false}) {
    const ReplayBehaviour chat = engine_surface("vllm", always(nullptr, "stop", 64));
    const ReplayBehaviour server = [&](const ReplayRequest& request) {
      if (request.path != "/v1/completions") return chat(request);
      return json_reply({{"choices", {{{"text", sane ? " Paris, a city in" : ""}, {"finish_reason", "length"}}}}});
    };
    const SmokeReport report = run(server);
    EXPECT_EQ(report.symptom_class, "null_content");
    EXPECT_EQ(report.probes.at(3).name, "raw_twin");
    const char* words = sane ? "parser is at fault" : "weights or a kernel";
    EXPECT_NE(report.probes.at(3).summary.find(words), std::string::npos) << report.probes.at(3).summary;
  }
}

TEST(RunSmoke, TheFoundingCaseReadsAsAStory) {
  for (const SmokeCase& c : smoke_cases()) {
    if (c.symptom_class != "immediate_eos_null") continue;
    const SmokeReport report = run(c.behaviour);
    std::string lines;
    for (const ProbeReport& probe : report.probes) lines += probe_line(probe) + "\n";
    EXPECT_EQ(
        lines + closing_lines(report, *shipped_rules()),
        "ready              pass          sglang 0.5.9, replayed-model, 32768 tokens  (0 ms)\n"
        "first token        pass          0.0 s, without text\n"
        "known answers      FAIL          5 of 5 show it: content null, reasoning null, stop after 2 tokens  (0 ms)\n"
        "raw completion     skipped       not offered by this server\n"
        "thinking           skipped       after known answers\n"
        "prose              skipped       after known answers\n"
        "streaming          skipped       after known answers\n"
        "log-probabilities  skipped       after known answers\n"
        "fail: immediate_eos_null. The server is up and answers nothing.\n"
        "Usual cause: Most often the engine is older than the model family; also a kernel that yields a wrong first "
        "token.\n"
        "Try: A version at or above the model's minimum; then another engine; then roll back.\n");
  }
}

TEST(RunSmoke, TheFirstAnswerHasItsOwnDeadline) {
  ManualClock clock;
  DirectHttp http(engine_surface("vllm",
                                 [](const ReplayRequest& request) {
                                   ReplayAnswer answer = healthy_answer(request);
                                   if (request.number == 3) {
                                     answer.instead = text_reply(R"({"choices":[{"message":{"content":"hi"}}]})");
                                     answer.instead->pieces.front().delay = std::chrono::minutes(10);
                                   }
                                   return answer;
                                 }),
                  clock);
  SmokeOptions options;
  options.url = "http://server:1";
  options.first_token_timeout = std::chrono::minutes(15);
  const SmokeReport report = run_smoke(http, clock, *shipped_rules(), options);
  EXPECT_EQ(report.verdict, VerdictKind::pass) << to_json(report).dump(1);
  EXPECT_EQ(http.requests.at(2).total_timeout, std::chrono::minutes(15));
  EXPECT_EQ(http.requests.at(3).total_timeout, std::chrono::minutes(1));
}

TEST(RunSmoke, WaitsForALoadingServer) {
  int asked = 0;
  ReplayBehaviour healthy = engine_surface("llama.cpp", healthy_answer);
  const ReplayBehaviour loading = [&, healthy](const ReplayRequest& request) {
    if (++asked < 4) return error_reply(503, "Loading model", "unavailable_error", false);
    return healthy(request);
  };
  SmokeOptions options;
  options.ready_wait = Seconds(60);
  EXPECT_EQ(run(loading, options).verdict, VerdictKind::pass);
}

TEST(RunSmoke, ThinkingIsSwitchedOffAndOnAgainForServersThatRefuse) {
  std::vector<Value> bodies;
  const ReplayModel model = [&](const ReplayRequest& request) {
    bodies.push_back(request.json);
    ReplayAnswer answer = healthy_answer(request);
    answer.reasoning = "Thinking about it.";
    if (request.json.contains("chat_template_kwargs")) answer.instead = error_reply(400, "unknown field", "x", false);
    return answer;
  };
  EXPECT_EQ(run(engine_surface("vllm", model)).verdict, VerdictKind::pass);
  EXPECT_TRUE(bodies.at(1).contains("chat_template_kwargs"));
  EXPECT_FALSE(bodies.at(2).contains("chat_template_kwargs"));
}

TEST(RunSmoke, TheDeadlineOfTheWholeTestEndsIt) {
  ManualClock clock;
  DirectHttp http(engine_surface("vllm", instead([] {
                                   ReplayReply reply;
                                   reply.ending = ReplayEnding::hang;
                                   return reply;
                                 }())),
                  clock);
  SmokeOptions options;
  options.url = "http://server:1";
  options.deadline = clock.steady() + Seconds(30);
  const SmokeReport report = run_smoke(http, clock, *shipped_rules(), options);
  EXPECT_EQ(report.symptom_class, "hang");
  EXPECT_LE(report.seconds, 31);
}

TEST(RunSmoke, AnInterruptedProbeSaysNothingAboutTheServer) {
  bool interrupted = false;
  SmokeOptions options;
  options.cancelled = [&] { return interrupted; };
  options.on_start = [&](const std::string& title) { interrupted = title != "ready"; };
  const SmokeReport report = run(engine_surface("vllm", always(nullptr, "stop", 2)), options);
  EXPECT_TRUE(report.cancelled);
  EXPECT_EQ(to_string(report.verdict), "inconclusive");
  EXPECT_EQ(report.symptom_class, "");
  EXPECT_EQ(report.probes.at(0).verdict, ProbeVerdict::pass);
  EXPECT_EQ(report.probes.at(1).verdict, ProbeVerdict::skipped);
}

TEST(RunSmoke, TheApiKeyIsSentAndNeverKept) {
  std::string kept;
  SmokeOptions options;
  options.api_key = "sk-very-secret";
  options.keep = [&](const std::string& name, std::string_view bytes) {
    kept += bytes;
    return name;
  };
  ManualClock clock;
  DirectHttp http(engine_surface("vllm", always(nullptr, "stop", 2)), clock);
  options.url = "http://server:1";
  run_smoke(http, clock, *shipped_rules(), options);
  EXPECT_EQ(http.requests.front().headers.at("Authorization"), "Bearer sk-very-secret");
  EXPECT_FALSE(kept.empty());
  EXPECT_EQ(kept.find("sk-very-secret"), std::string::npos);
}

TEST(RunSmoke, AWrongModelNameSuggestsTheServedOne) {
  SmokeOptions options;
  options.model = "qwen";
  const SmokeReport report = run(engine_surface("vllm", healthy_answer), options);
  EXPECT_EQ(report.symptom_class, "model_name_404");
  EXPECT_EQ(report.probes.front().summary, "'qwen' is not served; /v1/models lists 'replayed-model'");
}

TEST(RunSmoke, AShortContextIsDegraded) {
  SmokeOptions options;
  options.min_context = 8192;
  const SmokeReport report = run(engine_surface("llama.cpp", healthy_answer), options);
  EXPECT_EQ(to_string(report.verdict), "degraded");
  EXPECT_EQ(report.symptom_class, "context_too_small");
  EXPECT_EQ(report.probes.back().verdict, ProbeVerdict::pass);
}

TEST(RunSmoke, QuestionsCanBeReplaced) {
  SmokeOptions options;
  options.questions = {{"1", "Repeat this exactly: maple", {"maple"}}};
  EXPECT_EQ(run(engine_surface("vllm", healthy_answer), options).verdict, VerdictKind::pass);
}

TEST(SmokeJson, HasWhatScriptsNeed) {
  const Value json = to_json(run(engine_surface("sglang", always(nullptr, "stop", 2))));
  EXPECT_EQ(json.at("schema_version"), 1);
  EXPECT_EQ(json.at("verdict"), "fail");
  EXPECT_EQ(json.at("class"), "immediate_eos_null");
  EXPECT_EQ(json.at("first_remedy"), "a newer engine version");
  EXPECT_EQ(json.at("server").at("engine"), "sglang");
  EXPECT_EQ(json.at("server").at("version"), "0.5.9");
  EXPECT_EQ(json.at("probes").size(), 8u);
  EXPECT_EQ(json.at("probes").at(2).at("exchanges").size(), 5u);
}

}  // namespace
}  // namespace millwright
