// What lies on which GPU: llama.cpp's layers, replicas, and attention that replicas have whole.
#include <unistd.h>

#include "planner_test_data.hpp"
#include "steps/server/planner/terms.hpp"

namespace millwright::planner {
namespace {

double sum(const std::vector<double>& values) {
  double out = 0;
  for (const double one : values) out += one;
  return out;
}

Asked llama(const char* model, const char* gpus, const std::vector<std::string>& set) {
  std::vector<std::string> flags = {"ctx-size=8192"};
  flags.insert(flags.end(), set.begin(), set.end());
  return asked(model, "llama.cpp", "0.7.0", gpus, flags);
}

TEST(LlamaPlacement, the_token_embedding_stays_with_the_cpu_unless_the_output_is_a_copy_of_it) {
  const Asked own = llama("Qwen3-8B", "H100", {});
  const WeightParts& parts = own.query.model.weights;
  ASSERT_GT(parts.head, 0);
  EXPECT_NEAR(own.likely().ranks[0].weights_gib, (parts.total() - parts.embedding) / kGiB, 1e-6);
  const Asked tied = llama("gemma-3-270m", "H100", {});
  ASSERT_TRUE(tied.query.model.weights.tied);
  EXPECT_NEAR(tied.likely().ranks[0].weights_gib, tied.query.model.weights.total() / kGiB, 1e-6);
}

// Llama-3.1-70B in Q4_K_M: what llama-quantize makes of each tensor (llama-quant.cpp, use_more_bits: a half of the down
// projections and values in Q6_K, the other values of a 70B in Q5_K).
Model seventy_in_q4_k_m() {
  Model out;
  out.shape = known_model(shipped(), "Llama-3.1-70B")->shape;
  constexpr double q4 = 4.5 / 8, q5 = 5.5 / 8, q6 = 6.5625 / 8, hidden = 8192, keys = 1024, wide = 28672;
  std::vector<TensorInfo> tensors = {{"token_embd.weight", 128256 * hidden * q4, "Q4_K"},
                                     {"output.weight", 128256 * hidden * q6, "Q6_K"},
                                     {"output_norm.weight", hidden * 4, "F32"},
                                     {"rope_freqs.weight", 64 * 4, "F32"}};
  for (int layer = 0; layer < 80; ++layer) {
    const bool more = layer < 10 || layer >= 70 || (layer - 10) % 3 == 2;
    const auto add = [&](const char* name, double bytes) {
      tensors.push_back({"blk." + std::to_string(layer) + "." + name + ".weight", bytes, ""});
    };
    add("attn_q", hidden * hidden * q4);
    add("attn_k", keys * hidden * q4);
    add("attn_v", keys * hidden * (more ? q6 : q5));
    add("attn_output", hidden * hidden * q4);
    add("ffn_gate", hidden * wide * q4);
    add("ffn_up", hidden * wide * q4);
    add("ffn_down", wide * hidden * (more ? q6 : q4));
    add("attn_norm", hidden * 4);
    add("ffn_norm", hidden * 4);
  }
  out.weights = weights_of_tensors(out.shape, tensors);
  out.weight_source = WeightSource::tensors;
  out.is_gguf = true;
  return out;
}

TEST(LlamaPlacement, as_a_public_log_has_it_to_the_hundredth_of_a_mib) {
  // ggml-org/llama.cpp #24436: "allocating 39979.48 MiB on device 0: cudaMalloc failed: out of memory", all layers.
  const Asked all = asked_of(seventy_in_q4_k_m(), "llama.cpp", "0.7.0", "card:39GiB", {"ctx-size=4096"});
  EXPECT_NEAR(all.likely().ranks[0].weights_gib * 1024, 39979.48, 0.01);
  EXPECT_EQ(all.likely().ends, Stage::weights);
}

TEST(LlamaPlacement, layers_are_whole_and_the_output_is_the_first_to_go_to_the_gpu) {
  const auto at = [](const char* layers) {
    return llama("Qwen3-8B", "H100", {std::string("n-gpu-layers=") + layers}).likely().ranks[0];
  };
  const WeightParts parts = known_model(shipped(), "Qwen3-8B")->weights;
  EXPECT_EQ(at("0").weights_gib, 0);
  EXPECT_EQ(at("0").kv_pool_gib, 0);
  EXPECT_NEAR(at("1").weights_gib, (parts.head + parts.other) / kGiB, 1e-6);
  EXPECT_EQ(at("1").kv_pool_gib, 0) << "the output has no cache";
  EXPECT_NEAR(at("2").kv_pool_gib, at("37").kv_pool_gib / 36, 1e-9);
  EXPECT_NEAR(at("2").weights_gib - at("1").weights_gib,
              (parts.layer_split[35] + parts.layer_kv[35] + parts.layer_replicated[35]) / kGiB, 1e-6);
  EXPECT_EQ(at("99").weights_gib, at("all").weights_gib);
}

TEST(LlamaPlacement, split_points_fall_between_layers) {
  // 36 layers and the output are 37: 28 of them begin before three quarters.
  const Outcome out = llama("Qwen3-8B", "2xH100", {"tensor-split=3,1"}).likely();
  EXPECT_NEAR(out.ranks[0].kv_pool_gib / out.ranks[1].kv_pool_gib, 28.0 / 8, 1e-9);
  const Outcome one = llama("Qwen3-8B", "2xH100", {"split-mode=none", "main-gpu=1"}).likely();
  EXPECT_EQ(one.ranks[0].kv_pool_gib, 0);
  EXPECT_GT(one.ranks[1].weights_gib, 14);
}

TEST(LlamaPlacement, what_flags_keep_with_the_cpu) {
  const RankOutcome all = llama("Qwen3-30B-A3B", "H100", {}).likely().ranks[0];
  const Asked moe = llama("Qwen3-30B-A3B", "H100", {"cpu-moe"});
  const RankOutcome bare = moe.likely().ranks[0];
  EXPECT_NEAR(all.weights_gib - bare.weights_gib, sum(moe.query.model.weights.layer_experts) / kGiB, 1e-6);
  const RankOutcome half = llama("Qwen3-30B-A3B", "H100", {"n-cpu-moe=24"}).likely().ranks[0];
  EXPECT_NEAR(all.weights_gib - half.weights_gib, (all.weights_gib - bare.weights_gib) / 2, 1e-6);
  EXPECT_EQ(llama("Qwen3-8B", "H100", {"no-kv-offload"}).likely().ranks[0].kv_pool_gib, 0);
  EXPECT_GT(llama("Qwen3-8B", "H100", {}).likely().ranks[0].kv_pool_gib, 0);
}

TEST(LlamaPlacement, experts_that_do_not_fit_go_to_the_host) {
  const Plan plan = llama("Qwen3-30B-A3B", "rtx-3090", {}).plan();
  ASSERT_EQ(plan.decision, Decision::does_not_fit);
  bool offered = false;
  for (const LadderStep& step : plan.ladder) offered = offered || step.changes.front().name == "n-cpu-moe";
  EXPECT_TRUE(offered) << plan.sentence;
}

TEST(Replicas, take_gpus_of_their_own) {
  const auto plan = [](const char* engine, const char* gpus, const std::vector<std::string>& set) {
    return asked("Qwen3-8B", engine, "", gpus, set).plan();
  };
  for (const char* engine : {"vllm", "sglang"}) {
    const Plan all = plan(engine, "4xH100", {"tensor-parallel-size=2", "data-parallel-size=2"});
    EXPECT_EQ(all.layout.gpus(), 4) << engine;
    EXPECT_TRUE(all.invalid.empty());
    EXPECT_NE(all.sentence.find("on 4 x H100"), std::string::npos) << all.sentence;
    EXPECT_NE(all.sentence.find("in each of 2 replicas"), std::string::npos) << all.sentence;
    for (const std::string& note : all.notes) EXPECT_EQ(note.find("GPUs are used"), std::string::npos) << note;
    EXPECT_EQ(plan(engine, "4xH100", {"data-parallel-size=2"}).layout.tp, 2) << engine;
    const Plan few = plan(engine, "2xH100", {"tensor-parallel-size=2", "data-parallel-size=2"});
    ASSERT_FALSE(few.invalid.empty()) << engine;
    EXPECT_NE(few.invalid.front().message.find("2 replicas of 2 ranks each need 4 GPUs, and there are 2"),
              std::string::npos)
        << few.invalid.front().message;
    const Plan idle = plan(engine, "8xH100", {"tensor-parallel-size=2", "data-parallel-size=2"});
    bool said = false;
    for (const std::string& note : idle.notes)
      said = said || note.find("4 of 8 GPUs are used: --data-parallel-size 4") != std::string::npos;
    EXPECT_TRUE(said) << engine;
  }
}

TEST(Replicas, of_vllm_share_the_experts) {
  const auto weights = [](const std::vector<std::string>& set) {
    return asked("Qwen3-235B-A22B", "vllm", "0.19.0", "8xH200", set).likely().ranks[0].weights_gib;
  };
  const double one = weights({"tensor-parallel-size=4"});
  const double two = weights({"tensor-parallel-size=4", "data-parallel-size=2"});
  const double experts = sum(known_model(shipped(), "Qwen3-235B-A22B")->weights.layer_experts) / kGiB;
  EXPECT_NEAR(one - two, experts / 8, 0.01 * one);
}

TEST(Replicas, of_sglang_s_attention_share_the_ranks) {
  const auto plan = [](const std::vector<std::string>& set) {
    return asked("Qwen3-235B-A22B", "sglang", "0.5.12", "8xH200", set).plan();
  };
  const Plan shared = plan({"tp=8", "dp-size=8", "enable-dp-attention"});
  EXPECT_EQ(shared.layout.gpus(), 8);
  EXPECT_TRUE(shared.invalid.empty()) << shared.invalid.front().message;
  // Attention and the token embedding are whole on every rank then.
  const Plan plain = plan({"tp=8"});
  const WeightParts parts = known_model(shipped(), "Qwen3-235B-A22B")->weights;
  const double whole = (sum(parts.layer_attention) + parts.embedding) / kGiB;
  const double keys = sum(parts.layer_kv) / kGiB;
  EXPECT_NEAR(shared.ranks[0].weights_gib.mid - plain.ranks[0].weights_gib.mid, whole * 7 / 8 + keys * 3 / 4, 0.02);
  const Plan odd = plan({"tp=8", "dp-size=3", "enable-dp-attention"});
  ASSERT_FALSE(odd.invalid.empty());
  EXPECT_EQ(odd.invalid.front().flag, "data-parallel-size");
}

}  // namespace
}  // namespace millwright::planner
