#include "orchestrator/base/units.hpp"

#include <gtest/gtest.h>

namespace millwright {
namespace {

using namespace std::chrono_literals;

TEST(Duration, ReadsWhatPeopleWrite) {
  EXPECT_EQ(parse_duration("90").value(), 90s);
  EXPECT_EQ(parse_duration("0").value(), 0s);
  EXPECT_EQ(parse_duration("90s").value(), 90s);
  EXPECT_EQ(parse_duration("1.5m").value(), 90s);
  EXPECT_EQ(parse_duration("2h").value(), 2h);
  EXPECT_EQ(parse_duration("1h30m").value(), 90min);
  EXPECT_EQ(parse_duration(" 2 m 10 s ").value(), 130s);
  EXPECT_EQ(parse_duration("250ms").value(), 250ms);
  EXPECT_EQ(parse_duration("1d").value(), 24h);
  EXPECT_EQ(parse_duration("10 minutes").value(), 10min);
  EXPECT_EQ(parse_duration("0.0005").value(), 1ms);
}

TEST(Duration, RefusesTheRest) {
  for (const char* text :
       {"", " ", "-5s", "5x", "1h30", "30 1h", "s", "1..5s", ".", "1e3", "nan", "inf", "5s!", "0x5"}) {
    const auto parsed = parse_duration(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().kind, ErrorKind::invalid);
  }
  EXPECT_FALSE(parse_duration("999999999999999999999d"));
  EXPECT_FALSE(parse_duration(std::string(400, '9')));
}

TEST(Duration, PrintsTwoUnitsAtMost) {
  EXPECT_EQ(format_duration(0ms), "0 ms");
  EXPECT_EQ(format_duration(85ms), "85 ms");
  EXPECT_EQ(format_duration(999ms), "999 ms");
  EXPECT_EQ(format_duration(3100ms), "3.1 s");
  EXPECT_EQ(format_duration(59949ms), "59.9 s");
  EXPECT_EQ(format_duration(59950ms), "1 m 00 s");
  EXPECT_EQ(format_duration(130s), "2 m 10 s");
  EXPECT_EQ(format_duration(3599600ms), "1 h 00 m");
  EXPECT_EQ(format_duration(64min), "1 h 04 m");
  EXPECT_EQ(format_duration(50h), "2 d 02 h");
  EXPECT_EQ(format_duration(-85ms), "-85 ms");
}

TEST(Size, ReadsBinaryAndDecimal) {
  EXPECT_EQ(parse_size("512").value(), 512u);
  EXPECT_EQ(parse_size("512B").value(), 512u);
  EXPECT_EQ(parse_size("64K").value(), 65536u);
  EXPECT_EQ(parse_size("64KiB").value(), 65536u);
  EXPECT_EQ(parse_size("1.5GiB").value(), 1610612736u);
  EXPECT_EQ(parse_size("2GB").value(), 2000000000u);
  EXPECT_EQ(parse_size(" 16 MiB ").value(), 16777216u);
  EXPECT_EQ(parse_size("18446744073709551615").value(), 18446744073709551615u);
  EXPECT_EQ(parse_size("9007199254740993").value(), 9007199254740993u);
}

TEST(Size, RefusesTheRest) {
  for (const char* text : {"", "-1", "5X", "5KiBs", "1 2", "GiB", "1G1", "16EiB", "18446744073709551616", "1.2.3"}) {
    EXPECT_FALSE(parse_size(text)) << text;
  }
}

TEST(Size, PrintsBinaryUnits) {
  EXPECT_EQ(format_size(0), "0 B");
  EXPECT_EQ(format_size(812), "812 B");
  EXPECT_EQ(format_size(1024), "1.0 KiB");
  EXPECT_EQ(format_size(59700000000), "55.6 GiB");
  EXPECT_EQ(format_size(1048575), "1.0 MiB");
  EXPECT_EQ(format_size(18446744073709551615u), "16.0 EiB");
}

}  // namespace
}  // namespace millwright
