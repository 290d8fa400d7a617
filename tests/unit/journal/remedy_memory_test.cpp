#include "orchestrator/journal/remedy_memory.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

namespace millwright {
namespace {

namespace fs = std::filesystem;

class RemedyMemoryTest : public ::testing::Test {
 protected:
  RemedyMemoryTest() {
    std::string pattern = (fs::temp_directory_path() / "mw-remedies-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    path_ = folder_ + "/state/remedies.json";
  }
  ~RemedyMemoryTest() override { fs::remove_all(folder_); }

  static WorkedRemedy row(const std::string& remedy, const std::string& version = "0.5.9") {
    return {"immediate_eos_null",  "sglang", version, "gemma", remedy, {{"version", "0.5.11"}}, "h1",
            "2026-12-01T00:00:00Z"};
  }
  void write(const std::string& text) {
    fs::create_directories(folder_ + "/state");
    std::ofstream(path_) << text;
  }
  std::string content(const std::string& path) const {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }

  std::string folder_, path_;
};

TEST_F(RemedyMemoryTest, WhatWorkedIsKnownToTheNextProcess) {
  EXPECT_TRUE(RemedyMemory(path_).worked("immediate_eos_null", "sglang").value().empty());
  EXPECT_FALSE(fs::exists(path_)) << "nothing to remember, nothing made";
  ASSERT_TRUE(RemedyMemory(path_).remember({row("newer-version"), row("older-version")}));
  const RemedyMemory next(path_);
  EXPECT_EQ(next.worked("immediate_eos_null", "sglang").value(),
            (std::vector<WorkedRemedy>{row("newer-version"), row("older-version")}));
  EXPECT_TRUE(next.worked("immediate_eos_null", "vllm").value().empty());
  EXPECT_TRUE(next.worked("hang", "sglang").value().empty());
}

TEST_F(RemedyMemoryTest, ItIsItsOwnersAlone) {
  ASSERT_TRUE(RemedyMemory(path_).remember({row("newer-version")}));
  struct stat file {
  }, folder{};
  ASSERT_EQ(stat(path_.c_str(), &file), 0);
  ASSERT_EQ(stat((folder_ + "/state").c_str(), &folder), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600u);
  EXPECT_EQ(folder.st_mode & 0777, 0700u);
  EXPECT_FALSE(fs::exists(path_ + ".new"));
}

TEST_F(RemedyMemoryTest, TheSameCureIsKeptOnceAsTheNewest) {
  RemedyMemory memory(path_);
  ASSERT_TRUE(memory.remember({row("a"), row("b")}));
  WorkedRemedy again = row("a");
  again.host = "h2";
  ASSERT_TRUE(memory.remember({again}));
  const auto rows = memory.worked("immediate_eos_null", "sglang").value();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[1].remedy, "a");
  EXPECT_EQ(rows[1].host, "h2");
}

TEST_F(RemedyMemoryTest, TheOldestGoWhenThereAreTooMany) {
  RemedyMemory memory(path_);
  std::vector<WorkedRemedy> rows;
  for (std::size_t i = 0; i < RemedyMemory::kMost; ++i) rows.push_back(row("r", std::to_string(i)));
  ASSERT_TRUE(memory.remember(rows));
  ASSERT_TRUE(memory.remember({row("r", "last")}));
  const auto kept = memory.worked("immediate_eos_null", "sglang").value();
  ASSERT_EQ(kept.size(), RemedyMemory::kMost);
  EXPECT_EQ(kept.front().version, "1");
  EXPECT_EQ(kept.back().version, "last");
}

TEST_F(RemedyMemoryTest, ADamagedFileIsSaidAndMovedAsideByTheNextCure) {
  const char* const damaged[] = {"{\"schema\": 1, \"worked\": [",   "[]",
                                 R"({"schema": 2, "worked": []})",  R"({"schema": 1, "worked": [{"class": "hang"}]})",
                                 R"({"schema": 1, "worked": [7]})", R"({"schema": 1, "worked": {}})"};
  for (const char* text : damaged) {
    write(text);
    RemedyMemory memory(path_);
    const auto rows = memory.worked("immediate_eos_null", "sglang");
    ASSERT_FALSE(rows) << text;
    EXPECT_EQ(rows.error().kind, ErrorKind::invalid);
    EXPECT_NE(rows.error().message.find(path_ + " is damaged"), std::string::npos) << rows.error().message;
    ASSERT_TRUE(memory.remember({row("newer-version")})) << text;
    EXPECT_EQ(memory.worked("immediate_eos_null", "sglang").value().size(), 1u);
    EXPECT_EQ(content(path_ + ".damaged"), text);
  }
}

TEST_F(RemedyMemoryTest, AFileThatCannotBeReadOrWrittenIsAnError) {
  fs::create_directories(path_);  // a folder in its place
  RemedyMemory memory(path_);
  EXPECT_FALSE(memory.worked("hang", "sglang"));
  EXPECT_FALSE(memory.remember({row("newer-version")}));
  EXPECT_TRUE(fs::is_directory(path_)) << "nor is anything of it lost";
}

TEST_F(RemedyMemoryTest, WritersWaitForEachOther) {
  std::vector<std::thread> writers;
  for (int writer = 0; writer < 4; ++writer) {
    writers.emplace_back([this, writer] {
      for (int i = 0; i < 10; ++i) {
        RemedyMemory memory(path_);  // as another process has one of its own
        EXPECT_TRUE(memory.remember({row("r", std::to_string(writer) + "." + std::to_string(i))}));
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(RemedyMemory(path_).worked("immediate_eos_null", "sglang").value().size(), 40u);
}

}  // namespace
}  // namespace millwright
