// Every public failure report of tests/data/gpu/cases.csv has a test that names it, or a reason why it has none.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

namespace millwright {
namespace {

namespace fs = std::filesystem;

std::string slurp(const fs::path& file) {
  std::ifstream in(file);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

// First fields of the lines that begin a record.
std::set<std::string> ids_of(const fs::path& file) {
  std::set<std::string> out;
  std::ifstream in(file);
  static const std::regex form("^([VDLNM][0-9]{2}),.+");
  std::smatch found;
  for (std::string line; std::getline(in, line);) {
    if (std::regex_match(line, found, form)) out.insert(found[1]);
  }
  return out;
}

// In names of tests: GpuBind.V04V17TheBootConsole, test_v12_one_of_two.
std::set<std::string> tested() {
  std::set<std::string> out;
  static const std::regex heads("TEST(?:_F)?\\(\\w+,\\s*(\\w+)|def test_(\\w+)");
  static const std::regex id("([VDLNMvdlnm][0-9]{2})");
  for (const char* folder : {"/tests/unit/steps_gpu", "/tests/vm"}) {
    if (!fs::exists(std::string(SOURCE_DIR) + folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(std::string(SOURCE_DIR) + folder)) {
      if (entry.path().extension() != ".cpp" && entry.path().extension() != ".py") continue;
      const std::string text = slurp(entry.path());
      for (std::sregex_iterator at(text.begin(), text.end(), heads), end; at != end; ++at) {
        const std::string name = (*at)[1].matched ? (*at)[1].str() : (*at)[2].str();
        for (std::sregex_iterator one(name.begin(), name.end(), id); one != end; ++one) {
          std::string found = (*one)[1].str();
          found[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(found[0])));
          out.insert(found);
        }
      }
    }
  }
  return out;
}

TEST(GpuCases, EachIsTestedOrListedWithAReason) {
  const std::set<std::string> all = ids_of(SOURCE_DIR "/tests/data/gpu/cases.csv");
  const std::set<std::string> listed = ids_of(SOURCE_DIR "/tests/data/gpu/not_covered.csv");
  const std::set<std::string> covered = tested();
  ASSERT_EQ(all.size(), 70U);
  for (const std::string& id : all) {
    EXPECT_TRUE(covered.count(id) + listed.count(id) > 0) << id << " has neither a test nor a reason";
    EXPECT_FALSE(covered.count(id) != 0 && listed.count(id) != 0) << id << " is tested, so it needs no reason";
  }
  for (const std::string& id : listed) EXPECT_EQ(all.count(id), 1U) << id << " is no case";
}

}  // namespace
}  // namespace millwright
