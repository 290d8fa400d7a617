#include <unistd.h>

#include "planner_test_data.hpp"
#include "steps/server/planner/render.hpp"
#include "steps/server/planner/sglang.hpp"
#include "steps/server/planner/vllm_groups.hpp"

namespace millwright::planner {
namespace {

const std::vector<std::string> kStory = {"mem-fraction-static=0.85", "max-running-requests=48",
                                         "mamba-full-memory-ratio=0.9", "speculative-algorithm=NEXTN",
                                         "speculative-num-draft-tokens=4"};

TEST(Sglang, the_founding_story_does_not_fit_and_fewer_requests_cure_it) {
  const Plan plan = asked("Qwen3.6-27B", "sglang", "0.5.9", "2xA6000", kStory).plan();
  EXPECT_EQ(plan.decision, Decision::does_not_fit);
  EXPECT_NE(plan.engine_says.find("Not enough memory"), std::string::npos);
  ASSERT_FALSE(plan.ladder.empty());
  EXPECT_EQ(plan.ladder.front().changes.front().name, "max-running-requests");
  EXPECT_EQ(plan.ladder.front().decision, Decision::fits);
  EXPECT_EQ(plan.layout.tp, 2);
  EXPECT_NE(plan.sentence.find("does not fit: it needs"), std::string::npos);
}

TEST(Sglang, the_configuration_that_ran_in_the_end_fits) {
  EXPECT_EQ(asked("Qwen3.6-27B", "sglang", "0.5.9", "2xA6000",
                  {"mem-fraction-static=0.88", "max-running-requests=16", "mamba-full-memory-ratio=0.5",
                   "speculative-algorithm=NEXTN", "speculative-num-draft-tokens=4"})
                .plan()
                .decision,
            Decision::fits);
}

TEST(Sglang, slots_and_tokens_by_the_published_split) {
  // 0.5.12: K = floor(rest * r / (1 + r) / slot); what is left becomes tokens.
  const Asked q = asked("Qwen3.6-27B", "sglang", "0.5.12", "2xA6000", {"mamba-full-memory-ratio=0.9"});
  const SglangSettings settings = sglang_settings(q.query, layout_of(q.query));
  const double slot = sglang_slot_bytes(q.query, layout_of(q.query));
  EXPECT_EQ(slot, 76972032);
  const SglangStates states = sglang_states(q.query, settings, 14 * kGiB, slot);
  EXPECT_EQ(states.slots, 92);
  EXPECT_EQ(states.kv_bytes, 14 * kGiB - 92 * slot);
  EXPECT_EQ(states.ratio, 3);
}

TEST(Sglang, the_newest_solves_states_and_drafts_together) {
  const std::vector<std::string> flags = {"speculative-algorithm=NEXTN", "speculative-num-draft-tokens=4",
                                          "max-running-requests=16"};
  const Asked q = asked("Qwen3.6-27B", "sglang", "0.5.23", "2xA6000", flags);
  const SglangSettings settings = sglang_settings(q.query, layout_of(q.query));
  EXPECT_TRUE(settings.extra_buffer);
  const double slot = 76972032;
  const SglangStates states = sglang_states(q.query, settings, 14 * kGiB, slot);
  const double budget = 14 * kGiB * 0.9 / 1.9;
  EXPECT_EQ(states.ratio, 5);
  EXPECT_EQ(states.slots, std::floor((budget - slot * 5) / (slot * (1 + 4.0 / 5))));
  EXPECT_EQ(states.intermediate_bytes, slot * (std::min(16.0, std::floor(states.slots / 5)) + 1) * 4);
  EXPECT_EQ(states.kv_bytes, 14 * kGiB - states.intermediate_bytes - (states.slots + 1) * slot);
  // Its cells have the draft's layer too: 17 of 16.
  const SglangCell cell = sglang_cell(q.query, layout_of(q.query), settings, 0);
  EXPECT_EQ(cell.sizing, 16 * 2048 * 17 / 16);
}

TEST(Sglang, a_slot_is_worth_2253_tokens_with_bfloat16_states) {
  // club-3090 PR #1331: fp8 cache, 17 layers, bf16 states: 11 slots = 24,785 tokens.
  const Asked q = asked(
      "Qwen3.8-27B-FP8", "sglang", "0.5.23", "2xrtx-3090",
      {"kv-cache-dtype=fp8_e4m3", "mamba-ssm-dtype=bfloat16", "speculative-algorithm=NEXTN", "max-running-requests=2"});
  const Layout layout = layout_of(q.query);
  EXPECT_NEAR(
      sglang_slot_bytes(q.query, layout) / sglang_cell(q.query, layout, sglang_settings(q.query, layout), 0).sizing,
      2253.18, 0.01);
}

TEST(Sglang, automatic_fractions_by_version) {
  const auto fraction = [](const std::string& version, const std::string& model, const std::string& gpus,
                           const std::vector<std::string>& set = {}) {
    const Asked q = asked(model, "sglang", version, gpus, set);
    return sglang_settings(q.query, layout_of(q.query)).fraction;
  };
  // 0.5.9, A6000 TP2: (49140 - 512 - 6144 - 64 - 256) / 49140 = 0.858; times 0.9248 for Qwen's tower.
  EXPECT_NEAR(fraction("0.5.9", "Qwen3-8B", "2xA6000", {"tp=2"}), 0.858, 1e-9);
  EXPECT_NEAR(fraction("0.5.9", "Qwen3.6-27B", "2xA6000"), 0.793, 0.001);
  // B200 of the clean-start-up log: 177.57 * (1 - f) = 25.93.
  EXPECT_NEAR(fraction("0.5.12", "Qwen3-8B", "B200"), 0.854, 1e-9);
  // Drafts: 2048 MiB, then 4096, then nothing.
  const std::vector<std::string> drafts = {"tp=2", "speculative-algorithm=EAGLE"};
  EXPECT_NEAR(fraction("0.5.9", "Qwen3-8B", "2xA6000", drafts), 0.816, 0.001);
  EXPECT_LT(fraction("0.5.12", "Qwen3-8B", "2xA6000", drafts), fraction("0.5.9", "Qwen3-8B", "2xA6000", drafts));
}

TEST(Sglang, windows_have_a_pool_only_in_the_models_that_it_lists) {
  const auto tokens = [](const std::string& version, const std::string& model) {
    return asked(model, "sglang", version, "H100", {}, {"kv_pool_gib=10"}).likely().kv_tokens;
  };
  // gpt-oss: 12 full layers of 2048 B and 0.8 of 12 with windows.
  EXPECT_EQ(tokens("0.5.9", "gpt-oss-20b"), std::floor(10 * kGiB / (12 * 2048 + 0.8 * 12 * 2048)));
  // Gemma 3 is not listed: all 62 layers keep everything.
  EXPECT_EQ(tokens("0.5.9", "gemma-3-27b"), std::floor(10 * kGiB / (62.0 * 16 * 128 * 2 * 2)));
}

TEST(Engines, a_model_without_attention) {
  Model model;
  model.shape = shape(
      R"({"model_type":"mamba2","hidden_size":2560,"num_hidden_layers":64,"num_heads":80,"head_dim":64,"n_groups":1,
    "state_size":128,"conv_kernel":4,"vocab_size":50288,"max_position_embeddings":8192})");
  model.weights = weights_of_config(model.shape);
  EXPECT_NEAR(model.weights.total() / 2, 2.7e9, 0.2e9) << "a 2.7B model";
  EXPECT_TRUE(asked_of(model, "sglang", "", "H100").likely().starts());
  EXPECT_TRUE(asked_of(model, "vllm", "", "H100", {"max-num-seqs=64"}).likely().starts());
  EXPECT_TRUE(asked_of(model, "llama.cpp", "", "H100").likely().starts());
}

TEST(Sglang, attention_data_parallelism_splits_heads_less) {
  const auto cell = [](const std::vector<std::string>& set) {
    const Asked q = asked("Qwen3-235B-A22B", "sglang", "0.5.12", "8xH200", set);
    return sglang_cell(q.query, layout_of(q.query), sglang_settings(q.query, layout_of(q.query)), 0).sizing;
  };
  EXPECT_EQ(cell({"tp=8"}), 94 * 512);
  EXPECT_EQ(cell({"tp=8", "dp-size=4", "enable-dp-attention"}), 94 * 2 * 512);
}

TEST(Sglang, drafts_without_extra_buffer) {
  const std::vector<std::string> flags = {"speculative-algorithm=NEXTN", "mamba-scheduler-strategy=no_buffer"};
  const Plan refused = asked("Qwen3.6-27B", "sglang", "0.5.12", "2xA6000", flags).plan();
  ASSERT_FALSE(refused.invalid.empty());
  EXPECT_NE(refused.invalid.front().hint.find("extra_buffer"), std::string::npos);
  EXPECT_TRUE(asked("Qwen3.6-27B", "sglang", "0.5.9", "2xA6000", flags).plan().invalid.empty())
      << "0.5.9 switches the radix cache off";
}

TEST(Vllm, blocks_of_a_hybrid_with_drafts) {
  // club-3090 #642: block 1600, page 1,638,400, 17 layers a group, 179 blocks a request.
  const Asked q = asked("Qwen3.6-27B-INT4", "vllm", "0.24.0", "2xrtx-3090",
                        {"kv-cache-dtype=fp8", "max-model-len=262144",
                         R"(speculative-config={"method":"mtp","num_speculative_tokens":3})"});
  const BlockLayout blocks = vllm_blocks(q.query, layout_of(q.query), vllm_settings(q.query, layout_of(q.query)), -1);
  EXPECT_EQ(blocks.least_block_tokens, 1600);
  EXPECT_EQ(blocks.page_bytes, 1638400);
  EXPECT_EQ(blocks.block_bytes, 1638400.0 * 17);
  EXPECT_EQ(blocks.groups.size(), 4u);
  EXPECT_EQ(blocks_of_request(blocks, 262144), 179);
}

TEST(Vllm, blocks_of_windows_and_their_groups) {
  const Asked q = asked("gemma-3-27b", "vllm", "0.19.0", "H100", {"max-model-len=8192"});
  const BlockLayout blocks = vllm_blocks(q.query, layout_of(q.query), vllm_settings(q.query, layout_of(q.query)), -1);
  EXPECT_EQ(blocks.groups.size(), 7u) << "52 of windows in six, 10 full in one";
  EXPECT_EQ(blocks.block_bytes, 10.0 * 16 * 16 * 128 * 2 * 2);
  // 0.32: windows keep two batches in flight.
  const Asked newest =
      asked("gemma-3-12b", "vllm", "0.32.0", "H100", {"max-model-len=16384", "max-num-batched-tokens=8192"});
  const BlockLayout two =
      vllm_blocks(newest.query, layout_of(newest.query), vllm_settings(newest.query, layout_of(newest.query)), -1);
  EXPECT_EQ(blocks_of_request(two, 16384), 1024 + 5 * 1025);
}

TEST(Vllm, mixed_pages_get_larger_blocks) {
  const Asked q = asked("gemma-4-31B-it", "vllm", "0.32.0", "2xH100", {"max-model-len=8192"});
  const BlockLayout blocks = vllm_blocks(q.query, layout_of(q.query), vllm_settings(q.query, layout_of(q.query)), -1);
  double full = 0, window = 0;
  for (const BlockGroup& group : blocks.groups) (group.kind == PageKind::full ? full : window) = group.block_tokens;
  EXPECT_EQ(window, 16);
  EXPECT_EQ(full, 32);
  for (const BlockGroup& group : blocks.groups) EXPECT_EQ(group.layers, 10);
}

TEST(Vllm, one_request_that_is_too_long_names_the_longest) {
  const Asked q =
      asked("Qwen3-Coder-30B-A3B", "vllm", "0.15.2", "H100", {"max-model-len=262144"}, {"kv_pool_gib=3.18"});
  const Outcome outcome = q.likely();
  EXPECT_EQ(outcome.ends, Stage::one_request);
  EXPECT_NE(outcome.engine_says.find("24.00 GiB KV cache is needed"), std::string::npos);
  EXPECT_NEAR(outcome.most_model_len, 34736, 16);
  const Plan plan = q.plan();
  ASSERT_FALSE(plan.ladder.empty());
  EXPECT_EQ(plan.ladder.front().changes.front().name, "max-model-len");
}

TEST(Vllm, sequences_beyond_the_state_blocks) {
  const Asked q =
      asked("Qwen3.8-27B", "vllm", "0.26.0", "rtx-pro-6000", {"num-gpu-blocks-override=556"}, {"kv_pool_gib=26.6"});
  EXPECT_EQ(q.likely().ends, Stage::state_slots);
  EXPECT_NE(q.likely().engine_says.find("max_num_seqs (1024) exceeds available Mamba cache blocks (556)"),
            std::string::npos);
}

TEST(Validity, heads_and_vocabulary_that_cannot_be_divided) {
  const Plan plan = asked("Qwen3-14B", "vllm", "0.19.0", "5xH100", {"tensor-parallel-size=5"}).plan();
  EXPECT_EQ(plan.decision, Decision::does_not_fit);
  ASSERT_FALSE(plan.invalid.empty());
  EXPECT_NE(plan.invalid.front().hint.find("possible are 1, 2, 4"), std::string::npos);
  EXPECT_EQ(asked("Qwen3-14B", "vllm", "0.19.0", "5xH100").plan().layout.tp, 4)
      << "without the flag: as many as divide";
}

TEST(Validity, flags_that_a_version_does_not_know) {
  const Plan plan = asked("Qwen3-8B", "sglang", "0.5.9", "H100", {"mamba-radix-cache-strategy=auto"}).plan();
  ASSERT_EQ(plan.invalid.size(), 1u);
  EXPECT_NE(plan.invalid.front().message.find("0.5.15"), std::string::npos) << plan.invalid.front().message;
  EXPECT_NE(asked("Qwen3-8B", "sglang", "0.5.9", "H100", {"mem-fraction-statik=0.8"})
                .plan()
                .invalid.front()
                .hint.find("mem-fraction-static"),
            std::string::npos);
  EXPECT_TRUE(asked("Qwen3-8B", "sglang", "0.5.9", "2xH100", {"tp=2"}).plan().invalid.empty());
  EXPECT_TRUE(asked("Qwen3-8B", "vllm", "0.19.0", "H100", {"no-enable-prefix-caching"}).plan().invalid.empty());
  const Plan ambiguous = asked("Qwen3-8B", "sglang", "0.5.23", "H100", {"cuda-graph-max-bs=8"}).plan();
  ASSERT_FALSE(ambiguous.invalid.empty());
  EXPECT_NE(ambiguous.invalid.front().hint.find("cuda-graph-max-bs-"), std::string::npos);
}

TEST(Validity, dtypes_that_the_gpu_cannot) {
  EXPECT_FALSE(asked("Qwen3-8B", "vllm", "0.19.0", "T4").plan().invalid.empty()) << "bfloat16 needs 8.0";
  EXPECT_TRUE(asked("Qwen3-8B", "vllm", "0.19.0", "T4", {"dtype=float16"}).plan().invalid.empty());
  EXPECT_FALSE(asked("Qwen3.6-27B-NVFP4", "sglang", "0.5.12", "2xrtx-3090").plan().invalid.empty());
  EXPECT_FALSE(asked("Qwen3-8B", "sglang", "0.5.12", "H100", {"kv-cache-dtype=fp4_e2m1"}).plan().invalid.empty());
}

TEST(Validity, blocks_of_a_quantisation_that_cannot_be_cut) {
  Model model = *known_model(shipped(), "Qwen3-235B-A22B");
  model.shape.quant.method = "fp8";
  model.shape.quant.block = 128;
  const auto invalid = [&](const std::vector<std::string>& set) {
    return asked_of(model, "vllm", "0.19.0", "8xH200", set).plan().invalid;
  };
  ASSERT_EQ(invalid({"tensor-parallel-size=8"}).size(), 1u) << "1536 / 8 = 192";
  EXPECT_TRUE(invalid({"tensor-parallel-size=4"}).empty());
  EXPECT_TRUE(invalid({"tensor-parallel-size=8", "enable-expert-parallel"}).empty());
}

TEST(Validity, more_ranks_than_gpus) {
  EXPECT_FALSE(asked("Qwen3-8B", "vllm", "0.19.0", "H100", {"tensor-parallel-size=4"}).plan().invalid.empty());
}

TEST(Engines, versions_that_are_not_covered) {
  EXPECT_FALSE(engine_facts(shipped(), "vllm", "0.6.3").has_value());
  EXPECT_FALSE(engine_facts(shipped(), "vllm", "new").has_value());
  EXPECT_NE(engine_facts(shipped(), "sglan", "").error().hint.find("sglang"), std::string::npos);
  EXPECT_EQ(engine_facts(shipped(), "vllm", "0.19.0")->number("utilization"), 0.9);
  EXPECT_EQ(engine_facts(shipped(), "vllm", "0.20.0")->number("utilization"), 0.92);
  EXPECT_EQ(engine_facts(shipped(), "vllm", "0.26.1rc1.dev608+g99a10304d")->number("in_flight_batches"), 2);
}

TEST(Gpus, as_people_write_them) {
  const auto sizes = [](const char* spec) {
    std::vector<double> out;
    const auto gpus = parse_gpu_spec(shipped(), spec);
    if (!gpus) return out;
    for (const Gpu& gpu : *gpus) out.push_back(gpu.total_gib);
    return out;
  };
  EXPECT_EQ(sizes("2xA6000"), (std::vector<double>{47.53, 47.53}));
  EXPECT_EQ(sizes("8x80GiB"), std::vector<double>(8, 80));
  EXPECT_EQ(sizes("rtx-3090:23.5GiB*2"), (std::vector<double>{23.5, 23.5}));
  EXPECT_EQ(sizes("80GiB"), std::vector<double>{80});
  EXPECT_EQ(sizes("RTX 3090, h100").size(), 2u);
  EXPECT_EQ(sizes("NVIDIA H200").size(), 1u);
  for (const char* wrong :
       {"", "0xA6000", "2x", "A600000", "2xA6000,", "99999xH100", "h100:lots", "h100:0GiB", "x", "*3"}) {
    const auto gpus = parse_gpu_spec(shipped(), wrong);
    ASSERT_FALSE(gpus.has_value()) << wrong;
    EXPECT_FALSE(gpus.error().hint.empty()) << wrong;
  }
}

TEST(Gpus, as_a_host_says_them) {
  const auto gpus =
      parse_gpu_answer(shipped(), "NVIDIA RTX A6000, 49140, 48536, 8.6\nNVIDIA Unheard Of, 16000, 15000, 9.9\n");
  ASSERT_TRUE(gpus.has_value());
  EXPECT_EQ(gpus->size(), 2u);
  EXPECT_NEAR((*gpus)[0].free_gib, 47.40, 0.01);
  EXPECT_EQ((*gpus)[1].compute, 9.9);
  EXPECT_FALSE(parse_gpu_answer(shipped(), "No devices were found").has_value());
  const auto shared = parse_gpu_answer(shipped(), "NVIDIA GB10, [N/A], [N/A], 12.1\n");
  ASSERT_TRUE(shared.has_value()) << "its memory is the host's";
  EXPECT_GT(shared->front().total_gib, 100);
  const auto total = [](const std::string& line) { return parse_gpu_answer(shipped(), line)->front().total_gib; };
  EXPECT_EQ(total("NVIDIA A100-SXM4-80GB, 81920, 81000, 8.0"), 79.25);
  EXPECT_EQ(total("NVIDIA A100-PCIE-40GB, 40960, 40000, 8.0"), 39.39);
  EXPECT_EQ(total("NVIDIA H100 80GB HBM3, 81559, 81000, 9.0"), 79.19);
  EXPECT_EQ(total("NVIDIA GeForce RTX 3090, 24576, 24000, 8.6"), 23.57);
  EXPECT_EQ(total("NVIDIA RTX 6000 Ada Generation, 49140, 48000, 8.9"), 47.50);
  EXPECT_EQ(total("NVIDIA RTX PRO 6000 Blackwell Workstation Edition, 97887, 97000, 12.0"), 94.97);
  EXPECT_EQ(total("Tesla T4, 15360, 15000, 7.5"), 14.58);
}

TEST(Render, the_fields_that_scripts_read) {
  const Asked q = asked("Qwen3-8B", "vllm", "0.19.0", "2xH100", {"max-model-len=8192"});
  const Value json = to_json(q.plan(), q.query, "Qwen3-8B");
  for (const char* field : {"schema_version", "decision", "kv_tokens", "kv_pool_gib", "weights_gib", "state_gib",
                            "graphs_gib", "activation_gib", "headroom_gib", "ranks", "state_slots",
                            "max_running_requests", "max_model_len", "flags", "ladder", "invalid"})
    EXPECT_TRUE(json.contains(field)) << field;
  for (const char* field :
       {"kv_tokens", "kv_pool_gib", "weights_gib", "state_gib", "graphs_gib", "activation_gib", "headroom_gib"}) {
    EXPECT_LE(json[field]["low"].get<double>(), json[field]["mid"].get<double>()) << field;
    EXPECT_LE(json[field]["mid"].get<double>(), json[field]["high"].get<double>()) << field;
  }
  EXPECT_EQ(json["ranks"].size(), 2u);
  EXPECT_EQ(json["max_model_len"], 8192);
  EXPECT_EQ(json["flags"].size(), 2u);
  const std::string text = as_text(q.plan(), q.query, "Qwen3-8B", 80);
  EXPECT_NE(text.find("vllm serve Qwen/Qwen3-8B --max-model-len 8192 --tensor-parallel-size 2"), std::string::npos)
      << text;
  EXPECT_NE(text.find("GPU 1"), std::string::npos);
}

TEST(Vllm, a_gpu_that_somebody_else_uses_too) {
  Asked q = asked("Qwen3-8B", "vllm", "0.32.0", "2xA6000", {"max-model-len=8192"});
  q.query.gpus[1].free_gib = 20;
  const Plan plan = q.plan();
  EXPECT_EQ(plan.likely.ends, Stage::before_weights);
  ASSERT_FALSE(plan.ladder.empty());
  EXPECT_EQ(plan.ladder.front().changes.front().name, "gpu-memory-utilization");
  EXPECT_LT(std::atof(plan.ladder.front().changes.front().value.c_str()), (20 - 1.5) / 47.53 + 1e-9);
}

TEST(Given, pins_a_term_and_nothing_else) {
  const Outcome plain = asked("Qwen3-8B", "vllm", "0.19.0", "H100", {"max-model-len=8192"}).likely();
  const Outcome pinned =
      asked("Qwen3-8B", "vllm", "0.19.0", "H100", {"max-model-len=8192"}, {"weights_gib=20"}).likely();
  EXPECT_NEAR(pinned.ranks[0].kv_pool_gib, plain.ranks[0].kv_pool_gib + plain.ranks[0].weights_gib - 20, 1e-6);
  Given given;
  EXPECT_FALSE(given.set("weight_gib", "1").has_value());
  for (const char* value : {"much", "", "-1", "nan", "inf", "1e999", "3GiB"})
    EXPECT_FALSE(given.set("weights_gib", value).has_value()) << value;
  EXPECT_FALSE(given.weights_gib.has_value());
}

// Source: vllm 0.32.0, config/scheduler.py.
TEST(Validity, batches_that_vllm_refuses) {
  const auto wrong = [](const std::vector<std::string>& set) {
    const Plan plan = asked("Qwen3-8B", "vllm", "0.32.0", "H100", set).plan();
    return plan.invalid.empty() ? std::string() : plan.invalid.front().flag + ": " + plan.invalid.front().message;
  };
  EXPECT_NE(wrong({"max-num-seqs=1024", "max-num-batched-tokens=512"}).find("smaller than the 1024 requests"),
            std::string::npos);
  EXPECT_EQ(wrong({"max-num-seqs=512", "max-num-batched-tokens=512"}), "");
  EXPECT_NE(wrong({"enable-chunked-prefill=false", "max-num-batched-tokens=2048"}).find("without chunked prefill"),
            std::string::npos);
  EXPECT_EQ(wrong({"enable-chunked-prefill=false", "max-num-batched-tokens=2048", "max-model-len=2048"}), "");
}

TEST(Validity, a_version_that_nobody_has_read_is_answered_with_a_note) {
  const auto noted = [](const char* engine, const char* version) {
    const Plan plan = asked("Qwen3-8B", engine, version, "H100").plan();
    return std::any_of(plan.notes.begin(), plan.notes.end(),
                       [](const std::string& note) { return note.find("is newer than all") != std::string::npos; });
  };
  EXPECT_TRUE(noted("sglang", "9.9.9"));
  EXPECT_FALSE(noted("sglang", "0.5.23"));
  EXPECT_FALSE(noted("vllm", "0.32.0+cpu"));
}

TEST(Validity, what_is_asked_for_and_what_a_flag_says_must_agree) {
  Asked one = asked("Qwen3-8B", "vllm", "0.32.0", "H100", {"max-model-len=4096", "max-num-seqs=10"});
  EXPECT_TRUE(one.plan().invalid.empty());
  one.query.context = 8192;
  EXPECT_EQ(one.plan().invalid.front().flag, "max-model-len");
  one.query.context = 4096;
  one.query.concurrency = 500;
  EXPECT_EQ(one.plan().invalid.front().flag, "max-num-seqs");
}

TEST(Validity, a_pool_smaller_than_the_request_that_is_asked_for_does_not_fit) {
  Asked small = asked("Qwen3-8B", "sglang", "0.5.23", "24GiB");
  EXPECT_EQ(small.plan().decision, Decision::fits);
  small.query.context = 32768;
  const Plan plan = small.plan();
  EXPECT_LT(plan.kv_tokens.mid, 32768);
  EXPECT_EQ(plan.decision, Decision::does_not_fit);
  EXPECT_NE(plan.sentence.find("would be refused"), std::string::npos) << plan.sentence;
}

}  // namespace
}  // namespace millwright::planner
