// Runs what step kinds render on this machine's own shell, in a temporary folder, by the rules of the step contract:
// ask, plan, save, files, script, ask again, undo. No network, nothing outside the folder unless a step names it.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "steps/contract/step.hpp"

namespace millwright::testing_tools {

// Inputs checked and defaulted as the engine does it; a wrong one fails the test by an exception with the message.
Inputs inputs_of(const AnyStepKind& kind, const Value& given);

struct ActedChange {
  Change change;                                 // as planned first
  std::vector<ActionResult> results;             // of the scripts
  std::vector<std::filesystem::path> save_dirs;  // one for each action
};

struct ShellOptions {
  std::string shell = "/bin/sh";
  // A command that runs its last argument by a shell as root elsewhere, e.g. "tests/lab/lab ssh node1"; empty: here.
  std::string remote{};
  // Shell text whose output stands for "everything that the step may change"; empty: the files below root.
  std::string fingerprint{};
};

// One temporary world; removed with everything in it at the end.
class RealShell {
 public:
  explicit RealShell(ShellOptions options = {});
  ~RealShell();
  RealShell(const RealShell&) = delete;
  RealShell& operator=(const RealShell&) = delete;

  // The folder for the tree under test, without symlinks in its own path.
  const std::filesystem::path& root() const { return root_; }
  std::string path(const std::string& relative) const { return (root_ / relative).string(); }
  void write(const std::string& relative, const std::string& content, int mode = 0644) const;
  std::string read(const std::string& relative) const;
  // Everything below root: type, mode, owner, and content or target, by relative path.
  std::map<std::string, std::string> tree() const;

  Answer run(const std::string& script, const std::string& options, const std::filesystem::path& save = {}) const;
  Answers ask(const StepKind& kind, const Inputs& inputs) const;
  Result<Change> plan(const StepKind& kind, const Inputs& inputs) const;
  std::filesystem::path new_save_dir();
  // save, files, script. The answer is that of the first of them that failed, else of the script.
  Answer act(const Action& action, const std::filesystem::path& save) const;
  Answer undo(const Action& action, const std::filesystem::path& save) const;
  // Plans and acts; throws std::runtime_error when planning or an action fails.
  ActedChange apply(const StepKind& kind, const Inputs& inputs);
  // All actions in reverse order; the exit codes.
  std::vector<int> undo(const ActedChange& acted) const;
  // apply, then: planning again finds nothing; undo gives back the tree as it was; undo again changes nothing; undo of
  // actions that never ran, or only saved, changes nothing. Returns the first change. Reports by EXPECT.
  Change expect_contract(const StepKind& kind, const Value& given);

 private:
  ShellOptions options_;
  std::filesystem::path base_;
  std::filesystem::path root_;
  int saves_ = 0;
};

}  // namespace millwright::testing_tools
