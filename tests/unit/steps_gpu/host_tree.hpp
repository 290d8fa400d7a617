// The file systems of a host, laid out below a temporary folder: what facts_script reads when its root is set there.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "steps/gpu/facts_script.hpp"
#include "steps/gpu/gpu_facts.hpp"

namespace millwright::testing_tools {

struct FunctionFiles {
  std::string address = "0000:01:00.0";
  std::string class_code = "0x030000";
  std::string vendor = "0x10de";
  std::string device = "0x2230";
  std::string driver{};  // empty: not bound
  int group = 17;        // negative: no IOMMU
  std::string override_text = "(null)";
  std::string power_state = "D0";
};

class HostTree {
 public:
  HostTree();
  ~HostTree();
  HostTree(const HostTree&) = delete;
  HostTree& operator=(const HostTree&) = delete;

  const std::filesystem::path& root() const { return root_; }
  void write(const std::string& path, const std::string& content, int mode = 0644) const;  // path as on the host
  void link(const std::string& path, const std::string& target) const;
  std::string read(const std::string& path) const;
  void add(const FunctionFiles& function) const;
  // An A6000 with its audio function: two functions, one group.
  void add_a6000(const std::string& slot, int group, const std::string& driver, const std::string& audio) const;
  // A process with an open file, as /proc shows it.
  void add_process(int pid, const std::string& command, const std::string& device, const std::string& cgroup = "0::/",
                   const std::vector<std::string>& arguments = {}) const;

  std::string answer(gpu::FactsQuery query = {}) const;   // what facts_script prints for it
  gpu::GpuFacts facts(gpu::FactsQuery query = {}) const;  // parsed, with the shipped data

 private:
  std::filesystem::path root_;
};

const Knowledge& shipped_knowledge();

}  // namespace millwright::testing_tools
