#include "orchestrator/transport/frame.hpp"

#include <gtest/gtest.h>

#include <random>

namespace millwright {
namespace {

TEST(FrameReader, GivesThePayloadHoweverTheStreamIsCut) {
  std::mt19937 random(11);
  const std::string nonce = "ababac";
  for (int round = 0; round < 500; ++round) {
    std::string payload;
    for (std::size_t i = 0, n = random() % 30; i < n; ++i) payload += "abc\n"[random() % 4];
    if (payload.find(nonce) != std::string::npos || (payload + nonce).find(nonce) != payload.size()) continue;
    const std::string wire = "junk" + nonce + "/proc/self/task/17\n" + payload + nonce + "3\nnext";
    FrameReader reader(nonce);
    std::string got, rest;
    for (std::size_t at = 0; at < wire.size();) {
      const std::size_t size = 1 + random() % 9;
      rest += reader.feed(std::string_view(wire).substr(at, size), got);
      at += size;
    }
    EXPECT_EQ(got, payload);
    EXPECT_EQ(rest, "next");
    EXPECT_EQ(reader.exit_code(), 3);
    EXPECT_EQ(reader.opening(), "/proc/self/task/17");
  }
}

TEST(FrameCommand, RefusesAVariableNameThatIsShellText) {
  Command command;
  command.env["A;rm"] = "x";
  const auto frame = frame_command(command, make_nonce());
  ASSERT_FALSE(frame);
  EXPECT_EQ(frame.error().kind, ErrorKind::usage);
}

}  // namespace
}  // namespace millwright
