#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "inventory/inventory.hpp"
#include "orchestrator/base/text.hpp"

namespace millwright {
namespace {

namespace fs = std::filesystem;

std::string file_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << in.rdbuf();
  return bytes.str();
}

// All that is wrong: with the inventory, or else with the ways to its hosts.
std::vector<Error> mistakes_of(const std::string& source) {
  const auto inventory = Inventory::load(source);
  if (!inventory) return inventory.error();
  std::vector<Error> errors;
  for (const std::string& host : inventory->hosts()) {
    if (const auto target = inventory->target(host); !target) errors.push_back(target.error());
  }
  return errors;
}

class BrokenInventory : public ::testing::TestWithParam<std::string> {};

TEST_P(BrokenInventory, SaysWhatIsWrongAndWhere) {
  const fs::path folder = TEST_DATA "/inventories/broken";
  const fs::path source = folder / GetParam();
  std::string said;
  for (const Error& error : mistakes_of(source.string())) said += render(error);
  said = replace_all(said, folder.string() + "/", "");
  EXPECT_FALSE(said.empty());
  const fs::path expected = folder / (GetParam() + ".expected");
  const char* accept = std::getenv("MILLWRIGHT_ACCEPT");
  if (accept != nullptr && std::string(accept) == "1") {
    std::ofstream(expected, std::ios::binary) << said;
    return;
  }
  EXPECT_EQ(file_text(expected), said) << "MILLWRIGHT_ACCEPT=1 takes the new text into " << expected;
}

std::vector<std::string> sources() {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(TEST_DATA "/inventories/broken")) {
    if (entry.path().extension() != ".expected") names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string test_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Data, BrokenInventory, ::testing::ValuesIn(sources()), test_name);

}  // namespace
}  // namespace millwright
