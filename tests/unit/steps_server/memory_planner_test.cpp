#include "steps/server/memory_planner.hpp"

#include <gtest/gtest.h>

#include "steps/server/model_headers.hpp"
#include "tests/unit/planner/planner_test_data.hpp"
#include "tests/unit/steps_core/real_shell.hpp"

namespace millwright {
namespace {

using planner::log_text;
using planner::shipped;
using Words = std::vector<std::string>;

MemoryPlanner planner_for(const std::string& model, const std::string& engine, const std::string& version,
                          const std::string& gpus, bool on_cpu = false) {
  const planner::Asked asked = planner::asked(model, engine, version, gpus);
  return {shipped(), asked.query.model, asked.query.facts, asked.table, asked.query.gpus, on_cpu};
}

planner::FlagTable table_of(const std::string& engine, const std::string& version) {
  return *planner::FlagTable::load(shipped(), engine, *Version::parse(version));
}

TEST(MemoryFlags, of_a_command_line) {
  EXPECT_EQ(
      settings_of({"/srv/model", "--tp", "2", "--enable-x", "--f=0.5", "--disable-y", "--bias", "-1", "-np", "4"}),
      (Words{"tp=2", "enable-x=true", "f=0.5", "disable-y=true", "bias=-1", "np=4"}));
  EXPECT_TRUE(settings_of({"model", "-", ""}).empty());
}

TEST(MemoryFlags, a_change_takes_the_place_of_every_spelling) {
  const planner::FlagTable table = table_of("sglang", "0.5.9");
  const std::vector<planner::FlagChoice> change = {{"mem-fraction-static", "0.8", "why"}};
  const Words wanted = {"--log-level", "info", "--mem-fraction-static", "0.8"};
  EXPECT_EQ(apply_changes({"--mem-fraction-static", "0.9", "--log-level", "info"}, change, table), wanted);
  EXPECT_EQ(apply_changes({"--log-level", "info", "--mem-fraction-static=0.9"}, change, table), wanted);
  EXPECT_EQ(apply_changes({"--log-level", "info", "--mem-frac", "0.9"}, change, table), wanted) << "argparse's prefix";
  EXPECT_EQ(apply_changes({}, {{"disable-cuda-graph", "true", ""}}, table), Words{"--disable-cuda-graph"});
  EXPECT_EQ(apply_changes({"--disable-cuda-graph", "--log-level", "info"}, {{"disable-cuda-graph", "true", ""}}, table),
            (Words{"--log-level", "info", "--disable-cuda-graph"}));
}

TEST(MemoryFlags, the_value_of_one_under_any_name) {
  const planner::FlagTable table = table_of("sglang", "0.5.9");
  const Words words = {"--tp", "2", "--mem-fraction-static", "0.9", "--mem-frac=0.8", "--disable-cuda-graph"};
  EXPECT_EQ(value_in(words, "tensor-parallel-size", table), "2");
  EXPECT_EQ(value_in(words, "mem-fraction-static", table), "0.8") << "the last one counts";
  EXPECT_EQ(value_in(words, "disable-cuda-graph", table), "true");
  EXPECT_EQ(value_in(words, "max-running-requests", table), "");
}

TEST(MemoryFlags, what_the_user_says_anew_wins_over_what_was_learned) {
  const planner::FlagTable table = table_of("sglang", "0.5.9");
  const std::vector<LearnedFlag> learned = {{{"mem-fraction-static", "0.9", "a larger share"}, "0.85"},
                                            {{"max-running-requests", "24", "fewer states"}, ""}};
  const auto names = [&](const Words& words) {
    Words out;
    for (const planner::FlagChoice& flag : still_wanted(learned, words, table)) out.push_back(flag.name);
    return out;
  };
  const Words both = {"mem-fraction-static", "max-running-requests"};
  EXPECT_EQ(names({"--mem-fraction-static", "0.85"}), both) << "the very value that failed";
  EXPECT_EQ(names({}), both) << "nothing is said any more";
  EXPECT_EQ(names({"--mem-fraction-static", "0.88"}), Words{"max-running-requests"});
  EXPECT_EQ(names({"--mem-fraction-static=0.85", "--max-running-requests", "48"}), Words{"mem-fraction-static"})
      << "it was not given when it was learned";
  EXPECT_TRUE(names({"--mem-frac", "0.7", "--max-running-requests", "48"}).empty());
}

MemoryPlanner host_planner() {
  const planner::Asked asked = planner::asked("gemma-3-270m", "llama.cpp", "0.7.0", "24GiB");
  return {shipped(), asked.query.model, asked.query.facts, asked.table, asked.query.gpus, true};
}

TEST(MemoryPlanner, a_kill_at_the_unit_s_limit_is_planned_anew) {
  const Words words = {"--model", "/srv/good.gguf", "--ctx-size", "262144", "--parallel", "1"};
  const auto decision = host_planner().after_kill(words, {1100ULL << 20, "memory_max"}, nullptr);
  ASSERT_TRUE(decision.has_value()) << render(decision.error());
  ASSERT_EQ(decision->changes.size(), 1u);
  EXPECT_EQ(decision->changes.front().name, "ctx-size");
  EXPECT_EQ(decision->changes.front().value, "32768") << "what the model was made for: requests are no shorter";
  EXPECT_NE(decision->arithmetic.front().find("1100 MiB (memory_max)"), std::string::npos);
  const auto none = host_planner().after_kill(words, {64ULL << 20, "memory_max"}, nullptr);
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().symptom_class, "oom_killed");
  EXPECT_NE(none.error().hint.find("memory_max: "), std::string::npos) << none.error().hint;
}

TEST(MemoryPlanner, prompts_that_llama_cpp_keeps_stay_within_a_limit) {
  const Words words = {"--model", "/srv/good.gguf", "--ctx-size", "2048", "--parallel", "1"};
  const auto room = [&](std::uint64_t mib, const Words& given) -> std::string {
    const auto flag = host_planner().bounded_prompt_cache(words, given, {mib << 20U, "memory_max"}, nullptr);
    return flag ? flag->name + " " + flag->value : "";
  };
  EXPECT_EQ(room(64, words), "cache-ram 0");
  const std::string some = room(2048, words);
  ASSERT_EQ(some.rfind("cache-ram ", 0), 0u) << some;
  const int mib = std::atoi(some.c_str() + 10);
  EXPECT_GT(mib, 1024);
  EXPECT_LT(mib, 2048 - 290) << "the weights alone have so much";
  EXPECT_EQ(room(16384, words), "") << "the 8 GiB that it keeps by itself fit as well";
  EXPECT_EQ(room(64, {"--cache-ram", "100"}), "") << "the user's word";
  EXPECT_EQ(room(64, {"-cram", "100"}), "");
  class None final : public KnownFlags {
    std::string complaint(const std::string& word, std::string& /*hint*/) const override {
      return word == "--cache-ram" ? "no such flag" : "";
    }
  };
  const None launcher;
  EXPECT_FALSE(host_planner().bounded_prompt_cache(words, words, {64U << 20U, "memory_max"}, &launcher));
}

TEST(MemoryPlanner, a_launcher_that_knows_fewer_flags_is_not_given_others) {
  class Few final : public KnownFlags {
    std::string complaint(const std::string& word, std::string& /*hint*/) const override {
      return word == "--ubatch-size" ? "" : "no such flag";
    }
  };
  const Few launcher;
  const Words words = {"--model", "/srv/good.gguf", "--ctx-size", "262144", "--parallel", "1"};
  EXPECT_FALSE(host_planner().after_kill(words, {1100ULL << 20, "memory_max"}, &launcher).has_value());
}

TEST(MemoryPlanner, a_kill_of_an_engine_in_python_is_planned_anew_or_says_what_it_needs) {
  MemoryPlanner planner = planner_for("gemma-3-270m", "sglang", "0.5.9", "24GiB", true);
  planner.know_host({19, 23.5, 1}, {});
  const auto less = planner.after_kill({"--device", "cpu"}, {8ULL << 30, "memory_max"}, nullptr);
  ASSERT_TRUE(less.has_value()) << render(less.error());
  ASSERT_EQ(less->changes.size(), 1u);
  EXPECT_EQ(less->changes.front().name, "mem-fraction-static");
  const auto none = planner.after_kill({"--device", "cpu"}, {1ULL << 30, "memory_max"}, nullptr);
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().symptom_class, "oom_killed");
  EXPECT_NE(none.error().hint.find("give memory_max: "), std::string::npos) << none.error().hint;
  const auto host = planner.after_kill({"--device", "cpu"}, {1ULL << 30, "the container's memory"}, nullptr);
  EXPECT_NE(host.error().hint.find(" of the container's memory"), std::string::npos) << host.error().hint;
}

