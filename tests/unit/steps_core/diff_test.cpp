#include "steps/core/diff.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

namespace millwright::core {
namespace {

namespace fs = std::filesystem;

std::string random_text(std::mt19937& random) {
  std::string text;
  for (std::size_t i = 0, n = random() % 40; i < n; ++i)
    text += std::string(1, static_cast<char>('a' + random() % 4)) + "\n";
  if (!text.empty() && random() % 4 == 0) text.pop_back();
  return text;
}

TEST(Diff, PatchMakesTheNewTextOfTheOldOne) {
  if (std::system("command -v patch >/dev/null") != 0) GTEST_SKIP() << "patch is not installed";
  const fs::path dir = fs::path(testing::TempDir()) / "mw-diff-test";
  fs::create_directories(dir);
  std::mt19937 random(11);
  for (int round = 0; round < 60; ++round) {
    const std::string before = random_text(random);
    const std::string after = random_text(random);
    const std::string diff = unified_diff(before, after, "f");
    EXPECT_EQ(diff.empty(), before == after);
    if (before.empty() || after.empty() || before == after) continue;  // patch makes or removes whole files then
    std::ofstream(dir / "f") << before;
    std::ofstream(dir / "d") << diff;
    const std::string command = "cd '" + dir.string() + "' && patch -s f d";
    ASSERT_EQ(std::system(command.c_str()), 0) << diff;
    std::ostringstream got;
    got << std::ifstream(dir / "f").rdbuf();
    EXPECT_EQ(got.str(), after) << diff;
  }
  fs::remove_all(dir);
}

TEST(Diff, ShowsThreeLinesAround) {
  EXPECT_EQ(unified_diff("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nfive\n6\n7\n8\n9\n", "f"),
            "--- f\n+++ f\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n");
  EXPECT_EQ(unified_diff("a", "a\n", "f"), "--- f\n+++ f\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n");
  const LineCounts counts = count_lines("--- f\n+++ f\n@@ -1 +1,2 @@\n-a\n+b\n+c\n");
  EXPECT_EQ(counts.removed, 1);
  EXPECT_EQ(counts.added, 2);
}

TEST(Diff, VeryLongTextsAreOneBlock) {
  std::string before, after;
  for (int i = 0; i < 3000; ++i) before += "a\n", after += "b\n";
  const LineCounts counts = count_lines(unified_diff(before, after, "f"));
  EXPECT_EQ(counts.removed, 3000);
  EXPECT_EQ(counts.added, 3000);
}

TEST(IsText, KnowsUtf8) {
  EXPECT_TRUE(is_text("ascii\n\t"));
  EXPECT_TRUE(is_text("gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80"));
  for (const std::string& text : {std::string("\0", 1), std::string("\xff"), std::string("\xc3"),
                                  std::string("\xc0\x80"), std::string("\xed\xa0\x80"), std::string("\xf4\x90\x80\x80"),
                                  std::string("\x1b[31m"), std::string("\xe2\x82"), std::string("\xe0\x80\x80")}) {
    EXPECT_FALSE(is_text(text));
  }
}

}  // namespace
}  // namespace millwright::core
