#include "orchestrator/cli/playbook_file.hpp"

#include <filesystem>

#include "orchestrator/base/knowledge.hpp"

namespace millwright {

std::string playbook_file(const std::string& name) {
  namespace fs = std::filesystem;
  std::error_code failure;
  if (fs::exists(name, failure) || name.find('/') != std::string::npos) return name;
  const std::string shipped = shipped_playbooks();
  if (shipped.empty()) return name;
  for (const std::string& candidate : {shipped + "/" + name, shipped + "/" + name + ".yml"}) {
    if (fs::is_regular_file(candidate, failure)) return candidate;
  }
  return name;
}

}  // namespace millwright