TEST(MemoryPlanner, the_founding_story_is_changed_before_it_starts) {
  const MemoryPlanner planner = planner_for("Qwen3.6-27B", "sglang", "0.5.9", "2xA6000");
  const Words story = {"--tensor-parallel-size",  "2",     "--max-running-requests",         "48",
                       "--mem-fraction-static",   "0.85",  "--mamba-full-memory-ratio",      "0.9",
                       "--speculative-algorithm", "NEXTN", "--speculative-num-draft-tokens", "4"};
  const auto decision = planner.before(story);
  ASSERT_TRUE(decision.has_value()) << render(decision.error());
  ASSERT_FALSE(decision->changes.empty());
  EXPECT_LE(decision->changes.size(), 2u);
  // Launched with them, it needs no change any more.
  Words next = apply_changes(story, decision->changes, table_of("sglang", "0.5.9"));
  EXPECT_TRUE(planner.before(next)->changes.empty()) << planner.before(next)->sentence;
}

TEST(MemoryPlanner, gives_tensor_parallelism_where_nobody_did) {
  const auto decision = planner_for("Qwen3.6-27B", "vllm", "0.32.0", "2xA6000").before({"--max-model-len", "8192"});
  ASSERT_TRUE(decision.has_value()) << render(decision.error());
  ASSERT_EQ(decision->changes.size(), 1u);
  EXPECT_EQ(decision->changes.front().name, "tensor-parallel-size");
  EXPECT_EQ(decision->changes.front().value, "2");
}

