// What is known about the GPUs of a host: typed, from the answer to facts_script.
//
// Plain values; pure functions; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/base/error.hpp"
#include "orchestrator/base/knowledge.hpp"
#include "orchestrator/base/value.hpp"
#include "steps/gpu/vm_claims.hpp"

namespace millwright::gpu {

// One function of a PCI device, as sysfs has it. Texts are empty where the kernel says nothing.
struct PciFunction {
  std::string address;  // "0000:01:00.0"; the domain may have five digits
  std::uint32_t class_code = 0;
  std::uint16_t vendor = 0, device = 0, subsystem_vendor = 0, subsystem_device = 0;
  std::string driver;                // bound now; empty: none
  std::string driver_override;       // empty: none
  bool override_unreadable = false;  // the kernel keeps the device's lock: an unbind has not ended
  std::optional<int> iommu_group;    // nothing: the IOMMU is off
  std::string physical_function;     // address; only for virtual functions (SR-IOV)
  std::optional<bool> boot_vga;
  std::string reset_method;
  int virtual_functions = 0, virtual_functions_possible = 0;
  std::optional<bool> d3cold_allowed;
  std::string power_control, power_state;
  bool off_the_bus = false;        // its configuration space reads as ff
  std::vector<std::string> nodes;  // device files that its driver made: "/dev/dri/card0"

  bool is_display() const { return class_code >> 16U == 0x03; }
  bool is_bridge() const { return class_code >> 16U == 0x06; }
  bool is_nvidia() const { return vendor == 0x10de; }
  bool on_vfio() const;
  std::string slot() const;  // address without the function
  std::string id() const;    // "10de:2230"
};

// What data knows of a device id. Empty texts: not in the data.
struct GpuProduct {
  std::string name, architecture, source;
  double compute_capability = 0;
};

// A display or 3D controller with the other functions of its board.
struct Gpu {
  std::string address;
  int index = -1;                      // in the order of addresses, among those of its vendor: nvidia-smi's own order
  std::vector<std::string> functions;  // addresses, its own first
  std::vector<std::string> peers;      // endpoints of the same IOMMU groups that are not its own functions
  GpuProduct product;
  std::string uuid, model;   // where nvidia has it
  std::optional<int> minor;  // N of /dev/nvidiaN, which is not the index
  std::optional<std::uint64_t> memory_mib;
  std::string smi_driver_version, persistence_mode;
};

enum class HolderKind { process, virtual_machine, container, service };
std::string_view to_string(HolderKind kind);

// Who has a device file open or mapped.
struct Holder {
  HolderKind kind = HolderKind::process;
  int pid = 0;
  std::string command;  // its comm
  std::string id;       // of the virtual machine or container, or the unit
  std::string name;     // of the virtual machine
  std::vector<std::string> devices;

  std::string text() const;  // "VM 101 (win11), kvm, process 4711"
};

struct KernelModule {
  bool used = false;       // its reference count is not zero
  std::string references;  // "3"; "used" where counts were not asked for
  std::string version;
  std::vector<std::string> holders;  // modules
};

// A driver on disk, for one kernel.
struct DriverOnDisk {
  std::string driver, kernel, version, license, file;
};

struct BootEntry {
  std::string index, title, id;  // "1>2", with GRUB; file name as id with systemd-boot
  std::string kernel, command_line;
};

struct BootFile {
  std::string path;
  std::string content;
};

struct HostFacts {
  std::string hostname, kernel, command_line, os_id, os_version, os_codename;
  bool root = false;  // asked as root: without it holders of others cannot be seen
  bool efi = false;
  bool reboot_required = false;  // /run/reboot-required is there
  std::optional<bool> secure_boot;
  std::string loader;  // "grub", "systemd-boot", "proxmox-boot-tool", or empty
  std::string loader_info;
  std::string next_kernel;        // what boots next; empty: not to be told
  std::string next_command_line;  // as the boot loader's own file has it
  std::string next_reason;        // "pinned", "first menu entry" ...
  std::vector<std::string> kernels;
  std::vector<BootEntry> entries;
  std::map<std::string, std::string>
      initramfs_newer;  // by kernel: a file that is newer than the initramfs; empty: none
  std::vector<std::string> tools;
  bool has_tool(std::string_view name) const;
};

struct GpuFacts {
  HostFacts host;
  std::map<std::string, PciFunction> functions;  // of GPUs and of what shares their IOMMU groups, by address
  std::vector<Gpu> gpus;
  std::map<std::string, KernelModule> modules;
  std::vector<DriverOnDisk> on_disk;
  std::string nvidia_version;  // of the module that is loaded
  std::vector<Holder> holders;
  VmClaims claims;
  std::vector<std::string> container_claims;  // "/etc/pve/lxc/104.conf: dev0: /dev/nvidia0"
  std::vector<BootFile> boot_files;
  std::vector<std::string> console;          // /proc/fb: "0 simpledrmdrmfb"
  std::vector<std::string> console_on;       // addresses of which the boot console owns memory
  std::map<std::string, std::string> stuck;  // address -> driver: an unbind that did not end since the last boot
  bool device_lock_held = false;
  std::optional<int> smi_status;  // exit status of nvidia-smi; nothing: not run
  bool smi_late = false;          // it did not answer
  std::string smi_error;

  const Gpu* find_gpu(std::string_view address) const;
  const PciFunction& function(const std::string& address) const;  // throws std::out_of_range
  const DriverOnDisk* driver_on_disk(std::string_view driver, std::string_view kernel) const;
};

// The answer to facts_script. An error (invalid) when it is cut off or not one.
Result<GpuFacts> parse_gpu_facts(const std::string& out, const Knowledge& knowledge);

// By PCI device id, from knowledge/gpu.yml.
GpuProduct product_of(const Knowledge& knowledge, std::uint16_t vendor, std::uint16_t device);

Value to_json(const GpuFacts& facts);
// A readable table with what stands out below it; lines of at most about 100 columns.
std::string to_table(const GpuFacts& facts);

// /proc/driver/nvidia/version's first line: "580.105.08"; empty when it has none.
std::string nvidia_version_of(std::string_view line);

}  // namespace millwright::gpu
