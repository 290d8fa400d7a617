// The composed script on a real /bin/sh.
#include "orchestrator/engine/action_script.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"
#include "orchestrator/engine/dead_man.hpp"
#include "orchestrator/engine/script_parts.hpp"
#include "tests/unit/engine/harness.hpp"

namespace millwright::testing {
namespace {

class ActionScriptTest : public ::testing::Test {
 protected:
  // What arm_dead_man puts down for systemd to start, as the composed action has it.
  std::string timer_script() {
    const std::string text = arm_dead_man({parts_.remote_dir, "r1", "cut 'it'", std::chrono::seconds(9)}, 70);
    EXPECT_EQ(sh(script_helpers() + "D=" + at("armed") + "; mkdir -p \"$D\"\nsystemctl() { :; }\n" +
                 replace_all(text, "/etc/systemd/system/", at("armed") + "/")),
              0)
        << read_file(at("err"));
    return read_file(at("armed/timer.sh"));
  }
  int sh(const std::string& script) {
    write_file(at("script"), script);
    const std::string command =
        "env -i PATH=\"$PATH\" LC_ALL=C /bin/sh " + at("script") + " >" + at("out") + " 2>" + at("err") + " </dev/null";
    const int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  std::string at(const std::string& name) const { return folder_.path() + "/" + name; }
  ActionMark mark() {
    EXPECT_EQ(sh(read_mark_script(parts_.remote_dir)), 0);
    return parse_mark(read_file(at("out")));
  }
  void SetUp() override {
    parts_.state_dir = at("state");
    parts_.run = "r1";
    parts_.holder = "me|m|b|n|1|2|now|testing";
    parts_.remote_dir = at("state/runs/r1/1-conf");
    parts_.meta = "{}";
    action_.title = "write it";
    action_.save = "cp " + at("file") + " \"$MW_SAVE/old\" 2>/dev/null || true";
    action_.script = "echo new >" + at("file");
    action_.undo =
        "if [ -e \"$MW_SAVE/old\" ]; then cp \"$MW_SAVE/old\" " + at("file") + "; else rm -f " + at("file") + "; fi";
    parts_.action = &action_;
    parts_.by = "me@here";
    parts_.audit = {{"run", "r1"}, {"step", "conf"}, {"action", "write it"}, {"undo", "put it back"}};
  }
  TemporaryFolder folder_;
  Action action_;
  ActionScript parts_;
};

using Kind = ActionMark::Kind;

TEST_F(ActionScriptTest, RunsAndLeavesWhatTakesItBack) {
  write_file(at("file"), "old\n");
  EXPECT_EQ(mark().kind, Kind::absent);
  EXPECT_EQ(sh(compose_action(parts_)), 0) << read_file(at("err"));
  EXPECT_EQ(read_file(at("file")), "new\n");
  EXPECT_EQ(mark().kind, Kind::done);
  EXPECT_FALSE(mark().running);
  const auto mode = std::filesystem::status(parts_.remote_dir).permissions();
  EXPECT_EQ(mode, std::filesystem::perms::owner_all);
  EXPECT_EQ(sh(compose_undo(parts_.remote_dir, "", "me@here")), 0) << read_file(at("err"));
  EXPECT_EQ(read_file(at("file")), "old\n");
  EXPECT_EQ(mark().kind, Kind::undone);
  write_file(at("file"), "later\n");
  EXPECT_EQ(sh(compose_undo(parts_.remote_dir, "", "me@here")), 0);
  EXPECT_EQ(read_file(at("file")), "later\n") << "undone twice";
}

TEST_F(ActionScriptTest, AFailureKeepsItsStatusAndCanBeTakenBack) {
  action_.script = "echo half >" + at("file") + "; exit 75";
  EXPECT_EQ(sh(compose_action(parts_)), 75);
  EXPECT_EQ(mark().kind, Kind::failed);
  EXPECT_EQ(mark().status, 75) << "not taken for a stale guard";
  EXPECT_EQ(sh(compose_undo(parts_.remote_dir, "", "me@here")), 0);
  EXPECT_FALSE(std::filesystem::exists(at("file")));
}

TEST_F(ActionScriptTest, AnUndoIsToldWhenItMustNotRefuse) {
  action_.undo = "[ -n \"${MW_FORCE:-}\" ] || exit 65\nrm -f " + at("file");
  EXPECT_EQ(sh(compose_action(parts_)), 0) << read_file(at("err"));
  EXPECT_EQ(sh(compose_undo(parts_.remote_dir, "", "me@here")), kUndoRefused);
  EXPECT_TRUE(std::filesystem::exists(at("file")));
  EXPECT_EQ(sh(compose_undo(parts_.remote_dir, "", "me@here", Force::yes)), 0) << read_file(at("err"));
  EXPECT_FALSE(std::filesystem::exists(at("file")));
}

TEST_F(ActionScriptTest, TheGuardReadsAnswersAsTheControllerDid) {
  write_file(at("file"), std::string("bytes \xff\x01 and no newline", 22));
  write_file(at("long"), std::string(10000, 'x') + "\n\n");
  write_file(at("binary"), std::string("a\0b\n", 4));
  // What the script around it uses, and what it was given, is not to be seen by a question.
  parts_.guard = {{"b", "cat " + at("file")},
                  {"a", "echo it\\'s; echo noise >&2; exit 3"},
                  {"A", ":"},
                  {"c", "cat " + at("long") + "; exit 4"},
                  {"d", "cat " + at("binary")},
                  {"e", "printf '%s\n' \"${S:-}${D:-}${1:-}\"; read -r l; echo \"$l\""},
                  {"f", "set -eu; false; echo never"}};
  Answers answers;
  answers.set("A", {0, "", ""});
  answers.set("a", {3, "it's\n", "noise\n"});
  answers.set("b", {0, read_file(at("file")), ""});
  answers.set("c", {4, read_file(at("long")), ""});
  answers.set("d", {0, read_file(at("binary")), ""});
  answers.set("e", {0, "\n\n", ""});
  answers.set("f", {1, "", ""});
  parts_.planned_on = answers;
  EXPECT_EQ(sh(compose_action(parts_)), 0) << read_file(at("err"));
  EXPECT_EQ(mark().kind, Kind::done);
}

TEST_F(ActionScriptTest, AStaleGuardChangesNothing) {
  parts_.guard = {{"a", "cat " + at("file")}};
  Answers answers;
  answers.set("a", {0, "what was planned on\n", ""});
  parts_.planned_on = answers;
  write_file(at("file"), "something else\n");
  EXPECT_NE(sh(compose_action(parts_)), 0);
  EXPECT_EQ(mark().kind, Kind::stale);
  EXPECT_EQ(read_file(at("file")), "something else\n");
  EXPECT_EQ(sh(compose_undo(parts_.remote_dir, "", "me@here")), 0);
  EXPECT_EQ(read_file(at("file")), "something else\n");
}

TEST_F(ActionScriptTest, FilesArePlacedWholeWithModeAndBytes) {
  const std::string content = "it's $HOME `date` \\ \xff\n\n";
  action_.files = {{at("placed it"), std::make_shared<const std::string>(content), {}, "0640", {}, {}}};
  parts_.files = {{&action_.files[0], Delivery::inside}};
  EXPECT_EQ(sh(compose_action(parts_)), 0) << read_file(at("err"));
  EXPECT_EQ(read_file(at("placed it")), content);
  EXPECT_EQ(static_cast<int>(std::filesystem::status(at("placed it")).permissions()), 0640);
}

TEST_F(ActionScriptTest, AFileThatCannotBePlacedIsAFailureThatLeavesNoTemporary) {
  action_.files = {{at("none/file"), std::make_shared<const std::string>("x"), {}, "0640", {}, {}}};
  parts_.files = {{&action_.files[0], Delivery::inside}};
  EXPECT_EQ(sh(compose_action(parts_)), 74);
  EXPECT_EQ(mark().kind, Kind::failed);
  EXPECT_FALSE(std::filesystem::exists(at("file"))) << "the script ran without its file";
}

TEST_F(ActionScriptTest, WhenSavingFailsNothingIsDone) {
  action_.save = "echo no space >&2; exit 9";
  EXPECT_NE(sh(compose_action(parts_)), 0);
  EXPECT_EQ(mark().kind, Kind::unprepared);
  EXPECT_EQ(mark().status, 9);
  EXPECT_FALSE(std::filesystem::exists(at("file")));
}

TEST_F(ActionScriptTest, WhereUndoOrMarkCannotBeWrittenNothingIsDone) {
  for (const std::string blocked : {"undo.sh", "script.sh", "meta.json", "outcome"}) {
    parts_.remote_dir = at("state/runs/r1/" + blocked);
    // Writing to a name that is a folder fails for root too, as a full disk would.
    std::filesystem::create_directories(parts_.remote_dir + "/" + blocked + "/x");
    EXPECT_EQ(sh(compose_action(parts_)), 73) << blocked;
    EXPECT_FALSE(std::filesystem::exists(at("file"))) << blocked;
    EXPECT_EQ(mark().kind, Kind::absent) << blocked;
  }
}

TEST_F(ActionScriptTest, AnotherRunsLockIsSeenAndOnesOwnIsNot) {
  EXPECT_EQ(sh(compose_action(parts_)), 0);
  EXPECT_EQ(sh(compose_action(parts_)), 72) << "an action runs once";
  ActionScript second = parts_;
  second.remote_dir = at("state/runs/r1/2-conf");
  EXPECT_EQ(sh(compose_action(second)), 0) << "the same run";
  ActionScript other = parts_;
  other.run = "r2";
  other.remote_dir = at("state/runs/r2/1-conf");
  std::filesystem::remove(at("file"));
  EXPECT_NE(sh(compose_action(other)), 0);
  EXPECT_FALSE(std::filesystem::exists(at("file")));
  EXPECT_EQ(sh(read_mark_script(other.remote_dir)), 0);
  const ActionMark seen = parse_mark(read_file(at("out")));
  EXPECT_EQ(seen.kind, Kind::locked);
  EXPECT_EQ(seen.text, "r1|" + parts_.holder);
  EXPECT_EQ(sh(release_lock_script(parts_.state_dir, "r2")), 0);
  other.remote_dir = at("state/runs/r2/2-conf");
  EXPECT_NE(sh(compose_action(other)), 0) << "r2 gave back what r1 holds";
  other.remote_dir = at("state/runs/r2/3-conf");
  EXPECT_EQ(sh(release_lock_script(parts_.state_dir, "r1")), 0);
  EXPECT_EQ(sh(compose_action(other)), 0);
}

TEST_F(ActionScriptTest, ALockLetGoBetweenTwoLooksIsTaken) {
  // A readlink that finds the lock gone, as when its holder gave it back just before.
  std::filesystem::create_directories(at("bin"));
  write_file(at("bin/readlink"), "#!/bin/sh\nrm -f \"$1\"\nexec /bin/readlink \"$1\"\n");
  std::filesystem::permissions(at("bin/readlink"), std::filesystem::perms::owner_all);
  std::filesystem::create_directories(parts_.state_dir);
  std::filesystem::create_symlink("r0|somebody", parts_.state_dir + "/lock");
  EXPECT_EQ(sh("PATH=" + at("bin") + ":$PATH\n" + compose_action(parts_)), 0);
  EXPECT_EQ(mark().kind, Kind::done);
  EXPECT_EQ(std::filesystem::read_symlink(parts_.state_dir + "/lock"), parts_.run + "|" + parts_.holder);
}

TEST_F(ActionScriptTest, AnActionThatMayCutTheLineOutlivesItsShell) {
  action_.marks.may_drop_connection = true;
  action_.script = "sleep 0.5; echo new >" + at("file");
  const std::string begun = parts_.remote_dir + "/out";  // made when it is on its own
  write_file(at("cut"), "/bin/sh " + at("composed") + " & until [ -e " + begun +
                            " ]; do sleep 0.05; done; kill -HUP $!; kill $!\n");
  write_file(at("composed"), compose_action(parts_));
  sh(read_file(at("cut")));
  ActionMark seen = mark();
  for (int i = 0; i < 100 && (seen.kind != Kind::done); ++i) {
    ASSERT_EQ(sh("sleep 0.05"), 0);
    seen = mark();
  }
  EXPECT_EQ(seen.kind, Kind::done);
  EXPECT_EQ(read_file(at("file")), "new\n");
}

TEST_F(ActionScriptTest, WhatIsSettledBeforeItArrivesNeverRuns) {
  EXPECT_EQ(sh(settle_mark_script(parts_.remote_dir)), 0);
  EXPECT_EQ(parse_mark(read_file(at("out"))).kind, Kind::undone);
  EXPECT_EQ(sh(compose_action(parts_)), 72);
  EXPECT_FALSE(std::filesystem::exists(at("file")));
}

TEST_F(ActionScriptTest, AKilledActionIsToldFromARunningOne) {
  action_.script = "sleep 30";
  const std::string composed = compose_action(parts_);
  write_file(at("composed"), composed);
  EXPECT_EQ(sh("setsid /bin/sh " + at("composed") + " & echo $! >" + at("group")), 0);
  ActionMark seen = mark();
  for (int i = 0; i < 100 && seen.kind != Kind::started; ++i) {
    ASSERT_EQ(sh("sleep 0.05"), 0);
    seen = mark();
  }
  EXPECT_EQ(seen.kind, Kind::started);
  EXPECT_TRUE(seen.running);
  EXPECT_EQ(sh("kill -s KILL -- -$(cat " + at("group") + "); sleep 0.1"), 0);
  seen = mark();
  EXPECT_EQ(seen.kind, Kind::started);
  EXPECT_FALSE(seen.running);
  EXPECT_EQ(seen.boot, seen.boot_at_start);
}

TEST_F(ActionScriptTest, AllTextsPassShellcheck) {
  if (std::system("command -v shellcheck >/dev/null 2>&1") != 0) GTEST_SKIP() << "no shellcheck here";
  parts_.guard = {{"a", "true"}, {"b", "true"}};
  parts_.planned_on.set("a", {0, "", ""});
  parts_.planned_on.set("b", {0, std::string(10000, 'x'), ""});
  parts_.dead_man = std::chrono::seconds(60);
  action_.marks.may_drop_connection = true;
  action_.files = {{at("placed"), std::make_shared<const std::string>("x"), {}, "0640", "root", "root"}};
  parts_.files = {{&action_.files[0], Delivery::inside}};
  for (const std::string& script :
       {compose_action(parts_), read_mark_script(parts_.remote_dir), compose_undo(parts_.remote_dir, "true", "me@here"),
        settle_mark_script(parts_.remote_dir), compose_after({parts_.remote_dir}), dismiss_dead_men_script("r1"),
        timer_script()}) {
    write_file(at("script"), script);
    const std::string command = "shellcheck -s sh -S warning -e SC2034 " + at("script") + " >" + at("out") + " 2>&1";
    EXPECT_EQ(std::system(command.c_str()), 0) << read_file(at("out"));
  }
}

}  // namespace
}  // namespace millwright::testing
