#include <fmt/format.h>

#include <algorithm>

#include "inventory/builder.hpp"
#include "inventory/yaml_values.hpp"
#include "orchestrator/base/read_file.hpp"
#include "orchestrator/base/text.hpp"
#include "orchestrator/base/yaml.hpp"

namespace millwright {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kExtensions = {"", ".yml", ".yaml", ".json"};

bool is_vars_file(const fs::path& path) {
  return std::find(kExtensions.begin(), kExtensions.end(), path.extension().string()) != kExtensions.end();
}

// All variable files in a folder and those below it, in the order of their names.
std::vector<fs::path> files_in(const fs::path& folder) {
  std::error_code failure;
  std::vector<fs::path> entries;
  for (fs::directory_iterator it(folder, failure), end; !failure && it != end; it.increment(failure))
    entries.push_back(it->path());
  std::sort(entries.begin(), entries.end());
  std::vector<fs::path> files;
  for (const fs::path& entry : entries) {
    const std::string name = entry.filename().string();
    if (starts_with(name, ".") || ends_with(name, "~")) continue;
    if (fs::is_directory(entry, failure)) {
      if (!entry.extension().empty()) continue;
      const std::vector<fs::path> below = files_in(entry);
      files.insert(files.end(), below.begin(), below.end());
    } else if (is_vars_file(entry)) {
      files.push_back(entry);
    }
  }
  return files;
}

// A folder NAME/, or else the first of NAME, NAME.yml, NAME.yaml, NAME.json; as Ansible looks.
std::vector<fs::path> files_of(const fs::path& folder, const std::string& name) {
  std::error_code failure;
  for (const std::string& extension : kExtensions) {
    const fs::path path = folder / (name + extension);
    if (!fs::exists(path, failure)) continue;
    if (fs::is_directory(path, failure)) return files_in(path);
    return {path};
  }
  return {};
}

}  // namespace

void InventoryBuilder::read_vars_folders(const fs::path& folder, PlainNames plain) {
  for (const std::string& name : data_.group_order)
    read_vars_of(folder / "group_vars", name, plain, data_.groups.at(name).file_vars);
  for (const std::string& name : data_.host_order)
    read_vars_of(folder / "host_vars", name, plain, data_.hosts.at(name).file_vars);
  if (data_.hosts.count("localhost") == 0)
    read_vars_of(folder / "host_vars", "localhost", plain, data_.localhost.file_vars);
}

void InventoryBuilder::read_vars_of(const fs::path& folder, const std::string& name, PlainNames plain,
                                    std::vector<Definition>& into) {
  // A host called "../x" or "/x" must not read files elsewhere.
  if (name.find('/') != std::string::npos) return;
  for (const fs::path& file : files_of(folder, name)) {
    const std::string shown = file.lexically_relative(folder.parent_path()).generic_string();
    read_vars_file(file, shown, plain, into);
  }
}

void InventoryBuilder::read_vars_file(const fs::path& file, const std::string& shown, PlainNames plain,
                                      std::vector<Definition>& into) {
  const auto text = read_file(file.string());
  if (!text) {
    report(text.error());
    return;
  }
  if (starts_with(*text, "$ANSIBLE_VAULT;")) {
    warn(
        fmt::format("{} is encrypted by ansible-vault and was skipped; give its values by !secret env:NAME, "
                    "file:PATH or command:CMD",
                    shown));
    return;
  }
  const auto document = parse_yaml(*text, file.string());
  if (!document) {
    for (const Error& error : document.error()) report(error);
    return;
  }
  if (document->kind == YamlKind::null) return;
  if (document->kind != YamlKind::mapping) {
    report(document->mark, "a file of variables must be a mapping", "with a key for each variable");
    return;
  }
  for (const auto& [key, value] : document->entries) {
    Definition definition{key.text, ansible_value(value, errors_), value.mark, shown, plain};
    check_name(definition);
    into.push_back(std::move(definition));
  }
}

}  // namespace millwright
