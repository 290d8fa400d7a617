// Collects what the sources say, finds every mistake, and makes the finished Inventory::Data. Internal to this folder.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "inventory/data.hpp"

namespace millwright {

class InventoryBuilder {
 public:
  InventoryBuilder();

  void add_group(const std::string& name, const SourceMark& mark);
  bool has_host(const std::string& name) const { return data_.hosts.count(name) != 0; }
  bool has_group(const std::string& name) const { return data_.groups.count(name) != 0; }
  std::vector<std::string> group_names() const { return data_.group_order; }
  // The group must exist.
  void add_host(const std::string& name, const std::string& group, const SourceMark& mark);
  // Both must exist; a loop is an error at `mark`.
  void add_child(const std::string& parent, const std::string& child, const SourceMark& mark);
  void set_group_variable(const std::string& group, Definition definition);
  void set_host_variable(const std::string& host, Definition definition);
  void report(Error error) { errors_.push_back(std::move(error)); }
  void report(const SourceMark& mark, std::string message, std::string hint = {});
  void warn(std::string text) { data_.warnings.push_back(std::move(text)); }
  bool failed() const { return !errors_.empty(); }

  // group_vars/ and host_vars/ of `folder`, for all groups and hosts known by now.
  void read_vars_folders(const std::filesystem::path& folder, PlainNames plain);

  std::vector<Error> errors() && { return std::move(errors_); }
  // Joins what is loose to `all` and `ungrouped`, computes depths.
  std::shared_ptr<const Inventory::Data> finish();

 private:
  void check_name(const Definition& definition);
  void read_vars_of(const std::filesystem::path& folder, const std::string& name, PlainNames plain,
                    std::vector<Definition>& into);
  void read_vars_file(const std::filesystem::path& file, const std::string& shown, PlainNames plain,
                      std::vector<Definition>& into);
  bool is_ancestor(const std::string& ancestor, const std::string& group) const;
  void settle_ungrouped();
  void settle_depths();

  Inventory::Data data_;
  std::vector<Error> errors_;
};

struct HostMention {
  std::string name;
  std::string group;
  std::optional<int> port;  // written behind the name
  std::string file;
  PlainNames plain = PlainNames::variables;
};
// The port counts where the host is first named, as in Ansible; later ones are ignored there, too.
void add_host(InventoryBuilder& builder, const HostMention& host, const SourceMark& mark);

// One source each; mistakes go to the builder.
void read_yaml_source(const std::string& path, InventoryBuilder& builder, PlainNames& plain);
void read_ini_source(const std::string& path, const std::string& text, InventoryBuilder& builder);
void read_host_list(const std::string& list, InventoryBuilder& builder);

}  // namespace millwright
