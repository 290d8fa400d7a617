#pragma once

#include <optional>
#include <string>
#include <vector>

#include "orchestrator/playbook/playbook.hpp"

namespace millwright {

// The file that a playbook's name on the command line means: the path itself, else a shipped playbook of that name
// ("serve-model" or "serve-model.yml"), else the path as given, so that the error names it.
std::string playbook_file(const std::string& name);

// The name that was probably meant: of a shipped playbook, or of a YAML file in the current folder.
std::optional<std::string> near_playbook(const std::string& name);

// load_playbook of playbook_file; where there is no such file, the error suggests a near name.
tl::expected<Playbook, std::vector<Error>> load_named_playbook(const std::string& name, const StepRegistry& registry,
                                                               const ParseOptions& options = {});

}  // namespace millwright
