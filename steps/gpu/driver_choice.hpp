// Which driver a host gets, and why it cannot be another one.
//
// Pure functions; any thread.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "orchestrator/base/knowledge.hpp"
#include "steps/contract/change.hpp"
#include "steps/gpu/gpu_facts.hpp"

namespace millwright::gpu {

struct DriverWish {
  std::string method = "auto";  // debian, ubuntu, nvidia-repo
  std::string branch = "auto";  // "580"
  std::string module = "auto";  // open, proprietary
  bool hold = false;
};

// What apt and dkms of the node say.
struct DriverState {
  struct Package {
    std::string installed, candidate;  // versions; empty: none
  };
  std::map<std::string, Package> packages;
  std::map<std::string, std::string> family;  // installed packages of NVIDIA's driver -> version
  std::set<std::string> half_installed, held;
  std::map<std::string, bool> headers;                 // kernel -> whether a module can be built for it
  std::map<std::string, std::string> header_packages;  // kernel -> a package that apt can install
  bool nvidia_repo = false, run_file = false, key_enrolled = false, apt = true;
};

// POSIX sh that only reads; asks apt for every package that the data names.
Question driver_question(const Knowledge& knowledge);
DriverState parse_driver_state(const std::string& out);

struct DriverChoice {
  std::string method, branch, flavour, version;  // the version of the module's package that would be there
  std::string module_package;
  std::vector<std::string> packages;  // the module's first
  std::vector<std::string> kernels;   // that it has to be built for: the one that runs and the one that boots next
  std::vector<std::string> notes;
};

// Refusals come before anything is touched, each with the row of the data that says so.
Result<DriverChoice> choose_driver(const GpuFacts& facts, const DriverState& state, const DriverWish& wish,
                                   const Knowledge& knowledge);
Result<Change> plan_driver(const GpuFacts& facts, const DriverState& state, const DriverWish& wish,
                           const Knowledge& knowledge);

// "6.17.2-1-pve" is at or beyond "6.17".
bool kernel_at_least(const std::string& kernel, const std::string& floor);
// Upstream version of a package: "1:535.261.03-1~deb12u1" -> "535.261.03".
std::string driver_version_of(const std::string& package_version);

}  // namespace millwright::gpu
