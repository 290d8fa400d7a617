// A plan that is kept in a file and done later: exactly, or not at all.
//
// Made from the events of a planning run, so it holds what was shown, and no secrets. Plain values; the functions are
// pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/base/clock.hpp"
#include "orchestrator/base/error.hpp"
#include "orchestrator/base/event.hpp"
#include "orchestrator/base/value.hpp"

namespace millwright {

inline constexpr int kPlanSchemaVersion = 1;

// One step on one node, or one item of its `foreach`.
struct PlannedUnit {
  std::string host;  // the node, as in events
  std::string step;
  std::optional<std::size_t> item;
  std::string state;  // ok | change | unknown (until it runs) | skipped
  std::string summary;
  std::string diff;
  Value actions = Value::array();              // as in step_planned
  std::map<std::string, std::string> answers;  // digests of what it was planned on, by question

  std::string shown() const;  // "gpu1, step conf[2]"
};

// What a planning run said, in the order in which it did.
std::vector<PlannedUnit> planned_units(const std::vector<Event>& events);

struct SavedPlan {
  TimePoint made;
  std::string by;  // user@host
  std::string playbook_path;
  std::string playbook_text;
  std::map<std::string, std::string> files;  // what the playbook includes: path and text
  Value parameters = Value::object();        // hosts, inputs and options as the journal keeps them: without secrets
  std::vector<std::string> inventory;        // where the hosts' secrets are looked up when it is done
  std::vector<PlannedUnit> units;
};

Value saved_plan_json(const SavedPlan& plan);

// True for the text of a saved plan, of any version; false for a playbook.
bool is_saved_plan(std::string_view text);

// Errors (invalid, or stale for a plan that another version wrote): what is wrong with the file at `path`.
Result<SavedPlan> read_saved_plan(std::string_view text, const std::string& path);

// What is no longer as it was planned on, a sentence each with host, step and question. Empty: the plan holds.
struct PlanDifference {
  std::string host, step;
  std::optional<std::size_t> item;
  std::string question;  // empty: it is about something else than one answer
  std::string text;
};
std::vector<PlanDifference> plan_differences(const std::vector<PlannedUnit>& planned,
                                             const std::vector<PlannedUnit>& now);

// While a saved plan is done: may these actions be done now? Earlier steps may have made some of them needless, and
// what was unknown until it runs was approved as that. stale: something else than what was planned would be done.
// `host` is the play's host, `node` where the step runs.
Result<void> approve_actions(const std::vector<PlannedUnit>& planned, const std::string& host, const std::string& node,
                             const std::string& step, std::optional<std::size_t> item, const Value& actions);

}  // namespace millwright