TEST(MemoryPlanner, what_cannot_fit_is_refused_before_anything_starts) {
  const auto decision = planner_for("Qwen3.6-27B", "sglang", "0.5.9", "rtx-3090").before({});
  ASSERT_FALSE(decision.has_value());
  EXPECT_EQ(decision.error().kind, ErrorKind::refused);
  EXPECT_NE(decision.error().message.find("GiB more per GPU"), std::string::npos) << decision.error().message;
}

TEST(MemoryPlanner, a_real_start_with_too_little_is_planned_anew) {
  MemoryPlanner planner = planner_for("gemma-3-270m", "sglang", "0.5.9", "24GiB", true);
  const Words words = {"--model-path", "/srv/model", "--context-length", "2048", "--mem-fraction-static", "0.005"};
  EXPECT_TRUE(planner.before(words)->changes.empty()) << "nothing is predicted on a processor";
  const auto decision = planner.after(words, log_text("sglang-0.5.9-cpu-not-enough-memory.log"));
  ASSERT_TRUE(decision.has_value()) << render(decision.error());
  ASSERT_EQ(decision->changes.size(), 1u);
  EXPECT_EQ(decision->changes.front().name, "mem-fraction-static");
  EXPECT_GT(std::stod(decision->changes.front().value), 1 - 18.68 / 18.78);
  EXPECT_FALSE(decision->arithmetic.empty());
}

// The messages are those of v1/worker/cpu_worker.py and v1/core/kv_cache_utils.py of 0.32.0, with numbers put in.
TEST(MemoryPlanner, vllm_on_a_processor_gets_another_share_of_the_host) {
  MemoryPlanner planner = planner_for("gemma-3-270m", "vllm", "0.32.0", "24GiB", true);
  const std::string head = "(Worker pid=1) INFO [cpu_worker.py:100] x\n(Worker pid=1) ERROR ValueError: ";
  const auto share = [&](const std::string& log) {
    const auto decision = planner.after({"/srv/model", "--gpu-memory-utilization", "0.5"}, head + log);
    if (!decision) return "none: " + decision.error().message;
    EXPECT_EQ(decision->changes.size(), 1u);
    EXPECT_FALSE(decision->arithmetic.empty());
    return decision->changes.front().name + " " + decision->changes.front().value;
  };
  EXPECT_EQ(
      share(
          "Available memory on node 0 (12.00/24.00 GiB) on startup is less than desired CPU memory utilization (0.92, "
          "22.08 GiB). On the CPU backend, the `--gpu-memory-utilization` flag"),
      "gpu-memory-utilization 0.450");
  // 0.48 - (-1.02) = 1.50 GiB were taken; with a quarter more and a pool of 1 GiB: 2.75 of 24.
  EXPECT_EQ(
      share("Available memory on node 0 (12.00/24.00 GiB) on kv cache allocation is less than requested memory for kv "
            "(-1.02/0.48 GiB). Reduce CPU memory used by other processes."),
      "gpu-memory-utilization 0.115");
  EXPECT_EQ(
      share("Available memory on node 0 (6.00/24.00 GiB) on kv cache allocation is less than requested memory for kv "
            "(10.00/12.00 GiB). Reduce CPU memory used by other processes."),
      "gpu-memory-utilization 0.308");
  // 2 GiB, of which 0.10 were a pool, and 0.60 are needed: 2 + 1.1 x 0.5 of 24.
  EXPECT_EQ(
      share("x\n(Worker pid=1) INFO [cpu_worker.py:260] Auto set (0.1/24.00) GiB for KV cache on node 0, with 2.0 GiB "
            "requested memory for the worker. 1.9 GiB memory was consumed by non-kv usages.\nValueError: To serve at "
            "least one request with the model's max seq len (32768), (0.60 GiB KV cache is needed, which is larger "
            "than the available KV cache memory (0.10 GiB)."),
      "gpu-memory-utilization 0.107");
  EXPECT_NE(
      share("Available memory on node 0 (0.00/24.00 GiB) on kv cache allocation is less than requested memory for kv "
            "(-1.02/0.48 GiB).")
          .find("No share of this host's memory is enough"),
      std::string::npos);
}

