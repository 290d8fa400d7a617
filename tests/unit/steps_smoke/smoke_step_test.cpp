#include "steps/smoke/smoke_step.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include "direct_http.hpp"

#include "orchestrator/base/redact.hpp"
#include "orchestrator/base/text.hpp"
#include "rules_fixture.hpp"
#include "steps/smoke/server_log.hpp"
#include "tests/support/replay_surface.hpp"
#include "tests/unit/steps_core/real_shell.hpp"

namespace millwright {
namespace {

class MemoryTunnel final : public NodeTunnel {
 public:
  std::string base_url() const override { return "http://127.0.0.1:43121"; }
};

class MemoryNode final : public StepNode {
 public:
  std::string name() const override { return "gpu1/llm"; }
  Result<Answer> run(const NodeCommand& command) override {
    ran.push_back(command.script);
    Answer answer;
    if (command.script.find("journalctl") != std::string::npos) answer.out = log;
    return answer;
  }
  Result<std::vector<Answer>> run_all(const std::vector<NodeCommand>& commands) override {
    return std::vector<Answer>(commands.size());
  }
  Result<void> place(const FilePlacement&, const std::function<void(std::uint64_t, std::uint64_t)>&) override {
    return {};
  }
  Result<std::string> read(const std::string&, std::uint64_t) override { return std::string(); }
  Result<std::unique_ptr<NodeTunnel>> tunnel(const std::string& host, int port) override {
    opened = host + ":" + std::to_string(port);
    ++tunnels;
    if (unreachable) return fail(ErrorKind::connect, "connection lost");
    return std::make_unique<MemoryTunnel>();
  }
  Result<void> reconnect(Milliseconds) override { return {}; }
  std::string opened;
  std::string log;  // what is printed of the server's log
  std::vector<std::string> ran;
  int tunnels = 0;
  bool unreachable = false;
};

// Remembers what the step said and kept, in order.
class MemoryContext final : public StepContext {
 public:
  MemoryContext(Value given, const Signature& signature, ReplayBehaviour behaviour)
      : http_(std::move(behaviour), clock_), inputs_(check_inputs(signature, given).value()) {}

  const Inputs& inputs() const override { return inputs_; }
  StepNode& node() override { return memory_node; }
  HttpClient& http() override { return http_; }
  Clock& clock() override { return clock_; }
  SteadyPoint deadline() const override { return clock_.steady() + std::chrono::hours(1); }
  bool cancelled() const override { return cancel; }
  std::string run_id() const override { return "run"; }
  std::string step_id() const override { return "smoke"; }
  void progress(std::string text, std::optional<double>) override { said.push_back(std::move(text)); }
  void output(Stream, std::string_view) override {}
  void probe_finished(const Value& data) override { probes.push_back(data); }
  std::string keep(const std::string& name, std::string_view bytes) override {
    kept[name] = std::string(bytes);
    return "evidence/" + name;
  }
  Result<Change> converge(const std::vector<Question>&, const std::function<Result<Change>(const Answers&)>&) override {
    return fail(ErrorKind::internal, "a smoke test changes nothing");
  }
  Result<Answer> act(const Action&) override { return fail(ErrorKind::internal, "a smoke test changes nothing"); }

  MemoryNode memory_node;
  std::vector<std::string> said;
  std::vector<Value> probes;
  std::map<std::string, std::string> kept;
  bool cancel = false;

  const DirectHttp& asked() const { return http_; }

