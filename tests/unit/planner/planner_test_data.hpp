// Builds questions from the shipped knowledge, and models as files.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "orchestrator/base/knowledge.hpp"
#include "steps/server/planner/log_reader.hpp"
#include "steps/server/planner/plan.hpp"

namespace millwright::planner {

inline const Knowledge& shipped() {
  static const auto knowledge = load_knowledge(planner_folders({std::string(SOURCE_DIR) + "/playbooks/knowledge"}));
  if (!knowledge) ADD_FAILURE() << render(knowledge.error().front());
  return *knowledge;
}

struct Asked {
  Query query;
  GivenFlags flags;
  FlagTable table;

  Plan plan() const { return make_plan(shipped(), query, flags, table); }
  Outcome likely() const { return outcome_of(query, layout_of(query), Scenario::likely); }
};

inline Asked asked_of(Model model, const std::string& engine, const std::string& version, const std::string& gpus,
                      const std::vector<std::string>& set = {}, const std::vector<std::string>& given = {}) {
  auto facts = engine_facts(shipped(), engine, version);
  EXPECT_TRUE(facts.has_value());
  auto table = FlagTable::load(shipped(), engine, facts->version());
  EXPECT_TRUE(table.has_value());
  auto flags = read_flags(*table, *facts, set);
  if (!flags) ADD_FAILURE() << render(flags.error());
  Given terms;
  for (const std::string& term : given) {
    const std::size_t equals = term.find('=');
    EXPECT_TRUE(terms.set(term.substr(0, equals), term.substr(equals + 1)).has_value()) << term;
  }
  auto parsed = parse_gpu_spec(shipped(), gpus);
  if (!parsed) ADD_FAILURE() << render(parsed.error());
  Query query{std::move(model), *facts, *parsed, flags->set, terms, {}, {}};
  return {std::move(query), *flags, *table};
}

inline Asked asked(const std::string& model, const std::string& engine, const std::string& version,
                   const std::string& gpus, const std::vector<std::string>& set = {},
                   const std::vector<std::string>& given = {}) {
  auto known = known_model(shipped(), model);
  if (!known) ADD_FAILURE() << render(known.error());
  return asked_of(std::move(*known), engine, version, gpus, set, given);
}

inline ModelShape shape(const char* config) {
  const auto out = shape_of_config(Value::parse(config), "test");
  if (!out) ADD_FAILURE() << render(out.error());
  return out.value_or(ModelShape{});
}

// A folder that goes away with the test.
class Folder {
 public:
  Folder() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    path_ = std::filesystem::temp_directory_path() /
            (std::string("planner-") + test->name() + "-" + std::to_string(::getpid()));
    std::filesystem::create_directories(path_);
  }
  ~Folder() {
    std::error_code failure;
    std::filesystem::remove_all(path_, failure);
  }
  std::string path(const std::string& name = "") const { return (name.empty() ? path_ : path_ / name).string(); }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
  }

 private:
  std::filesystem::path path_;
};

// A log of tests/data/planner/logs.
inline std::string log_text(const std::string& name) {
  std::ifstream in(std::string(TEST_DATA) + "/planner/logs/" + name, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  EXPECT_FALSE(text.str().empty()) << name;
  return text.str();
}

inline LogReading reading(const std::string& text, const std::string& engine = "") {
  auto out = read_log(shipped(), text, engine);
  if (!out) ADD_FAILURE() << render(out.error());
  return out.value_or(LogReading{});
}

// A safetensors file whose data is a hole: only the header is real.
inline std::string safetensors(const Value& header) {
  const std::string text = header.dump();
  const std::uint64_t size = text.size();
  return std::string(reinterpret_cast<const char*>(&size), sizeof size) + text;
}

}  // namespace millwright::planner