TEST(MemoryPlanner, opposite_errors_end_it_with_what_would_help) {
  MemoryPlanner planner = planner_for("Qwen3-14B", "sglang", "0.5.6", "L40S");
  EXPECT_TRUE(planner.after({}, log_text("composed-sglang-0.4.3-l40s-084.log")).has_value());
  const auto end = planner.after({}, log_text("composed-sglang-0.4.3-l40s-085.log"));
  ASSERT_FALSE(end.has_value());
  EXPECT_NE(end.error().message.find("does not fit: it needs"), std::string::npos);
  EXPECT_FALSE(end.error().hint.empty());
}

TEST(MemoryPlanner, a_flag_that_is_unknown_is_no_matter_of_memory) {
  MemoryPlanner planner = planner_for("gemma-3-270m", "sglang", "0.5.9", "24GiB");
  EXPECT_FALSE(planner.after({}, log_text("sglang-0.5.9-unknown-flag.log")).has_value());
}

TEST(MemoryPlanner, the_context_that_was_asked_for_is_not_lowered) {
  MemoryPlanner planner = planner_for("Qwen3-Coder-30B-A3B", "vllm", "0.15.2", "H100");
  const std::string log =
      "INFO [utils.py] non-default args: {'max_model_len': 262144, 'model': 'Qwen/Qwen3-Coder-30B-A3B'}\nModel loading "
      "took 56.90 GiB\nValueError: To serve at least one request with the model's max seq len (262144), (24.00 GiB KV "
      "cache is needed, which is larger than the available KV cache memory (3.18 GiB).";
  const auto asked = planner.after({"--max-model-len", "262144"}, log);
  if (asked) {
    for (const planner::FlagChoice& change : asked->changes) EXPECT_NE(change.name, "max-model-len");
  } else {
    EXPECT_NE(asked.error().hint.find("--max-model-len"), std::string::npos) << asked.error().hint;
  }
}

TEST(ModelHeaders, on_a_node_are_read_as_if_the_model_were_here) {
  const planner::Folder folder;
  const Value config = {{"architectures", {"LlamaForCausalLM"}},
                        {"model_type", "llama"},
                        {"hidden_size", 64},
                        {"num_attention_heads", 4},
                        {"num_key_value_heads", 2},
                        {"num_hidden_layers", 2},
                        {"intermediate_size", 128},
                        {"vocab_size", 256},
                        {"torch_dtype", "bfloat16"}};
  folder.write("config.json", config.dump());
  const Value header = {
      {"model.embed_tokens.weight", {{"dtype", "BF16"}, {"shape", {256, 64}}, {"data_offsets", {0, 32768}}}}};
  folder.write("model.safetensors", planner::safetensors(header));
  std::filesystem::resize_file(folder.path("model.safetensors"), 8 + header.dump().size() + 32768);
  const testing_tools::RealShell shell;
  const Answer answer = shell.run(model_headers_script(folder.path()), "-eu");
  ASSERT_EQ(answer.exit_code, 0) << answer.err;
  const auto there = read_model_headers(answer.out);
  ASSERT_TRUE(there.has_value()) << render(there.error());
  const auto here = planner::read_model(folder.path(), false);
  ASSERT_TRUE(here.has_value());
  EXPECT_EQ(there->shape.hidden, here->shape.hidden);
  EXPECT_EQ(there->weight_source, here->weight_source);
  EXPECT_FALSE(read_model_headers("file ../x 3\nAAAA\n").has_value());
  EXPECT_FALSE(read_model_headers("").has_value()) << "no config.json";
}

}  // namespace
}  // namespace millwright
