// What an earlier start taught, and what the user says now.
#include "steps/server/memory_tuning.hpp"

#include <gtest/gtest.h>
#include <openssl/evp.h>

#include "orchestrator/base/text.hpp"
#include "steps/server/server_step.hpp"
#include "tests/unit/planner/planner_test_data.hpp"
#include "tests/unit/steps_core/fake_context.hpp"

namespace millwright {
namespace {

using testing_tools::FakeContext;
using Words = std::vector<std::string>;

class MemoryTuningTest : public ::testing::Test {
 protected:
  MemoryTuningTest() : base_(*load_knowledge({SOURCE_DIR "/playbooks/knowledge"})) {}

  // The extra flags with which a first start would be made.
  Words started_with(Value given) {
    given["engine"] = given.value("engine", "sglang");
    given["model"] = "/srv/model";
    given["device"] = device_;
    const EngineProfile profile = engine_profile(base_, given.at("engine").get<std::string>()).value();
    FakeContext context(Inputs(check_inputs(ServerStep(base_).signature(), given).value()));
    asked_ = 0;
    context.machine.on_run = [this](const std::string& script) {
      if (script.find("/sys/fs/cgroup") != std::string::npos) return Answer{0, host_, ""};
      if (script.find("/var/lib/millwright/learned") == std::string::npos) {
        model_asked_ = true;
        return Answer{0, "no folder\n", ""};
      }
      ++asked_;
      return Answer{0, learned_.dump(2) + "\n", ""};
    };
    ServerSpec spec = server_spec(profile, context.inputs()).value();
    MemoryTuning tuning(planner::shipped(), context, profile, spec, "");
    const auto begun = tuning.begin("the wish", DeployedServer{});
    EXPECT_TRUE(begun.has_value()) << render(begun.error());
    return spec.extra_flags;
  }

  Knowledge base_;
  Value learned_ = {{"flags", {{{"name", "mem-fraction-static"}, {"value", "0.02"}, {"reason", "more"}}}},
                    {"instead_of", {{"mem-fraction-static", "0.005"}}}};
  int asked_ = 0;
  std::string device_ = "cpu";
  std::string host_;  // what the node says of its limits
  bool model_asked_ = false;
};

TEST_F(MemoryTuningTest, what_failed_once_is_not_tried_again) {
  const Words learned = {"--mem-fraction-static", "0.02"};
  EXPECT_EQ(started_with({{"version", "0.5.9"}, {"extra_flags", {"--mem-fraction-static", "0.005"}}}), learned);
  EXPECT_EQ(started_with({{"version", "0.5.9"}}), learned);
  EXPECT_EQ(started_with({{"version", "0.5.9"}, {"memory", "auto"}, {"extra_flags", {"--log-level", "info"}}}),
            (Words{"--log-level", "info", "--mem-fraction-static", "0.02"}));
}

TEST_F(MemoryTuningTest, what_the_user_gives_anew_is_not_overruled) {
  const Words anew = {"--mem-fraction-static", "0.3"};
  EXPECT_EQ(started_with({{"version", "0.5.9"}, {"extra_flags", anew}}), anew);
  EXPECT_EQ(started_with({{"version", "0.5.11"}, {"extra_flags", {"--mem-fraction-static=0.3"}}}),
            Words{"--mem-fraction-static=0.3"})
      << "of another version, in another spelling";
  // A generic input is the user's word as well.
  learned_ = {{"flags", {{{"name", "max-running-requests"}, {"value", "8"}, {"reason", "fewer"}}}}};
  EXPECT_EQ(started_with({{"version", "0.5.9"}, {"max_requests", 16}}), Words{});
  EXPECT_EQ(started_with({{"version", "0.5.9"}}), (Words{"--max-running-requests", "8"}));
}

TEST_F(MemoryTuningTest, what_fitted_into_one_limit_says_nothing_of_another) {
  learned_ = {{"flags", {{{"name", "ctx-size"}, {"value", "32768"}, {"reason", "idle"}}}},
              {"instead_of", {{"ctx-size", "262144"}}},
              {"memory_max", 700U << 20U}};
  const Value small = {{"engine", "llama.cpp"}, {"context", 262144}, {"memory_max", "700MiB"}};
  Value large = small, none = small;
  large["memory_max"] = "2GiB";
  none.erase("memory_max");
  EXPECT_EQ(started_with(small), (Words{"--ctx-size", "32768"}));
  EXPECT_EQ(started_with(large), Words{});
  EXPECT_EQ(asked_, 1);
  EXPECT_EQ(started_with(none), Words{});
  EXPECT_EQ(asked_, 0) << "an engine that fits itself, without a limit: nothing can have been learned";
}

// Which limit bounds what is kept of prompts is asked of the node; what the model needs, of its header.
TEST_F(MemoryTuningTest, a_node_s_limit_or_its_gpu_is_asked_for_before_prompts_are_bounded) {
  const auto asked_model = [this](const std::string& host, const Value& more) {
    host_ = host;
    model_asked_ = false;
    Value given = {{"engine", "llama.cpp"}};
    given.update(more);
    started_with(given);
    return model_asked_;
  };
  EXPECT_FALSE(asked_model("", Value::object())) << "no limit: nothing to plan for";
  EXPECT_TRUE(asked_model("734003200\n", Value::object()));
  EXPECT_TRUE(asked_model("", {{"memory_max", "700MiB"}}));
  EXPECT_TRUE(asked_model("gpu\n734003200\n", Value::object())) << "on the processor, whatever the node has";
  device_ = "auto";
  EXPECT_FALSE(asked_model("gpu\n734003200\n", Value::object())) << "weights may lie on the GPU";
}

std::string base64(const std::string& bytes) {
  std::string out(bytes.size() * 4 / 3 + 5, '\0');
  out.resize(static_cast<std::size_t>(EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                                      reinterpret_cast<const unsigned char*>(bytes.data()),
                                                      static_cast<int>(bytes.size()))));
  return out;
}

// SGLang on a processor, ended by the kernel: which limit it is planned anew for, as the record says it.
class AfterKill : public ::testing::Test {
 protected:
  // The kept record; empty: not planned.
  std::string planned(MemoryKill::Cause cause, const Value& more) {
    Value given = {{"engine", "sglang"}, {"version", "0.5.9"}, {"model", "/srv/model"}, {"device", "cpu"}};
    given.update(more);
    const Knowledge base = *load_knowledge({SOURCE_DIR "/playbooks/knowledge"});
    const EngineProfile profile = engine_profile(base, "sglang").value();
    FakeContext context(Inputs(check_inputs(ServerStep(base).signature(), given).value()));
    context.machine.on_run = [this](const std::string& script) {
      if (script.find("/sys/fs/cgroup") != std::string::npos) return Answer{0, host_, ""};
      if (script.find("learned") != std::string::npos) return Answer{0, "", ""};
      const std::string config = kConfig;
      return Answer{0, "file config.json " + std::to_string(config.size()) + "\n" + base64(config) + "\n", ""};
    };
    ServerSpec spec = server_spec(profile, context.inputs()).value();
    MemoryTuning tuning(planner::shipped(), context, profile, spec, "");
    const Error failure = make_error(ErrorKind::failed_test, "killed").with_class("oom_killed");
    const auto again = tuning.again(failure, "", {cause, ""});
    if (!again) return again.error().message + " " + again.error().hint;
    progress_ = join(context.said, "\n");
    EXPECT_EQ(*again, !context.kept.empty());
    return context.kept.empty() ? "" : context.kept.front();
  }

