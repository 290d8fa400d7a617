#include "steps/core/controller_file.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "orchestrator/base/text.hpp"

namespace millwright::core {
namespace {

TEST(ControllerFile, ADigestIsOfWhatTheFileHoldsNow) {
  std::string folder = (std::filesystem::temp_directory_path() / "mw-digest-XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/file";
  for (const std::string text : {"one", "two", "longer"}) {
    std::ofstream(path, std::ios::trunc) << text;
    for (int again = 0; again < 2; ++again) {
      const auto digest = digest_controller_file(path);
      ASSERT_TRUE(digest) << render(digest.error());
      EXPECT_EQ(digest->sha256, sha256_hex(text));
      EXPECT_EQ(digest->size, text.size());
    }
  }
  std::filesystem::remove_all(folder);
  EXPECT_FALSE(digest_controller_file(path));
}

// The program that runs this has not changed for longer than the clocks of file systems are unsure of.
TEST(ControllerFile, AFileThatRestsIsReadOnceForAll) {
  const std::string path = std::filesystem::read_symlink("/proc/self/exe");
  const auto first = digest_controller_file(path);
  ASSERT_TRUE(first) << render(first.error());
  std::vector<std::thread> hosts;
  for (int host = 0; host < 8; ++host) {
    hosts.emplace_back([&] {
      const auto digest = digest_controller_file(path);
      ASSERT_TRUE(digest);
      EXPECT_EQ(digest->sha256, first->sha256);
    });
  }
  for (std::thread& host : hosts) host.join();
}

}  // namespace
}  // namespace millwright::core
