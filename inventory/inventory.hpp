// Hosts, groups and variables, from our YAML or from Ansible's YAML and INI as they are.
//
// Immutable after loading; may be read from any thread.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "orchestrator/base/error.hpp"
#include "orchestrator/base/value.hpp"
#include "orchestrator/transport/connection.hpp"

namespace millwright {

// One value that a host got for a variable, or lost to a stronger source.
struct VariableSource {
  Value value;
  std::string source;  // "group gpu (depth 1)", "host gpu1", "group_vars/all.yml"
  SourceMark mark;
  bool wins = false;
};

class Inventory {
 public:
  // A file, a directory (all inventory files in it; group_vars/ and host_vars/ beside them), or "host1,host2" /
  // "host1,". All mistakes at once, each with its place.
  static tl::expected<Inventory, std::vector<Error>> load(const std::string& source);
  // Several sources merge, the last one strongest. No sources: no hosts; "localhost" is this machine when a pattern
  // says so, here and where no source names it, and is not among "all", as in Ansible.
  static tl::expected<Inventory, std::vector<Error>> load_all(const std::vector<std::string>& sources);

  std::vector<std::string> hosts() const;  // in the order of the files
  std::vector<std::string> groups() const;
  std::vector<std::string> hosts_of(const std::string& group) const;     // children's included
  std::vector<std::string> children_of(const std::string& group) const;  // direct
  std::vector<std::string> groups_of(const std::string& host) const;     // all, "all" first, by depth then name
  // "gpu*", "web:db", "a:&b", "a:!c", "~regex", "web[0]", "web[1:3]", "all", comma or colon separated. Matching no
  // host at all is an error with a suggestion; so is an unknown plain name.
  Result<std::vector<std::string>> match(const std::string& pattern) const;

  // Merged, weakest first: all, groups by depth (then name, or ansible_group_priority), host. Secrets are resolved here
  // and registered with the redactor.
  Result<Value> variables(const std::string& host) const;
  // Names only, secrets left alone; empty for an unknown host.
  std::set<std::string> variable_names(const std::string& host) const;
  std::vector<VariableSource> explain(const std::string& host, const std::string& variable) const;
  // From ansible_* (and our own plain names host, port, user, identity_file, become...) variables.
  Result<Target> target(const std::string& host) const;

  // What was read but may not be meant: an encrypted file that was skipped, a group and a host of one name.
  std::vector<std::string> warnings() const;

  Value to_json() const;        // as `ansible-inventory --list`
  std::string to_tree() const;  // as `ansible-inventory --graph`

  struct Data;  // internal to inventory/

 private:
  std::shared_ptr<const Data> data_;
};

// Resolves "env:NAME", "file:PATH", "command:CMD" references of !secret; registers the value with the redactor.
Result<std::string> resolve_secret(const std::string& reference, const SourceMark& mark);

}  // namespace millwright
