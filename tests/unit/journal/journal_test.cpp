#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <thread>

#include "orchestrator/journal/memory_journal.hpp"
#include "orchestrator/journal/sqlite_journal.hpp"

namespace millwright {
namespace {

class Folder {
 public:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "mw-journal-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

RunRecord a_run(const std::string& id, int at = 0) {
  RunRecord run;
  run.id = id;
  run.verb = "apply";
  run.playbook_path = "site.yml";
  run.playbook_text = "name: x\n";
  run.parameters = {{"hosts", {"gpu1"}}};
  run.started = TimePoint(Seconds(1'000'000 + at));
  return run;
}

Event an_event(const std::string& run, const std::string& text, EventType type = EventType::warning) {
  Event event;
  event.type = type;
  event.run = run;
  event.host = "gpu1";
  event.data = {{"text", text}};
  return event;
}

UndoRecord an_undo(const std::string& title) {
  UndoRecord undo;
  undo.host = "gpu1";
  undo.node = {{"host", "gpu1"}};
  undo.step = "conf";
  undo.title = title;
  undo.script = "rm -f /etc/x\n";
  undo.remote_dir = "/var/lib/millwright/runs/r/{seq}-conf";
  return undo;
}

// Both journals keep the same rules.
class JournalRules : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (std::string(GetParam()) == "memory") {
      journal_ = std::make_unique<MemoryJournal>();
    } else {
      Result<std::unique_ptr<Journal>> opened = open_sqlite_journal(folder_.path() + "/state");
      ASSERT_TRUE(opened) << render(opened.error());
      journal_ = std::move(*opened);
    }
    ASSERT_TRUE(journal_->begin_run(a_run("20261130-1412-aaa")));
  }
  const std::string run_ = "20261130-1412-aaa";
  Folder folder_;
  std::unique_ptr<Journal> journal_;
};

TEST_P(JournalRules, EventsAreNumberedPerRunAndComeBackWhole) {
  ASSERT_TRUE(journal_->begin_run(a_run("20261130-1500-bbb", 1)));
  EXPECT_EQ(journal_->append(an_event(run_, "one")).value(), 1u);
  EXPECT_EQ(journal_->append(an_event("20261130-1500-bbb", "other")).value(), 1u);
  EXPECT_EQ(journal_->append(an_event(run_, "two", EventType::step_output)).value(), 2u);
  const std::vector<Event> events = journal_->events(run_).value();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[1].type, EventType::step_output);
  EXPECT_EQ(events[1].data["text"], "two");
  EXPECT_EQ(events[1].host, "gpu1");
}

TEST_P(JournalRules, AnEventOfAnUnknownRunIsAnError) {
  EXPECT_FALSE(journal_->append(an_event("nope", "x")));
  EXPECT_TRUE(journal_->events("nope").value().empty());
}

TEST_P(JournalRules, RunsAreFoundByIdPrefixAndLast) {
  ASSERT_TRUE(journal_->begin_run(a_run("20261130-1412-abc", 5)));
  EXPECT_EQ(journal_->find_run("20261130-1412-aa").value()->id, run_);
  EXPECT_EQ(journal_->find_run("last").value()->id, "20261130-1412-abc");
  EXPECT_FALSE(journal_->find_run("2025").value().has_value());
  const auto several = journal_->find_run("20261130");
  ASSERT_FALSE(several);
  EXPECT_NE(several.error().message.find("stands for 2 runs"), std::string::npos);
  EXPECT_EQ(journal_->runs(1).value().size(), 1u);
  EXPECT_FALSE(journal_->begin_run(a_run(run_)));
}

TEST_P(JournalRules, AFinishedRunKeepsItsEnd) {
  ASSERT_TRUE(journal_->finish_run(run_, 3, "rolled back", TimePoint(Seconds(2'000'000))));
  const RunRecord run = *journal_->find_run(run_).value();
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_EQ(run.sentence, "rolled back");
  EXPECT_EQ(run.parameters["hosts"][0], "gpu1");
  EXPECT_EQ(run.finished, TimePoint(Seconds(2'000'000)));
  EXPECT_FALSE(journal_->finish_run("nope", 0, "", TimePoint()));
}

TEST_P(JournalRules, UndosRememberTheOrderOfCompletion) {
  EXPECT_EQ(journal_->add_undo(run_, an_undo("first")).value(), 1u);
  EXPECT_EQ(journal_->add_undo(run_, an_undo("second")).value(), 2u);
  EXPECT_EQ(journal_->add_undo(run_, an_undo("third")).value(), 3u);
  ASSERT_TRUE(journal_->set_undo_state(run_, 2, UndoState::done));
  ASSERT_TRUE(journal_->set_undo_state(run_, 1, UndoState::done));
  ASSERT_TRUE(journal_->set_undo_state(run_, 2, UndoState::undone));
  const std::vector<UndoRecord> undos = journal_->undos(run_).value();
  ASSERT_EQ(undos.size(), 3u);
  EXPECT_EQ(undos[0].completed, 2u);
  EXPECT_EQ(undos[1].completed, 1u);
  EXPECT_EQ(undos[1].state, UndoState::undone);
  EXPECT_EQ(undos[2].completed, 0u);
  EXPECT_EQ(undos[2].state, UndoState::pending);
  EXPECT_EQ(undos[2].remote_dir, "/var/lib/millwright/runs/r/3-conf");
  EXPECT_FALSE(journal_->set_undo_state(run_, 9, UndoState::done));
}

