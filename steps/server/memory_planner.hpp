// `memory: auto` of the server step: memory flags chosen before the launch, and chosen anew from the log of a start
// that failed.
//
// Used from the step's thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "steps/contract/step.hpp"
#include "steps/server/planner/replan.hpp"
#include "steps/server/server_spec.hpp"
#include "steps/server/start_log.hpp"

namespace millwright {

// Flags to launch with in place of others of the same name.
struct MemoryDecision {
  std::vector<planner::FlagChoice> changes;  // empty: as it is
  std::string sentence;                      // for the terminal: "--mem-fraction-static 0.015 (a larger share ...)"
  std::vector<std::string> arithmetic;       // for the record
};

class MemoryPlanner {
 public:
  // Reads the model's header files and the GPUs of the node (two round trips). An engine or version that the data does
  // not cover is refused. `knowledge` includes the planner's folder.
  static Result<std::unique_ptr<MemoryPlanner>> make(const Knowledge& knowledge, StepContext& context,
                                                     const ServerSpec& spec);

  // For tests: everything known.
  MemoryPlanner(const Knowledge& knowledge, planner::Model model, planner::EngineFacts facts, planner::FlagTable table,
                std::vector<planner::Gpu> gpus, bool on_cpu);

  // `words`: the command line without its program. Does not fit: refused, with what would make it fit as its hint.
  // On a processor nothing is predicted: the host's memory is not the engine's alone.
  Result<MemoryDecision> before(const std::vector<std::string>& words) const;

  // After a start with `words` that failed with `log`. An error (failed_test, with the log's class) when no flag helps,
  // or when what failed before and what failed now exclude each other.
  Result<MemoryDecision> after(const std::vector<std::string>& words, const std::string& log);

  // Whether another try may help: the log is about memory that flags share out.
  static bool is_about_memory(const std::string& symptom_class);

 private:
  planner::Query query_of(const std::vector<std::string>& words, planner::GivenFlags& flags) const;

  const Knowledge& knowledge_;
  planner::Model model_;
  planner::EngineFacts facts_;
  planner::FlagTable table_;
  std::vector<planner::Gpu> gpus_;
  bool on_cpu_ = false;
  std::vector<planner::LogReading> earlier_;
};

// `extra_flags` with the changes: what has the same name goes, under whichever spelling of that version.
std::vector<std::string> apply_changes(const std::vector<std::string>& extra_flags,
                                       const std::vector<planner::FlagChoice>& changes,
                                       const planner::FlagTable& table);

// "--a 1 --b": NAME=VALUE each, as the planner takes flags. Words that are no flag's are left out.
std::vector<std::string> settings_of(const std::vector<std::string>& words);

}  // namespace millwright
