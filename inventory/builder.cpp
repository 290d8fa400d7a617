#include "inventory/builder.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "inventory/connection_names.hpp"
#include "orchestrator/base/text.hpp"

namespace millwright {

InventoryBuilder::InventoryBuilder() {
  add_group("all", {});
  add_group("ungrouped", {});
  add_child("all", "ungrouped", {});
  data_.localhost.name = "localhost";
  data_.localhost.implicit = true;
  data_.localhost.vars.push_back({"ansible_connection", "local", {}, "implicit localhost", PlainNames::variables});
}

void InventoryBuilder::report(const SourceMark& mark, std::string message, std::string hint) {
  errors_.push_back(make_error(ErrorKind::invalid, std::move(message)).at(mark).with_hint(std::move(hint)));
}

void InventoryBuilder::add_group(const std::string& name, const SourceMark& mark) {
  const auto [entry, added] = data_.groups.try_emplace(name);
  if (!added) return;
  entry->second.name = name;
  entry->second.mark = mark;
  data_.group_order.push_back(name);
}

void InventoryBuilder::add_host(const std::string& name, const std::string& group, const SourceMark& mark) {
  const auto [entry, added] = data_.hosts.try_emplace(name);
  if (added) {
    entry->second.name = name;
    entry->second.mark = mark;
    data_.host_order.push_back(name);
  }
  std::vector<std::string>& members = data_.groups.at(group).hosts;
  if (std::find(members.begin(), members.end(), name) == members.end()) members.push_back(name);
}

void add_host(InventoryBuilder& builder, const HostMention& host, const SourceMark& mark) {
  const bool first = !builder.has_host(host.name);
  builder.add_host(host.name, host.group, mark);
  if (first && host.port)
    builder.set_host_variable(host.name, {"ansible_port", *host.port, mark, host.file, host.plain});
}

bool InventoryBuilder::is_ancestor(const std::string& ancestor, const std::string& group) const {
  const std::vector<std::string>& children = data_.groups.at(ancestor).children;
  return std::any_of(children.begin(), children.end(),
                     [&](const std::string& child) { return child == group || is_ancestor(child, group); });
}

void InventoryBuilder::add_child(const std::string& parent, const std::string& child, const SourceMark& mark) {
  if (parent == child || is_ancestor(child, parent)) {
    report(mark,
           fmt::format("group '{}' would contain itself: it is {} '{}'", parent,
                       parent == child ? "its own child" : "below", child),
           "take one of the two out of the other's children");
    return;
  }
  std::vector<std::string>& children = data_.groups.at(parent).children;
  if (std::find(children.begin(), children.end(), child) == children.end()) children.push_back(child);
}

void InventoryBuilder::check_name(const Definition& definition) {
  if (const auto meant = misspelt_connection_name(definition.name))
    report(definition.mark, fmt::format("unknown variable '{}'", definition.name),
           fmt::format("did you mean '{}'?", *meant));
  if (definition.plain != PlainNames::connection) return;
  if (const auto meant = misspelt_plain_name(definition.name))
    report(definition.mark, fmt::format("'{}' is no name of a connection", definition.name),
           fmt::format("did you mean '{}'? A variable of your own needs another name", *meant));
}

void InventoryBuilder::set_group_variable(const std::string& group, Definition definition) {
  check_name(definition);
  GroupData& data = data_.groups.at(group);
  if (definition.name != "ansible_group_priority") {
    data.vars.push_back(std::move(definition));
    return;
  }
  const std::string text = definition.value.is_string() ? definition.value.get<std::string>() : definition.value.dump();
  char* end = nullptr;
  const long priority = std::strtol(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || priority > 1'000'000'000 || priority < -1'000'000'000) {
    report(definition.mark,
           fmt::format("ansible_group_priority must be a whole number, not {}", definition.value.dump()));
    return;
  }
  data.priority = static_cast<int>(priority);
}

void InventoryBuilder::set_host_variable(const std::string& host, Definition definition) {
  check_name(definition);
  data_.hosts.at(host).vars.push_back(std::move(definition));
}

void InventoryBuilder::settle_ungrouped() {
  std::set<std::string> grouped;
  for (const auto& [name, group] : data_.groups) {
    if (name == "all" || name == "ungrouped") continue;
    grouped.insert(group.hosts.begin(), group.hosts.end());
  }
  std::vector<std::string>& loose = data_.groups.at("ungrouped").hosts;
  loose.erase(std::remove_if(loose.begin(), loose.end(), [&](const auto& host) { return grouped.count(host) != 0; }),
              loose.end());
  for (const std::string& host : data_.host_order) {
    if (grouped.count(host) == 0 && std::find(loose.begin(), loose.end(), host) == loose.end()) loose.push_back(host);
  }
}

void InventoryBuilder::settle_depths() {
  // The longest way from `all`; a group is raised again whenever one of its parents is.
  std::vector<std::string> raised = {"all"};
  while (!raised.empty()) {
    const GroupData parent = data_.groups.at(raised.back());
    raised.pop_back();
    for (const std::string& name : parent.children) {
      GroupData& child = data_.groups.at(name);
      if (child.depth >= parent.depth + 1) continue;
      child.depth = parent.depth + 1;
      raised.push_back(name);
    }
  }
}

std::shared_ptr<const Inventory::Data> InventoryBuilder::finish() {
  for (const std::string& name : data_.group_order) {
    if (name != "all" && data_.parents_of(name).empty()) add_child("all", name, data_.groups.at(name).mark);
    if (data_.hosts.count(name) != 0) warn(fmt::format("'{}' names both a group and a host", name));
  }
  settle_ungrouped();
  settle_depths();
  return std::make_shared<const Inventory::Data>(std::move(data_));
}

}  // namespace millwright
