// What the journal asks the disk to keep, counted in a thin layer between SQLite and the file system.
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <atomic>
#include <filesystem>
#include <list>
#include <memory>

#include "orchestrator/journal/sqlite_journal.hpp"

namespace millwright {
namespace {

std::atomic<int> syncs{0};

// The methods of files of one kind (a database, its log), with xSync counted.
struct Counted {
  const sqlite3_io_methods* real = nullptr;
  sqlite3_io_methods methods{};
};

struct Layer {
  sqlite3_vfs vfs{};
  sqlite3_vfs* below = nullptr;
  std::list<Counted> kinds;
};

Layer& layer() {
  static Layer one;
  return one;
}

int count_sync(sqlite3_file* file, int flags) {
  ++syncs;
  for (const Counted& kind : layer().kinds) {
    if (file->pMethods == &kind.methods) return kind.real->xSync(file, flags);
  }
  return SQLITE_INTERNAL;
}

const sqlite3_io_methods* counted(const sqlite3_io_methods* real) {
  std::list<Counted>& kinds = layer().kinds;
  for (const Counted& kind : kinds) {
    if (kind.real == real) return &kind.methods;
  }
  kinds.push_back({real, *real});
  kinds.back().methods.xSync = count_sync;
  return &kinds.back().methods;
}

int open_counted(sqlite3_vfs*, sqlite3_filename name, sqlite3_file* file, int flags, int* out) {
  sqlite3_vfs* below = layer().below;
  const int code = below->xOpen(below, name, file, flags, out);
  if (code == SQLITE_OK && file->pMethods != nullptr) file->pMethods = counted(file->pMethods);
  return code;
}

class Durability : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    Layer& own = layer();
    own.below = sqlite3_vfs_find(nullptr);
    own.vfs = *own.below;
    own.vfs.zName = "counted";
    own.vfs.xOpen = open_counted;
    ASSERT_EQ(sqlite3_vfs_register(&own.vfs, 1), SQLITE_OK);
  }
  static void TearDownTestSuite() {
    sqlite3_vfs_unregister(&layer().vfs);
    sqlite3_vfs_register(layer().below, 1);
  }
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

  std::string folder_;
  std::unique_ptr<Journal> journal_;
};

TEST_F(Durability, WhatAnActionRestsOnIsOnDiskBeforeIt) {
  EXPECT_GE(syncs_of([&] { return journal_->add_undo("r1", {}).has_value(); }), 1);
  EXPECT_GE(syncs_of([&] { return journal_->set_undo_state("r1", 1, UndoState::undone).has_value(); }), 1);
  EXPECT_GE(syncs_of([&] { return journal_->lock({"node:a", "me", "", {}}).has_value(); }), 1);
  EXPECT_GE(syncs_of([&] { return journal_->keep("r1", "h", "s", "n", "x").has_value(); }), 1);
  EXPECT_GE(syncs_of([&] { return journal_->finish_run("r1", 0, "", {}).has_value(); }), 1);
}

TEST_F(Durability, WhatOnlyTellsTheStoryCostsNoWaitForTheDisk) {
  ASSERT_TRUE(journal_->add_undo("r1", {}));
  Event event;
  event.run = "r1";
  EXPECT_EQ(syncs_of([&] { return journal_->append(event).has_value(); }), 0);
  EXPECT_EQ(syncs_of([&] { return journal_->put_step("r1", {"h", "s", "running", {}, {}}).has_value(); }), 0);
  EXPECT_EQ(syncs_of([&] { return journal_->set_undo_state("r1", 1, UndoState::done).has_value(); }), 0);
}

}  // namespace
}  // namespace millwright
