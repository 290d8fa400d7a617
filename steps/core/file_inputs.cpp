#include "steps/core/file_inputs.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"
#include "steps/core/run_parts.hpp"

namespace millwright::core {

namespace {

// NAME_MAX and PATH_MAX of Linux, less what the temporary names beside a path add to it.
constexpr std::size_t kLongestName = 225;
constexpr std::size_t kLongestPath = 4000;

}  // namespace

InputSpec path_input() {
  return {.name = "path",
          .need = Need::required,
          .doc = "Where, absolute, on the node.",
          .known_elsewhere_as = {"dest", "name", "destination"}};
}

void add_placing_inputs(std::vector<InputSpec>& inputs) {
  inputs.insert(
      inputs.end(),
      {{.name = "mode",
        .type = ValueType::mode,
        .doc = "Octal, in quotes. Default: what is there stays; new files 0644, new folders 0755."},
       {.name = "owner", .doc = "User name or number. Default: what is there stays.", .known_elsewhere_as = {"user"}},
       {.name = "group", .doc = "Group name or number. Default: what is there stays."},
       {.name = "parents",
        .type = ValueType::boolean,
        .doc = "Make missing folders above it. Default: true for folders, false for the rest."},
       {.name = "force",
        .type = ValueType::boolean,
        .default_value = false,
        .doc = "Replace what is there even if it is of another kind (a folder by a link)."},
       {.name = "diff",
        .type = ValueType::boolean,
        .doc = "Show the content's diff in plans and reports. Default: only of files that everybody may read."},
       {.name = "undo_limit",
        .type = ValueType::size,
        .default_value = "1GiB",
        .doc = "Undo keeps a copy of what is replaced or removed; more than this is refused."}});
}

std::vector<OutputSpec> path_outputs() {
  return {
      {.name = "path", .doc = "Where."},      {.name = "state", .doc = "file, directory, link or absent."},
      {.name = "mode", .doc = "As now."},     {.name = "owner", .doc = "As now."},
      {.name = "group", .doc = "As now."},    {.name = "size", .type = ValueType::integer, .doc = "Bytes, of a file."},
      {.name = "sha256", .doc = "Of a file."}};
}

Value path_output_values(const std::string& path, const PathState& state) {
  return {{"path", path},          {"state", to_string(state.type)}, {"mode", state.mode},
          {"owner", state.owner},  {"group", state.group},           {"size", state.size},
          {"sha256", state.sha256}};
}

void check_path_input(const Inputs& inputs, std::vector<Error>& errors) {
  if (!inputs.has("path")) return;
  const std::string path = inputs.string("path");
  const std::vector<std::string> parts = split(path, '/');
  if (!starts_with(path, "/")) {
    errors.push_back(input_error("path", fmt::format("'{}' is not an absolute path", path)));
  } else if (path.find('\n') != std::string::npos || path.find('\0') != std::string::npos) {
    errors.push_back(input_error("path", "a path cannot hold a newline"));
  } else if (std::find(parts.begin(), parts.end(), "..") != parts.end()) {
    errors.push_back(input_error("path", fmt::format("'{}' goes up with ..", path), "write where it ends up"));
  } else if (const auto longest = std::max_element(parts.begin(), parts.end(),
                                                   [](const auto& a, const auto& b) { return a.size() < b.size(); });
             longest->size() > kLongestName || path.size() > kLongestPath) {
    errors.push_back(input_error(
        "path", fmt::format("the path has {} bytes, and {} in its longest name", path.size(), longest->size()),
        fmt::format("at most {} and {}: file systems take little more, and it gets a temporary name first",
                    kLongestPath, kLongestName)));
  } else if (tidy_path(path).empty()) {
    errors.push_back(input_error("path", "the root of the file system is not for this step"));
  }
}

std::string tidy_path(std::string_view path) {
  std::string out;
  for (const std::string& part : split(path, '/')) {
    if (!part.empty() && part != ".") out += "/" + part;
  }
  return out;
}

}  // namespace millwright::core
