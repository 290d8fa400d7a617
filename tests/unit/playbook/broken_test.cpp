// tests/data/playbooks/broken/NAME.yml against NAME.expected, what `millwright lint` prints for it.
// MILLWRIGHT_ACCEPT=1 writes the expectations anew.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "orchestrator/base/text.hpp"
#include "orchestrator/playbook/playbook.hpp"
#include "tests/unit/playbook/kinds.hpp"

namespace millwright {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = fs::path(TEST_DATA) / "playbooks" / "broken";

std::string read_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::set<std::string> cases() {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(kFolder)) {
    if (entry.path().extension() == ".yml") names.insert(entry.path().stem().string());
  }
  return names;
}

class Broken : public ::testing::TestWithParam<std::string> {};

TEST_P(Broken, SaysWhatIsWrong) {
  const fs::path expected_path = kFolder / (GetParam() + ".expected");
  const auto playbook = load_playbook((kFolder / (GetParam() + ".yml")).string(), testing::registry());
  ASSERT_FALSE(playbook) << "it is not broken";
  const std::string said = replace_all(render_all(playbook.error()), kFolder.string() + "/", "");
  for (const Error& error : playbook.error()) {
    ASSERT_TRUE(error.where) << error.message;
    EXPECT_GE(error.where->line, 1) << error.message;
    EXPECT_EQ(error.kind, ErrorKind::invalid) << error.message;
  }
  if (const char* accept = std::getenv("MILLWRIGHT_ACCEPT"); accept != nullptr && std::string_view(accept) == "1") {
    std::ofstream(expected_path, std::ios::binary) << said;
  }
  EXPECT_EQ(said, read_text(expected_path));
}

INSTANTIATE_TEST_SUITE_P(Playbooks, Broken, ::testing::ValuesIn(cases()),
                         [](const auto& one) { return replace_all(one.param, "-", "_"); });

TEST(BrokenPlaybooks, AreMany) { EXPECT_GE(cases().size(), 20u); }

}  // namespace
}  // namespace millwright
