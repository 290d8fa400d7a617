// Whatever the playbook, actions that travel together come to the same as actions that wait for each other.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "orchestrator/base/text.hpp"
#include "tests/unit/engine/harness.hpp"

namespace millwright::testing {
namespace {

using Lines = std::vector<std::string>;

// Random playbooks. In a chain, steps may write over each other's files and so change each other's answers; in a graph
// with forks each has a file of its own, or what comes out would depend on who is faster.
class Author {
 public:
  explicit Author(unsigned seed) : random_(seed), chain_(chance(60)) {}
  bool chain() const { return chain_; }

  std::string playbook() {
    std::string out = "name: random\nhosts: all\nsteps:\n";
    const int steps = 4 + below(7);
    for (int i = 0; i < steps; ++i) out += "  - {" + step(i) + "}\n";
    return out;
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  bool chance(int percent) { return below(100) < percent; }

  std::string path(int i) const { return "\"{dir}/f" + std::to_string(i) + "\""; }

  std::string step(int i) {
    const std::string id = "s" + std::to_string(i);
    std::string out = "id: " + id;
    if (!chain_ && i > 0) out += ", needs: [" + (chance(20) ? "" : "s" + std::to_string(below(i))) + "]";
    out += needed_output(i) + ", " + work(i);
    if (chance(15)) out += ", retry: {times: 1, delay: 1ms}";
    if (chance(15)) out += ", ignore_failure: true";
    if (chain_ && chance(10)) out += ", on_failure: [{do: rollback}]";
    return out;
  }

  // Only of the step before, which is there in a chain whatever becomes of the others.
  std::string needed_output(int i) {
    reads_ = chain_ && i > 0 && chance(15) ? "s" + std::to_string(i - 1) : "";
    if (reads_.empty() || chance(50)) return "";
    const std::string when = ", when: \"" + std::string(chance(50) ? "not " : "") + "steps." + reads_ + ".changed\"";
    reads_.clear();
    return when;
  }

  std::string work(int i) {
    const int kind = below(100);
    const int file = chain_ ? below(4) : i;
    const std::string text = reads_.empty() ? std::to_string(below(3)) : "{{ steps." + reads_ + ".state }}";
    if (kind < 65) {
      const std::string expects = chance(25) ? ", expects: false" : "";
      const std::string each = chance(20) ? "foreach: [x, \"y\", z], " : "";
      const std::string name = each.empty() ? path(file) : "\"{dir}/f" + std::to_string(file) + "{{ item }}\"";
      return each + "uses: note, with: {path: " + name + ", text: \"" + text + "\"" + expects + "}";
    }
    if (kind < 85) {
      const std::string log = chain_ ? "\"{dir}/f" + std::to_string(below(4)) + "\"" : path(i);
      return "uses: say, with: {to: " + log + ", text: \"" + text + "\", undo: \":\"}";
    }
    if (kind < 93) return "uses: break, with: {path: " + path(100 + i) + "}";
    return "uses: stubborn";
  }

  std::mt19937 random_;
  const bool chain_;
  std::string reads_;
};

// What is said of each step, without what only a stale plan has said.
Lines story_of(const Bench& bench) {
  Lines lines;
  for (const Event& event : bench.sink->all()) {
    switch (event.type) {
      case EventType::step_planned:
      case EventType::action_started: {
        const std::string line = event.step + " " + std::string(to_string(event.type));
        if (lines.empty() || lines.back() != line) lines.push_back(line);
        break;
      }
      case EventType::action_finished:
        if (event.data.contains("stale")) {
          lines.resize(lines.size() - 2);
        } else {
          lines.push_back(event.step + " did " + event.data["title"].get<std::string>() + " " +
                          event.data["exit_code"].dump());
        }
        break;
      case EventType::step_started:
        lines.push_back(event.step + " begins");
        break;
      case EventType::step_finished:
        lines.push_back(event.step + " is " + event.data["state"].dump() + " " + event.data["outputs"].dump());
        break;
      default:
        break;
    }
  }
  return lines;
}

struct Outcome {
  Lines story, states;
  std::string tree, tree_after_rollback;
  int exit = 0, exit_of_rollback = 0;
};

Outcome play(const std::string& book, Pipelining pipelining, bool chain) {
  Bench bench;
  bench.options.pipelining = pipelining;
  write_file(bench.dir("h1") + "/f1", "1");
  write_file(bench.dir("h1") + "/f2x", "2");
  write_file(bench.dir("h1") + "/f3", chain ? "other" : "hands off");
  Outcome outcome;
  EXPECT_TRUE(bench.apply(book)) << render(*bench.error) << book;
  const std::string here = bench.dir("h1");
  outcome.exit = static_cast<int>(bench.last.exit);
  outcome.tree = tree(here);
  outcome.states = bench.results();
  for (const std::string& line : story_of(bench)) outcome.story.push_back(replace_all(line, here, ""));
  if (!chain) {
    std::sort(outcome.states.begin(), outcome.states.end());
    std::sort(outcome.story.begin(), outcome.story.end());
  }
  const std::vector<UndoRecord> undos = bench.memory.undos(bench.last.run).value();
  for (const UndoRecord& undo : undos) {
    EXPECT_NE(undo.state, UndoState::pending) << undo.step << ": " << undo.title << "\n" << book;
  }
  EXPECT_TRUE(bench.rollback("last")) << render(*bench.error);
  outcome.exit_of_rollback = static_cast<int>(bench.last.exit);
  outcome.tree_after_rollback = tree(here);
  return outcome;
}

TEST(PipelineProperty, TogetherOrOneByOneComesToTheSame) {
  const char* given = std::getenv("MILLWRIGHT_TEST_SEEDS");  // "from-to", to look further than every run does
  const std::vector<std::string> ends = split(given == nullptr ? "0-12" : given, '-');
  for (unsigned seed = static_cast<unsigned>(std::stoul(ends.at(0))); seed < std::stoul(ends.at(1)); ++seed) {
    Author author(seed);
    const std::string book = author.playbook();
    const Outcome together = play(book, Pipelining::on, author.chain());
    const Outcome one_by_one = play(book, Pipelining::off, author.chain());
    EXPECT_EQ(together.states, one_by_one.states) << "seed " << seed << "\n" << book;
    EXPECT_EQ(together.story, one_by_one.story) << "seed " << seed << "\n" << book;
    EXPECT_EQ(together.tree, one_by_one.tree) << "seed " << seed << "\n" << book;
    EXPECT_EQ(together.exit, one_by_one.exit) << "seed " << seed << "\n" << book;
    EXPECT_EQ(together.tree_after_rollback, one_by_one.tree_after_rollback) << "seed " << seed << "\n" << book;
    EXPECT_EQ(together.exit_of_rollback, one_by_one.exit_of_rollback) << "seed " << seed << "\n" << book;
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace millwright::testing
