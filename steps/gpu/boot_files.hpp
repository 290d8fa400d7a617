// What happens to GPUs at the next boot, by the files that say so, and how those have to change.
//
// Pure functions; any thread.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "steps/gpu/gpu_facts.hpp"

namespace millwright::gpu {

// Files of our own; everything else is edited line by line.
inline constexpr const char* kOwnModprobe = "/etc/modprobe.d/millwright-gpu.conf";
inline constexpr const char* kOwnRules = "/etc/udev/rules.d/39-millwright-gpu.rules";
inline constexpr const char* kOwnModules = "/etc/modules-load.d/millwright-gpu.conf";
inline constexpr const char* kOwnHook = "/etc/initramfs-tools/hooks/millwright-gpu";

// What the files say, all of them taken together.
struct BootPicture {
  std::set<std::string> vfio_ids;                      // "10de:2230": options vfio-pci ids= and vfio-pci.ids=
  std::set<std::string> vfio_addresses;                // by driverctl or a rule of ours
  std::map<std::string, std::string> other_overrides;  // driverctl: address -> a driver that is not vfio's
  std::set<std::string> blacklisted, blocked;          // modules: blacklist X, install X /bin/false
  bool vfio_early = false;  // something loads vfio-pci before or beside the drivers that would take the GPU
  // Lines that nobody but a person can judge: a script or rule that writes overrides.
  std::vector<std::string> unclear;
};
BootPicture read_boot_files(const GpuFacts& facts);

// A file that has to change. `after` without a value: it goes away; `before` without one: it is new.
struct FileEdit {
  std::string path;
  std::optional<std::string> before, after;
};

struct BootWish {
  std::string driver;                // "vfio-pci", or the host driver
  std::vector<std::string> devices;  // addresses of all functions that go there
};

struct BootPlan {
  std::vector<FileEdit> edits;
  bool initramfs = false;               // has to be made again
  bool menu = false;                    // GRUB's menu, or what proxmox-boot-tool keeps
  std::vector<std::string> impossible;  // why it cannot be done by files that may be edited
  std::vector<std::string> notes;       // what a person should look at

  bool empty() const { return edits.empty() && !initramfs && !menu; }
};
BootPlan plan_boot_files(const GpuFacts& facts, const BootWish& wish);

// "- old" and "+ new" lines for plan's diff.
std::string edits_diff(const std::vector<FileEdit>& edits);

}  // namespace millwright::gpu
