#include "orchestrator/base/read_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

namespace millwright {
namespace {

namespace fs = std::filesystem;

class ReadFile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "millwright-read-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string at(const std::string& name) const { return (folder_ / name).string(); }
  std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(at(name), std::ios::binary) << text;
    return at(name);
  }

  fs::path folder_;
};

Error error_of(const Result<std::string>& read) { return read ? Error{} : read.error(); }

TEST_F(ReadFile, GivesTheBytesOfARegularFile) {
  EXPECT_EQ(read_file(file("a", "one\r\ntwo")).value_or("?"), "one\r\ntwo");
  EXPECT_EQ(read_file(file("empty", "")).value_or("?"), "");
  EXPECT_FALSE(read_file("/proc/self/stat").value_or("").empty());  // stat says that it has no bytes
}

TEST_F(ReadFile, RefusesByName) {
  EXPECT_EQ(error_of(read_file(at("nothing"))).message, "cannot read " + at("nothing"));
  EXPECT_EQ(error_of(read_file(folder_.string())).message, "cannot read " + folder_.string() + ": it is a folder");
  EXPECT_EQ(error_of(read_file("/dev/zero")).message, "cannot read /dev/zero: it is a device");
  ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);
  EXPECT_EQ(error_of(read_file(at("pipe"))).message, "cannot read " + at("pipe") + ": it is a pipe");
  EXPECT_EQ(error_of(read_file(at("pipe"))).hint, "name a regular file");
}

TEST_F(ReadFile, StopsAtTheLimit) {
  const std::string path = file("large", std::string(3000, 'x'));
  EXPECT_EQ(read_file(path, 3000).value_or("").size(), 3000u);
  EXPECT_NE(error_of(read_file(path, 2999)).message.find("it is larger than"), std::string::npos);
}

TEST_F(ReadFile, TakesAPipeWhereThatIsMeant) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  std::thread writer([&] {
    const std::string text(200'000, 'p');  // more than a pipe holds
    std::size_t at = 0;
    while (at < text.size()) {
      const ssize_t some = ::write(ends[1], text.data() + at, text.size() - at);
      if (some <= 0) break;
      at += static_cast<std::size_t>(some);
    }
    ::close(ends[1]);
  });
  const auto read = read_file("/dev/fd/" + std::to_string(ends[0]), kLargestTextFile, Pipes::read);
  writer.join();
  ::close(ends[0]);
  ASSERT_TRUE(read) << render(read.error());
  EXPECT_EQ(read->size(), 200'000u);
}

}  // namespace
}  // namespace millwright
