// YAML scalars as Ansible reads them: YAML 1.1, where yes is a boolean and 0644 an octal number.
#pragma once

#include <vector>

#include "orchestrator/base/error.hpp"
#include "orchestrator/base/value.hpp"
#include "orchestrator/base/yaml.hpp"

namespace millwright {

// !secret and !vault become tagged objects (data.hpp); tags that nobody knows are added to `errors`.
// Source of the rules: https://yaml.org/type/ and PyYAML's resolver, which Ansible uses.
Value ansible_value(const YamlNode& node, std::vector<Error>& errors);

// The same for one plain (unquoted) scalar.
Value yaml11_scalar(const std::string& text);

}  // namespace millwright
