#include <unistd.h>

#include <cstring>

#include <fstream>
#include <sstream>

#include "orchestrator/base/text.hpp"
#include "planner_test_data.hpp"
#include "steps/server/planner/replan.hpp"

namespace millwright::planner {
namespace {

LogReading of_file(const std::string& name) { return reading(log_text(name)); }

Replan replan_of(const std::string& model, const std::string& version, const std::string& gpus, const LogReading& log,
                 const std::vector<LogReading>& earlier = {}, const std::vector<std::string>& set = {}) {
  Asked q = asked(model, log.engine, version, gpus, set);
  add_logged_flags(log, q.table, q.flags);
  q.query.set = q.flags.set;
  return replan(shipped(), q.query, q.flags, q.table, log, earlier);
}

TEST(ReadLog, of_real_starts_on_cpus) {
  const LogReading sglang = of_file("sglang-0.5.11-cpu-ok.log");
  EXPECT_EQ(sglang.engine, "sglang");
  EXPECT_TRUE(sglang.ready);
  EXPECT_FALSE(sglang.failure.has_value());
  EXPECT_EQ(sglang.term("pre_gib"), 18.86);
  EXPECT_EQ(sglang.term("post_gib"), 18.57);
  EXPECT_EQ(sglang.term("kv_tokens"), 92532);
  EXPECT_EQ(sglang.term("max_running_requests"), 4096);
  EXPECT_EQ(sglang.arguments.at("context-length"), "2048");
  EXPECT_TRUE(sglang.on_cpu);
  const LogReading newest = of_file("sglang-0.5.23-cpu-ok.log");
  EXPECT_EQ(newest.term("kv_tokens"), 279458);
  EXPECT_EQ(newest.arguments.at("mem-fraction-static"), "0.3") << "printed as a dictionary";
  const LogReading vllm = of_file("vllm-0.32.0-cpu-ok.log");
  EXPECT_EQ(vllm.version, "0.32.0");
  EXPECT_EQ(vllm.term("kv_tokens"), 110733);
  EXPECT_TRUE(vllm.ready);
  EXPECT_TRUE(of_file("llama.cpp-0.7.0-ok.log").ready);
}

TEST(ReadLog, of_real_failures) {
  struct Case {
    const char* file;
    const char* where;
    const char* symptom_class;
  };
  for (const Case& one : {Case{"sglang-0.5.9-cpu-not-enough-memory.log", "pool_sizing", "memory_pool_too_small"},
                          Case{"sglang-0.5.9-unknown-flag.log", "flag_unknown", "flag_unknown"},
                          Case{"sglang-0.5.9-cpu-no-libnuma.log", "before_weights", "missing_library"},
                          Case{"sglang-0.5.9-cpu-no-compiler.log", "warm_up", "missing_compiler"},
                          Case{"vllm-0.32.0-cpu-share-too-small.log", "pool_sizing", "memory_pool_too_small"},
                          Case{"llama.cpp-0.7.0-unknown-flag.log", "flag_unknown", "flag_unknown"},
                          Case{"llama.cpp-0.7.0-bad-value.log", "before_weights", "flag_invalid"},
                          Case{"llama.cpp-0.7.0-missing-library.log", "before_weights", "missing_library"},
                          Case{"llama.cpp-0.7.0-port-taken.log", "before_weights", "port_taken"},
                          Case{"llama.cpp-0.7.0-file-missing.log", "weights", "file_missing"},
                          Case{"llama.cpp-0.7.0-file-cut.log", "weights", "file_corrupt"},
                          Case{"llama.cpp-0.7.0-header-cut.log", "weights", "file_corrupt"},
                          Case{"llama.cpp-0.7.0-no-gguf.log", "weights", "file_corrupt"},
                          Case{"llama.cpp-0.7.0-quantized-v.log", "pool_sizing", "flag_invalid"},
                          Case{"llama.cpp-0.7.0-kv-too-large.log", "pool_sizing", "gpu_out_of_memory"}}) {
    const LogReading log = reading(log_text(one.file), std::string(one.file, std::strchr(one.file, '-')));
    ASSERT_TRUE(log.failure.has_value()) << one.file;
    EXPECT_EQ(log.failure->where, one.where) << one.file;
    EXPECT_EQ(log.failure->symptom_class, one.symptom_class) << one.file;
    EXPECT_FALSE(log.failure->line.empty());
  }
}

TEST(ReadLog, no_log_of_a_failure_goes_unnamed) {
  for (const auto& entry : std::filesystem::directory_iterator(std::string(TEST_DATA) + "/planner/logs")) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() != ".log" || name.find("-ok.log") != std::string::npos) continue;
    const std::size_t at = name.find("composed-") == 0 ? 9 : 0;
    const LogReading log = reading(log_text(name), name.substr(at, name.find('-', at) - at));
    EXPECT_TRUE(log.failure.has_value() || log.ready) << name;
  }
}

