#include <fmt/format.h>

#include <algorithm>

#include "inventory/builder.hpp"
#include "inventory/host_range.hpp"
#include "inventory/yaml_values.hpp"
#include "orchestrator/base/text.hpp"
#include "orchestrator/base/yaml.hpp"

namespace millwright {
namespace {

const std::vector<std::string> kSections = {"hosts", "vars", "children"};
const std::vector<std::string> kTopLevel = {"hosts", "vars", "groups"};

class YamlReader {
 public:
  YamlReader(std::string path, InventoryBuilder& builder) : path_(std::move(path)), builder_(builder) {}

  PlainNames read(const YamlNode& document) {
    if (document.kind != YamlKind::mapping) {
      builder_.report(document.mark, "an inventory is a mapping of groups",
                      "for example:  all: {hosts: {gpu1: {ansible_host: 10.0.0.1}}}");
      return plain_;
    }
    if (const YamlNode* plugin = document.find("plugin")) {
      builder_.report(plugin->mark, "this configures an inventory plugin of Ansible's, which cannot run here",
                      "run: ansible-inventory -i FILE --list --yaml > hosts.yml, and use that");
      return plain_;
    }
    if (is_own_shape(document) || misspelt_shape(document)) {
      plain_ = PlainNames::connection;
      own_shape(document);
    } else {
      for (const auto& [key, value] : document.entries) group(key, value);
    }
    return plain_;
  }

 private:
  // millwright's own: hosts, groups and vars at the top. In Ansible's shape the top level names groups.
  static bool is_own_shape(const YamlNode& document) {
    for (const std::string& key : kTopLevel) {
      if (document.find(key) != nullptr) return true;
    }
    return false;
  }

  // hots: {gpu1: {...}} alone: what is in it are hosts, no parts of a group, and the name is near one of ours.
  static bool misspelt_shape(const YamlNode& document) {
    return std::any_of(document.entries.begin(), document.entries.end(), [](const YamlEntry& entry) {
      const YamlNode& content = entry.second;
      const bool group = std::any_of(kSections.begin(), kSections.end(),
                                     [&](const std::string& section) { return content.find(section) != nullptr; });
      const bool empty = content.entries.empty() && content.items.empty();
      return !group && !empty && nearest(entry.first.text, kTopLevel).has_value();
    });
  }

  void own_shape(const YamlNode& document) {
    for (const auto& [key, value] : document.entries) {
      if (key.text == "hosts") {
        hosts("all", value);
      } else if (key.text == "vars") {
        group_vars("all", value);
      } else if (key.text == "groups") {
        children("all", value, "groups");
      } else {
        unknown(key, kTopLevel, "an inventory with hosts, vars or groups at the top");
      }
    }
  }

  void unknown(const YamlNode& key, const std::vector<std::string>& known, const std::string& where) {
    const auto near = nearest(key.text, known);
    builder_.report(key.mark, fmt::format("unknown key '{}' in {}", key.text, where),
                    near ? fmt::format("did you mean '{}'?", *near) : fmt::format("known are {}", join(known, ", ")));
  }

  bool good_name(const YamlNode& key, std::string_view what) {
    if (key.text.empty()) {
      builder_.report(key.mark, fmt::format("a {} needs a name", what));
      return false;
    }
    if (key.quoted || yaml11_scalar(key.text).is_string()) return true;
    builder_.report(key.mark, fmt::format("the {} name {} is no string", what, key.text), "put it in quotes");
    return false;
  }

