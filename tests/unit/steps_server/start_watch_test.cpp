#include "steps/server/start_watch.hpp"

#include <gtest/gtest.h>

#include "orchestrator/base/text.hpp"
#include "steps/server/server_step.hpp"
#include "tests/unit/steps_core/fake_context.hpp"

namespace millwright {
namespace {

using testing_tools::FakeContext;

const std::string kRunning =
    "ActiveState=active\nSubState=running\nResult=success\nExecMainCode=0\nExecMainStatus=0\nNRestarts=0\n";

class StartWatchTest : public ::testing::Test {
 protected:
  StartWatchTest()
      : knowledge_(*load_knowledge({SOURCE_DIR "/playbooks/knowledge"})),
        profile_(engine_profile(knowledge_, "llama.cpp").value()),
        context_(Inputs(check_inputs(ServerStep(knowledge_).signature(), {{"model", "/srv/m.gguf"}}).value())),
        spec_(server_spec(profile_, context_.inputs()).value()) {
    context_.machine.on_run = [this](const std::string& script) { return node(script); };
    context_.web.on_send = [this](const HttpRequest& request) { return web(request); };
  }

  Result<Answer> node(const std::string& script) {
    if (script.find("journalctl -k") != std::string::npos) return Answer{0, kernel_, ""};
    if (script.find("journalctl -q -u") == std::string::npos) return Answer{0, holder_, ""};
    ++polls_;
    if (polls_ <= unanswered_) {
      if (polls_ % 2 == 0) return fail(ErrorKind::timeout, "a command did not end within 1 m 00 s");
      return Answer{1, "", "Failed to get properties: Connection timed out\n"};
    }
    std::string out = unit_ + "load " + (moves_ ? std::to_string(polls_) : "1") + "\n----\n" + log_;
    log_.clear();
    return Answer{0, out + "-- cursor: s=" + std::to_string(polls_) + "\n", ""};
  }

  Result<HttpResponse> web(const HttpRequest& request) {
    asked_.push_back(request.url.substr(request.url.find("/v1")));
    HttpResponse response;
    response.status = 200;
    if (ends_with(request.url, "/v1/models")) {
      response.body = R"({"data":[{"id":"tiny"}]})";
      return response;
    }
    // As a real client does, once a second, while nothing arrives.
    for (int second = 0; second < token_after_; ++second) {
      context_.time.elapsed += std::chrono::seconds(1);
      if (on_second_) on_second_(second);
      if (request.cancelled()) return fail(ErrorKind::interrupted, "cancelled");
    }
    response.status = token_status_;
    response.body = "{\"choices\":[{}]}";
    return response;
  }

  Result<Readiness> run() { return StartWatch(context_, spec_, profile_, "s=0").run(); }

