#include "orchestrator/cli/playbook_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "orchestrator/base/knowledge.hpp"
#include "orchestrator/base/text.hpp"

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

namespace {

void add_yaml_files(const std::string& folder, std::vector<std::string>& names) {
  namespace fs = std::filesystem;
  std::error_code failure;
  for (fs::directory_iterator it(folder, failure), end; !failure && it != end; it.increment(failure)) {
    const std::string ending = it->path().extension().string();
    if (ending == ".yml" || ending == ".yaml") names.push_back(it->path().filename().string());
  }
}

}  // namespace

std::optional<std::string> near_playbook(const std::string& name) {
  std::vector<std::string> names;
  if (const std::string shipped = shipped_playbooks(); !shipped.empty()) {
    std::vector<std::string> files;
    add_yaml_files(shipped, files);
    for (const std::string& file : files) names.push_back(std::filesystem::path(file).stem().string());
  }
  add_yaml_files(".", names);
  std::sort(names.begin(), names.end());
  return nearest(name, names);
}

tl::expected<Playbook, std::vector<Error>> load_named_playbook(const std::string& name, const StepRegistry& registry,
                                                               const ParseOptions& options) {
  const std::string path = playbook_file(name);
  auto playbook = load_playbook(path, registry, options);
  std::error_code failure;
  if (!playbook && !std::filesystem::exists(path, failure)) {
    if (const auto near = near_playbook(name)) playbook.error().front().hint = fmt::format("did you mean '{}'?", *near);
  }
  return playbook;
}

}  // namespace millwright
