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
  std::string version;          // "580.105.08", "newest"; empty: what is installed, or else the newest
  bool hold = false;
  bool reload = true;  // load the module anew where another version is loaded
};

// What apt and dkms of the node say.
struct DriverState {
  struct Package {
    std::string installed, candidate;  // versions; empty: none
  };
  std::map<std::string, Package> packages;
  std::map<std::string, std::vector<std::string>> available;  // package -> versions that apt can have, newest first
  std::map<std::string, std::string> family;                  // installed packages of NVIDIA's driver -> version
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
  std::vector<std::string> packages;           // the module's first
  std::map<std::string, std::string> changes;  // installed packages that become another version -> which
  std::vector<std::string> kernels;  // that it has to be built for: the one that runs and the one that boots next
  std::vector<std::string> notes;
};

// Refusals come before anything is touched, each with the row of the data that says so.
Result<DriverChoice> choose_driver(const GpuFacts& facts, const DriverState& state, const DriverWish& wish,
                                   const Knowledge& knowledge);
Result<Change> plan_driver(const GpuFacts& facts, const DriverState& state, const DriverWish& wish,
                           const Knowledge& knowledge);
// The driver gone, whatever method installed it; refused while it runs a GPU.
Result<Change> plan_driver_removal(const GpuFacts& facts, const DriverState& state);

// Packages of the driver that are installed and have its version: not CUDA's toolkit, nor tools that count on their
// own.
std::map<std::string, std::string> driver_packages(const DriverState& state, const Knowledge& knowledge);

// The numbers at the beginnings, one after the other: "6.17.2-1-pve" is at or beyond "6.17".
bool version_at_least(const std::string& version, const std::string& floor);
// Upstream version of a package: "1:535.261.03-1~deb12u1" -> "535.261.03".
std::string driver_version_of(const std::string& package_version);

}  // namespace millwright::gpu
