#include "steps/core/file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <filesystem>

#include "orchestrator/base/text.hpp"
#include "tests/unit/steps_core/real_shell.hpp"

namespace millwright {
namespace {

namespace fs = std::filesystem;
using testing_tools::inputs_of;
using testing_tools::RealShell;

const FileStep kFile;

class FileTest : public testing::Test {
 protected:
  Result<Change> plan(const Value& given) { return shell_.plan(kFile, inputs_of(kFile, given)); }
  std::string at(const std::string& relative) { return shell_.path(relative); }
  RealShell shell_;
};

TEST_F(FileTest, CreatesAFile) {
  const Change change =
      shell_.expect_contract(kFile, {{"path", at("a b")}, {"content", "x\ny\n"}, {"mode", "0600"}, {"diff", true}});
  EXPECT_EQ(change.diff, "--- " + at("a b") + "\n+++ " + at("a b") + "\n@@ -0,0 +1,2 @@\n+x\n+y\n");
  EXPECT_EQ(change.summary, at("a b") + " created, 4 B");
  EXPECT_EQ(change.actions[0].undo_title, "remove " + at("a b"));
}

TEST_F(FileTest, ChangesContentAndKeepsModeAndOwner) {
  shell_.write("f", "one\ntwo\nthree\n", 0754);
  const bool root = ::geteuid() == 0;
  ASSERT_TRUE(!root || ::chown(at("f").c_str(), 1, 2) == 0);
  const Change change = shell_.expect_contract(kFile, {{"path", at("f")}, {"content", "one\n2\nthree\n"}});
  EXPECT_EQ(change.diff, "--- " + at("f") + "\n+++ " + at("f") + "\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n");
  EXPECT_EQ(change.summary, at("f") + ": 1 line out, 1 in");
  EXPECT_EQ(change.actions[0].files[0].mode, "0754");
  shell_.apply(kFile, inputs_of(kFile, {{"path", at("f")}, {"content", "one\n2\nthree\n"}}));
  if (!root) GTEST_SKIP() << "keeping other owners needs root";
  EXPECT_EQ(shell_.tree()["f"], "file 754 1:2 one\n2\nthree\n");
}

TEST_F(FileTest, SetsModeAndOwnerOnly) {
  shell_.write("f", "secret\n", 04755);
  EXPECT_EQ(shell_.expect_contract(kFile, {{"path", at("f")}, {"mode", 600}}).summary, at("f") + ": mode 4755 -> 0600");
  if (::geteuid() != 0) GTEST_SKIP() << "changing owners needs root";
  shell_.expect_contract(kFile, {{"path", at("f")}, {"owner", "daemon"}, {"group", 2}});
  shell_.expect_contract(kFile, {{"path", at("f")}, {"owner", "1"}, {"mode", "4755"}});
  shell_.write("d/x", "");
  shell_.expect_contract(kFile, {{"path", at("d")}, {"owner", "daemon"}, {"mode", "0700"}, {"state", "directory"}});
}

TEST_F(FileTest, MakesFoldersAndRemovesOnlyThose) {
  EXPECT_EQ(shell_.expect_contract(kFile, {{"path", at("d/e/f/")}, {"state", "directory"}, {"mode", "0700"}}).summary,
            at("d/e/f") + "/ created");
  const auto acted = shell_.apply(kFile, inputs_of(kFile, {{"path", at("d/e/f")}, {"state", "directory"}}));
  shell_.write("d/mine", "kept");
  EXPECT_EQ(shell_.undo(acted), std::vector<int>{kUndoRefused});
  EXPECT_EQ(shell_.read("d/mine"), "kept");
  EXPECT_FALSE(fs::exists(at("d/e")));
}

TEST_F(FileTest, ParentsOnlyWhenAskedFor) {
  const auto refused = plan({{"path", at("no/such/f")}, {"content", "x"}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::refused);
  EXPECT_EQ(refused.error().message, "the folder " + at("no/such") + " does not exist");
  EXPECT_NE(refused.error().hint.find("parents: true"), std::string::npos);
  const Change change = shell_.expect_contract(kFile, {{"path", at("no/such/f")}, {"content", "x"}, {"parents", true}});
  EXPECT_EQ(change.actions.size(), 2u);
  shell_.write("plain", "");
  EXPECT_FALSE(plan({{"path", at("plain/f")}, {"content", "x"}, {"parents", true}}));
}

TEST_F(FileTest, Links) {
  shell_.write("a", "A");
  EXPECT_EQ(shell_.expect_contract(kFile, {{"path", at("l")}, {"target", "a"}}).diff, "+ " + at("l") + " -> a\n");
  fs::create_symlink("a", at("l"));
  EXPECT_EQ(shell_.expect_contract(kFile, {{"path", at("l")}, {"target", "b c'd"}}).diff,
            "- " + at("l") + " -> a\n+ " + at("l") + " -> b c'd\n");
  fs::create_directory(at("d"));
  fs::remove(at("l"));
  fs::create_symlink("d", at("l"));  // pointing to a folder: the link itself must change
  shell_.expect_contract(kFile, {{"path", at("l")}, {"target", "a"}});
}

TEST_F(FileTest, AnotherKindIsReplacedOnlyByForce) {
  shell_.write("d/x", "X", 0640);
  shell_.write("f", "F");
  fs::create_symlink("f", at("l"));
  for (const Value& given :
       {Value{{"path", at("d")}, {"content", "c"}}, Value{{"path", at("d")}, {"target", "f"}},
        Value{{"path", at("l")}, {"content", "c"}}, Value{{"path", at("f")}, {"target", "d"}},
        Value{{"path", at("f")}, {"state", "directory"}}, Value{{"path", at("l")}, {"state", "directory"}}}) {
    const auto refused = plan(given);
    ASSERT_FALSE(refused) << given;
    EXPECT_EQ(refused.error().kind, ErrorKind::refused);
    EXPECT_NE(refused.error().hint.find("force: true"), std::string::npos);
    Value forced = given;
    forced["force"] = true;
    shell_.expect_contract(kFile, forced);
  }
}

TEST_F(FileTest, RemovesAndPutsBackWholeFolders) {
  shell_.write("d/deep/x", std::string("bin\0ary", 7), 0600);
  shell_.write("d/.hidden", "h", 04711);
  fs::create_symlink("../gone", at("d/l"));
  fs::create_directory(at("d/empty"));
  fs::permissions(at("d/empty"), static_cast<fs::perms>(0711));
  fs::permissions(at("d"), static_cast<fs::perms>(0750));
  shell_.expect_contract(kFile, {{"path", at("d")}, {"state", "absent"}});
  shell_.write("f", "x", 0604);
  shell_.expect_contract(kFile, {{"path", at("f")}, {"state", "absent"}});
  fs::create_symlink("nowhere", at("l"));
  shell_.expect_contract(kFile, {{"path", at("l")}, {"state", "absent"}});
  EXPECT_TRUE(plan({{"path", at("no")}, {"state", "absent"}})->empty());
}

TEST_F(FileTest, MoreThanUndoCanKeepIsRefused) {
  shell_.write("d/x", std::string(100000, 'x'));
  for (const Value& given : {Value{{"path", at("d")}, {"state", "absent"}, {"undo_limit", "50K"}},
                             Value{{"path", at("d/x")}, {"content", "y"}, {"undo_limit", "50K"}}}) {
    const auto refused = plan(given);
    ASSERT_FALSE(refused) << given;
    EXPECT_NE(refused.error().hint.find("undo_limit"), std::string::npos);
  }
}

TEST_F(FileTest, TouchAndFileWithoutContent) {
  shell_.expect_contract(kFile, {{"path", at("t")}, {"state", "touch"}, {"mode", "0600"}});
  shell_.write("t", "kept");
  EXPECT_TRUE(plan({{"path", at("t")}, {"state", "touch"}})->empty());
  const auto refused = plan({{"path", at("none")}});
  EXPECT_EQ(refused.error().message, at("none") + " does not exist");
}

TEST_F(FileTest, UndoRefusesWhatSomeoneElseChangedSince) {
  shell_.write("f", "old\n");
  const Inputs inputs = inputs_of(kFile, {{"path", at("f")}, {"content", "new\n"}});
  const auto acted = shell_.apply(kFile, inputs);
  shell_.write("f", "theirs\n");
  EXPECT_EQ(shell_.undo(acted), std::vector<int>{kUndoRefused});
  EXPECT_EQ(shell_.read("f"), "theirs\n");
  const Answer said = shell_.undo(acted.change.actions[0], acted.save_dirs[0]);
  EXPECT_NE(said.err.find("was changed by someone else since"), std::string::npos) << said.err;
  fs::remove(at("f"));
  EXPECT_EQ(shell_.undo(acted), std::vector<int>{kUndoRefused});

  const auto removed = shell_.apply(kFile, inputs_of(kFile, {{"path", at("f")}, {"content", "a"}}));
  const auto gone = shell_.apply(kFile, inputs_of(kFile, {{"path", at("f")}, {"state", "absent"}}));
  shell_.write("f", "somebody's");
  EXPECT_EQ(shell_.undo(gone), std::vector<int>{kUndoRefused});
  EXPECT_EQ(shell_.undo(removed), std::vector<int>{kUndoRefused});

  const auto linked = shell_.apply(kFile, inputs_of(kFile, {{"path", at("l")}, {"target", "x"}}));
  fs::remove(at("l"));
  fs::create_symlink("theirs", at("l"));
  EXPECT_EQ(shell_.undo(linked), std::vector<int>{kUndoRefused});

  const auto mode = shell_.apply(kFile, inputs_of(kFile, {{"path", at("f")}, {"mode", "0600"}}));
  fs::permissions(at("f"), static_cast<fs::perms>(0666));
  EXPECT_EQ(shell_.undo(mode), std::vector<int>{kUndoRefused});
}

// Mode and owner are part of what somebody else may have changed, of files with new content too.
TEST_F(FileTest, UndoRefusesAnotherModeOrOwner) {
  shell_.write("f", "old\n", 0640);
  const auto written = shell_.apply(kFile, inputs_of(kFile, {{"path", at("f")}, {"content", "new\n"}}));
  fs::permissions(at("f"), static_cast<fs::perms>(0600));
  const Answer said = shell_.undo(written.change.actions[0], written.save_dirs[0]);
  EXPECT_EQ(said.exit_code, kUndoRefused);
  EXPECT_NE(said.err.find("got another mode or owner from someone else since"), std::string::npos) << said.err;
  EXPECT_EQ(shell_.read("f"), "new\n");
  const Answer forced = shell_.run("MW_FORCE=1\n" + written.change.actions[0].undo, "-eu", written.save_dirs[0]);
  EXPECT_EQ(forced.exit_code, 0) << forced.err;
  EXPECT_EQ(shell_.read("f"), "old\n");
  EXPECT_NE(shell_.tree()["f"].find("file 640 "), std::string::npos) << shell_.tree()["f"];

  const auto fresh = shell_.apply(kFile, inputs_of(kFile, {{"path", at("new")}, {"content", "x"}, {"mode", "0644"}}));
  fs::permissions(at("new"), static_cast<fs::perms>(0755));
  EXPECT_EQ(shell_.undo(fresh), std::vector<int>{kUndoRefused});
  if (::geteuid() != 0) GTEST_SKIP() << "changing owners needs root";
  fs::permissions(at("new"), static_cast<fs::perms>(0644));
  ASSERT_EQ(::chown(at("new").c_str(), 1, 0), 0);
  EXPECT_EQ(shell_.undo(fresh), std::vector<int>{kUndoRefused});
  ASSERT_EQ(::chown(at("new").c_str(), 0, 0), 0);
  EXPECT_EQ(shell_.undo(fresh), std::vector<int>{0});
  shell_.write("g", "x");
  const auto owned = shell_.apply(kFile, inputs_of(kFile, {{"path", at("g")}, {"owner", "daemon"}}));
  ASSERT_EQ(::chown(at("g").c_str(), 2, 0), 0);
  EXPECT_EQ(shell_.undo(owned), std::vector<int>{kUndoRefused});
}

std::string attribute(const std::string& path) {
  std::array<char, 64> value{};
  const ssize_t size = ::getxattr(path.c_str(), "user.millwright", value.data(), value.size());
  return size < 0 ? "none" : std::string(value.data(), static_cast<std::size_t>(size));
}

TEST_F(FileTest, UndoBringsAttributesAndOtherNamesBack) {
  shell_.write("f", "old\n");
  shell_.write("d/x", "X");
  for (const std::string& path : {at("f"), at("d/x"), at("d")}) {
    if (::setxattr(path.c_str(), "user.millwright", path.data(), path.size(), 0) != 0) {
      GTEST_SKIP() << "this file system keeps no attributes";
    }
  }
  fs::create_hard_link(at("f"), at("other"));
  const auto written = shell_.apply(kFile, inputs_of(kFile, {{"path", at("f")}, {"content", "new\n"}}));
  EXPECT_FALSE(fs::equivalent(at("f"), at("other")));
  EXPECT_EQ(shell_.undo(written), std::vector<int>{0});
  EXPECT_TRUE(fs::equivalent(at("f"), at("other")));
  EXPECT_EQ(attribute(at("f")), at("f"));

  fs::remove(at("other"));
  const auto removed = shell_.apply(kFile, inputs_of(kFile, {{"path", at("f")}, {"state", "absent"}}));
  EXPECT_EQ(shell_.undo(removed), std::vector<int>{0});
  EXPECT_EQ(attribute(at("f")), at("f"));
  const auto folder = shell_.apply(kFile, inputs_of(kFile, {{"path", at("d")}, {"state", "absent"}}));
  EXPECT_EQ(shell_.undo(folder), std::vector<int>{0});
  EXPECT_EQ(attribute(at("d/x")), at("d/x"));
  EXPECT_EQ(attribute(at("d")), at("d"));
}

// One of the names was written to meanwhile: what is put back is what was there, not what that name holds now.
TEST_F(FileTest, AnotherNameThatChangedIsNotPutBack) {
  shell_.write("f", "old\n");
  fs::create_hard_link(at("f"), at("other"));
  const auto written = shell_.apply(kFile, inputs_of(kFile, {{"path", at("f")}, {"content", "new\n"}}));
  shell_.write("other", "theirs\n");
  EXPECT_EQ(shell_.undo(written), std::vector<int>{0});
  EXPECT_EQ(shell_.read("f"), "old\n");
  EXPECT_EQ(shell_.read("other"), "theirs\n");
}

// chmod of the coreutils leaves set-group bits of folders alone when it is given fewer than five digits.
TEST_F(FileTest, TheModeOfAFolderIsWhatIsDeclared) {
  fs::create_directory(at("d"));
  for (const int mode : {02755, 06775, 03777}) {
    ASSERT_EQ(::chmod(at("d").c_str(), static_cast<mode_t>(mode)), 0);
    shell_.expect_contract(kFile, {{"path", at("d")}, {"state", "directory"}, {"mode", "0755"}});
    shell_.expect_contract(kFile, {{"path", at("d")}, {"state", "directory"}, {"mode", "2750"}});
  }
  ASSERT_EQ(::chmod(at("d").c_str(), 02755), 0);  // what is made in it inherits the bit
  shell_.expect_contract(kFile, {{"path", at("d/e")}, {"state", "directory"}, {"mode", "0700"}});
  shell_.apply(kFile, inputs_of(kFile, {{"path", at("d/e")}, {"state", "directory"}, {"mode", "0700"}}));
  EXPECT_NE(shell_.tree()["d/e"].find("directory 700 "), std::string::npos) << shell_.tree()["d/e"];
}

TEST_F(FileTest, ModeAndOwnerOfWhatIsNoFileAreRefused) {
  shell_.write("f", "x");
  fs::create_symlink("f", at("l"));
  ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);
  for (const Value& given : {Value{{"path", at("l")}, {"mode", "0600"}}, Value{{"path", at("l")}},
                             Value{{"path", at("l")}, {"state", "touch"}, {"owner", "root"}},
                             Value{{"path", at("pipe")}, {"mode", "0644"}}}) {
    const auto refused = plan(given);
    ASSERT_FALSE(refused) << given;
    EXPECT_EQ(refused.error().kind, ErrorKind::refused);
    EXPECT_NE(refused.error().message.find(", not a file"), std::string::npos) << refused.error().message;
    EXPECT_FALSE(refused.error().hint.empty());
  }
  EXPECT_TRUE(plan({{"path", at("l")}, {"state", "touch"}})->empty());
  EXPECT_THROW(inputs_of(kFile, {{"path", at("l")}, {"target", "f"}, {"mode", "0600"}}), std::runtime_error);
}

TEST_F(FileTest, NamesThatLookLikeEscapes) {
  for (const std::string name : {"a\\nb", "tab\\t", "%s", "-n", "back\\"}) {
    SCOPED_TRACE(name);
    shell_.expect_contract(kFile, {{"path", at("in/" + name + "/f")}, {"content", "x"}, {"parents", true}});
    shell_.expect_contract(kFile, {{"path", at(name)}, {"target", name}});
    shell_.expect_contract(kFile, {{"path", at("in/" + name)}, {"state", "directory"}});
    shell_.write(name, "old");
    shell_.expect_contract(kFile, {{"path", at(name)}, {"content", "new"}});
    shell_.expect_contract(kFile, {{"path", at(name)}, {"state", "absent"}});
  }
}

TEST_F(FileTest, ALinkToANameOfSeveralLinesIsLeftAlone) {
  fs::create_symlink("a\nb", at("l"));
  const auto refused = plan({{"path", at("l")}, {"target", "a"}, {"force", true}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, at("l") + " is a link to a name of several lines, not a link");
  fs::create_symlink("a\n", at("m"));
  EXPECT_FALSE(plan({{"path", at("m")}, {"target", "a"}}));
}

TEST_F(FileTest, UndoOfARemovalThatStoppedHalfway) {
  shell_.write("d/x", "X");
  shell_.write("d/y/z", "Z");
  const auto before = shell_.tree();
  const auto change = plan({{"path", at("d")}, {"state", "absent"}});
  const fs::path save = shell_.new_save_dir();
  ASSERT_TRUE(shell_.run(change->actions[0].save, "-eu", save).ok());
  fs::rename(at("d"), at("d.millwright-removing"));  // the script's first effect
  fs::remove(at("d.millwright-removing/x"));
  EXPECT_EQ(shell_.undo(change->actions[0], save).exit_code, 0);
  EXPECT_EQ(shell_.tree(), before);
}

TEST_F(FileTest, UndoOfAForcedReplacementThatStoppedBetweenItsActions) {
  shell_.write("d/x", "X");
  const auto before = shell_.tree();
  const auto change = plan({{"path", at("d")}, {"content", "file now"}, {"force", true}});
  ASSERT_EQ(change->actions.size(), 2u);
  const fs::path first = shell_.new_save_dir();
  ASSERT_TRUE(shell_.act(change->actions[0], first).ok());
  EXPECT_EQ(shell_.undo(change->actions[1], shell_.new_save_dir()).exit_code, 0);
  EXPECT_EQ(shell_.undo(change->actions[0], first).exit_code, 0);
  EXPECT_EQ(shell_.tree(), before);
}

TEST_F(FileTest, PrivateBinaryAndLargeContentIsNotInThePlan) {
  const Change secret = plan({{"path", at("s")}, {"content", "hunter2\n"}, {"mode", "0600"}}).value();
  EXPECT_EQ(secret.diff, "+ " + at("s") + " 8 B, content not shown\n");
  shell_.write("p", "hunter1\n", 0600);
  const Change old_secret = plan({{"path", at("p")}, {"content", "x\n"}}).value();
  EXPECT_EQ(old_secret.diff.find("hunter1"), std::string::npos);
  const auto said = [&](const char* path, const char* content) {
    return shell_.ask(kFile, inputs_of(kFile, {{"path", at(path)}, {"content", content}})).text("state");
  };
  EXPECT_EQ(said("p", "x").find("hunter1"), std::string::npos);
  shell_.write("open", "owner content\ncontent\n\n", 0644);
  EXPECT_NE(said("open", "x").find("\ncontent\nowner content\ncontent"), std::string::npos);
  EXPECT_EQ(said("open", "owner content\ncontent\n\n").find("content"), std::string::npos) << "as wanted: not sent";
  shell_.write("src", std::string("\0\1\2", 3));
  const Change binary = plan({{"path", at("b")}, {"source", at("src")}}).value();
  EXPECT_EQ(binary.diff, "+ " + at("b") + " 3 B, sha256 " + sha256_hex(std::string("\0\1\2", 3)).substr(0, 16) + "\n");
  shell_.write("b", "\xff\xfe", 0644);
  EXPECT_NO_THROW(Value(plan({{"path", at("b")}, {"content", "x\n"}})->diff).dump());
}

TEST_F(FileTest, CopiesLargeFilesOfTheControllerWithoutHoldingThem) {
  shell_.write("src", std::string(300000, 'z'));
  const Change change = shell_.expect_contract(kFile, {{"path", at("big")}, {"source", at("src")}});
  EXPECT_EQ(change.actions[0].files[0].local_path, at("src"));
  EXPECT_EQ(change.actions[0].files[0].content, nullptr);
}

TEST_F(FileTest, OtherKindsOfFilesAreLeftAlone) {
  ASSERT_EQ(::system(("mkfifo " + at("pipe")).c_str()), 0);
  EXPECT_EQ(plan({{"path", at("pipe")}, {"state", "absent"}}).error().kind, ErrorKind::refused);
  EXPECT_EQ(plan({{"path", at("pipe")}, {"content", "x"}, {"force", true}}).error().message,
            at("pipe") + " is a fifo, not a file");
}

TEST_F(FileTest, MistakesAreFoundBeforeAnythingIsContacted) {
  for (const Value& given :
       {Value{{"path", "relative"}}, Value{{"path", "/"}}, Value{{"path", "/a/../b"}}, Value{{"path", "/a\nb"}},
        Value{{"path", "/a"}, {"content", "x"}, {"source", "/etc/passwd"}},
        Value{{"path", "/a"}, {"source", "/does/not/exist"}}, Value{{"path", "/a"}, {"mode", "u+x"}},
        Value{{"path", "/a"}, {"state", "directory"}, {"content", "x"}},
        Value{{"path", "/a"}, {"state", "file"}, {"target", "x"}}, Value{{"path", "/a"}, {"target", "x\ny"}},
        Value{{"path", "/a/" + std::string(250, 'x')}, {"content", "x"}},
        Value{{"path", replace_all(std::string(1500, '/'), "/", "/abc")}, {"content", "x"}}}) {
    EXPECT_THROW(inputs_of(kFile, given), std::runtime_error) << given;
  }
  const auto unknown = check_inputs(kFile.signature(), {{"dest", "/a"}, {"src", "/b"}});
  EXPECT_NE(unknown.error()[0].hint.find("did you mean 'path'?"), std::string::npos);
  EXPECT_NE(unknown.error()[1].hint.find("did you mean 'source'?"), std::string::npos);
}

TEST_F(FileTest, OutputsTellWhatIsThere) {
  shell_.write("f", "abc");
  const Value outputs = plan({{"path", at("f")}})->outputs;
  EXPECT_EQ(outputs["state"], "file");
  EXPECT_EQ(outputs["size"], 3);
  EXPECT_EQ(outputs["mode"], "0644");
  EXPECT_EQ(outputs["sha256"], sha256_hex("abc"));
}

}  // namespace
}  // namespace millwright
