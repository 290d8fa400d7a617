// SGLang and vLLM in the host's memory: what a kill at a limit is answered with.
#include "steps/server/planner/engine_host.hpp"

#include <unistd.h>

#include "planner_test_data.hpp"

namespace millwright::planner {
namespace {

EngineHost on_cpu(std::map<std::string, std::string> environment = {}) {
  return {{19, 23.54, 1}, true, std::move(environment)};
}

HostReplan killed(const Asked& q, const EngineHost& engine, double limit_gib) {
  return replan_engine_host(q.query, q.table, engine, limit_gib, "memory_max");
}

TEST(EngineHost, sglang_s_share_of_the_host_is_lowered_to_the_limit) {
  const Asked q = asked("gemma-3-270m", "sglang", "0.5.9", "24GiB", {"mem-fraction-static=0.8"});
  const HostNeed need = engine_host_need(q.query, on_cpu(), Scenario::likely);
  EXPECT_NEAR(need.weights + need.kv, 0.8 * 19, 0.01) << "f of what is free is for weights and pool";
  const HostReplan out = killed(q, on_cpu(), 8);
  ASSERT_FALSE(out.next.empty()) << out.verdict;
  const FlagChoice& change = out.next.front().changes.front();
  EXPECT_EQ(change.name, "mem-fraction-static");
  const double fraction = std::atof(change.value.c_str());
  EXPECT_LE(fraction * 19, 8 - need.process);
  EXPECT_GT(fraction * 19, need.weights);
  EXPECT_EQ(out.next.front().decision, Decision::fits);
}

TEST(EngineHost, vllm_s_share_is_of_all_that_the_host_has) {
  const Asked q = asked("gemma-3-270m", "vllm", "0.32.0", "24GiB", {"max-model-len=2048"});
  const HostReplan out = killed(q, on_cpu(), 8);
  ASSERT_FALSE(out.next.empty()) << out.verdict;
  EXPECT_EQ(out.next.front().changes.front().name, "gpu-memory-utilization");
  EXPECT_LT(std::atof(out.next.front().changes.front().value.c_str()) * 23.54, 8);
  // As the corpus' log had it: 0.02 leaves 1.8 GiB too little for any pool.
  Query small = q.query;
  small.set.set("gpu-memory-utilization", "0.02");
  EXPECT_EQ(engine_host_need(small, on_cpu(), Scenario::likely).kv, 0);
}

TEST(EngineHost, a_pool_of_the_environment_is_no_flag_s) {
  const Asked q = asked("gemma-3-270m", "vllm", "0.32.0", "24GiB", {"max-model-len=2048"});
  const HostReplan out = killed(q, on_cpu({{"VLLM_CPU_KVCACHE_SPACE", "12"}}), 8);
  EXPECT_TRUE(out.next.empty());
  EXPECT_NE(out.verdict.find("VLLM_CPU_KVCACHE_SPACE = 12"), std::string::npos) << out.verdict;
  EXPECT_GT(out.least_gib, 12);
}

TEST(EngineHost, what_no_flag_makes_up_is_said_with_what_is_needed) {
  for (const char* engine : {"sglang", "vllm"}) {
    for (const bool cpu : {true, false}) {
      const Asked q = asked("Qwen/Qwen3-8B", engine, "", "80GiB");
      EngineHost host = on_cpu();
      host.on_cpu = cpu;
      const HostReplan out = killed(q, host, 1);
      EXPECT_TRUE(out.next.empty()) << engine;
      EXPECT_NE(out.verdict.find("does not fit into 1.00 GiB: it needs "), std::string::npos) << out.verdict;
      EXPECT_NE(out.verdict.find("no flag makes that up"), std::string::npos) << out.verdict;
      EXPECT_GT(out.least_gib, 1);
    }
  }
  const Asked old = asked("Qwen/Qwen3-8B", "vllm", "0.11.0", "80GiB");
  EXPECT_NE(killed(old, on_cpu(), 1).verdict.find("VLLM_CPU_KVCACHE_SPACE in `env`"), std::string::npos);
}

TEST(EngineHost, caches_kept_for_a_gpu_are_made_smaller) {
  const EngineHost gpu = {{200, 256, 2}, false, {}};
  const Asked sized =
      asked("Qwen/Qwen3-8B", "sglang", "0.5.9", "80GiB", {"enable-hierarchical-cache", "hicache-size=100"});
  EXPECT_NEAR(engine_host_need(sized.query, gpu, Scenario::likely).pinned, 100e9 / kGiB, 0.01);
  const HostReplan smaller = killed(sized, gpu, 64);
  ASSERT_FALSE(smaller.next.empty()) << smaller.verdict;
  EXPECT_EQ(smaller.next.front().changes.front().name, "hicache-size");
  EXPECT_LT(std::atof(smaller.next.front().changes.front().value.c_str()) * 1e9 / kGiB, 64);
  const Asked ratio = asked("Qwen/Qwen3-8B", "sglang", "0.5.9", "80GiB", {"enable-hierarchical-cache"});
  const double pool = outcome_of(ratio.query, layout_of(ratio.query), Scenario::likely).ranks[0].kv_pool_gib;
  EXPECT_NEAR(engine_host_need(ratio.query, gpu, Scenario::likely).pinned, 2 * pool, 0.01);
  const Asked offload =
      asked("Qwen/Qwen3-8B", "vllm", "0.32.0", "2x80GiB", {"tensor-parallel-size=2", "kv-offloading-size=40"});
  const HostReplan less = killed(offload, gpu, 32);
  ASSERT_FALSE(less.next.empty()) << less.verdict;
  EXPECT_EQ(less.next.front().changes.front().name, "kv-offloading-size");
  const Asked weights =
      asked("Qwen/Qwen3-8B", "vllm", "0.32.0", "2x80GiB", {"tensor-parallel-size=2", "cpu-offload-gb=5"});
  EXPECT_NEAR(engine_host_need(weights.query, gpu, Scenario::likely).pinned, 10, 0.01);
}

TEST(EngineHost, what_ended_with_room_by_the_figures_takes_something_unknown) {
  const Asked q = asked("gemma-3-270m", "sglang", "0.5.9", "24GiB", {"mem-fraction-static=0.3"});
  const double need = engine_host_need(q.query, on_cpu(), Scenario::likely).total();
  const HostReplan out = killed(q, on_cpu(), need + 1);
  EXPECT_NE(out.arithmetic.back().find("1.00 GiB that they do not have"), std::string::npos) << out.arithmetic.back();
  ASSERT_FALSE(out.next.empty());
  EXPECT_LT(std::atof(out.next.front().changes.front().value.c_str()), 0.3);
}

}  // namespace
}  // namespace millwright::planner