 private:
  ManualClock clock_;
  DirectHttp http_;
  Inputs inputs_;
};

TEST(SmokeStep, AHealthyServerPassesThroughTheTunnel) {
  const SmokeStep step(shipped_rules());
  MemoryContext context({{"endpoint", "http://127.0.0.1:8080/v1"}}, step.signature(),
                        engine_surface("llama.cpp", healthy_answer));
  const auto outcome = step.run(context);
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->verdict->kind, VerdictKind::pass);
  EXPECT_EQ(context.memory_node.opened, "127.0.0.1:8080");
  EXPECT_EQ(context.asked().requests.front().url, "http://127.0.0.1:43121/v1/models");
  EXPECT_EQ(context.probes.size(), 7u);
  EXPECT_TRUE(context.kept.empty());
  EXPECT_EQ(outcome->outputs.at("verdict"), "pass");
  ASSERT_EQ(context.memory_node.ran.size(), 2u) << "the log is read, and the release is marked as verified";
  EXPECT_NE(context.memory_node.ran[1].find("verified"), std::string::npos);
}

TEST(SmokeStep, AFailedTestIsAVerdictWithEvidenceNotAnError) {
  const SmokeStep step(shipped_rules());
  MemoryContext context({{"endpoint", "http://0.0.0.0:30000"}}, step.signature(),
                        engine_surface("sglang", always(nullptr, "stop", 2)));
  const auto outcome = step.run(context);
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->verdict->kind, VerdictKind::fail);
  EXPECT_EQ(outcome->verdict->symptom_class, "immediate_eos_null");
  EXPECT_EQ(outcome->verdict->sentence,
            "The server is up and answers nothing. Asked \"What is the capital of France? Answer with one word.\", got "
            "content null, reasoning null, stop after 2 tokens");
  EXPECT_EQ(context.kept.size(), 5u);
  EXPECT_NE(context.kept.at("known_answers-capital.txt").find("\"content\":null"), std::string::npos);
  EXPECT_EQ(outcome->outputs.at("report").at("probes").at(2).at("exchanges").at(0).at("evidence"),
            "evidence/known_answers-capital.txt");
  ASSERT_EQ(context.memory_node.ran.size(), 1u) << "what has failed is not marked";
  EXPECT_NE(context.memory_node.ran[0].find("journalctl"), std::string::npos);
  EXPECT_EQ(context.probes.at(2).at("class"), "immediate_eos_null");
  EXPECT_EQ(context.probes.at(2).at("expected"), "Paris");
}

TEST(SmokeStep, AnUnreachableNodeIsAnError) {
  const SmokeStep step(shipped_rules());
  MemoryContext context({{"endpoint", "http://127.0.0.1:8080"}}, step.signature(),
                        engine_surface("vllm", healthy_answer));
  context.memory_node.unreachable = true;
  const auto outcome = step.run(context);
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().kind, ErrorKind::connect);
}

TEST(SmokeStep, TheTimesOfRecheckAreWaitedForAndTheWayIsOpenedAgain) {
  const SmokeStep step(shipped_rules());
  MemoryContext context({{"endpoint", "http://127.0.0.1:8080"}, {"recheck", {"10m", "40m"}}}, step.signature(),
                        engine_surface("vllm", healthy_answer));
  const auto outcome = step.run(context);
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->verdict->kind, VerdictKind::pass) << outcome->verdict->sentence;
  EXPECT_EQ(context.memory_node.tunnels, 3);
  EXPECT_GE(context.clock().steady() - ManualClock().steady(), std::chrono::minutes(40));
  EXPECT_EQ(context.probes.back().at("name"), "known_answers_after_40m");
  EXPECT_NE(std::find(context.said.begin(), context.said.end(), "known answers again in 10 m 00 s"),
            context.said.end());
}

TEST(SmokeStep, ADeadlineOfThePlaybookEndsTheWaiting) {
  const SmokeStep step(shipped_rules());
  MemoryContext context({{"url", "http://server:1"}, {"recheck", {"3h"}}}, step.signature(),
                        engine_surface("vllm", healthy_answer));
  const auto outcome = step.run(context);  // the context's deadline is an hour
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->verdict->kind, VerdictKind::inconclusive);
}

TEST(SmokeStep, CancellingIsInterruptedNotAVerdict) {
  const SmokeStep step(shipped_rules());
  MemoryContext context({{"url", "http://server:1"}}, step.signature(), engine_surface("vllm", healthy_answer));
  context.cancel = true;
  const auto outcome = step.run(context);
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().kind, ErrorKind::interrupted);
}

TEST(SmokeStep, TheKeyIsRedactedInEvidenceEvenWhenTheServerRepeatsIt) {
  const SmokeStep step(shipped_rules());
  MemoryContext context({{"url", "http://server:1"}, {"api_key", "sk-step-secret"}}, step.signature(),
                        engine_surface("vllm", instead(error_reply(400, "bad key sk-step-secret", "x", false))));
  ASSERT_TRUE(step.run(context).has_value());
  ASSERT_EQ(context.kept.size(), 1u);
  EXPECT_EQ(context.kept.begin()->second.find("sk-step-secret"), std::string::npos);
}

// The log of a server of ours, as server_log_script prints it.
std::string printed_log(const std::string& device, const std::string& lines) {
  return Value({{"engine", "sglang"}, {"device", device}}).dump() + "\ngpus\n----\n" + lines;
}

