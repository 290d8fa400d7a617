#include "orchestrator/base/shell.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <random>

#include "orchestrator/base/error.hpp"
#include "orchestrator/base/text.hpp"

namespace millwright {
namespace {

std::string printed_by_sh(const std::string& word) {
  std::string out;
  FILE* pipe = popen(("printf %s " + word).c_str(), "r");
  std::array<char, 4096> buffer{};
  for (std::size_t n = 0; (n = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) out.append(buffer.data(), n);
  pclose(pipe);
  return out;
}

TEST(ShellQuote, ARealShellGivesBackWhatWentIn) {
  std::mt19937 random(7);
  for (int round = 0; round < 100; ++round) {
    std::string text;
    for (std::size_t i = 0, n = random() % 40; i < n; ++i) text += static_cast<char>(1 + random() % 255);
    EXPECT_EQ(printed_by_sh(shell_quote(text)), text);
  }
  EXPECT_EQ(printed_by_sh(shell_quote("it's; $(rm -rf /) `x` \\ \n end")), "it's; $(rm -rf /) `x` \\ \n end");
}

TEST(ShellQuote, PlainWordsStayReadable) {
  EXPECT_EQ(shell_quote("/opt/a-b_c.d=1"), "/opt/a-b_c.d=1");
  EXPECT_EQ(shell_quote(""), "''");
  EXPECT_EQ(shell_join({"echo", "a b"}), "echo 'a b'");
}

TEST(Nearest, SuggestsSlipsOnly) {
  EXPECT_EQ(nearest("dirver", {"driver", "select"}), "driver");
  EXPECT_EQ(nearest("zebra", {"driver", "select"}), std::nullopt);
}

TEST(RenderError, ShowsTheLineAndTheCaret) {
  Error error = make_error(ErrorKind::invalid, "unknown input 'dirver'")
                    .with_hint("did you mean 'driver'?")
                    .at({"p.yml", 14, 7, 6, "      dirver: nvidia"});
  EXPECT_EQ(render(error),
            "p.yml:14:7: error: unknown input 'dirver'\n"
            "   14 |       dirver: nvidia\n"
            "      |       ^^^^^^ did you mean 'driver'?\n");
}

}  // namespace
}  // namespace millwright