TEST_P(JournalRules, SeveralUndosAreRecordedAtOnceAndNumberedInOrder) {
  EXPECT_EQ(journal_->add_undo(run_, an_undo("first")).value(), 1u);
  const std::vector<UndoRecord> more = {an_undo("second"), an_undo("third")};
  EXPECT_EQ(journal_->add_undos(run_, more).value(), (std::vector<std::uint64_t>{2, 3}));
  EXPECT_TRUE(journal_->add_undos(run_, {}).value().empty());
  const std::vector<UndoRecord> undos = journal_->undos(run_).value();
  ASSERT_EQ(undos.size(), 3u);
  EXPECT_EQ(undos[2].title, more[1].title);
  EXPECT_EQ(undos[2].remote_dir, "/var/lib/millwright/runs/r/3-conf");
  EXPECT_FALSE(journal_->add_undos("nope", more));
}

TEST_P(JournalRules, StepsAreReplacedInPlace) {
  ASSERT_TRUE(journal_->put_step(run_, {"gpu1", "b", "running", {}, {}}));
  ASSERT_TRUE(journal_->put_step(run_, {"gpu1", "a", "ok", {{"x", 1}}, {}}));
  ASSERT_TRUE(journal_->put_step(run_, {"gpu1", "b", "changed", {}, {{"path", "/x"}}}));
  const std::vector<StepRecord> steps = journal_->steps(run_).value();
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].step, "b");
  EXPECT_EQ(steps[0].state, "changed");
  EXPECT_EQ(steps[0].outputs["path"], "/x");
}

TEST_P(JournalRules, ALockHasOneHolder) {
  const LockRecord mine{"node:gpu1", "me run 1", "deploying", TimePoint(Seconds(5))};
  ASSERT_TRUE(journal_->lock(mine));
  ASSERT_TRUE(journal_->lock(mine));
  const Result<void> other = journal_->lock({"node:gpu1", "you run 2", "", TimePoint()});
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().kind, ErrorKind::busy);
  EXPECT_NE(other.error().message.find("me run 1"), std::string::npos);
  EXPECT_NE(other.error().message.find("deploying"), std::string::npos);
  ASSERT_TRUE(journal_->unlock("node:gpu1", "you run 2"));
  EXPECT_EQ(journal_->locks().value().size(), 1u);
  ASSERT_TRUE(journal_->unlock("node:gpu1", "me run 1"));
  EXPECT_TRUE(journal_->lock({"node:gpu1", "you run 2", "", TimePoint()}));
}

TEST_P(JournalRules, EvidenceOfTheSameNameIsKeptTwice) {
  const EvidenceRecord first = journal_->keep(run_, "gpu1/llm", "smoke", "answer.json", "{}").value();
  const EvidenceRecord second = journal_->keep(run_, "gpu1/llm", "smoke", "answer.json", "{\"a\":1}").value();
  EXPECT_NE(first.path, second.path);
  EXPECT_EQ(second.bytes, 7u);
  EXPECT_EQ(journal_->evidence(run_).value().size(), 2u);
}

INSTANTIATE_TEST_SUITE_P(Both, JournalRules, testing::Values("sqlite", "memory"),
                         [](const auto& which) { return std::string(which.param); });

TEST(SqliteJournal, FilesAndFoldersArePrivate) {
  const mode_t old = umask(0);
  const Folder folder;
  const std::string state = folder.path() + "/deep/state";
  Result<std::unique_ptr<Journal>> journal = open_sqlite_journal(state);
  ASSERT_TRUE(journal) << render(journal.error());
  ASSERT_TRUE((*journal)->begin_run(a_run("r1")));
  const EvidenceRecord kept = (*journal)->keep("r1", "h", "../s", "..", "x").value();
  umask(old);
  const auto mode = [](const std::string& path) {
    struct stat info {};
    EXPECT_EQ(stat(path.c_str(), &info), 0) << path;
    return info.st_mode & 0777;
  };
  EXPECT_EQ(mode(state), 0700u);
  EXPECT_EQ(mode(state + "/journal.db"), 0600u);
  EXPECT_EQ(mode(state + "/journal.db-wal"), 0600u);
  EXPECT_EQ(mode(kept.path), 0600u);
  EXPECT_EQ(kept.path.rfind(state + "/evidence/r1/h/", 0), 0u) << kept.path;
}

TEST(SqliteJournal, GarbageAndStrangersAreRefusedInWords) {
  const Folder folder;
  std::ofstream(folder.path() + "/journal.db") << std::string(5000, 'x');
  const auto garbage = open_sqlite_journal(folder.path());
  ASSERT_FALSE(garbage);
  EXPECT_NE(garbage.error().message.find("damaged or is no journal"), std::string::npos) << garbage.error().message;
  EXPECT_FALSE(garbage.error().hint.empty());
}