TEST(ReadLog, every_class_is_one_that_remedies_know) {
  const Value& classes = shipped().file("classes").at("classes");
  for (const auto& [name, engine] : shipped().file("memory_log").at("engines").items()) {
    for (const Value& row : engine.at("failures"))
      EXPECT_TRUE(classes.contains(row.at("class").get<std::string>())) << name << " " << row.dump();
  }
}

// The messages of the engines' sources, one a row, and what they mean by where they stand.
TEST(ReadLog, messages_by_place) {
  struct Case {
    const char* engine;
    const char* text;
    const char* where;
  };
  const Case cases[] = {
      {"sglang",
       "Load weight begin. avail mem=47.0 GB\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 96.00 MiB",
       "weights"},
      {"sglang",
       "Load weight end. avail mem=1.0 GB, mem usage=46 GB\nMemory pool end. avail mem=0.5 GB\ntorch.OutOfMemoryError: "
       "CUDA out of memory.",
       "after_pool"},
      {"sglang", "Capture cuda graph begin.\nException: Capture cuda graph failed: CUDA out of memory",
       "graph_capture"},
      {"sglang",
       "ValueError: Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=0.7. Raise "
       "--mem-fraction-static above 0.812 (minimum",
       "pool_sizing"},
      {"sglang",
       "RuntimeError: Not enough GPU memory for hybrid (mamba/linear-attention) state cache. Computed "
       "max_mamba_cache_size=-3 (total_rest_memory=1.20 GB, mamba_cache_per_req=73.41 MB).",
       "state_slots"},
      {"sglang", "The memory capacity is unbalanced. Some GPUs may be occupied by other processes.", "other_tenant"},
      {"sglang", "Rank 0 scheduler died during initialization (exit code -9)", "host_memory"},
      {"sglang", "launch_server.py: error: ambiguous option: --cuda-graph-max-bs could match", "flag_unknown"},
      {"vllm",
       "ValueError: Free memory on device (20.10/23.57 GiB) on startup is less than desired GPU memory utilization "
       "(0.9, 21.21 GiB).",
       "before_weights"},
      {"vllm", "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`",
       "pool_sizing"},
      {"vllm",
       "ValueError: To serve at least one request with the models's max seq len (262144), (24.00 GiB KV cache is "
       "needed, which is larger than the available KV cache memory (3.18 GiB).",
       "one_request"},
      {"vllm", "ValueError: max_num_seqs (1024) exceeds available Mamba cache blocks (939).", "state_slots"},
      {"vllm", "AssertionError: Error in memory profiling. Initial free memory 20, current free memory 30",
       "other_tenant"},
      {"vllm", "RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy requests.",
       "warm_up"},
      {"llama.cpp",
       "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 39979.48 MiB on device 0: cudaMalloc failed: out of "
       "memory",
       "before_weights"},
      {"llama.cpp", "llama_kv_cache: failed to allocate buffer for kv cache", "pool_sizing"},
      {"llama.cpp", "error: failed to allocate buffer for rs cache", "state_slots"},
      {"llama.cpp", "graph_reserve: failed to allocate compute buffers", "after_pool"},
      {"llama.cpp", "error: invalid argument: --draft-max", "flag_unknown"},
  };
  for (const Case& one : cases) {
    const LogReading log = reading(one.text, one.engine);
    ASSERT_TRUE(log.failure.has_value()) << one.text;
    EXPECT_EQ(log.failure->where, one.where) << one.text;
  }
}

TEST(ReadLog, numbers_of_messages) {
  const LogReading log = reading(
      "Memory pool end. avail mem=1.0 GB\nCUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity "
      "of 23.57 GiB of which 512.00 MiB is free.",
      "sglang");
  EXPECT_EQ(log.failure->numbers.at("asked"), 1.5);
  EXPECT_EQ(log.failure->numbers.at("free"), 0.5);
}

TEST(ReadLog, of_nothing_known_and_of_odd_bytes) {
  EXPECT_FALSE(read_log(shipped(), "hello", "").has_value());
  EXPECT_FALSE(read_log(shipped(), "hello", "tgi").has_value());
  EXPECT_TRUE(read_log(shipped(), std::string(200000, 'x') + "server_args=ServerArgs(" + std::string(50000, '('), "")
                  .has_value());
  EXPECT_TRUE(read_log(shipped(), std::string("server_args=ServerArgs(a='\0'", 28), "").has_value());
}