  static constexpr const char* kConfig =
      R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 1024, "num_hidden_layers": 8,
          "num_attention_heads": 8, "num_key_value_heads": 8, "intermediate_size": 4096, "vocab_size": 32000,
          "max_position_embeddings": 4096})";
  std::string host_ = "total 34359738368\nfree 30064771072\nnodes 1\n9663676416\n";  // a container of 9 GiB
  std::string progress_;
};

TEST_F(AfterKill, by_an_unknown_limit_is_planned_for_the_smallest) {
  const auto says = [&](MemoryKill::Cause cause, const char* memory_max) {
    return planned(cause, memory_max[0] == '\0' ? Value::object() : Value{{"memory_max", memory_max}});
  };
  using Cause = MemoryKill::Cause;
  EXPECT_NE(says(Cause::not_known, "12GiB").find("9.00 GiB (the container's memory)"), std::string::npos);
  EXPECT_NE(says(Cause::not_known, "8GiB").find("8.00 GiB (memory_max)"), std::string::npos);
  EXPECT_NE(says(Cause::own_limit, "12GiB").find("12.00 GiB (memory_max)"), std::string::npos);
  EXPECT_NE(says(Cause::outer_limit, "8GiB").find("9.00 GiB (the container's memory)"), std::string::npos);
  EXPECT_NE(says(Cause::host, "").find("28.00 GiB (the host's free memory)"), std::string::npos);
}

TEST_F(AfterKill, is_never_given_up_without_a_word) {
  host_ = "total 34359738368\nfree 30064771072\nnodes 1\n";
  EXPECT_EQ(planned(MemoryKill::Cause::outer_limit, Value::object()), "");
  EXPECT_NE(progress_.find("nothing says at which limit"), std::string::npos) << progress_;
  const std::string small = planned(MemoryKill::Cause::own_limit, {{"memory_max", "1GiB"}});
  EXPECT_NE(small.find("give memory_max: "), std::string::npos) << small;
}

}  // namespace
}  // namespace millwright
