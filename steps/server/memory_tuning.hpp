// `memory: auto` around the starts of one server step: which memory flags the first start gets, what the next one gets
// after one that failed for want of memory, and what is remembered of it on the node.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "steps/server/memory_planner.hpp"
#include "steps/server/release.hpp"

namespace millwright {

class MemoryTuning {
 public:
  // A first start and so many more.
  static constexpr int kAttempts = 4;

  // `spec` is changed: its extra_flags get the memory flags. `knowledge` includes the planner's folder.
  // `launcher`: the launcher's text, which may know fewer flags than the engine; empty: none.
  MemoryTuning(const Knowledge& knowledge, StepContext& context, const EngineProfile& profile, ServerSpec& spec,
               const std::string& launcher)
      : knowledge_(knowledge), context_(context), profile_(profile), spec_(spec), launcher_(launcher) {}

  // Before the first start. What the current release was given for the same wish (`asked`: the digest without memory
  // flags) is kept; else what this node has learned of model and version, but for flags that the user has said
  // otherwise since; else the planner is asked. An engine that fits itself to GPUs is asked nothing.
  Result<void> begin(const std::string& asked, const DeployedServer& deployed);

  // After a start that failed, `kill` with what the kernel did. True: the flags are changed, start again. False: this
  // is no matter of memory, or enough was tried. An error: the search has ended, with what would be needed.
  Result<bool> again(const Error& failure, const std::string& log, const MemoryKill& kill);

  // For release.json: the wish and the flags.
  Value record() const;
  // After a start that came up with flags that a log taught: kept for this model and version on this node.
  Result<void> keep_learned();

 private:
  Result<void> plan();
  // What this node has learned of this model, as far as it still holds. False: nothing.
  Result<bool> recall();
  Result<void> need_planner();
  struct HostLook {
    bool gpu = false;                 // one that an engine could use
    std::optional<HostLimit> around;  // a limit of the kernel's around the node's whole system
    planner::HostState memory;        // with no server running
  };
  Result<HostLook> look_at_host();
  // An engine that fits itself knows of no limit of the kernel's: what it keeps of prompts would grow into one.
  Result<void> bound_prompts();
  void bound_prompts(const HostLimit& limit);
  // The limit at which the kernel ended it: the unit's, one around the node's whole system, or what the host has. Of a
  // kill that nothing explains, the smallest. Nothing: none is known.
  std::optional<HostLimit> limit_of(const MemoryKill& kill, const HostLook& host) const;
  void apply(const MemoryDecision& decision);
  std::vector<std::string> words() const;
  std::string learned_file() const;

  const Knowledge& knowledge_;
  StepContext& context_;
  const EngineProfile& profile_;
  ServerSpec& spec_;
  const std::string launcher_;
  std::unique_ptr<MemoryPlanner> planner_;
  std::string asked_;
  std::vector<std::string> user_words_;     // the command line without what was planned
  std::vector<planner::FlagChoice> flags_;  // in force, over those of the user
  std::vector<std::string> attempts_;       // one sentence each
  bool learned_ = false;
};

}  // namespace millwright