TEST(Arguments, as_the_engines_print_them) {
  const auto first =
      arguments_of("server_args=ServerArgs(model_path='a, b', x=None, list=[1, 2], d={'k': (1, 2)}, on=True, f=0.85)");
  EXPECT_EQ(first.at("model-path"), "a, b");
  EXPECT_EQ(first.count("x"), 0u);
  EXPECT_EQ(first.at("list"), "[1, 2]");
  EXPECT_EQ(first.at("on"), "true");
  EXPECT_EQ(first.at("f"), "0.85");
  EXPECT_EQ(arguments_of("non-default args: {'max_model_len': 2048, 'model': 'm'}").at("max-model-len"), "2048");
  EXPECT_TRUE(arguments_of("nothing").empty());
}

// `journalctl -u UNIT` has every start of a unit.
TEST(ReadLog, of_several_starts_the_last_counts) {
  const std::string fine = log_text("sglang-0.5.9-cpu-ok.log"),
                    failed = log_text("sglang-0.5.9-cpu-not-enough-memory.log");
  const LogReading alone = reading(failed), after = reading(fine + failed);
  ASSERT_TRUE(after.failure.has_value());
  EXPECT_FALSE(after.ready);
  EXPECT_EQ(after.terms, alone.terms);
  EXPECT_EQ(after.arguments, alone.arguments);
  EXPECT_GT(after.failure->line_number, alone.failure->line_number) << "lines are those of the whole file";
  const LogReading mended = reading(failed + fine);
  EXPECT_TRUE(mended.ready);
  EXPECT_FALSE(mended.failure.has_value());
  EXPECT_EQ(mended.terms, reading(fine).terms);
  const std::string vllm = log_text("vllm-0.32.0-cpu-ok.log"), llama = log_text("llama.cpp-0.7.0-ok.log");
  EXPECT_EQ(reading(vllm + vllm).terms, reading(vllm).terms);
  EXPECT_EQ(reading(llama + llama).terms, reading(llama).terms) << "buffers are summed within one start";
}

TEST(Replan, the_founding_story_fits_at_the_first_replan) {
  const Replan out = replan_of("Qwen3.6-27B", "0.5.9", "2xA6000", of_file("composed-sglang-0.5.9-story.log"));
  ASSERT_FALSE(out.next.empty());
  EXPECT_EQ(out.next.front().changes.front().name, "max-running-requests");
  EXPECT_EQ(out.next.front().decision, Decision::fits);
  EXPECT_LE(out.next.front().changes.size(), 2u);
  EXPECT_NE(out.arithmetic.front().find("46.60 x 0.150 = 13.71"), std::string::npos) << out.arithmetic.front();
  EXPECT_NE(out.arithmetic[1].find("48 requests x 4 tokens"), std::string::npos);
  // And the next start, by the same formulas, starts.
  Asked again =
      asked("Qwen3.6-27B", "sglang", "0.5.9", "2xA6000",
            {"max-running-requests=" + out.next.front().changes.front().value}, {"pre_gib=46.60", "post_gib=20.70"});
  add_logged_flags(of_file("composed-sglang-0.5.9-story.log"), again.table, again.flags);
  again.query.set = again.flags.set;
  EXPECT_TRUE(again.likely().starts());
}

TEST(Replan, a_fraction_too_small_on_a_real_engine) {
  const LogReading log = of_file("sglang-0.5.9-cpu-not-enough-memory.log");
  const Replan out = replan_of("gemma-3-270m", "0.5.9", "24GiB", log);
  ASSERT_FALSE(out.next.empty());
  EXPECT_EQ(out.next.front().changes.front().name, "mem-fraction-static");
  EXPECT_GT(std::atof(out.next.front().changes.front().value.c_str()), 1 - 18.68 / 18.78);
}

TEST(Replan, opposite_errors_end_the_search) {
  const LogReading first = of_file("composed-sglang-0.4.3-l40s-084.log");
  const LogReading second = of_file("composed-sglang-0.4.3-l40s-085.log");
  EXPECT_FALSE(replan_of("Qwen3-14B", "0.5.6", "L40S", first).opposite);
  const Replan out = replan_of("Qwen3-14B", "0.5.6", "L40S", second, {first});
  EXPECT_TRUE(out.opposite);
  EXPECT_NE(out.verdict.find("does not fit: it needs"), std::string::npos);
  for (const LadderStep& step : out.next)
    EXPECT_FALSE(step.changes.size() == 1 && step.changes.front().name == "mem-fraction-static");
}

