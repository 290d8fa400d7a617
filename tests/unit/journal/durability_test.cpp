// What the journal waits for the disk for: the system's fdatasync is counted on its way.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <thread>

#include "orchestrator/journal/sqlite_journal.hpp"

namespace {
std::atomic<int> syncs{0};
}

// This program's own comes before the C library's, for SQLite too.
extern "C" int fdatasync(int file) {
  ++syncs;
  return static_cast<int>(syscall(SYS_fdatasync, file));
}

namespace millwright {
namespace {

class DurabilityTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "mw-durable-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    auto opened = open_sqlite_journal(folder_);
    ASSERT_TRUE(opened) << render(opened.error());
    journal_ = std::move(*opened);
    RunRecord run;
    run.id = "r1";
    ASSERT_TRUE(journal_->begin_run(run));
  }
  void TearDown() override {
    journal_.reset();
    std::filesystem::remove_all(folder_);
  }
  template <class Call>
  static int syncs_of(Call call) {
    const int before = syncs;
    EXPECT_TRUE(call());
    return syncs - before;
  }
  static Event event() {
    Event one;
    one.run = "r1";
    return one;
  }

  std::string folder_;
  std::unique_ptr<Journal> journal_;
};

TEST_F(DurabilityTest, WhatAnActionRestsOnIsOnDiskBeforeIt) {
  EXPECT_GE(syncs_of([&] { return journal_->add_undo("r1", {}).has_value(); }), 1);
  EXPECT_GE(syncs_of([&] { return journal_->set_undo_state("r1", 1, UndoState::undone).has_value(); }), 1);
  EXPECT_GE(syncs_of([&] { return journal_->lock({"node:a", "me", "", {}}).has_value(); }), 1);
  EXPECT_GE(syncs_of([&] { return journal_->keep("r1", "h", "s", "n", "x").has_value(); }), 1);
  EXPECT_GE(syncs_of([&] { return journal_->finish_run("r1", 0, "", {}).has_value(); }), 1);
}

TEST_F(DurabilityTest, WhatOnlyTellsTheStoryCostsNoWaitForTheDisk) {
  ASSERT_TRUE(journal_->add_undo("r1", {}));
  EXPECT_EQ(syncs_of([&] { return journal_->append(event()).has_value(); }), 0);
  EXPECT_EQ(syncs_of([&] { return journal_->put_step("r1", {"h", "s", "running", {}, {}}).has_value(); }), 0);
  EXPECT_EQ(syncs_of([&] { return journal_->set_undo_state("r1", 1, UndoState::done).has_value(); }), 0);
}

// Another process's eyes: a second connection sees only what was committed.
TEST_F(DurabilityTest, ARecordIsCommittedSoonWithoutAnotherCall) {
  ASSERT_TRUE(journal_->append(event()));
  auto other = open_sqlite_journal(folder_);
  ASSERT_TRUE(other) << render(other.error());
  while (other.value()->events("r1").value().empty()) std::this_thread::yield();
}

TEST_F(DurabilityTest, ADurableRecordBringsAllThatCameBeforeIt) {
  const pid_t child = fork();
  if (child == 0) {
    auto own = open_sqlite_journal(folder_);
    const bool kept = own && (*own)->append(event()) && (*own)->put_step("r1", {"h", "s", "running", {}, {}}) &&
                      (*own)->add_undo("r1", {});
    _exit(kept ? 0 : 1);  // nothing of the program's end runs, as after a kill
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  EXPECT_EQ(journal_->events("r1").value().size(), 1u);
  EXPECT_EQ(journal_->steps("r1").value().size(), 1u);
  EXPECT_EQ(journal_->undos("r1").value().size(), 1u);
}

TEST_F(DurabilityTest, WhatBecameOfAStepSurvivesAKill) {
  const pid_t child = fork();
  if (child == 0) {
    auto own = open_sqlite_journal(folder_);
    const bool kept = own && (*own)->add_undo("r1", {}) && (*own)->set_undo_state("r1", 1, UndoState::done) &&
                      (*own)->append(event()) && (*own)->put_step("r1", {"h", "s", "changed", {}, {}});
    _exit(kept ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  EXPECT_EQ(journal_->undos("r1").value().at(0).state, UndoState::done);
  EXPECT_EQ(journal_->steps("r1").value().at(0).state, "changed");
  EXPECT_EQ(journal_->events("r1").value().size(), 1u);
}

TEST_F(DurabilityTest, UndoRecordsComeAllOrNone) {
  UndoRecord good;
  good.host = "h";
  EXPECT_FALSE(journal_->add_undos("nope", {good, good}));
  ASSERT_TRUE(journal_->add_undos("r1", {good, good}));
  EXPECT_EQ(journal_->undos("r1").value().size(), 2u);
  EXPECT_TRUE(journal_->undos("nope").value().empty());
}

TEST_F(DurabilityTest, ManyHostsShareTheWaits) {
  constexpr int hosts = 16;
  constexpr int each = 20;
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int h = 0; h < hosts; ++h) {
    threads.emplace_back([&] {
      for (int i = 0; i < each; ++i) failures += journal_->add_undo("r1", {}) ? 0 : 1;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(journal_->undos("r1").value().size(), static_cast<std::size_t>(hosts * each));
}

}  // namespace
}  // namespace millwright
