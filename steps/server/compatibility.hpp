// Whether an engine version understands a model, on this GPU, with this driver: from playbooks/knowledge/models.yml and
// hardware.yml, before anything is installed.
//
// Pure functions over data; safe from any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "orchestrator/base/error.hpp"
#include "orchestrator/base/knowledge.hpp"
#include "orchestrator/base/value.hpp"

namespace millwright {

inline constexpr int kCompatibilitySchemaVersion = 1;

struct CompatibilityQuery {
  std::string model;    // id as "Qwen/Qwen3.6-27B", case does not matter; or the architecture of a GGUF
  std::string engine;   // "sglang", "vllm", "llama.cpp"
  std::string version;  // of the engine
  std::optional<double> compute_capability;  // of the GPU: 8.6
  std::optional<int> driver;                 // branch of the NVIDIA driver: 550
};

// fits: data says so. warned: works by hearsay, or only later versions are known to work. refused: data says that it
// cannot. unknown: no row.
enum class Compatibility { fits, warned, refused, unknown };
std::string_view to_string(Compatibility verdict);

struct CompatibilityFinding {
  Compatibility verdict = Compatibility::unknown;
  std::string what;    // "Qwen3.6 needs sglang >=0.5.10"
  std::string cure;    // empty where nothing is wrong
  std::string source;  // where it was seen; empty for `unknown`
};

struct CompatibilityReport {
  Compatibility verdict = Compatibility::unknown;  // the worst of the findings; unknown only when all are
  std::vector<CompatibilityFinding> findings;
  std::string reasoning_parser, tool_parser;  // as the engine calls them; empty: not known to need one
  std::vector<std::string> needs;             // Python packages beside the engine
};

// Fails with `usage` when the version cannot be read, and `invalid` when the data cannot.
Result<CompatibilityReport> check_compatibility(const Knowledge& knowledge, const CompatibilityQuery& query);

Value to_json(const CompatibilityReport& report);

}  // namespace millwright
