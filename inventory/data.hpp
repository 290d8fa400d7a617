// How a loaded inventory is kept. Internal to this folder: others use inventory.hpp.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "inventory/inventory.hpp"
#include "orchestrator/base/mutex.hpp"

namespace millwright {

// Tagged values travel as one-key objects until they are used.
inline constexpr const char* kSecretKey = "__millwright_secret";  // of `!secret REF`
inline constexpr const char* kVaultKey = "__ansible_vault";       // of `!vault`, named as ansible-inventory prints it

// Whether `host`, `port`, `user`... in a file mean the connection. Only where the file has millwright's own shape: in
// an inventory written for Ansible, `port: 8080` is the application's.
enum class PlainNames { variables, connection };

// One place that gives a variable a value.
struct Definition {
  std::string name;
  Value value;
  SourceMark mark;
  std::string file;  // as named in messages
  PlainNames plain = PlainNames::variables;
};

struct GroupData {
  std::string name;
  std::vector<std::string> children;  // direct, in the order of the files
  std::vector<std::string> hosts;     // direct, in the order of the files
  std::vector<Definition> vars;       // from the inventory itself; later ones win
  std::vector<Definition> file_vars;  // from group_vars/
  int priority = 1;                   // ansible_group_priority
  int depth = 0;                      // longest way from `all`
  SourceMark mark;
};

struct HostData {
  std::string name;
  std::vector<Definition> vars;
  std::vector<Definition> file_vars;  // from host_vars/
  SourceMark mark;
  bool implicit = false;  // localhost that no file names
};

struct Inventory::Data {
  std::vector<std::string> host_order;
  std::vector<std::string> group_order;
  std::map<std::string, HostData> hosts;
  std::map<std::string, GroupData> groups;
  HostData localhost;  // used when a pattern says localhost and no file does
  std::vector<std::string> warnings;

  const HostData* find_host(const std::string& name) const;
  std::vector<std::string> parents_of(const std::string& group) const;
  // Groups that a host is in, ancestors too, weakest first.
  std::vector<const GroupData*> groups_of(const std::string& host) const;
  // Every definition that reaches a host, weakest first, with the label that `explain` shows.
  std::vector<std::pair<const Definition*, std::string>> definitions(const std::string& host) const;
  // name -> value and the definition that decided it; secrets unresolved.
  std::map<std::string, std::pair<Value, const Definition*>> merged(const std::string& host) const;
  std::vector<std::string> hosts_in(const std::string& group) const;

  // Moved from the builder before anybody else sees it.
  Data() = default;
  Data(Data&& other) noexcept
      : host_order(std::move(other.host_order)),
        group_order(std::move(other.group_order)),
        hosts(std::move(other.hosts)),
        groups(std::move(other.groups)),
        localhost(std::move(other.localhost)),
        warnings(std::move(other.warnings)) {}

  // Resolved secrets, so that a command is asked once and not once a host.
  mutable Mutex secrets_mutex;
  mutable std::map<std::string, std::string> secrets MW_GUARDED_BY(secrets_mutex);
  Result<std::string> secret(const std::string& reference, const SourceMark& mark) const;
  // The value with every secret in it replaced by what it refers to.
  Result<Value> resolved(const Value& value, const SourceMark& mark) const;
};

// For showing: references to secrets as they are written, never resolved.
Value as_written(const Value& value);

}  // namespace millwright
