// `memory: auto` of the server step: memory flags chosen before the launch, and chosen anew from the log of a start
// that failed.
//
// Used from the step's thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "steps/contract/step.hpp"
#include "steps/server/launch_command.hpp"
#include "steps/server/planner/engine_host.hpp"
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

// So much of the host's memory a server may take, and by whose word.
struct HostLimit {
  std::uint64_t bytes = 0;
  std::string whose;  // "memory_max"
};

class MemoryPlanner {
 public:
  // Reads the model's headers and the GPUs of the node (two round trips; of a GGUF file megabytes, with its
  // vocabulary). An engine or version that the data does not cover is refused. `knowledge` includes the planner's
  // folder.
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

  // After a start with `words` that the kernel ended for want of the host's memory. `launcher`: further limits of which
  // flags there are, or nullptr. Errors as those of after(), with a limit that would do.
  Result<MemoryDecision> after_kill(const std::vector<std::string>& words, const HostLimit& limit,
                                    const KnownFlags* launcher) const;
  // How the host was before the start, and what the server's environment says: without, what an engine that shares out
  // the host's memory takes of it is not known.
  void know_host(const planner::HostState& host, const std::map<std::string, std::string>& environment) {
    host_.host = host;
    host_.environment = environment;
  }

  // The flag that keeps what a server with `words` keeps of prompts within the limit; nothing when that cannot outgrow
  // it, when the user has said it in `given`, or engine or launcher has no such flag.
  std::optional<planner::FlagChoice> bounded_prompt_cache(const std::vector<std::string>& words,
                                                          const std::vector<std::string>& given, const HostLimit& limit,
                                                          const KnownFlags* launcher) const;

  // Whether another try may help: a start that failed so had its memory shared out wrongly by flags.
  static bool flags_share_it_out(const std::string& symptom_class);

 private:
  planner::Query query_of(const std::vector<std::string>& words, planner::GivenFlags& flags) const;

  const Knowledge& knowledge_;
  planner::Model model_;
  planner::EngineFacts facts_;
  planner::FlagTable table_;
  std::vector<planner::Gpu> gpus_;
  bool on_cpu_ = false;
  planner::EngineHost host_;
  std::vector<planner::LogReading> earlier_;
};

// `extra_flags` with the changes: what has the same name goes, under whichever spelling of that version.
std::vector<std::string> apply_changes(const std::vector<std::string>& extra_flags,
                                       const std::vector<planner::FlagChoice>& changes,
                                       const planner::FlagTable& table);

// What was learned earlier, without what the user (`words`) has said otherwise since: a flag that the user gives wins,
// unless it is the very value that failed then (FlagChoice `instead_of` of the record).
struct LearnedFlag {
  planner::FlagChoice flag;
  std::string instead_of;  // the user's value at that time; empty: none
};
std::vector<planner::FlagChoice> still_wanted(const std::vector<LearnedFlag>& learned,
                                              const std::vector<std::string>& words, const planner::FlagTable& table);
// The value of flag `name` among the words, the last one given; empty: it is not among them.
std::string value_in(const std::vector<std::string>& words, const std::string& name, const planner::FlagTable& table);

// "--a 1 --b": NAME=VALUE each, as the planner takes flags. Words that are no flag's are left out.
std::vector<std::string> settings_of(const std::vector<std::string>& words);

}  // namespace millwright
