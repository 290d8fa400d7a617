// What is shipped fits together: playbooks, step kinds and data.
#include <gtest/gtest.h>

#include <filesystem>

#include "orchestrator/base/knowledge.hpp"
#include "orchestrator/playbook/playbook.hpp"
#include "steps/container/register.hpp"
#include "steps/core/register.hpp"
#include "steps/gpu/register.hpp"
#include "steps/model/register.hpp"
#include "steps/server/register.hpp"
#include "steps/smoke/register.hpp"

namespace millwright {
namespace {

TEST(Shipped, EveryPlaybookIsWithoutMistakes) {
  const auto knowledge = load_knowledge({SOURCE_DIR "/playbooks/knowledge"});
  ASSERT_TRUE(knowledge.has_value());
  StepRegistry registry;
  register_core_steps(registry);
  register_gpu_steps(registry, *knowledge);
  register_container_steps(registry);
  register_model_steps(registry);
  register_server_steps(registry, *knowledge);
  const auto rules = load_smoke_rules(*knowledge);
  ASSERT_TRUE(rules.has_value());
  register_smoke_steps(registry, *rules);
  int seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator(SOURCE_DIR "/playbooks")) {
    if (entry.path().extension() != ".yml") continue;
    ++seen;
    const auto playbook = load_playbook(entry.path().string(), registry);
    if (playbook) continue;
    for (const Error& error : playbook.error()) ADD_FAILURE() << render(error);
  }
  EXPECT_GE(seen, 1);
}

TEST(Shipped, EveryStepKindDocumentsItself) {
  const auto knowledge = load_knowledge({SOURCE_DIR "/playbooks/knowledge"});
  StepRegistry registry;
  register_gpu_steps(registry, *knowledge);
  register_container_steps(registry);
  register_model_steps(registry);
  register_server_steps(registry, *knowledge);
  for (const std::string& name : registry.names()) {
    const Signature& signature = registry.find(name)->signature();
    EXPECT_FALSE(signature.summary.empty()) << name;
    EXPECT_FALSE(signature.example.empty()) << name;
    for (const InputSpec& input : signature.inputs) EXPECT_FALSE(input.doc.empty()) << name << "." << input.name;
    for (const OutputSpec& output : signature.outputs) EXPECT_FALSE(output.doc.empty()) << name << "." << output.name;
  }
}

}  // namespace
}  // namespace millwright
