#include "tests/unit/steps_core/real_shell.hpp"

#include <grp.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"

namespace millwright::testing_tools {

namespace fs = std::filesystem;

namespace {

std::string slurp(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

void spill(const fs::path& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  if (!out.flush()) throw std::runtime_error("cannot write " + path.string());
}

void place(const FilePlacement& file) {
  const std::string temporary = file.path + ".mw-placing";
  spill(temporary, file.content ? *file.content : slurp(file.local_path));
  std::string command = "set -e\n";
  if (!file.owner.empty()) command += "chown " + shell_quote(file.owner) + " " + shell_quote(temporary) + "\n";
  if (!file.group.empty()) command += "chgrp " + shell_quote(file.group) + " " + shell_quote(temporary) + "\n";
  command += "chmod " + file.mode + " " + shell_quote(temporary);
  if (std::system(command.c_str()) != 0) throw std::runtime_error("cannot place " + file.path);
  fs::rename(temporary, file.path);
}

std::string describe(const fs::path& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return "unreadable";
  std::ostringstream out;
  out << std::oct << (info.st_mode & 07777) << std::dec << ' ' << info.st_uid << ':' << info.st_gid << ' ';
  if (S_ISLNK(info.st_mode)) return "link " + fs::read_symlink(path).string();
  if (S_ISDIR(info.st_mode)) return "directory " + out.str();
  if (S_ISREG(info.st_mode)) return "file " + out.str() + slurp(path);
  return "other " + out.str();
}

}  // namespace

Inputs inputs_of(const AnyStepKind& kind, const Value& given) {
  const auto checked = check_inputs(kind.signature(), given);
  if (!checked) throw std::runtime_error(checked.error().front().message);
  const auto errors = kind.check(Inputs(*checked));
  if (!errors.empty()) throw std::runtime_error(errors.front().message);
  return Inputs(*checked);
}

RealShell::RealShell(ShellOptions options) : options_(std::move(options)) {
  std::string pattern = (fs::canonical(fs::temp_directory_path()) / "mw-steps-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make a temporary folder");
  base_ = pattern;
  root_ = base_ / "tree";
  fs::create_directory(root_);
}

RealShell::~RealShell() {
  std::error_code ignored;  // a leftover below the temporary folder is no failure of what is tested
  fs::remove_all(base_, ignored);
}

void RealShell::write(const std::string& relative, const std::string& content, int mode) const {
  fs::create_directories((root_ / relative).parent_path());
  spill(root_ / relative, content);
  fs::permissions(root_ / relative, static_cast<fs::perms>(mode));
}

std::string RealShell::read(const std::string& relative) const { return slurp(root_ / relative); }

std::map<std::string, std::string> RealShell::tree() const {
  std::map<std::string, std::string> out;
  if (!options_.fingerprint.empty()) return {{"fingerprint", run(options_.fingerprint, "").out}};
  out["."] = describe(root_);
  for (const auto& entry : fs::recursive_directory_iterator(root_)) {
    out[entry.path().lexically_relative(root_).string()] = describe(entry.path());
  }
  return out;
}

Answer RealShell::run(const std::string& script, const std::string& options, const fs::path& save) const {
  const fs::path file = base_ / "script.sh";
  spill(file, script);
  const bool here = options_.remote.empty();
  std::string command = "env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/ LC_ALL=C ";
  if (!save.empty()) command += "MW_SAVE=" + shell_quote(save.string()) + " ";
  command += options_.shell + " " + options + " ";
  if (here) {
    command += shell_quote(file.string()) + " </dev/null";
  } else {
    command = "cat >/root/mw-script && " + command + "/root/mw-script </dev/null";
    command = options_.remote + " " + shell_quote(command) + " <" + shell_quote(file.string());
  }
  command += " >" + shell_quote((base_ / "out").string()) + " 2>" + shell_quote((base_ / "err").string());
  const int status = std::system(command.c_str());
  Answer answer;
  answer.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  answer.out = slurp(base_ / "out");
  answer.err = slurp(base_ / "err");
  return answer;
}

Answers RealShell::ask(const StepKind& kind, const Inputs& inputs) const {
  Answers answers;
  for (const Question& question : kind.ask(inputs)) answers.set(question.key, run(question.script, ""));
  return answers;
}

Result<Change> RealShell::plan(const StepKind& kind, const Inputs& inputs) const {
  return kind.plan(inputs, ask(kind, inputs));
}

fs::path RealShell::new_save_dir() {
  const fs::path dir = base_ / ("save-" + std::to_string(++saves_));
  if (!options_.remote.empty()) {
    run("mkdir -p -m 700 " + shell_quote(dir.string()), "");
    return dir;
  }
  fs::create_directory(dir);
  fs::permissions(dir, fs::perms::owner_all);
  return dir;
}

Answer RealShell::act(const Action& action, const fs::path& save) const {
  if (!action.save.empty()) {
    Answer saved = run(action.save, "-eu", save);
    if (!saved.ok()) return saved;
  }
  for (const FilePlacement& file : action.files) place(file);
  if (action.script.empty()) return {};
  return run(action.script, "-eu");
}

Answer RealShell::undo(const Action& action, const fs::path& save) const { return run(action.undo, "-eu", save); }

ActedChange RealShell::apply(const StepKind& kind, const Inputs& inputs) {
  auto change = plan(kind, inputs);
  if (!change) throw std::runtime_error("plan: " + change.error().message + " " + change.error().detail);
  ActedChange acted{*change, {}, {}};
  for (const Action& action : change->actions) {
    acted.save_dirs.push_back(new_save_dir());
    const Answer answer = act(action, acted.save_dirs.back());
    if (!answer.ok()) throw std::runtime_error(action.title + ": " + answer.err);
    acted.results.push_back({action.title, answer, Milliseconds(0)});
  }
  return acted;
}

std::vector<int> RealShell::undo(const ActedChange& acted) const {
  std::vector<int> codes;
  for (std::size_t i = acted.change.actions.size(); i-- > 0;) {
    const Answer answer = undo(acted.change.actions[i], acted.save_dirs[i]);
    codes.push_back(answer.exit_code);
    if (answer.exit_code != 0 && answer.exit_code != kUndoRefused) ADD_FAILURE() << answer.err;
  }
  return codes;
}

namespace {

// As `case` of the node's shell does: the pieces in their order, anything in between.
bool as_expected(const Expectation& expected, const Answers& answers) {
  if (!answers.has(expected.key) || !answers.at(expected.key).ok()) return false;
  const std::string& out = answers.at(expected.key).out;
  const std::vector<std::string>& pieces = expected.pieces;
  if (pieces.size() == 1) return out == pieces[0];
  if (out.compare(0, pieces.front().size(), pieces.front()) != 0) return false;
  std::size_t at = pieces.front().size();
  for (std::size_t i = 1; i + 1 < pieces.size(); ++i) {
    const std::size_t found = out.find(pieces[i], at);
    if (found == std::string::npos) return false;
    at = found + pieces[i].size();
  }
  const std::string& last = pieces.back();
  return out.size() >= at + last.size() && out.compare(out.size() - last.size(), last.size(), last) == 0;
}

// What was foreseen has come, or steps behind this one would wait for nothing; and it was not so before, or they would
// not wait at all.
void check_foreseen(const StepKind& kind, const Inputs& inputs, const Change& change, const Answers& before,
                    const Answers& after) {
  if (change.empty()) return;
  bool already = true;
  const std::vector<Expectation> foreseen = kind.expect(inputs, before, change);
  for (const Expectation& expected : foreseen) {
    EXPECT_TRUE(as_expected(expected, after)) << expected.key << " is " << after.at(expected.key).out;
    already = already && as_expected(expected, before);
  }
  EXPECT_TRUE(foreseen.empty() || !already) << "what is foreseen was so before anything was done";
}

}  // namespace

Change RealShell::expect_contract(const StepKind& kind, const Value& given) {
  const Inputs inputs = inputs_of(kind, given);
  const auto before = tree();
  const Answers asked = ask(kind, inputs);
  const auto first = kind.plan(inputs, asked);
  if (!first) throw std::runtime_error("plan: " + first.error().message);

  for (const Action& action : first->actions) {  // nothing ran, not even save; then: only save ran
    const fs::path save = new_save_dir();
    EXPECT_EQ(undo(action, save).exit_code, 0) << "undo without anything done: " << action.title;
    EXPECT_EQ(tree(), before) << "undo without anything done: " << action.title;
    if (&action == &first->actions.front() && run(action.save, "-eu", save).ok()) {
      EXPECT_EQ(undo(action, save).exit_code, 0) << "undo after save alone: " << action.title;
      EXPECT_EQ(tree(), before) << "undo after save alone: " << action.title;
    }
  }
  const ActedChange acted = apply(kind, inputs);
  const Answers asked_again = ask(kind, inputs);
  check_foreseen(kind, inputs, *first, asked, asked_again);
  const auto after = kind.plan(inputs, asked_again);
  EXPECT_TRUE(after) << (after ? "" : after.error().message);
  EXPECT_TRUE(!after || after->empty()) << "still to do: " << after->summary;
  for (int round = 0; round < 2; ++round) {
    for (const int code : undo(acted)) EXPECT_EQ(code, 0) << "undo, round " << round;
    EXPECT_EQ(tree(), before) << "after undo, round " << round;
  }
  return acted.change;
}

}  // namespace millwright::testing_tools