TEST(SqliteJournal, ANewerSchemaIsRefused) {
  const Folder folder;
  ASSERT_TRUE(open_sqlite_journal(folder.path()));
  const std::string path = folder.path() + "/journal.db";
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  constexpr int user_version_offset = 60;  // https://www.sqlite.org/fileformat.html
  file.seekp(user_version_offset);
  file.write("\0\0\0\x7", 4);
  file.close();
  const auto newer = open_sqlite_journal(folder.path());
  ASSERT_FALSE(newer);
  EXPECT_NE(newer.error().message.find("newer millwright (schema 7"), std::string::npos) << newer.error().message;
}

TEST(SqliteJournal, TwoOpenJournalsAndManyThreadsShareOneDirectory) {
  const Folder folder;
  auto one = open_sqlite_journal(folder.path()).value();
  auto two = open_sqlite_journal(folder.path()).value();
  ASSERT_TRUE(one->begin_run(a_run("r1")));
  constexpr int each = 25;
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Journal& journal = t % 2 == 0 ? *one : *two;
      for (int i = 0; i < each; ++i) failures += journal.append(an_event("r1", "x")) ? 0 : 1;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  one.reset();  // ends the transaction that its newest events may still be in
  std::set<std::uint64_t> numbers;
  const std::vector<Event> events = two->events("r1").value();
  for (const Event& event : events) numbers.insert(event.seq);
  EXPECT_EQ(numbers.size(), 4u * each);
  EXPECT_EQ(*numbers.rbegin(), 4u * each);
}

TEST(SqliteJournal, ALockOfADeadProcessIsTakenOverAndOfALivingOneIsNot) {
  const Folder folder;
  int ready[2];
  int go[2];
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(go), 0);
  const pid_t child = fork();
  if (child == 0) {
    auto journal = open_sqlite_journal(folder.path());
    const bool held = journal && (*journal)->lock({"node:gpu1", "child", "testing", TimePoint()});
    char byte = held ? 'y' : 'n';
    if (write(ready[1], &byte, 1) != 1 || read(go[0], &byte, 1) != 1) _exit(1);
    _exit(0);
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  ASSERT_EQ(byte, 'y');
  auto journal = open_sqlite_journal(folder.path()).value();
  const LockRecord mine{"node:gpu1", "parent", "", TimePoint()};
  const Result<void> refused = journal->lock(mine);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("child"), std::string::npos);
  EXPECT_EQ(journal->locks().value().front().process, Liveness::alive);
  ASSERT_EQ(write(go[1], &byte, 1), 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(journal->locks().value().front().process, Liveness::dead);
  EXPECT_TRUE(journal->lock(mine));
  EXPECT_EQ(journal->locks().value().front().process, Liveness::alive);
  EXPECT_EQ(journal->locks().value().front().holder, "parent");
  for (int end : {ready[0], ready[1], go[0], go[1]}) close(end);
}

// A child appends and says so after each append returned; it is killed at a random instant. All it said is there.
TEST(SqliteJournal, WhatWasAppendedSurvivesKillAtAnyInstant) {
  std::mt19937 random(20261130);
  for (int round = 0; round < 15; ++round) {
    const Folder folder;
    ASSERT_TRUE(open_sqlite_journal(folder.path()).value()->begin_run(a_run("r1")));
    int said[2];
    ASSERT_EQ(pipe(said), 0);
    const pid_t child = fork();
    if (child == 0) {
      auto opened = open_sqlite_journal(folder.path());
      if (!opened) _exit(1);
      for (int i = 1;; ++i) {
        const std::string text(static_cast<std::size_t>(1 + (i * 977) % 9000), static_cast<char>('a' + i % 26));
        if (!(*opened)->append(an_event("r1", text)) || !(*opened)->add_undo("r1", an_undo(text))) _exit(1);
        if (write(said[1], "x", 1) != 1) _exit(1);
      }
    }
    close(said[1]);
    std::size_t count = 0;
    char byte = 0;
    const std::size_t enough = 1 + random() % 12;
    while (count < enough && read(said[0], &byte, 1) == 1) ++count;
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
    kill(child, SIGKILL);
    while (read(said[0], &byte, 1) == 1) ++count;
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    close(said[0]);
    auto journal = open_sqlite_journal(folder.path()).value();
    const std::vector<Event> events = journal->events("r1").value();
    const std::vector<UndoRecord> undos = journal->undos("r1").value();
    EXPECT_GE(events.size(), count);
    EXPECT_GE(undos.size(), count);
    for (std::size_t i = 1; i <= events.size(); ++i) {
      const std::string whole(1 + (i * 977) % 9000, static_cast<char>('a' + i % 26));
      EXPECT_EQ(events[i - 1].seq, i);
      EXPECT_EQ(events[i - 1].data["text"], whole);
      if (i <= undos.size()) {
        EXPECT_EQ(undos[i - 1].title, whole);
      }
    }
  }
}

}  // namespace
}  // namespace millwright
