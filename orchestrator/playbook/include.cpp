#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "orchestrator/playbook/document.hpp"

namespace millwright {
namespace {

// An include inside of an include inside of ...: a chain that long is a mistake.
constexpr std::size_t kMaxIncludes = 16;
// Includes multiply: ten files that include the next one ten times would be ten thousand million steps.
constexpr std::size_t kMaxSteps = 100'000;
constexpr std::size_t kMaxFiles = 10'000;

struct Including {
  std::vector<std::string> chain;  // canonical paths, outermost first
  std::size_t files = 0;           // read so far
};

std::string canonical(const std::string& path) {
  std::error_code failed;
  const auto full = std::filesystem::weakly_canonical(path, failed);
  return failed ? path : full.string();
}

void read_list(Draft& draft, const YamlNode& list, const std::string& file, Including& including);

// The steps of a file: a list, or a mapping with nothing but `steps:`.
const YamlNode* steps_of(Draft& draft, const YamlNode& document) {
  if (document.kind == YamlKind::sequence) return &document;
  if (document.kind == YamlKind::mapping) {
    draft.reader.check_keys(document, {"steps"}, "an included file");
    return document.find("steps");
  }
  return nullptr;
}

void include(Draft& draft, const YamlNode& node, const std::string& file, Including& including) {
  const auto name = draft.reader.word(node, "'include'");
  if (!name) return;
  const auto folder = std::filesystem::path(file).parent_path();
  const std::string path = (folder / *name).lexically_normal().string();
  const std::string full = canonical(path);
  if (const auto seen = std::find(including.chain.begin(), including.chain.end(), full);
      seen != including.chain.end()) {
    std::string chain;
    for (auto at = seen; at != including.chain.end(); ++at) {
      chain += std::filesystem::path(*at).filename().string() + " -> ";
    }
    draft.reader.error(node.mark, fmt::format("files include each other: {}{}", chain,
                                              std::filesystem::path(full).filename().string()));
    return;
  }
  if (including.chain.size() > kMaxIncludes) {
    draft.reader.error(node.mark, fmt::format("more than {} files include one another", kMaxIncludes));
    return;
  }
  if (++including.files > kMaxFiles) {
    if (including.files == kMaxFiles + 1)
      draft.reader.error(node.mark, fmt::format("more than {} includes", kMaxFiles));
    return;
  }
  const Result<std::string> text = read_beside(draft, path);
  if (!text) {
    draft.reader.error(node.mark, text.error().message, "paths are relative to the file that includes");
    return;
  }
  auto document = parse_yaml(*text, path);
  if (!document) {
    draft.reader.errors(std::move(document.error()));
    return;
  }
  if (std::find(draft.files.begin(), draft.files.end(), path) == draft.files.end()) draft.files.push_back(path);
  const YamlNode* steps = steps_of(draft, *document);
  if (steps == nullptr || steps->kind != YamlKind::sequence) {
    draft.reader.error(node.mark, fmt::format("{} has no list of steps", path),
                       "it holds a list, or a mapping with steps:");
    return;
  }
  including.chain.push_back(full);
  read_list(draft, *steps, path, including);
  including.chain.pop_back();
}

void read_list(Draft& draft, const YamlNode& list, const std::string& file, Including& including) {
  for (const YamlNode& item : list.items) {
    if (draft.steps.size() >= kMaxSteps) {
      draft.reader.error(item.mark, fmt::format("more than {} steps", kMaxSteps));
      return;
    }
    const YamlNode* path = item.find("include");
    if (path == nullptr) {
      read_step(draft, item, file);
      continue;
    }
    draft.reader.check_keys(item, {"include"}, "an include");
    include(draft, *path, file, including);
  }
}

}  // namespace

void read_steps(Draft& draft, const YamlNode& list, const std::string& file) {
  Including including{{canonical(file)}, 0};
  read_list(draft, list, file, including);
}

}  // namespace millwright