  Knowledge knowledge_;
  EngineProfile profile_;
  FakeContext context_;
  ServerSpec spec_;
  std::string unit_ = kRunning;
  std::string log_ = "load_model: loading model\nsrv: server is listening on http://127.0.0.1:8080\n";
  std::string kernel_, holder_;
  bool moves_ = false;
  int polls_ = 0;
  int unanswered_ = 0;  // of the first
  int token_after_ = 0;
  int token_status_ = 200;
  std::function<void(int)> on_second_;
  std::vector<std::string> asked_;
};

TEST_F(StartWatchTest, ReadyIsALineAListOfModelsAndAToken) {
  const auto ready = run();
  ASSERT_TRUE(ready.has_value()) << ready.error().message;
  EXPECT_EQ(ready->served_name, "tiny");
  EXPECT_EQ(asked_, (std::vector<std::string>{"/v1/models", "/v1/completions"}));
}

TEST_F(StartWatchTest, ATokenMayTakeLongAsLongAsSomethingMoves) {
  token_after_ = 600;
  moves_ = true;
  EXPECT_TRUE(run().has_value());
  EXPECT_GT(polls_, 500) << "log and unit are followed meanwhile";
}

TEST_F(StartWatchTest, AServerThatAcceptsAndNeverAnswersHangs) {
  token_after_ = 100000;
  const auto stuck = run();
  ASSERT_FALSE(stuck.has_value());
  EXPECT_EQ(stuck.error().symptom_class, "hang");
  EXPECT_NE(stuck.error().message.find("nothing moved for 5 m 00 s while a first token was waited for"),
            std::string::npos)
      << stuck.error().message;
}

TEST_F(StartWatchTest, AServerThatDiesAtItsFirstRequestIsSeenAtOnce) {
  token_after_ = 100000;
  on_second_ = [this](int second) {
    if (second == 3)
      unit_ = "ActiveState=failed\nSubState=failed\nResult=core-dump\nExecMainCode=3\nExecMainStatus=11\n";
  };
  const auto died = run();
  ASSERT_FALSE(died.has_value());
  EXPECT_EQ(died.error().symptom_class, "segfault");
  EXPECT_LT(context_.time.elapsed, std::chrono::minutes(1));
}

TEST_F(StartWatchTest, AFirstAnswerOf500IsAFailureOfTheStart) {
  token_status_ = 500;
  EXPECT_EQ(run().error().symptom_class, "first_request_500");
}

TEST_F(StartWatchTest, AStartThatNeitherSaysNorLoadsAnythingHasFailed) {
  log_ = "load_tensors: ...\n";
  context_.web.on_send = [](const HttpRequest&) { return fail(ErrorKind::connect, "refused"); };
  const auto stuck = run();
  EXPECT_EQ(stuck.error().symptom_class, "start_timeout");
  EXPECT_NE(stuck.error().message.find("while reading the weights"), std::string::npos) << stuck.error().message;
  EXPECT_LT(context_.time.elapsed, std::chrono::minutes(6));
}

// Seen on a machine that ran out of memory: systemctl waits for 25 s and gives up.
TEST_F(StartWatchTest, ASystemdThatDoesNotAnswerInTimeIsAskedAgain) {
  unanswered_ = 5;
  EXPECT_TRUE(run().has_value());
  unanswered_ = 1000000;
  polls_ = 0;
  const auto stuck = run();
  ASSERT_FALSE(stuck.has_value());
  EXPECT_EQ(stuck.error().symptom_class, "start_timeout");
  EXPECT_NE(stuck.error().message.find("the node says of its unit: "), std::string::npos) << stuck.error().message;
}

TEST_F(StartWatchTest, WhoHoldsThePortIsNamed) {
  log_ = "couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 8080\n";
  unit_ = "ActiveState=failed\nSubState=failed\nResult=exit-code\nExecMainCode=1\nExecMainStatus=1\n";
  holder_ = "pid 77 (nginx, nginx.service)\n";
  const auto taken = run();
  EXPECT_EQ(taken.error().symptom_class, "port_taken");
  EXPECT_NE(taken.error().message.find("port 8080 by pid 77 (nginx, nginx.service)"), std::string::npos);
}

TEST_F(StartWatchTest, WhoseMemoryRanOutIsToldApart) {
  unit_ = "ActiveState=failed\nSubState=failed\nResult=oom-kill\nExecMainCode=2\nExecMainStatus=9\n";
  const std::string unit = "/system.slice/millwright-llm.service";
  const auto said = [&](const std::string& kernel, const std::string& log) {
    kernel_ = kernel;
    log_ = log;
    const auto killed = run();
    EXPECT_EQ(killed.error().symptom_class, "oom_killed");
    return killed.error().message;
  };
  const std::string head = "readable\noom-kill:constraint=";
  EXPECT_NE(
      said(head + "CONSTRAINT_MEMCG,oom_memcg=" + unit + ",task_memcg=" + unit + ",task=x", "").find("memory_max"),
      std::string::npos);
  EXPECT_NE(said(head + "CONSTRAINT_MEMCG,oom_memcg=/lxc/a,task_memcg=/lxc/a" + unit + ",task=x", "").find("container"),
            std::string::npos);
  EXPECT_NE(said(head + "CONSTRAINT_NONE,nodemask=(null),task_memcg=" + unit + ",task=x", "").find("host ran out"),
            std::string::npos);
  // In a container the kernel's log cannot be read, but the unit's own cgroup has counted.
  EXPECT_NE(said("", "millwright: memory: kills=1 limit=4\n").find("memory_max"), std::string::npos);
  EXPECT_NE(said("", "millwright: memory: kills=1 limit=0\n").find("memory ran out"), std::string::npos);
}

TEST_F(StartWatchTest, AKillThatWasNotForMemoryIsNotCalledSo) {
  unit_ = "ActiveState=failed\nSubState=failed\nResult=signal\nExecMainCode=2\nExecMainStatus=9\n";
  kernel_ = "readable\n";
  EXPECT_EQ(run().error().symptom_class, "start_failed");
  kernel_ = "";
  log_ = "x\n";
  EXPECT_EQ(run().error().symptom_class, "oom_killed") << "nothing says that it was not";
}

TEST_F(StartWatchTest, AGraveLineFailsTheStartWhileTheServerStillRuns) {
  log_ += "ggml_cuda: CUDA error: no kernel image is available for execution on the device\n";
  const auto ready = run();
  ASSERT_FALSE(ready.has_value());
  EXPECT_EQ(ready.error().symptom_class, "gpu_arch_unsupported");
  EXPECT_NE(ready.error().message.find("no kernel image is available"), std::string::npos) << ready.error().message;
  ASSERT_EQ(context_.probes.size(), 1U);
  EXPECT_EQ(context_.probes[0].at("verdict"), "fail");
}

TEST_F(StartWatchTest, AWarningIsKeptAndToldAndTheServerIsReady) {
  log_ = "load_tensors: offloaded 0/33 layers to GPU\nload: special_eos_id is not in special_eog_ids\n" + log_;
  const auto ready = StartWatch(context_, spec_, profile_, "s=0", "cuda").run();
  ASSERT_TRUE(ready.has_value()) << ready.error().message;
  ASSERT_EQ(ready->findings.size(), 2U);
  EXPECT_EQ(ready->findings[0].symptom_class, "silent_cpu");
  EXPECT_EQ(ready->findings[1].severity, SignSeverity::note);
  ASSERT_EQ(context_.probes.size(), 1U) << "a note is no test";
  EXPECT_EQ(context_.probes[0].at("class"), "silent_cpu");
  for (const char* key : {"name", "verdict", "summary", "seconds", "tokens", "expected", "got", "evidence"})
    EXPECT_TRUE(context_.probes[0].contains(key)) << key << " is in every event of a probe";
}

TEST_F(StartWatchTest, WhatIsMeantForTheProcessorMayRunThere) {
  log_ = "load_tensors: offloaded 0/33 layers to GPU\n" + log_;
  const auto ready = StartWatch(context_, spec_, profile_, "s=0", "cpu").run();
  ASSERT_TRUE(ready.has_value()) << ready.error().message;
  EXPECT_TRUE(ready->findings.empty());
}

TEST_F(StartWatchTest, AFirstAnswerThatFailsIsNamedByItsCause) {
  token_status_ = 500;
  log_ += "main: The chat template that comes with this model is not yet supported, falling back to chatml.\n";
  for (LogSign& sign : profile_.signs) {
    if (sign.id == "template-replaced") sign.explains = {"first_request_500"};
  }
  const auto ready = run();
  ASSERT_FALSE(ready.has_value());
  EXPECT_EQ(ready.error().symptom_class, "template_missing");
  EXPECT_NE(ready.error().message.find("its log says why"), std::string::npos) << ready.error().message;
}

}  // namespace
}  // namespace millwright
