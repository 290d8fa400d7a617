// A run told as lines: one a finished step, with what failed, what was tried and what cured it in order. Both views for
// people are made from it; the facts are those of the events.
//
// Used from one thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/base/event.hpp"
#include "orchestrator/report/text_layout.hpp"

namespace millwright {

enum class Paint { no, yes };

struct ReportOptions {
  std::size_t columns = 80;
  Paint paint = Paint::no;
  bool diffs = false;  // -D: what changes, line by line; `plan` always shows it
  int verbose = 0;     // 1: actions as they start; 2: what commands print
  // Hosts up to which each gets lines of its own; beyond, a line a step with counts, and one for each host in trouble.
  std::size_t hosts_in_full = 6;
};

Colour colour_of_word(std::string_view word);  // "changed", "fail"...

class Story {
 public:
  explicit Story(ReportOptions options) : options_(options) {}

  // The finished lines that this event adds, each without its newline.
  std::vector<std::string> tell(const Event& event);

  // What runs now, for a live view: a line each, none wider than the terminal.
  std::vector<std::string> running(TimePoint now) const;

  bool is_plan() const { return plan_; }

 private:
  struct Row {
    std::string host, step, word, text, right;
    Colour colour = Colour::plain;
  };
  struct Running {
    TimePoint since;
    std::string text;
    std::optional<double> fraction;
  };
  struct Undone {  // of one step, not told yet
    std::string host, step, title;
    int count = 0;
  };
  struct Counts {
    int ok = 0, changed = 0, failed = 0, ignored = 0, skipped = 0, unreachable = 0, other = 0, running = 0;
    int finished() const { return ok + changed + failed + ignored + skipped + unreachable + other; }
  };
  struct PlanCounts {
    int change = 0, ok = 0, unknown = 0, irreversible = 0;
    std::set<std::string> reboots;
  };
  using Key = std::pair<std::string, std::string>;  // host, step

  void started(const Event& event, std::vector<std::string>& out);
  void planned(const Event& event, std::vector<std::string>& out);
  void step_finished(const Event& event, std::vector<std::string>& out);
  bool not_planned(const Event& event, std::vector<std::string>& out) const;
  void probe(const Event& event, std::vector<std::string>& out);
  void works_on(const Event& event, std::vector<std::string>& out);
  void remark(const Event& event, std::vector<std::string>& out);
  void interrupted(const Event& event, std::vector<std::string>& out) const;
  void rollback(const Event& event, std::vector<std::string>& out);
  void tell_undone(std::vector<std::string>& out);
  void finished(const Event& event, std::vector<std::string>& out);
  void plan_sentence(std::vector<std::string>& out) const;
  void error_lines(const Value& error, const Row& under, std::vector<std::string>& out) const;
  void count(const Event& event, const std::string& state, std::vector<std::string>& out);

  std::size_t text_column() const;
  void add_row(const Row& row, std::vector<std::string>& out) const;
  void add_under(const std::string& text, std::vector<std::string>& out) const;
  std::string row_head(const Row& row) const;
  std::string colour(const std::string& text, Colour colour) const;
  std::string counts_line(const std::string& step, const Counts& counts) const;
  bool many() const { return hosts_.size() > options_.hosts_in_full; }
  std::string host_shown(const std::string& host) const;
  // "Bind the GPUs · " where the step has a name for people; else empty.
  std::string called(const std::string& step) const;
  std::string command_for(const char* verb, const std::string& run) const;

  ReportOptions options_;
  bool plan_ = false;     // nothing is changed
  bool looking_ = false;  // and only what is not as it should be is told: drift, verify
  std::string run_;
  std::string verb_;
  std::vector<std::string> hosts_;
  std::vector<std::string> steps_;
  std::map<std::string, std::string> names_;  // of steps, by id
  std::vector<std::string> inventory_;
  std::size_t host_width_ = 4;
  std::size_t step_width_ = 6;
  std::map<Key, Running> running_;
  std::map<std::string, Counts> counts_;
  PlanCounts plan_counts_;
  Undone undone_;
};

}  // namespace millwright
