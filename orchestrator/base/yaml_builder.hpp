// How the strict loader works inside; include yaml.hpp instead.
#pragma once

#include "orchestrator/base/yaml.hpp"

namespace millwright::yaml {

// As parse_yaml.
tl::expected<YamlNode, std::vector<Error>> build_document(std::string_view text, const std::string& file,
                                                          const YamlLimits& limits);

// What is wrong with the bytes, before any YAML is read: size, UTF-8, control characters. At most one error.
std::vector<Error> check_bytes(std::string_view text, const std::string& file, const YamlLimits& limits);

}  // namespace millwright::yaml
