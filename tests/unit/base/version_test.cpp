// Versions by PEP 440: a table in order, and the same questions put to Python's `packaging`.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "orchestrator/base/text.hpp"
#include "orchestrator/base/units.hpp"

namespace millwright {
namespace {

// In order; each differs from its neighbours. Epochs, dev, a/b/rc, post, local, as PEP 440 sorts them.
const std::vector<std::string> kOrdered = {"0.0.dev0",
                                           "0",
                                           "0.1.10",
                                           "0.4.10",
                                           "0.5.9",
                                           "0.5.10rc0",
                                           "0.5.10",
                                           "1.0.dev456",
                                           "1.0a1",
                                           "1.0a2.dev456",
                                           "1.0a12.dev456",
                                           "1.0a12",
                                           "1.0b1.dev456",
                                           "1.0b2",
                                           "1.0b2.post345.dev456",
                                           "1.0b2.post345",
                                           "1.0b2-346",
                                           "1.0c1.dev456",
                                           "1.0c1",
                                           "1.0rc2",
                                           "1.0c3",
                                           "1.0",
                                           "1.0+abc.5",
                                           "1.0+abc.7",
                                           "1.0+5",
                                           "1.0.post456.dev34",
                                           "1.0.post456",
                                           "1.1.dev1",
                                           "1.2+123abc",
                                           "1.2+123abc456",
                                           "1.2+abc",
                                           "1.2+abc123",
                                           "1.2+abc123def",
                                           "1.2+1234.abc",
                                           "1.2+123456",
                                           "1.2.r32+123456",
                                           "1.2.rev33+123456",
                                           "9.99",
                                           "10.0",
                                           "390.157",
                                           "535.54.03",
                                           "535.261.03",
                                           "2026.10.11549",
                                           "1!0.1",
                                           "1!1.0a1",
                                           "2!0"};

const std::vector<std::string> kSpecifiers = {
    ">=0.5.9,<0.6", "==0.5.*", "!=0.5.*", "~=0.5.9", "~=1.0", "~=1.0.0a1",  "!=0.5.10",      ">1.0",        "<1.0",
    "<=1.0",        ">=1.0",   "==1.0",   "==1.0.0", "!=1.0", "<1.0a2",     ">1.0.post1",    "==1.0+abc.5", "===1.0",
    ">1.0a12",      "<1.0rc2", "~=0.1.5", "<2!0",    ">0.5",  ">=535.54.3", "==1.0.post456", "!=1.2+abc"};

Version version(const std::string& text) { return Version::parse(text).value(); }

TEST(Version, SortsByPep440) {
  for (std::size_t i = 0; i < kOrdered.size(); ++i) {
    for (std::size_t j = 0; j < kOrdered.size(); ++j) {
      EXPECT_EQ(version(kOrdered[i]) < version(kOrdered[j]), i < j) << kOrdered[i] << " < " << kOrdered[j];
      EXPECT_EQ(version(kOrdered[i]) == version(kOrdered[j]), i == j) << kOrdered[i] << " == " << kOrdered[j];
    }
  }
}

TEST(Version, SpellingsOfTheSameVersion) {
  const std::vector<std::pair<std::string, std::string>> same = {{"1.0", "1"},
                                                                 {"1.0", "v1.0.0"},
                                                                 {"1.0a1", "1.0-ALPHA.1"},
                                                                 {"1.0rc1", "1.0.preview_1"},
                                                                 {"1.0rc0", "1.0c"},
                                                                 {"1.0.post1", "1.0-1"},
                                                                 {"1.0.post0", "1.0.r"},
                                                                 {"1.0.dev0", "1.0dev"},
                                                                 {"1.0+a.1", "1.0+A-01"},
                                                                 {"0!1", " 1 "},
                                                                 {"1.010", "1.10"},
                                                                 {"b11669", "b011669"}};
  for (const auto& [a, b] : same) EXPECT_EQ(version(a), version(b)) << a << " and " << b;
}

TEST(Version, BuildTagsOfLlamaCpp) {
  EXPECT_LT(version("b9999"), version("b11669"));
  EXPECT_EQ(version("b11669").text(), "b11669");
  EXPECT_TRUE(version_matches(version("b11669"), ">=b9000").value());
}

TEST(Version, RefusesWhatIsNone) {
  for (const char* text : {"", "latest", "1.0-", "1..0", "1.0+", "1.0+a..b", "b", "bx", "1.0.1x", "1:2.0", "1.0~rc1"}) {
    EXPECT_FALSE(Version::parse(text)) << text;
  }
}

TEST(Specifier, PrefixWithAnEpoch) {  // packaging 23.0 says no to the first, newer ones agree with the PEP
  EXPECT_TRUE(version_matches(version("1!1.0a1"), "==1!1.*").value());
  EXPECT_FALSE(version_matches(version("1.0"), "==1!1.*").value());
}

TEST(Specifier, EmptyAllowsEverythingAndNonsenseIsAnError) {
  EXPECT_TRUE(version_matches(version("1.0"), "").value());
  for (const char* text : {"1.0", ">=", ">=x", "~=1", "<1.*", ">=1,,<2", "=1.0", ">=1.0 <2"}) {
    EXPECT_FALSE(version_matches(version("1.0"), text)) << text;
  }
}

std::string run(const std::string& command) {
  std::string out;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return out;
  std::array<char, 4096> buffer{};
  while (const std::size_t got = fread(buffer.data(), 1, buffer.size(), pipe)) out.append(buffer.data(), got);
  return pclose(pipe) == 0 ? out : std::string();
}

TEST(Specifier, AgreesWithPythonPackaging) {
  const std::string script =
      "import sys\n"
      "try:\n"
      "    from packaging.version import Version\n"
      "    from packaging.specifiers import SpecifierSet\n"
      "except ImportError:\n"
      "    print('absent'); sys.exit()\n"
      "versions, specifiers = [line.split() for line in sys.stdin]\n"
      "for s in specifiers:\n"
      "    for v in versions:\n"
      "        print(s, v, int(SpecifierSet(s).contains(Version(v) if '===' not in s else v, prereleases=True)))\n";
  const std::filesystem::path dir = std::filesystem::path(testing::TempDir());
  const std::string code = (dir / "pep440.py").string();
  const std::string data = (dir / "pep440.txt").string();
  std::ofstream(code) << script;
  std::ofstream(data) << join(kOrdered, " ") << '\n' << join(kSpecifiers, " ") << '\n';
  const std::string said = run("/usr/bin/python3 " + code + " < " + data);
  std::filesystem::remove(code);
  std::filesystem::remove(data);
  if (said == "absent\n") GTEST_SKIP() << "python3-packaging is not installed";
  const auto lines = split_lines(said);
  ASSERT_EQ(lines.size(), kOrdered.size() * kSpecifiers.size());
  for (const std::string& line : lines) {
    const auto words = split(line, ' ');
    // packaging keeps local builds of 1.0 out of ">1.0a12", of which they are none.
    if (words[0] == ">1.0a12" && words[1].find('+') != std::string::npos) continue;
    EXPECT_EQ(version_matches(version(words[1]), words[0]).value(), words[2] == "1") << line;
  }
}

}  // namespace
}  // namespace millwright
