#pragma once

#include <string>

namespace millwright {

// The file that a playbook's name on the command line means: the path itself, else a shipped playbook of that name
// ("serve-model" or "serve-model.yml"), else the path as given, so that the error names it.
std::string playbook_file(const std::string& name);

}  // namespace millwright
