#include "orchestrator/base/knowledge.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "orchestrator/base/schema_check.hpp"
#include "orchestrator/base/yaml.hpp"

namespace millwright {
namespace {

class KnowledgeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/mw-knowledge-XXXXXX";
    folder_ = mkdtemp(pattern);
    std::filesystem::create_directory(folder_ + "/schema");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void write(const std::string& name, const std::string& text) { std::ofstream(folder_ + "/" + name) << text; }

  std::string folder_;
};

TEST_F(KnowledgeTest, ShippedDataIsAsItsSchemasWant) {
  const auto loaded = load_knowledge({SOURCE_DIR "/playbooks/knowledge"});
  ASSERT_TRUE(loaded.has_value()) << render(loaded.error().front());
  EXPECT_TRUE(loaded->file("engines").at("engines").contains("llama.cpp"));
}

TEST_F(KnowledgeTest, EveryMistakeIsReportedWithItsPlace) {
  write("schema/things.json",
        R"({"type":"object","additionalProperties":false,"required":["things"],
            "properties":{"things":{"type":"array","items":{"type":"object","additionalProperties":false,
            "properties":{"name":{"type":"string","pattern":"^[a-z]+$"},"count":{"type":"integer"}}}}}})");
  write("things.yml", "things:\n  - {nmae: a}\n  - {name: A9}\n  - {count: many}\n");
  const auto loaded = load_knowledge({folder_});
  ASSERT_FALSE(loaded.has_value());
  ASSERT_EQ(loaded.error().size(), 3U);
  EXPECT_EQ(loaded.error()[0].where->line, 2);
  EXPECT_NE(loaded.error()[0].message.find("unknown key 'nmae'"), std::string::npos);
  EXPECT_NE(loaded.error()[0].hint.find("name"), std::string::npos);
  EXPECT_EQ(loaded.error()[1].where->line, 3);
  EXPECT_EQ(loaded.error()[2].where->line, 4);
  EXPECT_NE(loaded.error()[2].message.find("expected integer, found string"), std::string::npos);
}

TEST_F(KnowledgeTest, AFileWithoutSchemaIsRefused) {
  write("loose.yml", "a: 1\n");
  const auto loaded = load_knowledge({folder_});
  ASSERT_FALSE(loaded.has_value());
  EXPECT_NE(loaded.error()[0].message.find("has no schema"), std::string::npos);
}

TEST_F(KnowledgeTest, ALaterFolderReplacesAFileAndUsesTheShippedSchema) {
  write("models.yml", "models: []\n");
  const auto loaded = load_knowledge({SOURCE_DIR "/playbooks/knowledge", folder_});
  ASSERT_TRUE(loaded.has_value()) << render(loaded.error().front());
  EXPECT_TRUE(loaded->file("models").at("models").empty());
  EXPECT_FALSE(loaded->file("engines").at("engines").empty());
}

TEST_F(KnowledgeTest, AMissingFolderSaysWhatToSet) {
  const auto loaded = load_knowledge({folder_ + "/none"});
  ASSERT_FALSE(loaded.has_value());
  EXPECT_NE(loaded.error()[0].hint.find("MILLWRIGHT_SHARE"), std::string::npos);
}

TEST_F(KnowledgeTest, TheSourceTreesPlaybooksAreFound) {
  EXPECT_TRUE(std::filesystem::exists(shipped_playbooks() + "/knowledge/engines.yml"));
}

TEST(SchemaCheck, KeywordsThatAreNotCheckedAreErrors) {
  const auto document = parse_yaml("a: 1\n", "x.yml");
  ASSERT_TRUE(document.has_value());
  EXPECT_EQ(check_schema(*document, Value::parse(R"({"type":"object","maxProperties":1})")).size(), 1U);
  EXPECT_TRUE(check_schema(*document, Value::parse(R"({"anyOf":[{"type":"string"},{"type":"object"}]})")).empty());
}

}  // namespace
}  // namespace millwright
