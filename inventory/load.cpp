#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "inventory/builder.hpp"
#include "orchestrator/base/read_file.hpp"
#include "orchestrator/base/source_text.hpp"
#include "orchestrator/base/text.hpp"

namespace millwright {
namespace {

namespace fs = std::filesystem;

// What Ansible leaves out of an inventory folder.
// Source: INVENTORY_IGNORE_EXTS and IGNORED_ALWAYS of ansible-core 2.14.
const std::vector<std::string> kIgnoredEndings = {".pyc", ".pyo", ".swp",  ".bak", "~",    ".rpm",  ".md",
                                                  ".txt", ".rst", ".orig", ".ini", ".cfg", ".retry"};

bool is_ignored(const std::string& name) {
  if (starts_with(name, ".") || name == "host_vars" || name == "group_vars" || name == "vars_plugins") return true;
  return std::any_of(kIgnoredEndings.begin(), kIgnoredEndings.end(),
                     [&](const std::string& ending) { return ends_with(name, ending); });
}

enum class Format { yaml, ini };

// Without an ending the first line that says something decides: a section header, or a word that is no YAML key.
Format guess_format(const std::string& text) {
  for (const std::string& line : split_lines(text)) {
    const std::string_view content = trim(line);
    if (content.empty() || content[0] == '#') continue;
    if (content[0] == ';') return Format::ini;
    if (content[0] == '[') return content.find(',') == std::string_view::npos ? Format::ini : Format::yaml;
    if (content[0] == '{' || content == "---" || content[0] == '%') return Format::yaml;
    const bool key = content.back() == ':' || content.find(": ") != std::string_view::npos;
    return key ? Format::yaml : Format::ini;
  }
  return Format::ini;
}

class Loader {
 public:
  void source(const std::string& given) {
    std::error_code failure;
    if (!fs::exists(given, failure)) {
      if (given.find(',') != std::string::npos) {
        read_host_list(given, builder_);
      } else {
        missing(given);
      }
      return;
    }
    PlainNames plain = PlainNames::variables;
    if (fs::is_directory(given, failure)) {
      folder(given, plain);
      vars_folders_.emplace_back(given, plain);
    } else {
      file(given, plain);
      const fs::path parent = fs::path(given).parent_path();
      vars_folders_.emplace_back(parent.empty() ? fs::path(".") : parent, plain);
    }
  }

  tl::expected<std::shared_ptr<const Inventory::Data>, std::vector<Error>> finish() && {
    for (const auto& [folder_path, plain] : vars_folders_) builder_.read_vars_folders(folder_path, plain);
    if (builder_.failed()) return tl::unexpected(std::move(builder_).errors());
    return builder_.finish();
  }

 private:
  void missing(const std::string& given) {
    builder_.report(make_error(ErrorKind::invalid, fmt::format("there is no inventory '{}'", given))
                        .with_hint(fmt::format("check the path; to name a host on the command line, end it with a "
                                               "comma: -i {},",
                                               given)));
  }

  void folder(const fs::path& path, PlainNames& plain) {
    std::error_code failure;
    std::vector<fs::path> entries;
    for (fs::directory_iterator it(path, failure), end; !failure && it != end; it.increment(failure)) {
      if (!is_ignored(it->path().filename().string())) entries.push_back(it->path());
    }
    if (failure) {
      builder_.report(make_error(ErrorKind::io, fmt::format("cannot list {}: {}", path.string(), failure.message())));
      return;
    }
    std::sort(entries.begin(), entries.end());
    for (const fs::path& entry : entries) {
      if (fs::is_directory(entry, failure)) {
        folder(entry, plain);
      } else {
        file(entry.string(), plain);
      }
    }
  }

  void file(const std::string& path, PlainNames& plain) {
    const std::string extension = fs::path(path).extension().string();
    if (extension == ".yml" || extension == ".yaml" || extension == ".json") {
      read_yaml_source(path, builder_, plain);
      return;
    }
    const auto read = read_file(path);
    if (!read) {
      builder_.report(read.error());
      return;
    }
    const std::string& text = *read;
    if (starts_with(text, "#!") && ::access(path.c_str(), X_OK) == 0) {
      program(path);
    } else if (extension == ".toml") {
      builder_.report(make_error(ErrorKind::invalid, path + ": TOML inventories are not read here")
                          .with_hint("run: ansible-inventory -i FILE --list --yaml > hosts.yml, and use that"));
    } else if (extension.empty() && guess_format(text) == Format::yaml) {
      read_yaml_source(path, builder_, plain);
    } else if (std::optional<Error> error = check_text(text, path, "an INI inventory")) {
      builder_.report(std::move(*error));
    } else {
      read_ini_source(path, text, builder_);
    }
  }

  void program(const std::string& path) {
    builder_.report(
        make_error(ErrorKind::invalid, path + " is a program that makes an inventory; millwright does not run it")
            .with_hint(fmt::format("run: ansible-inventory -i {} --list --yaml > hosts.yml, and use that", path)));
  }

  InventoryBuilder builder_;
  std::vector<std::pair<fs::path, PlainNames>> vars_folders_;
};

}  // namespace

tl::expected<Inventory, std::vector<Error>> Inventory::load(const std::string& source) { return load_all({source}); }

tl::expected<Inventory, std::vector<Error>> Inventory::load_all(const std::vector<std::string>& sources) {
  Loader loader;
  for (const std::string& source : sources) loader.source(source);
  auto data = std::move(loader).finish();
  if (!data) return tl::unexpected(std::move(data.error()));
  Inventory inventory;
  inventory.data_ = std::move(*data);
  return inventory;
}

}  // namespace millwright
