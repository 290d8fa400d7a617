#include "orchestrator/cli/options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <optional>

#include "inventory/inventory.hpp"
#include "orchestrator/base/read_file.hpp"
#include "orchestrator/base/text.hpp"
#include "orchestrator/base/yaml.hpp"

namespace millwright {

void add_common_options(CLI::App& verb, CommonOptions& options) {
  verb.add_flag("--json", options.json, "Print JSON instead of text");
  // CLI11 from 2.4 on shows the 0 that it counts from.
  verb.add_flag("-v,--verbose", options.verbose, "Say more; twice for all that commands print")->default_str("");
  verb.add_flag("--no-color", options.no_color, "No colours (also NO_COLOR=1)");
  verb.add_option("--state", options.state, "Folder of the journal (also MILLWRIGHT_STATE)")->type_name("DIR");
}

void add_inventory_options(CLI::App& verb, InventoryOptions& options) {
  verb.add_option("-i,--inventory", options.sources, "Inventory: a file, a folder, or \"host1,host2\"; again for more")
      ->type_name("SOURCE")
      ->allow_extra_args(false);
  verb.add_option("-l,--limit", options.limit, "Only these of the hosts: a host pattern, or @FILE")
      ->type_name("PATTERN");
}

void add_examples(CLI::App& verb, const std::vector<std::string>& lines) {
  verb.footer("\nExamples:\n  " + join(lines, "\n  "));
}

std::vector<std::string> inventory_sources(const InventoryOptions& options) {
  if (!options.sources.empty()) return options.sources;
  const char* variable = std::getenv("MILLWRIGHT_INVENTORY");
  if (variable == nullptr || *variable == '\0') return {};
  return split(variable, ':');
}

tl::expected<Inventory, std::vector<Error>> load_inventory(const Session& session, const InventoryOptions& options) {
  auto inventory = Inventory::load_all(inventory_sources(options));
  if (inventory) {
    for (const std::string& warning : inventory->warnings()) session.console.err("warning: " + warning + "\n");
  }
  return inventory;
}

Result<std::vector<std::string>> match_hosts(const Inventory& inventory, const std::string& pattern,
                                             const InventoryOptions& options) {
  auto hosts = inventory.match(pattern);
  // Planning on the controller because -i was forgotten would be the worst of surprises.
  if (!hosts && inventory_sources(options).empty()) {
    hosts.error().message = fmt::format("no inventory was given, so there are no hosts that '{}' could mean", pattern);
    hosts.error().with_hint("add -i FILE, or set MILLWRIGHT_INVENTORY; this machine alone is `localhost`");
  }
  return hosts;
}

namespace {

Error extra_error(const std::string& given, std::string message, std::string hint) {
  return make_error(ErrorKind::usage, std::move(message))
      .at({"-e", 1, 1, static_cast<int>(given.size()), given})
      .with_hint(std::move(hint));
}

void merge(Value& into, const Value& more) {
  for (const auto& [name, value] : more.items()) into[name] = value;
}

// As the document has it, its `!secret` references resolved.
Value with_secrets(const YamlNode& node, std::vector<Error>& errors) {
  if (node.tag == "!secret") {
    auto secret = resolve_secret(node.text, node.mark);
    if (secret) return std::move(*secret);
    errors.push_back(std::move(secret.error()));
    return {};
  }
  if (node.kind == YamlKind::sequence) {
    Value out = Value::array();
    for (const YamlNode& item : node.items) out.push_back(with_secrets(item, errors));
    return out;
  }
  if (node.kind != YamlKind::mapping) return node.to_value();
  Value out = Value::object();
  for (const auto& [key, value] : node.entries) out[key.text] = with_secrets(value, errors);
  return out;
}

void from_file(const std::string& path, Value& into, std::vector<Error>& errors) {
  const auto text = read_file(path, YamlLimits().max_bytes, Pipes::read);
  if (!text) {
    errors.push_back(wrap(text.error(), "reading the values of -e @" + path));
    return;
  }
  const auto document = parse_yaml(*text, path);
  if (!document) {
    errors.insert(errors.end(), document.error().begin(), document.error().end());
  } else if (document->kind == YamlKind::mapping) {
    const std::size_t before = errors.size();
    const Value values = with_secrets(*document, errors);
    if (errors.size() == before) merge(into, values);
  } else if (document->kind != YamlKind::null) {
    errors.push_back(make_error(ErrorKind::invalid, "a file for -e must be a mapping")
                         .at(document->mark)
                         .with_hint("with a key for each value"));
  }
}

// At blanks outside of quotes, as Ansible does, and of a list (name=[a, b]); nothing where a quote is not closed. All
// else stays as it is written: a backslash is a backslash.
std::optional<std::vector<std::string>> split_values(const std::string& given) {
  std::vector<std::string> words(1);
  char quote = '\0';
  int lists = 0;
  for (const char c : given) {
    if (quote == '\0' && c == '[' && (lists > 0 || ends_with(words.back(), "="))) ++lists;
    if (quote == '\0' && c == ']' && lists > 0) --lists;
    if (quote == '\0' && lists == 0 && (c == ' ' || c == '\t' || c == '\n')) {
      if (!words.back().empty()) words.emplace_back();
      continue;
    }
    if (quote == c) {
      quote = '\0';
    } else if (quote == '\0' && (c == '"' || c == '\'')) {
      quote = c;
    }
    words.back() += c;
  }
  if (quote != '\0') return std::nullopt;
  if (words.back().empty()) words.pop_back();
  return words;
}

// Quotes around the whole value belong to the command line, not to the value.
std::string without_quotes(const std::string& value) {
  const bool quoted = value.size() >= 2 && value.front() == value.back() && (value[0] == '"' || value[0] == '\'');
  return quoted ? value.substr(1, value.size() - 2) : value;
}

void from_words(const std::string& given, Value& into, std::vector<Error>& errors) {
  const auto words = split_values(given);
  if (!words) {
    errors.push_back(extra_error(given, "a quote in -e is not closed",
                                 "write such a value as JSON, or into a file and give -e @FILE"));
    return;
  }
  for (const std::string& word : *words) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0) {
      errors.push_back(extra_error(given, fmt::format("-e takes name=value, not '{}'", word),
                                   "a value with blanks takes quotes of its own: -e \"name='two words'\"; or a JSON "
                                   "object, or @FILE"));
    } else {
      into[word.substr(0, equals)] = without_quotes(word.substr(equals + 1));
    }
  }
}

}  // namespace

tl::expected<Value, std::vector<Error>> extra_variables(const std::vector<std::string>& given) {
  Value values = Value::object();
  std::vector<Error> errors;
  for (const std::string& one : given) {
    const std::string text(trim(one));
    if (starts_with(text, "@")) {
      from_file(text.substr(1), values, errors);
    } else if (starts_with(text, "{")) {
      const Value parsed = Value::parse(text, nullptr, false);
      if (parsed.is_object()) {
        merge(values, parsed);
      } else {
        errors.push_back(extra_error(text, "-e begins with { but is no JSON object", "check quotes and commas"));
      }
    } else {
      from_words(text, values, errors);
    }
  }
  if (!errors.empty()) return tl::unexpected(std::move(errors));
  return values;
}

}  // namespace millwright
