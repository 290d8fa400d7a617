// The words that start one server: generic inputs spelled for its engine, and what an engine version does not know.
// Pure.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/base/knowledge.hpp"
#include "steps/contract/inputs.hpp"
#include "steps/server/engine_installer.hpp"
#include "steps/server/server_spec.hpp"

namespace millwright {

// A part of the command line and the input that it comes from.
struct CommandPart {
  std::string input;
  std::vector<std::string> words;
};

// In order, the program itself left out. What `auto` means for `device` must have been decided (ServerSpec::device), or
// nothing is added for it.
std::vector<CommandPart> command_parts(const ServerSpec& spec, const EngineProfile& profile);
std::vector<std::string> command_words(const ServerSpec& spec, const EngineProfile& profile);

// The environment: what the engine needs, what its device needs, the key where it is taken from there, the user's own;
// later ones are stronger.
std::map<std::string, std::string> server_environment(const ServerSpec& spec, const EngineProfile& profile);

// Generic inputs that this engine has no words for, each with Error::detail naming the input.
std::vector<Error> unspellable(const EngineProfile& profile, const Inputs& inputs);

// Which flags a version of an engine takes.
class KnownFlags {
 public:
  virtual ~KnownFlags() = default;
  // `word` as written ("--ctx-size=4096", "-c"). Empty when it is known; else what is wrong and what it is called here.
  virtual std::string complaint(const std::string& word, std::string& hint) const = 0;
  // A known flag whose value it cannot have; empty when it can, or when nobody knows.
  virtual std::string value_complaint(const std::string& /*word*/, const std::string& /*value*/,
                                      std::string& /*hint*/) const {
    return {};
  }
};
// From engine_flags.yml (`knowledge` includes the planner's folder). nullptr: the data says nothing of this engine.
std::unique_ptr<KnownFlags> engine_flags(const Knowledge& knowledge, const EngineProfile& profile,
                                         const std::string& version);
// From the arguments that a launcher of ours takes.
std::unique_ptr<KnownFlags> launcher_flags(const EngineProfile& profile, const std::string& version,
                                           const std::string& launcher);

// Words of `parts` that begin with a dash and are no flag of this version, and values that a flag of it cannot have.
// Error::detail names the input.
std::vector<Error> unknown_flags(const KnownFlags& known, const std::vector<CommandPart>& parts);
// Flags that `extra_flags` may not have: a key on a command line is seen by everybody on the node.
std::vector<Error> forbidden_flags(const std::vector<std::string>& words);

}  // namespace millwright
