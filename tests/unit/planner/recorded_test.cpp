// The engines' own answers, recorded (tests/differential/planner_*_record.py), against the planner's arithmetic.
#include <unistd.h>

#include <fstream>
#include <set>

#include "planner_test_data.hpp"
#include "steps/server/planner/llama_cpp.hpp"
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

}  // namespace
}  // namespace millwright::planner
