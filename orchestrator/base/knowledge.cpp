#include "orchestrator/base/knowledge.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include "orchestrator/base/schema_check.hpp"
#include "orchestrator/base/text.hpp"
#include "orchestrator/base/yaml.hpp"

namespace fs = std::filesystem;

namespace millwright {

namespace {

std::optional<Value> read_schema(const fs::path& path, std::vector<Error>& errors) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::nullopt;
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  Value schema = Value::parse(text, nullptr, false);
  if (schema.is_discarded()) {
    errors.push_back(make_error(ErrorKind::invalid, path.string() + " is no valid JSON"));
    return std::nullopt;
  }
  return schema;
}

// The folder itself first, then the folders it builds on.
std::optional<Value> find_schema(const std::vector<std::string>& folders, std::size_t own, const std::string& name,
                                 std::vector<Error>& errors) {
  for (std::size_t back = 0; back <= own; ++back) {
    const fs::path path = fs::path(folders[own - back]) / "schema" / (name + ".json");
    if (auto schema = read_schema(path, errors)) return schema;
  }
  return std::nullopt;
}

std::vector<fs::path> yaml_files(const std::string& folder, std::vector<Error>& errors) {
  std::vector<fs::path> found;
  std::error_code failure;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, failure)) {
    if (entry.path().extension() == ".yml") found.push_back(entry.path());
  }
  if (failure) {
    errors.push_back(make_error(ErrorKind::io, "cannot read " + folder + ": " + failure.message())
                         .with_hint("set MILLWRIGHT_SHARE to the folder that has playbooks/knowledge/ in it"));
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::optional<fs::path> program_folder() {
  std::error_code failure;
  const fs::path program = fs::read_symlink("/proc/self/exe", failure);
  if (failure) return std::nullopt;
  return program.parent_path();
}

}  // namespace

bool Knowledge::has(std::string_view name) const { return files_.find(name) != files_.end(); }

const Value& Knowledge::file(std::string_view name) const {
  static const Value nothing = Value::object();
  const auto it = files_.find(name);
  return it == files_.end() ? nothing : it->second;
}

std::vector<std::string> Knowledge::names() const {
  std::vector<std::string> out;
  for (const auto& [name, value] : files_) out.push_back(name);
  return out;
}

tl::expected<Knowledge, std::vector<Error>> load_knowledge(const std::vector<std::string>& folders) {
  std::map<std::string, Value, std::less<>> files;
  std::vector<Error> errors;
  for (std::size_t i = 0; i < folders.size(); ++i) {
    for (const fs::path& path : yaml_files(folders[i], errors)) {
      const std::string name = path.stem().string();
      auto document = load_yaml(path.string());
      if (!document) {
        std::move(document.error().begin(), document.error().end(), std::back_inserter(errors));
        continue;
      }
      const auto schema = find_schema(folders, i, name, errors);
      if (!schema) {
        errors.push_back(make_error(ErrorKind::invalid, path.string() + " has no schema")
                             .with_hint("write " + folders[i] + "/schema/" + name + ".json"));
        continue;
      }
      std::vector<Error> found = check_schema(*document, *schema);
      std::move(found.begin(), found.end(), std::back_inserter(errors));
      files[name] = document->to_value();
    }
  }
  if (!errors.empty()) return tl::unexpected<std::vector<Error>>(std::move(errors));
  return Knowledge(std::move(files));
}

std::string shipped_playbooks() {
  std::vector<fs::path> candidates;
  if (const char* share = std::getenv("MILLWRIGHT_SHARE")) candidates.emplace_back(fs::path(share) / "playbooks");
  if (const auto folder = program_folder()) candidates.push_back(*folder / "../share/millwright/playbooks");
  candidates.emplace_back(fs::path(MILLWRIGHT_SOURCE_DIR) / "playbooks");
  for (const fs::path& path : candidates) {
    std::error_code failure;
    if (fs::is_directory(path / "knowledge", failure)) return path.lexically_normal().string();
  }
  return "";
}

std::vector<std::string> knowledge_folders() {
  std::vector<std::string> out;
  if (const std::string shipped = shipped_playbooks(); !shipped.empty()) out.push_back(shipped + "/knowledge");
  if (const char* override_folders = std::getenv("MILLWRIGHT_KNOWLEDGE")) {
    for (const std::string& folder : split(override_folders, ':')) {
      if (!folder.empty()) out.push_back(folder);
    }
  }
  return out;
}

}  // namespace millwright