class SmokeStepLog : public ::testing::Test {
 protected:
  Result<StepOutcome> run(ReplayModel model, const std::string& log) {
    const SmokeStep step(shipped_rules(), log_signs(shipped_knowledge(), "").value());
    context_.emplace(Value{{"endpoint", "http://127.0.0.1:30000/v1"}}, step.signature(),
                     engine_surface("sglang", std::move(model)));
    context_->memory_node.log = log;
    return step.run(*context_);
  }
  std::optional<MemoryContext> context_;
};

TEST_F(SmokeStepLog, AWarningOfTheLogDegradesWhatPasses) {
  const auto outcome =
      run(healthy_answer, printed_log("cuda", "NaN in the logits\nCasting torch.bfloat16 to torch.float16\n"));
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->verdict->kind, VerdictKind::degraded);
  EXPECT_EQ(outcome->verdict->symptom_class, "nan_logits");
  EXPECT_NE(outcome->verdict->sentence.find("NaN in place of probabilities"), std::string::npos)
      << outcome->verdict->sentence;
  EXPECT_EQ(context_->probes.back().at("name"), "server_log");
  EXPECT_EQ(context_->probes.back().at("evidence"), "evidence/server.log");
  EXPECT_EQ(context_->kept.count("server.log"), 1u);
  EXPECT_EQ(outcome->outputs.at("report").at("probes").back().at("notes").size(), 1u);
}

TEST_F(SmokeStepLog, ANoteChangesNothing) {
  const auto outcome = run(healthy_answer, printed_log("cuda", "Casting torch.bfloat16 to torch.float16\n"));
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->verdict->kind, VerdictKind::pass);
  EXPECT_TRUE(context_->kept.empty());
  EXPECT_EQ(context_->probes.size(), 8u);
}

TEST_F(SmokeStepLog, AGraveLineFailsWhatPasses) {
  const auto outcome =
      run(healthy_answer, printed_log("cuda", "NCCL error: unhandled cuda error, NCCL version 2.27\n"));
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->verdict->kind, VerdictKind::fail);
  EXPECT_EQ(outcome->verdict->symptom_class, "nccl_failed");
}

TEST_F(SmokeStepLog, GarbageThatTheLogExplainsHasTheClassOfItsCause) {
  const auto outcome =
      run(always("!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!", "length", 64),
          printed_log("cuda", "Parameter model.layers.3.mlp.up_proj.weight not found in params_dict\n"));
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->verdict->kind, VerdictKind::fail);
  EXPECT_EQ(outcome->verdict->symptom_class, "weights_missing");
  EXPECT_NE(outcome->verdict->sentence.find("Seen as single_token_loop"), std::string::npos)
      << outcome->verdict->sentence;
  EXPECT_NE(outcome->verdict->sentence.find("such as model.layers.3.mlp.up_proj.weight"), std::string::npos);
}

TEST_F(SmokeStepLog, NanIsNamedBesideALoopWhoseClassStays) {
  const auto outcome = run(always("!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!", "length", 64),
                           printed_log("cuda", "NaN in the logits\n"));
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->verdict->symptom_class, "single_token_loop");
  EXPECT_NE(outcome->verdict->sentence.find("Its log: the model computed NaN"), std::string::npos)
      << outcome->verdict->sentence;
  EXPECT_EQ(context_->kept.count("server.log"), 1u);
}

TEST_F(SmokeStepLog, ALogThatCannotBeReadIsNoProbe) {
  for (const std::string& log : {std::string(), std::string("nonsense\n----\n"), printed_log("cuda", "")}) {
    const auto outcome = run(healthy_answer, log);
    ASSERT_TRUE(outcome.has_value());
    EXPECT_EQ(outcome->verdict->kind, VerdictKind::pass);
    EXPECT_EQ(context_->probes.size(), 7u) << log;
  }
}

