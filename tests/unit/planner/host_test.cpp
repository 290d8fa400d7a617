// llama.cpp in the host's memory, against what llama-server 0.7.0 printed and took (Gemma 3 270M, a processor).
#include <unistd.h>

#include "planner_test_data.hpp"
#include "steps/server/planner/host_memory.hpp"

namespace millwright::planner {
namespace {

constexpr double kMiB = 1.0 / 1024;

Asked gemma(const std::vector<std::string>& set) { return asked("gemma-3-270m", "llama.cpp", "0.7.0", "24GiB", set); }

TEST(HostMemory, buffers_are_those_that_the_server_prints) {
  struct Row {
    std::vector<std::string> set;
    double kv_mib;       // "CPU KV buffer size", both
    double compute_mib;  // "CPU compute buffer size"
  };
  for (const Row& row :
       {Row{{"ctx-size=2048", "parallel=1"}, 21.00, 21.28}, Row{{"ctx-size=32768", "parallel=1"}, 111.00, 51.28},
        Row{{"ctx-size=32768", "parallel=1", "ubatch-size=64"}, 107.25, 6.38}, Row{{}, 133.50, 52.78},
        Row{{"ctx-size=262144", "parallel=1"}, 783.00, 275.28},
        Row{{"ctx-size=131072", "parallel=1", "cache-type-k=q8_0", "cache-type-v=q8_0"}, 211.97, 147.81}}) {
    const HostNeed need = host_need(gemma(row.set).query, Scenario::likely);
    EXPECT_NEAR(need.kv / kMiB, row.kv_mib, 0.01 * row.kv_mib) << row.set.size();
    EXPECT_NEAR(need.compute / kMiB, row.compute_mib, 0.1 * row.compute_mib) << row.kv_mib;
    EXPECT_GT(host_need(gemma(row.set).query, Scenario::tight).total(), need.total());
  }
}

HostReplan at(const std::vector<std::string>& set, double limit_mib) {
  const Asked q = gemma(set);
  return replan_host(q.query, q.table, limit_mib * kMiB, "memory_max");
}

TEST(HostMemory, cells_that_no_request_can_use_go_first) {
  const HostReplan out = at({"ctx-size=262144", "parallel=1"}, 1100);
  ASSERT_FALSE(out.next.empty()) << out.verdict;
  EXPECT_EQ(words_of(out.next.front().changes), "--ctx-size 32768");
  EXPECT_EQ(out.next.front().max_model_len, 32768);
  EXPECT_EQ(out.next.front().decision, Decision::fits);
  EXPECT_EQ(host_request_length(gemma({"ctx-size=262144", "parallel=1"}).query), 32768) << "as before";
}

TEST(HostMemory, a_context_that_was_asked_for_is_not_shortened) {
  const HostReplan asked_for = at({"ctx-size=32768", "parallel=1"}, 690);
  ASSERT_FALSE(asked_for.next.empty()) << asked_for.verdict;
  for (const LadderStep& step : asked_for.next) EXPECT_EQ(step.max_model_len, 32768) << words_of(step.changes);
  // Nobody asked for the model's own length.
  const HostReplan by_itself = at({}, 700);
  const bool shorter = std::any_of(by_itself.next.begin(), by_itself.next.end(), [](const LadderStep& step) {
    return step.changes.back().name == "ctx-size" && step.max_model_len < 32768;
  });
  EXPECT_TRUE(shorter) << by_itself.verdict;
}

TEST(HostMemory, two_changes_where_one_is_not_enough) {
  const HostReplan out = at({"ctx-size=1048576", "parallel=8"}, 1400);
  ASSERT_FALSE(out.next.empty()) << out.verdict;
  EXPECT_GT(out.next.front().changes.size(), 1U);
  for (const LadderStep& step : out.next) EXPECT_GE(step.headroom_gib, 0);
}

TEST(HostMemory, a_model_larger_than_the_limit_is_said_with_what_it_needs) {
  const HostReplan out = at({"ctx-size=2048", "parallel=1"}, 200);
  EXPECT_TRUE(out.next.empty());
  EXPECT_NE(out.verdict.find("no flag makes that up"), std::string::npos) << out.verdict;
  EXPECT_GT(out.least_gib, out.need.total());
  EXPECT_TRUE(at({"ctx-size=2048", "parallel=1"}, out.least_gib / kMiB).next.size() <= 4);
}

TEST(HostMemory, what_ended_with_room_by_the_figures_takes_something_unknown) {
  const double need = host_need(gemma({"ctx-size=32768", "parallel=1"}).query, Scenario::likely).total() / kMiB;
  const HostReplan out = at({"ctx-size=32768", "parallel=1"}, need + 200);
  EXPECT_NE(out.arithmetic.back().find("200 MiB that they do not have"), std::string::npos) << out.arithmetic.back();
  for (const LadderStep& step : out.next) EXPECT_FALSE(step.changes.empty());
}

}  // namespace
}  // namespace millwright::planner
