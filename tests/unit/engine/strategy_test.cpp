// Hosts in batches, in which order, when the rest is left alone, and locks that are counted over all hosts.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "orchestrator/base/text.hpp"
#include "orchestrator/engine/play.hpp"
#include "tests/unit/engine/harness.hpp"

namespace millwright::testing {
namespace {

using Lines = std::vector<std::string>;

std::string notes(const std::string& strategy) {
  return "name: x\nhosts: all\nstrategy: " + strategy +
         "\nsteps:\n  - {id: a, uses: note, with: {path: \"{dir}/a\", text: one}}\n";
}

Lines states(const Bench& bench) {
  Lines out;
  for (const HostSummary& host : bench.last.hosts) out.push_back(host.host + " " + host.state);
  return out;
}

// What `note` finds and did not write, it refuses to touch.
void spoil(Bench& bench, const std::string& host) { write_file(bench.dir(host) + "/a", "hands off"); }

std::string names(const std::vector<PlayHost>& hosts, HostOrder order, const std::string& run = "r") {
  StrategyDecl strategy;
  strategy.order = order;
  Lines out;
  const auto batches = batches_of(hosts, strategy, run);
  for (const PlayHost* host : batches.at(0)) out.push_back(host->target.name);
  return join(out, " ");
}

TEST(Strategy, HostsComeInTheOrderThatIsAsked) {
  std::vector<PlayHost> hosts(4);
  const Lines given = {"c", "a", "d", "b"};
  for (std::size_t i = 0; i < given.size(); ++i) hosts[i].target.name = given[i];
  EXPECT_EQ(names(hosts, HostOrder::inventory), "c a d b");
  EXPECT_EQ(names(hosts, HostOrder::reverse_inventory), "b d a c");
  EXPECT_EQ(names(hosts, HostOrder::sorted), "a b c d");
  EXPECT_EQ(names(hosts, HostOrder::reverse_sorted), "d c b a");
  std::set<std::string> drawn;
  for (int run = 0; run < 30; ++run) {
    const std::string id = "r" + std::to_string(run);
    EXPECT_EQ(names(hosts, HostOrder::shuffle, id), names(hosts, HostOrder::shuffle, id)) << "a run keeps its order";
    drawn.insert(names(hosts, HostOrder::shuffle, id));
  }
  EXPECT_GT(drawn.size(), 5u);
}

TEST(Strategy, AListOfBatchesGrowsAndItsLastIsRepeated) {
  const std::vector<PlayHost> hosts(12);
  StrategyDecl strategy;
  strategy.canary = 1;
  strategy.batch = {Amount{2, false}, Amount{25, true}};
  std::vector<std::size_t> sizes;
  for (const auto& batch : batches_of(hosts, strategy, "r")) sizes.push_back(batch.size());
  EXPECT_EQ(sizes, (std::vector<std::size_t>{1, 2, 3, 3, 3}));
}

TEST(Strategy, NoFurtherBatchOnceMoreHavesFailedThanMay) {
  for (const std::string most : {"1", "25%"}) {
    Bench bench;
    spoil(bench, "h1");
    spoil(bench, "h3");
    ASSERT_TRUE(bench.apply(notes("{batch: [2, 1], max_failures: " + most + "}"), {"h1", "h2", "h3", "h4"}))
        << render(*bench.error);
    EXPECT_EQ(states(bench), (Lines{"h1 failed", "h2 changed", "h3 failed", "h4 cancelled"})) << most;
    EXPECT_EQ(bench.last.exit, ExitCode::failed);
    const std::vector<Event> warnings = bench.events(EventType::warning);
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_EQ(warnings[0].data["text"], "2 hosts failed (1 allowed): the other hosts are left alone");
  }
}

TEST(Strategy, ABatchOfWhichNoneCameThroughIsTheLast) {
  Bench bench;
  spoil(bench, "h1");
  ASSERT_TRUE(bench.apply(notes("{batch: 1}"), {"h1", "h2"})) << render(*bench.error);
  EXPECT_EQ(states(bench), (Lines{"h1 failed", "h2 cancelled"}));
}

TEST(Strategy, OutOfReachIsNoFailureButACanaryMustBeSeen) {
  Bench bench;
  bench.lab.refuse("h1");
  ASSERT_TRUE(bench.apply(notes("{batch: 1, max_failures: 0}"), {"h1", "h2"})) << render(*bench.error);
  EXPECT_EQ(states(bench), (Lines{"h1 unreachable", "h2 changed"}));
  EXPECT_EQ(bench.last.exit, ExitCode::unreachable);
  Bench blind;
  blind.lab.refuse("h1");
  ASSERT_TRUE(blind.apply(notes("{canary: 1}"), {"h1", "h2"})) << render(*blind.error);
  EXPECT_EQ(states(blind), (Lines{"h1 unreachable", "h2 cancelled"}));
}

TEST(Strategy, TheSummaryKeepsTheOrderOfTheInventory) {
  Bench bench;
  ASSERT_TRUE(bench.apply(notes("{batch: 1, order: reverse_inventory}"), {"h1", "h2", "h3"})) << render(*bench.error);
  EXPECT_EQ(states(bench), (Lines{"h1 changed", "h2 changed", "h3 changed"}));
  EXPECT_EQ(bench.results(), (Lines{"h3 a changed", "h2 a changed", "h1 a changed"}));
}

TEST(Strategy, AStepOnAllHostsWaitsForThoseOfItsBatchAndTheEarlierOnes) {
  Bench bench;
  ASSERT_TRUE(
      bench.apply("name: x\nhosts: all\nstrategy: {batch: 2}\nsteps:\n"
                  "  - {id: a, uses: note, with: {path: \"{dir}/a\", text: one}}\n"
                  "  - {id: b, uses: note, needs: {step: a, on: all}, with: {path: \"{dir}/b\", text: two}}\n",
                  {"h1", "h2", "h3", "h4"}))
      << render(*bench.error);
  EXPECT_EQ(bench.last.exit, ExitCode::done) << bench.last.sentence;
  const Lines results = bench.results();
  const auto at = [&](const std::string& line) { return std::find(results.begin(), results.end(), line); };
  for (const char* first : {"h1 a changed", "h2 a changed"}) {
    EXPECT_LT(at(first), at("h1 b changed"));
    EXPECT_LT(at(first), at("h2 b changed"));
  }
  EXPECT_LT(at("h2 b changed"), at("h3 a changed"));
}

// With a canary, too: it waits for no host that has not begun, so neither waits for the other.
TEST(Strategy, AStepOnAllHostsAndACanaryDoNotWaitForEachOther) {
  Bench bench;
  ASSERT_TRUE(
      bench.apply("name: x\nhosts: all\nstrategy: {canary: 1}\nsteps:\n"
                  "  - {id: a, uses: note, with: {path: \"{dir}/a\", text: one}}\n"
                  "  - {id: b, uses: note, needs: {step: a, on: all}, with: {path: \"{dir}/b\", text: two}}\n",
                  {"h1", "h2", "h3"}))
      << render(*bench.error);
  EXPECT_EQ(bench.last.exit, ExitCode::done) << bench.last.sentence;
  const Lines results = bench.results();
  ASSERT_EQ(results.size(), 6u);
  EXPECT_EQ(results[0], "h1 a changed");
  EXPECT_EQ(results[1], "h1 b changed");
}

// How many spans were open at once.
int most_at_once(const Lines& log) {
  int open = 0;
  int most = 0;
  for (const std::string& line : log) {
    open += starts_with(line, "begin ") ? 1 : -1;
    most = std::max(most, open);
  }
  return most;
}

TEST(Locks, ACountedLockLetsSoManyIn) {
  const std::string log = "/log";
  for (const auto& [lock, most] : std::vector<std::pair<std::string, int>>{{"{name: mirror, on: all}", 1},
                                                                           {"{name: mirror, count: 2, on: all}", 2}}) {
    Bench bench;
    ASSERT_TRUE(bench.apply("name: x\nhosts: all\nsteps:\n  - {id: a, uses: span, lock: " + lock + ", with: {log: \"" +
                                bench.folder.path() + log + "\", name: \"{{ host.name }}\"}}\n",
                            {"h1", "h2", "h3", "h4"}))
        << render(*bench.error);
    EXPECT_EQ(bench.last.exit, ExitCode::done) << bench.last.sentence;
    const Lines lines = split_lines(read_file(bench.folder.path() + log));
    EXPECT_EQ(lines.size(), 8u);
    EXPECT_LE(most_at_once(lines), most) << join(lines, "\n");
  }
}

TEST(Locks, AHostHasPlacesOfItsOwnUnlessItSaysOtherwise) {
  Bench bench;
  const std::string log = bench.folder.path() + "/log";
  ASSERT_TRUE(bench.apply("name: x\nhosts: all\nsteps:\n  - {id: a, uses: span, lock: apt, with: {log: \"" + log +
                              "\", name: \"{{ host.name }}\", meets: \"{{ 'h2' if host.name == 'h1' else 'h1' }}\"}}\n",
                          {"h1", "h2"}))
      << render(*bench.error);
  EXPECT_EQ(bench.last.exit, ExitCode::done) << "each waited for the other to begin: " << bench.last.sentence;
}

TEST(Locks, StepsAtOnceOfAHostAreLimited) {
  Bench bench;
  bench.options.steps_at_once = 1;
  std::string book = "name: x\nhosts: all\nsteps:\n";
  for (const char* name : {"a", "b", "c"}) {
    book +=
        std::string("  - {id: ") + name + ", needs: [], uses: span, with: {log: \"{dir}/log\", name: " + name + "}}\n";
  }
  ASSERT_TRUE(bench.apply(book)) << render(*bench.error);
  EXPECT_EQ(most_at_once(split_lines(read_file(bench.dir("h1") + "/log"))), 1);
}

TEST(Locks, OneNameIsOneLock) {
  Bench bench;
  ASSERT_FALSE(
      bench.apply("name: x\nhosts: all\nsteps:\n"
                  "  - {id: a, uses: note, lock: m, with: {path: x, text: x}}\n"
                  "  - {id: b, uses: note, lock: {name: m, count: 2}, with: {path: x, text: x}}\n"));
  EXPECT_EQ(bench.error->message, "lock 'm' has another count or reach at step 'a'");
  EXPECT_EQ(bench.error->where->line, 5);
}

}  // namespace
}  // namespace millwright::testing
