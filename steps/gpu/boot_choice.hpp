// Which kernel boots next, and with which command line.
//
// Pure functions; any thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "steps/gpu/gpu_facts.hpp"

namespace millwright::gpu {

// What stands beside the menu entries.
struct BootHints {
  bool proxmox = false;                 // proxmox-boot-tool keeps the ESPs
  std::string pinned, pinned_once;      // by proxmox-boot-tool kernel pin [--next-boot]
  std::string saved_entry, next_entry;  // of GRUB's environment
  std::string loader_default;           // of systemd-boot's loader.conf
  std::map<std::string, std::map<std::string, std::string>> loader_entries;  // file -> linux, options
};

// Fills loader, next_kernel, next_command_line and next_reason, and the kernels of the entries. Where nothing says it
// for sure, next_kernel stays empty.
void choose_boot(HostFacts& host, const BootHints& hints, const std::vector<BootFile>& files);

// The value of a shell assignment in files such as /etc/default/grub, quotes taken off; later ones win.
std::string shell_variable(const std::string& content, const std::string& name);

}  // namespace millwright::gpu
