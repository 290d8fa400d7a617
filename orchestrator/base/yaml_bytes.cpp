#include <fmt/format.h>

#include "orchestrator/base/source_text.hpp"
#include "orchestrator/base/yaml_builder.hpp"

namespace millwright::yaml {

std::vector<Error> check_bytes(std::string_view text, const std::string& file, const YamlLimits& limits) {
  if (text.size() > limits.max_bytes) {
    return {make_error(ErrorKind::invalid,
                       fmt::format("too large: {} bytes, at most {} are read", text.size(), limits.max_bytes))
                .at({file, 1, 1, 1, ""})};
  }
  if (std::optional<Error> error = check_text(text, file, "YAML")) return {std::move(*error)};
  return {};
}

}  // namespace millwright::yaml
