#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "orchestrator/base/text.hpp"
#include "steps/server/launch_command.hpp"
#include "steps/server/planner/engine_facts.hpp"
#include "steps/server/release.hpp"
#include "steps/server/server_step.hpp"
#include "tests/unit/steps_core/fake_context.hpp"

namespace millwright {
namespace {

const Value kArchive = {{"method", "archive"}, {"url", "https://h/a.tar.gz"}, {"sha256", std::string(64, 'a')}};

class ServerTest : public ::testing::Test {
 protected:
  ServerTest()
      : knowledge_(*load_knowledge({SOURCE_DIR "/playbooks/knowledge"})),
        profile_(engine_profile(knowledge_, "llama.cpp").value()),
        step_(knowledge_) {}

  Inputs inputs(Value given) {
    if (!given.contains("model")) given["model"] = "/srv/m.gguf";
    return Inputs(check_inputs(step_.signature(), given).value());
  }
  Release release(const Value& given) {
    const auto spec = server_spec(profile_, inputs(given));
    EXPECT_TRUE(spec.has_value()) << spec.error().message;
    return make_release(*spec, profile_, "identity", "run");
  }

  Knowledge knowledge_;
  EngineProfile profile_;
  ServerStep step_;
};

TEST_F(ServerTest, InputsThatAreNotKnownYetAreNoReasonToStop) {
  const Value given = check_inputs(step_.signature(), {{"engine", "sglang"}, {"model", "/srv/m"}}).value();
  for (const auto& [name, value] : given.items()) {
    Value unknown = given;
    unknown[name] = nullptr;
    EXPECT_NO_THROW(step_.check(Inputs(unknown))) << name;
  }
}

TEST_F(ServerTest, LatestKnownGoodPrefersTheUsersOwnSources) {
  EXPECT_EQ(*resolve_version(profile_, inputs({})), profile_.known_good.front());
  EXPECT_EQ(*resolve_version(profile_, inputs({{"sources", {{"0.7.0", kArchive}}}})), "0.7.0");
  EXPECT_EQ(*resolve_version(profile_, inputs({{"sources", {{"0.7.0", kArchive}, {"2026.10.11549", kArchive}}}})),
            "2026.10.11549");
  EXPECT_EQ(*resolve_version(profile_, inputs({{"sources", {{"0.1.9", kArchive}, {"0.1.10", kArchive}}}})), "0.1.10");
  EXPECT_EQ(*resolve_version(profile_, inputs({{"version", "0.1.9"}, {"sources", {{"0.1.9", kArchive}}}})), "0.1.9");
  const auto unknown = resolve_version(profile_, inputs({{"version", "9.9"}}));
  ASSERT_FALSE(unknown.has_value());
  EXPECT_NE(unknown.error().hint.find("2026.10.11549"), std::string::npos);
}

TEST_F(ServerTest, ACommandHasTheEnginesOwnFlagsAndNoSecret) {
  const Release made = release({{"context", 4096},
                                {"served_name", "tiny"},
                                {"api_key", "s3cret-key"},
                                {"extra_flags", {"--jinja"}},
                                {"env", {{"A", "x \"y\""}}}});
  EXPECT_EQ(
      made.run,
      "#!/bin/sh\nexec /opt/millwright/engines/llama.cpp-2026.10.11549/bin/llama-server --model /srv/m.gguf --alias "
      "tiny "
      "--host 127.0.0.1 --port 8080 --ctx-size 4096 --api-key-file /var/lib/millwright/servers/llm/current/api_key "
      "--jinja\n");
  EXPECT_EQ(made.env, "A=\"x \\\"y\\\"\"\n");
  EXPECT_EQ(made.unit.find("s3cret"), std::string::npos);
  EXPECT_EQ(made.record.dump().find("s3cret"), std::string::npos);
}

// How Python engines are described; what they are called does not matter here.
EngineProfile python_engine() {
  EngineProfile out;
  out.id = "sglang";
  out.title = "SGLang";
  out.executable = "bin/serve";
  out.default_port = 30000;
  out.health = "/health";
  out.methods = Value::object();
  out.sources = {{"0.5.9", kArchive}};
  out.flags = {{"model", {"--model-path", "{value}"}},
               {"host", {"--host", "{value}"}},
               {"port", {"--port", "{value}"}},
               {"tensor_parallel", {"--tp-size", "{value}"}},
               {"tool_parser", {"--enable-tools", "--tool-call-parser", "{value}"}},
               {"speculative", {"--speculative-algorithm", "{value}"}},
               {"speculative_each", {"--speculative-{key}", "{value}"}}};
  out.env = {{"CUDA_HOME", "/usr"}, {"LD_LIBRARY_PATH", "{environment}/cuda"}};
  out.device_flags = {{"cpu", {"--device", "cpu", "--disable-overlap-schedule"}}};
  out.device_env = {{"cpu", {{"USE_CPU_ENGINE", "1"}}}};
  return out;
}

TEST_F(ServerTest, GenericInputsAreSpelledPerEngine) {
  const EngineProfile engine = python_engine();
  const auto words = [&](Value given) {
    given["version"] = "0.5.9";
    const auto spec = server_spec(engine, inputs(given));
    return join(command_words(*spec, engine), " ");
  };
  const std::string start = "--model-path /srv/m.gguf --host 127.0.0.1 --port 30000";
  EXPECT_EQ(words({{"tensor_parallel", 2}, {"tool_parser", "qwen25"}}),
            start + " --tp-size 2 --enable-tools --tool-call-parser qwen25");
  EXPECT_EQ(words({{"speculative", "EAGLE"}}), start + " --speculative-algorithm EAGLE");
  EXPECT_EQ(words({{"speculative", {{"algorithm", "EAGLE"}, {"num_steps", 3}}}}),
            start + " --speculative-algorithm EAGLE --speculative-num-steps 3");
  EXPECT_EQ(words({{"device", "cpu"}}), start + " --device cpu --disable-overlap-schedule");
  EXPECT_EQ(words({{"device", "auto"}}), start);
}

TEST_F(ServerTest, TheEnvironmentHasWhatTheEngineNeedsAndTheUsersOwnLast) {
  EngineProfile engine = python_engine();
  engine.api_key.env = "THE_KEY";
  const auto spec = server_spec(engine, inputs({{"version", "0.5.9"},
                                                {"device", "cpu"},
                                                {"api_key", "s3cret-key"},
                                                {"env", {{"CUDA_HOME", "/opt/cuda"}, {"A", 1}}}}));
  const Release made = make_release(*spec, engine, "identity", "run");
  EXPECT_EQ(made.env,
            "A=\"1\"\nCUDA_HOME=\"/opt/cuda\"\nLD_LIBRARY_PATH=\"/opt/millwright/engines/sglang-0.5.9/cuda\"\n"
            "THE_KEY=\"s3cret-key\"\nUSE_CPU_ENGINE=\"1\"\n");
  EXPECT_TRUE(made.api_key.empty());
  EXPECT_EQ((made.run + made.unit + made.record.dump()).find("s3cret"), std::string::npos);
}

TEST_F(ServerTest, AKeyGoesWhereTheEngineReadsIt) {
  EngineProfile engine = python_engine();
  engine.api_key.config_flag = {"--config", "{value}"};
  engine.api_key.config_content = "api-key: {value}\n";
  const auto spec = server_spec(engine, inputs({{"version", "0.5.9"}, {"api_key", "s3cret-key"}}));
  const Release made = make_release(*spec, engine, "identity", "run");
  EXPECT_NE(made.run.find("--config /var/lib/millwright/servers/llm/current/config.yaml"), std::string::npos);
  const Action placed = place_release_action(*spec, made, 1);
  const auto file = std::find_if(placed.files.begin(), placed.files.end(), [](const FilePlacement& one) {
    return one.path.find("/config.yaml") != std::string::npos;
  });
  ASSERT_NE(file, placed.files.end());
  EXPECT_EQ(*file->content, "api-key: \"s3cret-key\"\n");
  EXPECT_EQ(file->mode, "0640");
  EXPECT_EQ((made.run + made.unit + made.env + made.record.dump()).find("s3cret"), std::string::npos);
}

TEST_F(ServerTest, WhatAnEngineHasNoWordsForIsAnError) {
  const auto errors = step_.check(inputs({{"tool_parser", "hermes"}, {"tensor_parallel", 2}, {"device", "cuda"}}));
  ASSERT_EQ(errors.size(), 2U) << "GPUs are what every engine takes";
  EXPECT_EQ(errors[0].detail, "tensor_parallel");
  EXPECT_EQ(errors[1].detail, "tool_parser");
  EngineProfile silent = profile_;
  silent.device_flags.clear();
  EXPECT_EQ(unspellable(silent, inputs({{"device", "cpu"}})).at(0).detail, "device");
  EXPECT_EQ(step_.check(inputs({{"parallel", 2}, {"max_requests", 3}})).at(0).detail, "max_requests");
  EXPECT_EQ(step_.check(inputs({{"extra_flags", {"--api-key", "x"}}})).at(0).detail, "extra_flags");
}

TEST_F(ServerTest, AFlagThatThisVersionDoesNotHaveIsFoundBeforeAnythingStarts) {
  const Value sources = {{"0.7.0", kArchive}};
  const auto checked = [&](const Value& flags, const Value& from) {
    return step_.check(inputs({{"sources", from}, {"extra_flags", flags}}));
  };
  EXPECT_TRUE(checked({"--batch-size", "64", "-ngl", "-1", "--flash-attn=on"}, sources).empty());
  const auto wrong = checked({"--batch-sise", "64"}, sources);
  ASSERT_EQ(wrong.size(), 1U);
  EXPECT_EQ(wrong[0].symptom_class, "flag_unknown");
  EXPECT_EQ(wrong[0].detail, "extra_flags");
  EXPECT_NE(wrong[0].message.find("llama.cpp 0.7.0 has no flag --batch-sise"), std::string::npos) << wrong[0].message;
  EXPECT_EQ(wrong[0].hint, "did you mean --batch-size?");
  EXPECT_NE(checked({"--draft-max", "4"}, sources).at(0).message.find("versions <0.7.0 have it"), std::string::npos);
  EXPECT_NE(checked({"--batch_size", "64"}, sources).at(0).hint.find("--batch-size"), std::string::npos);
  // A wheel has the flags of its launcher, which are fewer.
  EXPECT_TRUE(checked({"--threads", "2", "--jinja"}, Value::object()).empty());
  const auto fewer = checked({"--batch-size", "64"}, Value::object());
  ASSERT_EQ(fewer.size(), 1U);
  EXPECT_NE(fewer[0].message.find("installed as a wheel"), std::string::npos);
  EXPECT_EQ(step_.check(inputs({{"kv_dtype", "q8_0"}})).at(0).detail, "kv_dtype");
}

TEST_F(ServerTest, FlagsOfAnotherTimeAreNamedByWhatTheyAreCalledNow) {
  const auto knowledge = load_knowledge(planner::planner_folders({SOURCE_DIR "/playbooks/knowledge"}));
  ASSERT_TRUE(knowledge.has_value());
  const EngineProfile engine = python_engine();
  const auto wrong = [&](const std::string& version, const std::vector<std::string>& words) {
    return unknown_flags(*engine_flags(*knowledge, engine, version), {{"extra_flags", words}});
  };
  EXPECT_TRUE(wrong("0.5.9", {"--cuda-graph-max-bs", "8", "--tp", "2"}).empty());
  const auto newer = wrong("0.5.9", {"--cuda-graph-max-bs-decode", "8"});
  ASSERT_EQ(newer.size(), 1U);
  EXPECT_NE(newer[0].message.find("SGLang 0.5.9 has no flag --cuda-graph-max-bs-decode (versions >=0.5.15 have it)"),
            std::string::npos)
      << newer[0].message;
  EXPECT_NE(newer[0].hint.find("--cuda-graph-max-bs"), std::string::npos);
  EXPECT_EQ(wrong("0.5.23", {"--cuda-graph-max-bs=8"}).size(), 1U);
  // A value that it cannot have, unless the version is one that nobody has looked at.
  const auto value = wrong("0.5.9", {"--mem-fraction-static", "1.5", "--speculative-algorithm=EAGEL"});
  ASSERT_EQ(value.size(), 2U);
  EXPECT_EQ(value[0].symptom_class, "flag_invalid");
  EXPECT_NE(value[1].hint.find("did you mean EAGLE"), std::string::npos) << value[1].hint;
  EXPECT_TRUE(wrong("9.9.9", {"--speculative-algorithm", "EAGEL"}).empty());
  EXPECT_TRUE(wrong("0.5.9", {"--speculative-algorithm", "EAGLE", "--mem-fraction-static=0.5"}).empty());
}

TEST_F(ServerTest, AMethodOfSpeculationThatTheVersionDoesNotHaveIsFoundByLint) {
  const auto of = [this](const Value& speculative) {
    return step_.check(inputs({{"engine", "vllm"},
                               {"version", "0.32.0"},
                               {"device", "cuda"},
                               {"model", "/srv/m"},
                               {"speculative", speculative}}));
  };
  EXPECT_TRUE(of({{"method", "mtp"}, {"num_speculative_tokens", 3}}).empty());
  const auto wrong = of({{"method", "mtpp"}, {"num_speculative_tokens", 3}});
  ASSERT_EQ(wrong.size(), 1U);
  EXPECT_EQ(wrong[0].detail, "speculative");
  EXPECT_NE(wrong[0].message.find("has no method of speculative-config 'mtpp'"), std::string::npos) << wrong[0].message;
}

TEST_F(ServerTest, WhatEnginesAreGivenTheirVersionsHave) {
  const auto knowledge = load_knowledge(planner::planner_folders({SOURCE_DIR "/playbooks/knowledge"}));
  ASSERT_TRUE(knowledge.has_value());
  const std::map<std::string, Value> generic = {
      {"context", 4096},         {"max_requests", 2},  {"tensor_parallel", 2},       {"kv_dtype", "auto"},
      {"tool_parser", "hermes"}, {"served_name", "m"}, {"reasoning_parser", "qwen3"}};
  int seen = 0;
  for (const std::string& name : known_engines(*knowledge)) {
    const EngineProfile engine = engine_profile(*knowledge, name).value();
    for (const auto& [version, source] : engine.sources.items()) {
      for (const char* device : {"cpu", "cuda"}) {
        Value given = {{"engine", name}, {"version", version}, {"device", device}};
        for (const auto& [input, value] : generic) {
          if (engine.flags.count(input) != 0) given[input] = value;
        }
        const auto spec = server_spec(engine, inputs(given));
        ASSERT_TRUE(spec.has_value()) << name << " " << version << ": " << spec.error().message;
        const auto known = engine_flags(*knowledge, engine, version);
        ASSERT_NE(known, nullptr) << name << " " << version;
        for (const Error& error : unknown_flags(*known, command_parts(*spec, engine)))
          ADD_FAILURE() << name << " " << version << ": " << error.message;
        ++seen;
      }
    }
  }
  EXPECT_GE(seen, 10);
}

TEST_F(ServerTest, WhateverMakesADifferenceMakesAnotherRelease) {
  const std::string same = release({}).digest;
  EXPECT_EQ(release({}).digest, same);
  for (const Value& given : {Value({{"port", 8081}}), Value({{"model_sha256", "b"}}), Value({{"env", {{"A", "1"}}}}),
                             Value({{"api_key", "abcd"}}), Value({{"extra_flags", {"--jinja"}}})}) {
    EXPECT_NE(release(given).digest, same) << given;
  }
}

TEST_F(ServerTest, WhatIsDeployedIsReadFromTheNode) {
  Answers answers;
  answers.set("current", {0, "releases/3\n", ""});
  answers.set("releases", {0,
                           "1 {\"model_sha256\":\"m\",\"made_by_run\":\"a\"}\n2 "
                           "{\"model_sha256\":\"m\",\"made_by_run\":\"b\"}\n10 \n3 {}\n",
                           ""});
  answers.set("record", {0, R"({"digest":"d","run_sha256":"r","unit_sha256":"u"})", ""});
  answers.set("files", {0, "r\nu\n", ""});
  answers.set("active", {0, "active\n", ""});
  for (const char* key : {"tampered", "environment_damage"}) answers.set(key, {0, "", ""});
  answers.set("enabled", {0, "enabled\n", ""});
  answers.set("model", {0, "there\n", ""});
  answers.set("gpus", {0, "", ""});
  answers.set("port", {0, "pid 77 (python3, web.service)\n", ""});
  const DeployedServer found = read_deployed(answers);
  EXPECT_EQ(found.current, 3);
  EXPECT_EQ(found.highest, 10);
  EXPECT_TRUE(found.files_unchanged);
  EXPECT_NE(found.port_holder.find("pid 77"), std::string::npos);
  EXPECT_EQ(release_before(found, "m", "b"), 1);
  EXPECT_EQ(release_before(found, "m", "c"), 2);
  EXPECT_EQ(release_before(found, "other", "c"), std::nullopt);
  answers.set("tampered", {0, "drop-in /etc/systemd/system/u.d/x.conf\n", ""});
  EXPECT_TRUE(read_deployed(answers).files_unchanged) << "a drop-in is the administrator's own way";
  EXPECT_EQ(read_deployed(answers).drop_ins, std::vector<std::string>{"/etc/systemd/system/u.d/x.conf"});
  for (const char* line : {"mode env\n", "changed run\n"}) {
    answers.set("tampered", {0, line, ""});
    EXPECT_FALSE(read_deployed(answers).files_unchanged) << line;
    EXPECT_EQ(read_deployed(answers).findings.size(), 1U) << line;
  }
  answers.set("tampered", {0, "", ""});
  answers.set("files", {0, "r\nx\n", ""});
  EXPECT_FALSE(read_deployed(answers).files_unchanged);
  answers.set("enabled", {0, "disabled\n", ""});
  EXPECT_FALSE(read_deployed(answers).enabled);
}

TEST_F(ServerTest, AddressesAndVariablesThatCannotBeAreFoundBeforeAnythingStarts) {
  const auto wrong = [this](const Value& given) {
    Value all = {{"model", "/srv/m.gguf"}};
    all.update(given);
    std::string out;
    for (const Error& error : step_.check(Inputs(check_inputs(step_.signature(), all).value())))
      out += error.detail + ": " + error.message + "\n";
    return out;
  };
  EXPECT_EQ(wrong({{"port", 8080}, {"host", "0.0.0.0"}, {"env", {{"A_1", "b c"}}}}), "");
  EXPECT_EQ(wrong({{"host", "::1"}}), "");
  EXPECT_EQ(wrong({{"host", "gpu1.example"}}), "");
  EXPECT_NE(wrong({{"port", 99999}}).find("port: there is no port 99999"), std::string::npos);
  EXPECT_NE(wrong({{"port", 0}}).find("port: there is no port 0"), std::string::npos);
  EXPECT_NE(wrong({{"host", "256.1.1.1"}}).find("host: '256.1.1.1' is no address"), std::string::npos);
  EXPECT_NE(wrong({{"env", {{"A B", "1"}}}}).find("env: 'A B' is no name"), std::string::npos);
  EXPECT_NE(wrong({{"env", {{"A", "1\n2"}}}}).find("line break"), std::string::npos);
}

TEST_F(ServerTest, OneThatDiesAgainAndAgainIsToldFromOneThatWasRestarted) {
  const auto loops = [](const std::string& active) {
    Answers answers;
    for (const char* key : {"current", "releases", "record", "files", "model", "gpus", "port", "tampered", "enabled",
                            "environment_damage"})
      answers.set(key, {0, "", ""});
    answers.set("active", {0, active, ""});
    return read_deployed(answers).dies_again_and_again;
  };
  EXPECT_TRUE(loops("active\n2 60\n"));
  EXPECT_FALSE(loops("active\n1 60\n")) << "once is no loop";
  EXPECT_FALSE(loops("active\n3 5000\n")) << "it has run for long since";
  EXPECT_FALSE(loops("active\n"));
}

TEST_F(ServerTest, EnvironmentsAreCompleteOrInstalledOrRefused) {
  const InstallJob job{"llama.cpp", "0.7.0", kArchive, "bin/llama-server", "", {}};
  Answers answers;
  answers.set("environment", {0, "", ""});
  answers.set("environment_damage", {0, "", ""});
  const auto fresh = plan_environment(job, answers);
  ASSERT_EQ(fresh->actions.size(), 1U);
  EXPECT_NE(fresh->actions[0].script.find("curl"), std::string::npos);
  answers.set("environment", {0, archive_installer().identity(job) + "\n", ""});
  EXPECT_TRUE(plan_environment(job, answers)->empty());
  answers.set("environment_damage", {0, "12 of its 400 files are gone\n", ""});
  const auto again = plan_environment(job, answers);
  ASSERT_EQ(again->actions.size(), 1U) << "what is there in part is made anew";
  EXPECT_EQ(again->actions[0].undo, "exit 0\n") << "and not taken away from a server that uses it";
  answers.set("environment", {0, "archive sha256:other\n", ""});
  EXPECT_EQ(plan_environment(job, answers).error().kind, ErrorKind::refused);
}

TEST_F(ServerTest, WheelsArePinnedAndPythonIsChecked) {
  const InstallJob job{"llama.cpp",        "2026.10.11549", profile_.sources.at("2026.10.11549"),
                       "bin/llama-server", "print()",       {}};
  Answers answers;
  answers.set("environment", {0, "", ""});
  answers.set("environment_damage", {0, "", ""});
  answers.set("python", {0, "3.11\nvenv\n", ""});
  answers.set("missing", {0, "", ""});
  const auto ready = plan_environment(job, answers);
  ASSERT_EQ(ready->actions.size(), 1U);
  EXPECT_NE(ready->actions[0].script.find("--require-hashes"), std::string::npos);
  answers.set("python", {0, "3.11\nbare\n", ""});
  answers.set("missing", {0, "libgomp1\npython3-venv\n", ""});
  EXPECT_EQ(plan_environment(job, answers)->actions.at(0).title, "install libgomp1, python3-venv");
  answers.set("python", {0, "3.9\nvenv\n", ""});
  EXPECT_NE(plan_environment(job, answers).error().message.find("needs Python 3.10"), std::string::npos);
}

TEST_F(ServerTest, AFolderIsNoModelOfAnEngineThatTakesAFile) {
  const auto run = [this](const char* engine, const std::string& there) {
    testing_tools::FakeContext context(inputs({{"engine", engine}, {"model", "/srv/models/gemma"}}));
    context.machine.on_run = [&](const std::string& script) {
      return Answer{0,
                    script.find("-d '/srv/models/gemma'") != std::string::npos ||
                            script.find("-d /srv/models/gemma") != std::string::npos
                        ? there
                        : "",
                    ""};
    };
    const auto done = step_.run(context);
    return done ? std::string() : done.error().message + " / " + done.error().hint;
  };
  const std::string folder = run("llama.cpp", "folder\n");
  EXPECT_NE(folder.find("/srv/models/gemma is a folder; llama.cpp takes one GGUF file"), std::string::npos) << folder;
  EXPECT_NE(folder.find("model: /srv/models/gemma/NAME.gguf"), std::string::npos) << folder;
  EXPECT_NE(run("llama.cpp", "").find("there is no model /srv/models/gemma"), std::string::npos);
  EXPECT_EQ(run("sglang", "folder\n").find("is a folder"), std::string::npos);
}

// One batch of questions and one request through the tunnel, of every engine: an HTTP answer is what "it runs" means,
// and nothing that is sure to be on a node could ask for it in the batch.
TEST_F(ServerTest, ASecondRunIsOneBatchAndOneRequest) {
  for (const char* engine : {"llama.cpp", "sglang", "vllm"}) {
    testing_tools::FakeContext context(inputs({{"engine", engine}, {"model", "/srv/m"}, {"device", "cpu"}}));
    const EngineProfile profile = engine_profile(knowledge_, engine).value();
    const auto spec = server_spec(profile, context.inputs());
    ASSERT_TRUE(spec.has_value()) << render(spec.error());
    const auto job = install_job(spec->engine, spec->version, spec->source, profile.executable);
    const std::string identity = find_installer(spec->source.at("method").get<std::string>())->identity(*job);
    Release there = make_release(*spec, profile, identity, "an earlier run");
    there.record["memory"] = {{"asked", there.digest}, {"flags", Value::array()}};
    std::map<std::string, std::string> says = {{"current", "releases/1\n"},
                                               {"releases", "1 " + there.record.dump() + "\n"},
                                               {"record", there.record.dump(2) + "\n"},
                                               {"files", there.record.at("run_sha256").get<std::string>() + "\n" +
                                                             there.record.at("unit_sha256").get<std::string>() + "\n"},
                                               {"enabled", "enabled\n"},
                                               {"active", "active\n0 4000\n"},
                                               {"model", std::string(engine) == "llama.cpp" ? "there\n" : "folder\n"}};
    std::map<std::string, std::string> by_script;
    for (const Question& question : deployed_questions(*spec)) by_script[question.script] = says[question.key];
    context.machine.on_run = [&](const std::string& script) {
      EXPECT_EQ(by_script.count(script), 1U) << "asked besides: " << script;
      return Answer{0, by_script[script], ""};
    };
    int requests = 0;
    context.web.on_send = [&](const HttpRequest& request) {
      ++requests;
      EXPECT_TRUE(ends_with(request.url, "/v1/models"));
      HttpResponse response;
      response.status = 200;
      response.complete = true;
      response.body = R"({"data": [{"id": "m"}]})";
      return response;
    };
    const auto done = step_.run(context);
    ASSERT_TRUE(done.has_value()) << engine << ": " << render(done.error());
    EXPECT_EQ(done->state, StepState::ok) << engine;
    EXPECT_EQ(context.machine.batches, 1) << engine;
    EXPECT_EQ(context.machine.tunnels.size(), 1U) << engine;
    EXPECT_EQ(requests, 1) << engine;
    EXPECT_TRUE(context.acted.empty()) << engine;
  }
}

TEST_F(ServerTest, WrongInputsAreNamed) {
  const auto errors = step_.check(
      inputs({{"name", "Not Good"}, {"sources", {{"1", {{"method", "magic"}}}, {"2", {{"method", "archive"}}}}}}));
  ASSERT_EQ(errors.size(), 4U);
  EXPECT_EQ(errors[0].detail, "name");
  EXPECT_NE(errors[1].message.find("version 1"), std::string::npos);
  // What is not known before the run is not wrong.
  EXPECT_TRUE(step_.check(inputs({{"sources", {{"2", {{"method", "archive"}, {"path", nullptr}}}}}})).empty());
}

}  // namespace
}  // namespace millwright
