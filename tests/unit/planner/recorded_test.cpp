// The engines' own answers, recorded (tests/differential/planner_*_record.py), against the planner's arithmetic.
#include <unistd.h>

#include <fstream>
#include <set>

#include "planner_test_data.hpp"
#include "steps/server/planner/llama_cpp.hpp"
#include "steps/server/planner/sglang.hpp"
#include "steps/server/planner/vllm_groups.hpp"

namespace millwright::planner {
namespace {

Value recorded(const std::string& name) {
  std::ifstream in(std::string(TEST_DATA) + "/planner/" + name, std::ios::binary);
  const Value out = Value::parse(in, nullptr, false);
  EXPECT_TRUE(out.is_object()) << name;
  return out;
}

std::vector<std::string> flags_of(const Value& flags) {
  std::vector<std::string> out;
  for (const auto& [name, value] : flags.items())
    out.push_back(name + "=" + (value.is_string() ? value.get<std::string>() : value.dump()));
  return out;
}

TEST(Recorded, buffers_of_llama_cpp) {
  const Value document = recorded("llama.cpp-0.7.0.json");
  std::set<std::string> architectures;
  for (const Value& one : document.at("cases")) {
    GgufFile file;
    for (const auto& [key, value] : one.at("values").items()) file.values[key] = value;
    const auto read = shape_of_gguf(file, "recorded");
    ASSERT_TRUE(read.has_value()) << one.dump();
    Model model;
    model.shape = *read;
    model.is_gguf = true;
    architectures.insert(read->architecture);
    const Asked q = asked_of(std::move(model), "llama.cpp", document.at("version"), "96GiB", flags_of(one.at("flags")));
    const LlamaSettings settings = llama_settings(q.query);
    const std::size_t layers = q.query.model.shape.layers.size();
    constexpr double mib = 1024.0 * 1024.0;
    const double kv = one.at("kv_mib"), rs = one.at("rs_mib");
    EXPECT_NEAR(llama_kv_bytes(q.query, settings, 0, layers) / mib, kv, 0.01 * kv + 0.02) << one.dump();
    EXPECT_NEAR(llama_state_bytes(q.query, settings, 0, layers) / mib, rs, 0.01 * rs + 0.02) << one.dump();
  }
  EXPECT_GE(architectures.size(), 8u);
  EXPECT_GE(document.at("cases").size(), 60u);
}

TEST(Recorded, blocks_and_tokens_of_vllm) {
  const Value document = recorded("vllm-0.32.0.json");
  std::set<std::string> families;
  for (const Value& one : document.at("cases")) {
    const auto read = shape_of_config(one.at("config"), "recorded");
    ASSERT_TRUE(read.has_value()) << one.dump();
    Model model;
    model.shape = *read;
    families.insert(one.at("family").get<std::string>());
    const std::string gpus = std::to_string(one.at("tp").get<int>()) + "xH100";
    Asked q = asked_of(std::move(model), "vllm", document.at("version"), gpus, flags_of(one.at("flags")));
    q.query.given.kv_pool_gib = one.at("pool_bytes").get<double>() / kGiB;
    const Layout layout = layout_of(q.query);
    const BlockLayout blocks = vllm_blocks(q.query, layout, vllm_settings(q.query, layout), -1);
    EXPECT_EQ(blocks.groups.size(), one.at("groups").get<std::size_t>()) << one.dump();
    EXPECT_EQ(blocks_of_request(blocks, one.at("flags").at("max-model-len").get<double>()),
              one.at("blocks_per_request").get<double>())
        << one.dump();
    const double tokens = one.at("tokens");
    EXPECT_NEAR(outcome_of(q.query, layout, Scenario::likely).kv_tokens, tokens, 0.003 * tokens) << one.dump();
  }
  EXPECT_GE(families.size(), 8u);
  EXPECT_GE(document.at("cases").size(), 100u);
}

// Without drafts the arithmetic does not look at the number of draft tokens.
Asked state_question(const Value& one) {
  std::vector<std::string> flags = {"mamba-full-memory-ratio=" + one.at("ratio").dump(),
                                    "max-running-requests=" + one.at("requests").dump()};
  const std::string version = one.at("version");
  const bool renamed = version == "0.5.23";
  flags.push_back(std::string(renamed ? "mamba-radix-cache-strategy=" : "mamba-scheduler-strategy=") +
                  (one.at("extra_buffer").get<bool>() ? "extra_buffer" : "no_buffer"));
  if (!one.at("slots").is_null()) flags.push_back("max-mamba-cache-size=" + one.at("slots").dump());
  if (one.at("drafts").get<int>() > 0)
    flags.insert(flags.end(),
                 {"speculative-algorithm=EAGLE", "speculative-num-draft-tokens=" + one.at("drafts").dump()});
  if (!one.at("radix").get<bool>()) flags.emplace_back("disable-radix-cache");
  return asked("Qwen3.6-27B", "sglang", version, "2xA6000", flags);
}

TEST(Recorded, slots_and_tokens_of_sglang) {
  const Value document = recorded("sglang.json");
  std::set<std::string> versions;
  for (Value one : document.at("splits")) {
    versions.insert(one.at("version").get<std::string>());
    const double slots = one.value("slots", 0.0), left = one.value("left_gib", 0.0);
    // `slots` of the case is what was asked for, and of the answer what came out: a case with a fixed number keeps it.
    const bool asked_for = one.contains("asked_slots") && !one.at("asked_slots").is_null();
    one["slots"] = asked_for ? one.at("asked_slots") : Value();
    const Asked q = state_question(one);
    const Layout layout = layout_of(q.query);
    const SglangStates states =
        sglang_states(q.query, sglang_settings(q.query, layout), one.at("rest_gib").get<double>() * kGiB,
                      one.at("slot_bytes").get<double>());
    if (one.contains("refused")) {
      EXPECT_LE(states.slots, 0) << one.dump();
      continue;
    }
    EXPECT_EQ(states.slots, slots) << one.dump();
    EXPECT_NEAR(states.kv_bytes / kGiB, left, 1e-6) << one.dump();
  }
  EXPECT_EQ(versions.size(), 5u);
}

TEST(Recorded, fractions_of_sglang) {
  const Value document = recorded("sglang.json");
  for (const Value& one : document.at("fractions")) {
    Model model = *known_model(shipped(), "Qwen3-8B");
    if (const int hidden = one.at("vision_hidden"); hidden > 0) {
      VisionShape vision;
      vision.hidden = hidden;
      vision.has_depth_key = one.at("vision_depth").is_null();
      vision.depth = vision.has_depth_key ? 27 : one.at("vision_depth").get<int>();
      model.shape.vision = vision;
    }
    const int tp = one.at("tp");
    std::vector<std::string> flags = {"tensor-parallel-size=" + std::to_string(tp)};
    if (!one.at("algorithm").is_null())
      flags.push_back("speculative-algorithm=" + one.at("algorithm").get<std::string>());
    Asked q = asked_of(std::move(model), "sglang", one.at("version"), std::to_string(tp) + "xH100", flags);
    for (Gpu& gpu : q.query.gpus) gpu.smi_mib = one.at("gpu_mib");
    const SglangSettings settings = sglang_settings(q.query, layout_of(q.query));
    EXPECT_EQ(settings.chunk, one.at("chunk").get<int>()) << one.dump();
    EXPECT_EQ(settings.graph_max_bs, one.at("graph_max_bs").get<int>()) << one.dump();
    EXPECT_NEAR(settings.fraction, one.at("fraction").get<double>(), 1e-9) << one.dump();
  }
  EXPECT_GE(document.at("fractions").size(), 24u);
}

}  // namespace
}  // namespace millwright::planner
