#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "inventory/data.hpp"

namespace millwright {

const HostData* Inventory::Data::find_host(const std::string& name) const {
  const auto found = hosts.find(name);
  if (found != hosts.end()) return &found->second;
  return name == localhost.name ? &localhost : nullptr;
}

std::vector<std::string> Inventory::Data::parents_of(const std::string& group) const {
  std::vector<std::string> parents;
  for (const std::string& name : group_order) {
    const std::vector<std::string>& children = groups.at(name).children;
    if (std::find(children.begin(), children.end(), group) != children.end()) parents.push_back(name);
  }
  return parents;
}

std::vector<const GroupData*> Inventory::Data::groups_of(const std::string& host) const {
  std::set<std::string> names = {"all"};
  std::vector<std::string> open;
  for (const auto& [name, group] : groups) {
    if (std::find(group.hosts.begin(), group.hosts.end(), host) != group.hosts.end()) open.push_back(name);
  }
  while (!open.empty()) {
    const std::string name = open.back();
    open.pop_back();
    if (!names.insert(name).second) continue;
    for (const std::string& parent : parents_of(name)) open.push_back(parent);
  }
  std::vector<const GroupData*> found;
  for (const std::string& name : names) found.push_back(&groups.at(name));
  std::sort(found.begin(), found.end(), [](const GroupData* a, const GroupData* b) {
    return std::tie(a->depth, a->priority, a->name) < std::tie(b->depth, b->priority, b->name);
  });
  return found;
}

// Ansible's order: what the inventory itself says of groups, then group_vars/all, then the other group_vars/, then the
// host's own variables, then host_vars/.
// Source:
// https://docs.ansible.com/ansible/latest/playbook_guide/playbooks_variables.html#understanding-variable-precedence
std::vector<std::pair<const Definition*, std::string>> Inventory::Data::definitions(const std::string& host) const {
  std::vector<std::pair<const Definition*, std::string>> found;
  const std::vector<const GroupData*> mine = groups_of(host);
  for (const GroupData* group : mine) {
    for (const Definition& definition : group->vars)
      found.emplace_back(&definition, fmt::format("group {} (depth {})", group->name, group->depth));
  }
  for (const GroupData* group : mine) {
    for (const Definition& definition : group->file_vars) found.emplace_back(&definition, definition.file);
  }
  if (const HostData* data = find_host(host)) {
    for (const Definition& definition : data->vars)
      found.emplace_back(&definition, data->implicit ? definition.file : "host " + host);
    for (const Definition& definition : data->file_vars) found.emplace_back(&definition, definition.file);
  }
  return found;
}

std::map<std::string, std::pair<Value, const Definition*>> Inventory::Data::merged(const std::string& host) const {
  std::map<std::string, std::pair<Value, const Definition*>> values;
  for (const auto& [definition, label] : definitions(host)) values[definition->name] = {definition->value, definition};
  return values;
}

std::vector<std::string> Inventory::Data::hosts_in(const std::string& group) const {
  std::vector<std::string> found;
  std::set<std::string> seen_hosts;
  std::set<std::string> seen_groups = {group};
  std::vector<std::string> level = {group};
  while (!level.empty()) {
    std::vector<std::string> below;
    for (const std::string& name : level) {
      for (const std::string& host : groups.at(name).hosts) {
        if (seen_hosts.insert(host).second) found.push_back(host);
      }
      for (const std::string& child : groups.at(name).children) {
        if (seen_groups.insert(child).second) below.push_back(child);
      }
    }
    level = std::move(below);
  }
  return found;
}

Result<std::string> Inventory::Data::secret(const std::string& reference, const SourceMark& mark) const {
  const std::string key = mark.file + '\0' + reference;
  const Lock lock(secrets_mutex);
  if (const auto known = secrets.find(key); known != secrets.end()) return known->second;
  auto value = resolve_secret(reference, mark);
  if (value) secrets.emplace(key, *value);
  return value;
}

Result<Value> Inventory::Data::resolved(const Value& value, const SourceMark& mark) const {
  if (value.is_array()) {
    Value out = Value::array();
    for (const Value& item : value) {
      auto part = resolved(item, mark);
      if (!part) return part;
      out.push_back(std::move(*part));
    }
    return out;
  }
  if (!value.is_object()) return value;
  if (value.size() == 1 && value.contains(kSecretKey)) {
    const auto text = secret(value[kSecretKey].get<std::string>(), mark);
    if (!text) return fail(text.error());
    return Value(*text);
  }
  Value out = Value::object();
  for (const auto& [key, item] : value.items()) {
    auto part = resolved(item, mark);
    if (!part) return part;
    out[key] = std::move(*part);
  }
  return out;
}

std::vector<std::string> Inventory::hosts() const { return data_->host_order; }
std::vector<std::string> Inventory::groups() const { return data_->group_order; }
std::vector<std::string> Inventory::warnings() const { return data_->warnings; }

std::vector<std::string> Inventory::hosts_of(const std::string& group) const {
  return data_->groups.count(group) == 0 ? std::vector<std::string>() : data_->hosts_in(group);
}

std::vector<std::string> Inventory::children_of(const std::string& group) const {
  const auto found = data_->groups.find(group);
  return found == data_->groups.end() ? std::vector<std::string>() : found->second.children;
}

std::vector<std::string> Inventory::groups_of(const std::string& host) const {
  std::vector<std::string> names;
  for (const GroupData* group : data_->groups_of(host)) names.push_back(group->name);
  return names;
}

namespace {

Error unknown_host(const std::string& host) {
  return make_error(ErrorKind::invalid, fmt::format("there is no host '{}' in the inventory", host))
      .with_hint("millwright inventory --graph shows all hosts");
}

}  // namespace

Result<Value> Inventory::variables(const std::string& host) const {
  if (data_->find_host(host) == nullptr) return fail(unknown_host(host));
  Value out = Value::object();
  for (const auto& [name, entry] : data_->merged(host)) {
    auto value = data_->resolved(entry.first, entry.second->mark);
    if (!value) return fail(wrap(value.error(), fmt::format("reading variable '{}' of {}", name, host)));
    out[name] = std::move(*value);
  }
  return out;
}

std::set<std::string> Inventory::variable_names(const std::string& host) const {
  std::set<std::string> names;
  for (const auto& [definition, label] : data_->definitions(host)) names.insert(definition->name);
  return names;
}

std::vector<VariableSource> Inventory::explain(const std::string& host, const std::string& variable) const {
  std::vector<VariableSource> sources;
  for (const auto& [definition, label] : data_->definitions(host)) {
    if (definition->name == variable)
      sources.push_back({as_written(definition->value), label, definition->mark, false});
  }
  if (!sources.empty()) sources.back().wins = true;
  return sources;
}

}  // namespace millwright
