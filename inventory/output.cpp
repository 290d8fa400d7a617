#include <fmt/format.h>

#include <set>

#include "inventory/data.hpp"

namespace millwright {
Value as_written(const Value& value) {
  if (value.is_array()) {
    Value out = Value::array();
    for (const Value& item : value) out.push_back(as_written(item));
    return out;
  }
  if (!value.is_object()) return value;
  if (value.size() == 1 && value.contains(kSecretKey)) return "!secret " + value[kSecretKey].get<std::string>();
  Value out = Value::object();
  for (const auto& [key, item] : value.items()) out[key] = as_written(item);
  return out;
}

namespace {

void list_group(const Inventory::Data& data, const std::string& name, std::set<std::string>& seen, Value& out) {
  const GroupData& group = data.groups.at(name);
  Value entry = Value::object();
  if (name != "all" && !group.hosts.empty()) entry["hosts"] = group.hosts;
  if (!group.children.empty()) entry["children"] = group.children;
  if (!entry.empty()) out[name] = std::move(entry);
  for (const std::string& child : group.children) {
    if (seen.insert(child).second) list_group(data, child, seen, out);
  }
}

void draw_group(const Inventory::Data& data, const std::string& name, int depth, std::string& out) {
  const auto line = [&](const std::string& text, int at) {
    for (int i = 0; i < at; ++i) out += "  |";
    out += at == 0 ? text + "\n" : "--" + text + "\n";
  };
  line("@" + name + ":", depth);
  const GroupData& group = data.groups.at(name);
  for (const std::string& child : group.children) draw_group(data, child, depth + 1, out);
  if (name == "all") return;
  for (const std::string& host : group.hosts) line(host, depth + 1);
}

}  // namespace

Value Inventory::to_json() const {
  Value out = Value::object();
  std::set<std::string> seen = {"all"};
  list_group(*data_, "all", seen, out);
  Value variables = Value::object();
  for (const std::string& host : data_->host_order) {
    Value mine = Value::object();
    for (const auto& [name, entry] : data_->merged(host)) mine[name] = as_written(entry.first);
    if (!mine.empty()) variables[host] = std::move(mine);
  }
  out["_meta"]["hostvars"] = std::move(variables);
  return out;
}

std::string Inventory::to_tree() const {
  std::string out;
  draw_group(*data_, "all", 0, out);
  return out;
}

}  // namespace millwright
