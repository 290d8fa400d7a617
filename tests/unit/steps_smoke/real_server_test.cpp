// The same cases over real sockets with the real HTTP client: what a reader of bytes cannot show (cut connections,
// resets, silence, drips, a closed port) happens here for real.
#include <gtest/gtest.h>

#include <thread>

#include "orchestrator/transport/curl_http.hpp"
#include "rules_fixture.hpp"
#include "smoke_cases.hpp"
#include "steps/smoke/smoke.hpp"
#include "tests/support/replay_case.hpp"
#include "tests/support/replay_surface.hpp"

namespace millwright {
namespace {

// The shipped rules with a deadline that a test can wait for.
const SmokeRules& quick_rules() {
  static const SmokeRules rules = [] {
    SmokeRules copy = *shipped_rules();
    copy.request_timeout = Milliseconds(2500);
    return copy;
  }();
  return rules;
}

SmokeReport run_on(const std::string& url, SmokeOptions options = {}) {
  SystemClock clock;
  const auto http = make_curl_http_client();
  options.url = url;
  options.first_token_timeout = Milliseconds(2500);
  return run_smoke(*http, clock, quick_rules(), options);
}

TEST(RealServer, EveryCaseGetsItsVerdictAndClass) {
  for (const SmokeCase& c : smoke_cases()) {
    if (c.symptom_class.empty() && c.verdict != "pass") continue;
    ReplayServer server(c.behaviour);
    const SmokeReport report = run_on(server.url());
    EXPECT_EQ(to_string(report.verdict), c.verdict) << c.name << "\n" << to_json(report).dump(1);
    EXPECT_EQ(report.symptom_class, c.symptom_class) << c.name;
  }
}

void replay_public_cases(const std::string& level) {
  for (const ReplayCase& row : load_replay_cases(std::string(TEST_DATA) + "/smoke/cases")) {
    if (row.level != level) continue;
    ReplayServer* self = nullptr;
    ReplayServer server([&self, behaviour = replay_of(row)](const ReplayRequest& request) {
      ReplayReply reply = behaviour(request);
      if (reply.ending == ReplayEnding::refuse) self->close_port();  // the process is gone, not one connection
      return reply;
    });
    self = &server;
    SmokeOptions options;
    options.level = level;
    const SmokeReport report = run_on(server.url(), options);
    EXPECT_EQ(to_string(report.verdict), row.verdict) << row.place << " " << row.id;
    EXPECT_EQ(report.symptom_class, row.observed) << row.place << " " << row.id;
  }
}

TEST(RealServer, PublicCasesOfTheQuickLevel) { replay_public_cases("quick"); }

TEST(RealServer, PublicCasesOfTheStandardLevel) { replay_public_cases("standard"); }

TEST(RealServer, RecordedServersOfARealEngine) {
  const auto symptom = [](const std::string& name) {
    ReplayServer server(recorded(std::string(TEST_DATA) + "/smoke/llama_cpp_" + name + ".ndjson"));
    return run_on(server.url()).symptom_class;
  };
  EXPECT_EQ(symptom("ok"), "");
  EXPECT_EQ(symptom("bits"), "null_content");
  EXPECT_EQ(symptom("swap"), "gibberish");
  EXPECT_EQ(symptom("nan"), "gibberish");
}

// Of real engines: tests/lab/test_serve.py, by the hundred.
TEST(RealServer, HealthyOnesAreNeverAccused) {
  for (const char* engine : {"llama.cpp", "vllm", "sglang"}) {
    ReplayServer server(engine_surface(engine, healthy_answer));
    for (int i = 0; i < 5; ++i) {
      for (const char* level : {"quick", "standard"}) {
        SmokeOptions options;
        options.level = level;
        const SmokeReport report = run_on(server.url(), options);
        ASSERT_EQ(report.verdict, VerdictKind::pass) << engine << " " << level << " " << to_json(report).dump(1);
      }
    }
  }
}

TEST(RealServer, AClosedPortIsNamedAtOnce) {
  int port = 0;
  {
    ReplayServer server(engine_surface("vllm", healthy_answer));
    port = server.port();
  }
  const SmokeReport report = run_on("http://127.0.0.1:" + std::to_string(port));
  EXPECT_EQ(report.symptom_class, "not_listening");
  EXPECT_EQ(report.verdict, VerdictKind::fail);
  EXPECT_LT(report.seconds, 2);
}

TEST(RealServer, AServerThatDiesIsToldFromOneThatNeverWas) {
  ReplayServer* running = nullptr;
  const ReplayBehaviour healthy = engine_surface("vllm", healthy_answer);
  ReplayServer server([&](const ReplayRequest& request) {
    if (request.number == 4) running->close_port();
    return healthy(request);
  });
  running = &server;
  const SmokeReport report = run_on(server.url());
  EXPECT_EQ(report.verdict, VerdictKind::fail);
  EXPECT_EQ(report.symptom_class, "server_died") << to_json(report).dump(1);
}

TEST(RealServer, AResetAndAnEmptyReplyAtTheFirstChatAreAFailedFirstRequest) {
  for (const ReplayEnding ending : {ReplayEnding::refuse, ReplayEnding::reset}) {
    ReplayReply reply;
    if (ending == ReplayEnding::reset) reply = text_reply("{\"choices\":");
    reply.ending = ending;
    ReplayServer server(engine_surface("vllm", instead(reply)));
    const SmokeReport report = run_on(server.url());
    EXPECT_EQ(report.verdict, VerdictKind::fail);
    EXPECT_EQ(report.symptom_class, ending == ReplayEnding::refuse ? "first_request_500" : "cut_response")
        << to_json(report).dump(1);
  }
}

TEST(RealServer, ASlowDripIsTooSlowAndEndsInTime) {
  ReplayReply drip = text_reply("");
  for (int i = 0; i < 100; ++i) drip.pieces.push_back({" ", Milliseconds(100)});
  ReplayServer server(engine_surface("vllm", instead(drip)));
  const SmokeReport report = run_on(server.url());
  EXPECT_EQ(report.symptom_class, "too_slow");
  EXPECT_EQ(report.verdict, VerdictKind::inconclusive);
  EXPECT_LT(report.seconds, 6);
}

TEST(RealServer, AStreamWithoutEndIsLeftInTime) {
  ReplayReply endless;
  endless.content_type = "text/event-stream";
  for (int i = 0; i < 200; ++i) endless.pieces.push_back({": ping\n\n", Milliseconds(50)});
  const ReplayBehaviour healthy = engine_surface("vllm", healthy_answer);
  ReplayServer server(
      [=](const ReplayRequest& request) { return request.flag("stream") ? endless : healthy(request); });
  const SmokeReport report = run_on(server.url());
  EXPECT_NE(report.verdict, VerdictKind::pass);
  EXPECT_LT(report.seconds, 8);
}

TEST(RealServer, GoodFirstThenBadForAllIsSeenByTheNextTest) {
  bool poisoned = false;
  ReplayServer server(engine_surface("vllm", [&](const ReplayRequest& request) {
    return poisoned ? always(std::string(64, '!'), "length", 64)(request) : healthy_answer(request);
  }));
  EXPECT_EQ(run_on(server.url()).verdict, VerdictKind::pass);
  poisoned = true;
  EXPECT_EQ(run_on(server.url()).symptom_class, "single_token_loop");
}

TEST(RealServer, WhatIsAskedIsWhatServersUnderstand) {
  ReplayServer server(engine_surface("vllm", healthy_answer));
  SmokeOptions options;
  options.api_key = "sk-1234";
  run_on(server.url() + "/v1/", options);
  int chats = 0;
  for (const ReplayRequest& request : server.requests()) {
    EXPECT_EQ(request.headers.at("authorization"), "Bearer sk-1234");
    if (request.path != "/v1/chat/completions") continue;
    ++chats;
    EXPECT_EQ(request.method, "POST");
    EXPECT_EQ(request.headers.at("content-type"), "application/json");
    EXPECT_EQ(request.json.at("model"), "replayed-model");
    EXPECT_EQ(request.json.at("temperature"), 0);
  }
  EXPECT_EQ(chats, 9);
}

}  // namespace
}  // namespace millwright
