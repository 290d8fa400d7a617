#include "orchestrator/report/text_layout.hpp"

#include <gtest/gtest.h>

namespace millwright {
namespace {

TEST(Printable, NothingSteersTheTerminal) {
  EXPECT_EQ(printable("a\x1b[31mred\x1b[0m b"), "ared b");
  EXPECT_EQ(printable("\x1b]0;title\x07x\x1b]8;;http://a\x1b\\y"), "xy");
  EXPECT_EQ(printable("10%\r20%\b\x7f\a"), "10%20%");
  EXPECT_EQ(printable("a\tb\nc"), "a b c");
  EXPECT_EQ(printable("caf\xC3\xA9 \xFF\xC3"), "caf\xC3\xA9 \xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(printable("\xC2\x9B"
                      "31m"),
            "31m");
  EXPECT_EQ(printable("cut off \x1b["), "cut off ");
}

TEST(Wrap, BreaksAtBlanksAndCountsCodePoints) {
  EXPECT_EQ(wrap_text("one two three", 7), (std::vector<std::string>{"one two", "three"}));
  EXPECT_EQ(wrap_text("abcdefgh", 3), (std::vector<std::string>{"abc", "def", "gh"}));
  EXPECT_EQ(wrap_text("éééé éé", 4), (std::vector<std::string>{"éééé", "éé"}));
  EXPECT_EQ(wrap_text("a\nb", 10), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(wrap_text("", 10), std::vector<std::string>{""});
  EXPECT_EQ(wrap_text("copy this:\n    echo 'one two three' >> x", 8),
            (std::vector<std::string>{"copy", "this:", "    echo 'one two three' >> x"}));
}

TEST(Cut, ShowsThatSomethingIsMissing) {
  EXPECT_EQ(cut("abcdef", 4), "abc…");
  EXPECT_EQ(cut("abcd", 4), "abcd");
  EXPECT_EQ(cut("ééééé", 3), "éé…");
  EXPECT_EQ(cut("abc", 0), "");
}

}  // namespace
}  // namespace millwright