TEST(SmokeStep, InputsAreCheckedBeforeAnythingIsAsked) {
  const SmokeStep step(shipped_rules());
  const auto errors = [&](Value given) {
    std::vector<std::string> names;
    const auto checked = check_inputs(step.signature(), given);
    for (const Error& error : step.check(Inputs(checked.value()))) names.push_back(error.detail);
    return names;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(errors({{"endpoint", "http://h:1"}}), Names{});
  EXPECT_EQ(errors({{"endpoint", "http://h:1"}, {"url", "http://h:1"}}), Names{"url"});
  EXPECT_EQ(errors({{"endpoint", "http://h:99999"}}), Names{"endpoint"});
  EXPECT_EQ(errors({{"url", "ftp://h"}}), Names{"url"});
  EXPECT_EQ(errors({{"url", "http://h"}, {"questions", {{{"ask", "x"}}}}}), Names{"questions"});
  EXPECT_EQ(errors({{"url", "http://h"}, {"recheck", {"10m", "1h"}}}), Names{});
  EXPECT_EQ(errors({{"url", "http://h"}, {"recheck", {"10m", "2d"}}}), Names{"recheck"});
}

TEST(MarkVerified, OnlyTheReleaseThatAnswersThereIsMarked) {
  const testing_tools::RealShell shell;
  for (const char* name : {"a", "b"}) {
    shell.write(std::string("servers/") + name + "/releases/1/health",
                std::string("http://127.0.0.1:") + (name[0] == 'a' ? "8080" : "80801") + "/health\n");
    std::filesystem::create_symlink("releases/1", shell.path(std::string("servers/") + name + "/current"));
  }
  const std::string script =
      replace_all(mark_verified_script("http://127.0.0.1:8080/v1", "pass", "2026-11-30T10:00:00Z", "r1"),
                  "/var/lib/millwright", shell.path(""));
  EXPECT_TRUE(shell.run(script, "-eu").ok());
  EXPECT_EQ(shell.read("servers/a/releases/1/verified"), "pass 2026-11-30T10:00:00Z r1\n");
  EXPECT_FALSE(std::filesystem::exists(shell.path("servers/b/releases/1/verified")));
  // Where nothing of ours is, nothing happens.
  EXPECT_TRUE(shell.run(mark_verified_script("http://127.0.0.1:1/v1", "pass", "t", "r"), "-eu").ok());
}

TEST(ServerLog, TheLogOfTheServerThatAnswersThereSinceItsStart) {
  const testing_tools::RealShell shell;
  for (const char* name : {"a", "b"}) {
    const std::string release = std::string("servers/") + name + "/releases/1/";
    shell.write(release + "health",
                std::string("http://127.0.0.1:") + (name[0] == 'a' ? "8080" : "80801") + "/health\n");
    shell.write(release + "release.json", std::string("{\n\"engine\": \"vllm\",\n\"device\": \"cpu\"\n}\n"));
    std::filesystem::create_symlink("releases/1", shell.path(std::string("servers/") + name + "/current"));
  }
  const std::string fakes =
      "systemctl() { case \"$*\" in *millwright-a.service) echo a1b2 ;; *) echo other ;; esac; }\n"
      "journalctl() { echo \"asked $*\"; echo 'NaN in the logits'; "
      "awk 'BEGIN { for (i = 0; i < 60000; i++) print \"filler line\" }'; echo 'NCCL error: internal error'; }\n";
  const auto script = [&](const std::string& endpoint) {
    return fakes + replace_all(server_log_script(endpoint), "/var/lib/millwright", shell.path(""));
  };
  const Answer answer = shell.run(script("http://127.0.0.1:8080/v1"), "-eu");
  ASSERT_TRUE(answer.ok()) << answer.err;
  EXPECT_NE(answer.out.find("asked -q _SYSTEMD_INVOCATION_ID=a1b2 "), std::string::npos);
  EXPECT_LT(answer.out.size(), 400000u);
  const auto look = read_server_log(log_signs(shipped_knowledge(), "").value(), answer.out);
  ASSERT_TRUE(look.has_value());
  ASSERT_EQ(look->findings.size(), 2u) << "its beginning and its end";
  EXPECT_EQ(look->findings[0].symptom_class, "nccl_failed");
  EXPECT_EQ(look->findings[1].symptom_class, "nan_logits");
  EXPECT_EQ(shell.run(script("http://127.0.0.1:1/v1"), "-eu").out, "");
}

TEST(SplitEndpoint, TakesWhatPeopleWrite) {
  EXPECT_EQ(split_endpoint("http://[::1]:8080/v1")->host, "::1");
  EXPECT_EQ(split_endpoint("10.0.0.5:30000")->port, 30000);
  EXPECT_EQ(split_endpoint("https://h/x")->port, 443);
  EXPECT_EQ(split_endpoint("http://0.0.0.0:1/v1")->host, "127.0.0.1");
  EXPECT_FALSE(split_endpoint("").has_value());
  EXPECT_FALSE(split_endpoint("http://:80").has_value());
  EXPECT_FALSE(split_endpoint("http://h:x").has_value());
}

}  // namespace
}  // namespace millwright