  void group(const YamlNode& key, const YamlNode& value) {
    if (!good_name(key, "group")) return;
    builder_.add_group(key.text, key.mark);
    if (value.kind == YamlKind::null) return;
    if (value.kind == YamlKind::sequence && plain_ == PlainNames::connection) {  // gpu: [gpu1, gpu2]
      hosts(key.text, value);
      return;
    }
    if (value.kind != YamlKind::mapping) {
      builder_.report(value.mark, fmt::format("group '{}' must be a mapping", key.text),
                      "with hosts, vars or children in it");
      return;
    }
    for (const auto& [section, content] : value.entries) {
      if (section.text == "hosts") {
        hosts(key.text, content);
      } else if (section.text == "vars") {
        group_vars(key.text, content);
      } else if (section.text == "children") {
        children(key.text, content, "children");
      } else {
        unknown(section, kSections, fmt::format("group '{}'", key.text));
      }
    }
  }

  // A mapping, a list of names, or one name: the two latter as if each had nothing below it.
  template <class Each>
  void each_entry(const YamlNode& node, const std::string& what, const Each& each) {
    const YamlNode nothing;
    if (node.kind == YamlKind::null) return;
    if (node.kind == YamlKind::scalar) {
      each(node, nothing);
    } else if (node.kind == YamlKind::mapping) {
      for (const auto& [key, value] : node.entries) each(key, value);
    } else {
      for (const YamlNode& item : node.items) {
        if (item.kind == YamlKind::scalar) {
          each(item, nothing);
        } else {
          builder_.report(item.mark, fmt::format("'{}' as a list holds names only", what),
                          "write a mapping to give variables:  name: {...}");
        }
      }
    }
  }

  void children(const std::string& parent, const YamlNode& node, const std::string& what) {
    each_entry(node, what, [&](const YamlNode& key, const YamlNode& value) {
      group(key, value);
      if (builder_.has_group(key.text)) builder_.add_child(parent, key.text, key.mark);
    });
  }

  void hosts(const std::string& in_group, const YamlNode& node) {
    each_entry(node, "hosts", [&](const YamlNode& key, const YamlNode& value) { host(in_group, key, value); });
  }

  void host(const std::string& in_group, const YamlNode& key, const YamlNode& value) {
    if (!good_name(key, "host")) return;
    const auto entry = parse_host_entry(key.text);
    if (!entry) {
      Error error = entry.error();
      builder_.report(std::move(error).at(key.mark));
      return;
    }
    if (value.kind != YamlKind::null && value.kind != YamlKind::mapping) {
      builder_.report(value.mark, fmt::format("the variables of host '{}' must be a mapping", key.text),
                      fmt::format("for example:  {}: {{ansible_host: 10.0.0.1}}", key.text));
    }
    const std::vector<Definition> definitions = variables(value);
    for (const std::string& name : entry->names) {
      add_host(builder_, {name, in_group, entry->port, path_, plain_}, key.mark);
      for (const Definition& definition : definitions) builder_.set_host_variable(name, definition);
    }
  }

  void group_vars(const std::string& name, const YamlNode& node) {
    if (node.kind != YamlKind::null && node.kind != YamlKind::mapping) {
      builder_.report(node.mark, fmt::format("the vars of group '{}' must be a mapping", name),
                      "with a key for each variable");
      return;
    }
    for (const Definition& definition : variables(node)) builder_.set_group_variable(name, definition);
  }

  std::vector<Definition> variables(const YamlNode& node) {
    std::vector<Definition> definitions;
    std::vector<Error> errors;
    for (const auto& [key, value] : node.entries)
      definitions.push_back({key.text, ansible_value(value, errors), value.mark, path_, plain_});
    for (Error& error : errors) builder_.report(std::move(error));
    return definitions;
  }

  std::string path_;
  InventoryBuilder& builder_;
  PlainNames plain_ = PlainNames::variables;
};

}  // namespace

void read_yaml_source(const std::string& path, InventoryBuilder& builder, PlainNames& plain) {
  const auto document = load_yaml(path);
  if (!document) {
    for (const Error& error : document.error()) builder.report(error);
    return;
  }
  if (YamlReader(path, builder).read(*document) == PlainNames::connection) plain = PlainNames::connection;
}

}  // namespace millwright
