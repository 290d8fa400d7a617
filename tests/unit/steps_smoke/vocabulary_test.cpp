// Every class that code or data names is in classes.yml.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

#include "rules_fixture.hpp"

namespace millwright {
namespace {

namespace fs = std::filesystem;

std::string content_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void collect_classes(const Value& value, std::set<std::string>& found) {
  if (value.is_array()) {
    for (const Value& item : value) collect_classes(item, found);
  }
  if (!value.is_object()) return;
  for (const auto& [key, item] : value.items()) {
    if (key == "class" && item.is_string()) found.insert(item.get<std::string>());
    if (key == "classes" && item.is_array()) {
      for (const Value& name : item) found.insert(name.get<std::string>());
    }
    collect_classes(item, found);
  }
}

TEST(Vocabulary, DataNamesOnlyKnownClasses) {
  for (const std::string& name : shipped_knowledge().names()) {
    if (name == "classes") continue;
    std::set<std::string> used;
    collect_classes(shipped_knowledge().file(name), used);
    for (const std::string& symptom : used) {
      EXPECT_NE(shipped_rules()->classes.find(symptom), nullptr) << symptom << " in " << name << ".yml";
    }
  }
}

// Findings and with_class() calls in the sources: {"name", ...} where a Finding is made.
TEST(Vocabulary, CodeNamesOnlyKnownClasses) {
  const std::regex pattern(
      R"re((?:return \{|Finding\{|finding = \{|trouble = \{|\? |: |with_class\(|symptom_class = )"([a-z0-9]+(?:_[a-z0-9]+)+)")re");
  std::set<std::string> used;
  for (const char* folder : {"steps/smoke", "steps/server", "steps/model", "steps/container"}) {
    for (const auto& entry : fs::directory_iterator(fs::path(SOURCE_DIR) / folder)) {
      if (entry.path().extension() != ".cpp") continue;
      const std::string text = content_of(entry.path());
      const bool plain_returns = std::string(folder) == "steps/smoke";
      for (auto it = std::sregex_iterator(text.begin(), text.end(), pattern); it != std::sregex_iterator(); ++it) {
        const std::string whole = (*it)[0];
        if (plain_returns || whole.find("class") != std::string::npos) used.insert((*it)[1]);
      }
    }
  }
  EXPECT_GT(used.size(), 20u);
  for (const std::string& symptom : used) {
    EXPECT_NE(shipped_rules()->classes.find(symptom), nullptr) << symptom;
  }
}

TEST(Vocabulary, EveryClassIsDocumented) {
  for (const std::string& name : shipped_rules()->classes.names()) {
    const SymptomClass& entry = *shipped_rules()->classes.find(name);
    for (const std::string& part : {entry.sentence, entry.looks_like, entry.why, entry.cure, entry.first}) {
      EXPECT_FALSE(part.empty()) << name;
    }
    EXPECT_FALSE(shipped_knowledge().file("classes").at("classes").at(name).at("sources").empty()) << name;
  }
}

}  // namespace
}  // namespace millwright