TEST(Replan, a_pool_far_below_the_prediction_is_a_warning) {
  const Replan out = replan_of("Qwen3-8B", "0.5.19", "H100", of_file("composed-sglang-pool-far-below.log"));
  bool warned = false;
  for (const Compared& one : out.compared) warned = warned || !one.remark.empty();
  EXPECT_TRUE(warned);
  EXPECT_TRUE(out.next.empty());
}

TEST(Replan, of_another_model_or_version_is_a_warning) {
  const auto warnings = [](const std::string& file, const char* engine, const char* version, const std::string& model,
                           const char* gpus) {
    const LogReading log = of_file(file);
    return join(log_mismatches(shipped(), log, asked(model, engine, version, gpus).query, model), "\n");
  };
  const std::string vllm = "vllm-0.32.0-cpu-ok.log", story = "composed-sglang-0.5.9-story.log";
  EXPECT_EQ(warnings(vllm, "vllm", "0.32.0", "gemma-3-270m", "24GiB"), "");
  EXPECT_NE(
      warnings(vllm, "vllm", "0.19.0", "gemma-3-270m", "24GiB").find("of vLLM 0.32.0, and is read as one of 0.19.0"),
      std::string::npos);
  EXPECT_EQ(warnings(story, "sglang", "0.5.9", "Qwen/Qwen3.6-27B", "2xA6000"), "");
  EXPECT_NE(warnings(story, "sglang", "0.5.9", "Qwen/Qwen3-8B", "2xA6000").find("compared with Qwen/Qwen3-8B"),
            std::string::npos);
  // Whatever the folder is called, the weights tell.
  LogReading log = of_file(story);
  log.model = "/srv/model";
  log.terms["weights_gib"] = 25.9;
  const Asked same = asked("Qwen/Qwen3.6-27B", "sglang", "0.5.9", "2xA6000", {"tensor-parallel-size=2"});
  EXPECT_TRUE(log_mismatches(shipped(), log, same.query, "/srv/model").empty());
  const Asked other = asked("Qwen/Qwen3-8B", "sglang", "0.5.9", "2xA6000", {"tensor-parallel-size=2"});
  const auto found = log_mismatches(shipped(), log, other.query, "/srv/model");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NE(found.front().find("weights take 25.90 GiB"), std::string::npos) << found.front();
}

TEST(Replan, a_start_that_went_well_is_compared) {
  const Replan out = replan_of("gemma-3-270m", "0.5.11", "24GiB", of_file("sglang-0.5.11-cpu-ok.log"));
  for (const Compared& one : out.compared) {
    if (one.term != "kv_tokens") continue;
    EXPECT_NEAR(one.predicted, one.measured, 0.005 * one.measured);
  }
  EXPECT_EQ(out.verdict, "It started.");
}

TEST(Replan, an_unknown_flag_is_no_matter_of_memory) {
  const Replan out = replan_of("gemma-3-270m", "0.5.9", "24GiB", of_file("sglang-0.5.9-unknown-flag.log"));
  EXPECT_FALSE(out.memory);
  EXPECT_TRUE(out.next.empty());
  EXPECT_NE(out.verdict.find("--mamba-scheduler-strategy"), std::string::npos) << out.verdict;
}

TEST(Replan, vllm_one_request_too_long) {
  const LogReading log = reading(
      "INFO [utils.py] non-default args: {'max_model_len': 262144, 'model': 'Qwen/Qwen3-Coder-30B-A3B'}\nModel loading "
      "took 56.90 GiB\n"
      "ValueError: To serve at least one request with the model's max seq len (262144), (24.00 GiB KV cache is needed, "
      "which is larger than the available KV cache memory (3.18 GiB).",
      "vllm");
  const Replan out = replan_of("Qwen3-Coder-30B-A3B", "0.15.2", "H100", log);
  ASSERT_FALSE(out.next.empty());
  EXPECT_EQ(out.next.front().changes.front().name, "max-model-len");
  EXPECT_LE(std::atoi(out.next.front().changes.front().value.c_str()), 34736);
}

TEST(Replan, vllm_another_process_on_the_gpu) {
  const LogReading log = reading(
      "INFO non-default args: {'gpu_memory_utilization': 0.9}\nValueError: Free memory on device (18.00/23.57 GiB) on "
      "startup is less than desired GPU memory utilization (0.9, 21.21 GiB).",
      "vllm");
  const Replan out = replan_of("Qwen3-8B", "0.19.0", "rtx-3090", log, {}, {"max-model-len=4096"});
  ASSERT_FALSE(out.next.empty());
  EXPECT_EQ(out.next.front().changes.front().name, "gpu-memory-utilization");
  EXPECT_LE(std::atof(out.next.front().changes.front().value.c_str()), 18.0 / 23.57);
}

}  // namespace
}  // namespace millwright::planner
