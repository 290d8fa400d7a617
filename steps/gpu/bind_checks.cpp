#include "steps/gpu/bind_checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "orchestrator/base/text.hpp"

namespace millwright::gpu {

namespace {

Failure refuse(std::string message, std::string hint) {
  return fail(make_error(ErrorKind::refused, std::move(message)).with_hint(std::move(hint)));
}

bool contains(const std::vector<std::string>& list, const std::string& one) {
  return std::find(list.begin(), list.end(), one) != list.end();
}

bool leaves_nvidia(const std::vector<Move>& moves) {
  return std::any_of(moves.begin(), moves.end(), [](const Move& move) { return move.from == "nvidia"; });
}

}  // namespace

bool is_vfio_name(std::string_view driver) { return driver == "vfio-pci" || ends_with(driver, "-vfio-pci"); }

std::string wanted_driver(const PciFunction& function, const BindWish& wish) {
  if (wish.driver == kNone || is_vfio_name(wish.driver)) return wish.driver;
  return function.is_display() ? wish.driver : kAnyHostDriver;
}

bool is_as_wanted(const PciFunction& function, const std::string& wanted) {
  if (wanted == kNone) return function.driver.empty();
  if (wanted == kAnyHostDriver) return !function.on_vfio();
  return function.driver == wanted;
}

std::vector<const Holder*> holders_of(const GpuFacts& facts, const std::vector<Move>& moves) {
  std::set<std::string> nodes;
  for (const Move& move : moves) {
    if (move.from == kNone) continue;
    const PciFunction& function = facts.function(move.address);
    nodes.insert(function.nodes.begin(), function.nodes.end());
    if (function.on_vfio() && function.iommu_group) nodes.insert(fmt::format("/dev/vfio/{}", *function.iommu_group));
    if (function.on_vfio() && function.iommu_group) {
      nodes.insert(fmt::format("/dev/vfio/noiommu-{}", *function.iommu_group));
    }
  }
  const bool nvidia = leaves_nvidia(moves);
  std::vector<const Holder*> out;
  for (const Holder& holder : facts.holders) {
    if (holder.id == "nvidia-persistenced.service" || starts_with(holder.command, "nvidia-persiste")) continue;
    const bool holds = std::any_of(holder.devices.begin(), holder.devices.end(), [&](const std::string& device) {
      return nodes.count(device) != 0 || (nvidia && starts_with(device, "/dev/nvidia"));
    });
    if (holds) out.push_back(&holder);
  }
  return out;
}

Result<void> check_devices(const GpuFacts& facts, const BindPicture& picture, const BindWish& wish) {
  for (const std::string& address : picture.functions) {
    const PciFunction& f = facts.function(address);
    if (f.virtual_functions > 0) {
      return refuse(
          fmt::format("{} has {} virtual functions in use (SR-IOV)", address, f.virtual_functions),
          fmt::format("they would disappear with it; echo 0 > /sys/bus/pci/devices/{}/sriov_numvfs when nobody "
                      "needs them",
                      address));
    }
    if (f.off_the_bus && f.power_state != "D3cold") {
      return refuse(address + " does not answer on the bus any more",
                    "only a power cycle brings it back; look for 'fallen off the bus' in dmesg");
    }
    if (is_vfio_name(wish.driver) && !f.iommu_group) {
      return refuse(
          address + " is in no IOMMU group, so vfio-pci cannot be used: the IOMMU is off",
          "turn it on in the firmware (VT-d, AMD-Vi) and, for Intel, with intel_iommu=on on the kernel command "
          "line, then reboot");
    }
  }
  return {};
}

Result<void> check_holders(const GpuFacts& facts, const BindPicture& picture) {
  // Elsewhere in use is no matter where a reboot does it all; of vfio it is, since the machine would be cut off then.
  const auto holders = holders_of(facts, picture.moves);
  if (holders.empty()) return {};
  std::vector<std::string> who;
  for (const Holder* holder : holders)
    who.push_back(fmt::format("{} has {}", holder->text(), join(holder->devices, ", ")));
  std::string hint = "end it, or have it give the GPU back, and run this again";
  const Holder& first = *holders.front();
  if (first.kind == HolderKind::virtual_machine) {
    const bool domain = first.id.empty() && facts.claims.machines.count(first.name) != 0;
    if (domain || !first.id.empty()) hint = facts.claims.to_end(domain ? first.name : first.id) + " ends it";
  }
  if (first.kind == HolderKind::service) hint = "systemctl stop " + first.id + " ends it";
  return refuse("in use: " + join(who, "; "), hint);
}

Result<void> check_claims(const GpuFacts& facts, BindPicture& picture, const BindWish& wish) {
  if (is_vfio_name(wish.driver)) return {};
  std::set<std::string> told;
  for (const std::string& address : picture.functions) {
    const auto reserved = facts.claims.reserved.find(address);
    if (reserved != facts.claims.reserved.end() && facts.function(address).on_vfio()) {
      return refuse(
          fmt::format("{} is in use by {}, by Proxmox's own list", address, facts.claims.title(reserved->second)),
          facts.claims.to_end(reserved->second) + " ends it");
    }
    for (const VmClaim& claim : facts.claims.on(address)) {
      const auto vm = facts.claims.machines.find(claim.vm);
      if (vm == facts.claims.machines.end() || vm->second.is_template) continue;
      const std::string how = claim.mapping.empty() ? claim.key : claim.key + ", mapping " + claim.mapping;
      const std::string what = fmt::format("{} is configured with {} ({})", facts.claims.title(claim.vm), address, how);
      if (vm->second.running && facts.function(address).on_vfio()) {
        return refuse(what + ", and runs", fmt::format("{} ends it; {} takes it out for good",
                                                       facts.claims.to_end(claim.vm), facts.claims.to_take_out(claim)));
      }
      if (vm->second.starts_at_boot) {
        return refuse(what + ", and takes it back when it starts with the host",
                      fmt::format("{} takes it out; {} leaves it in for a start by hand",
                                  facts.claims.to_take_out(claim), facts.claims.to_start_by_hand(claim.vm)));
      }
      if (told.insert(claim.vm + claim.key).second) {
        picture.notes.push_back(what + ": starting it takes the GPU back");
      }
    }
  }
  return {};
}

Result<void> check_groups(const GpuFacts& facts, const BindPicture& picture, const BindWish& wish) {
  if (wish.driver == kNone) return {};
  for (const Gpu* gpu : picture.gpus) {
    for (const std::string& peer : gpu->peers) {
      if (contains(picture.functions, peer)) continue;
      const PciFunction& f = facts.function(peer);
      const std::string shares = fmt::format("{} shares IOMMU group {} with {} ({})", gpu->address,
                                             facts.function(gpu->address).iommu_group.value_or(-1), peer, f.id());
      if (is_vfio_name(wish.driver)) {
        if (f.driver.empty() || f.on_vfio()) continue;
        return refuse(fmt::format("{}, which {} runs: no VM could use the group", shares, f.driver),
                      "select both, or move one of the boards to another slot");
      }
      if (!f.on_vfio()) continue;
      const auto claims = facts.claims.on(peer);
      const std::string who =
          claims.empty() ? "vfio-pci has it for a VM" : facts.claims.title(claims.front().vm) + " needs it";
      return refuse(fmt::format("{}, and {}: it could not be used any more", shares, who),
                    "select both, or move one of the boards to another slot");
    }
  }
  return {};
}

Result<void> check_driver(const GpuFacts& facts, BindPicture& picture, const BindWish& wish) {
  if (wish.driver == kNone || picture.moves.empty()) return {};
  std::string module = wish.driver;
  std::replace(module.begin(), module.end(), '-', '_');
  if (facts.driver_on_disk(wish.driver, facts.host.kernel) == nullptr && facts.modules.count(module) == 0) {
    return refuse(fmt::format("there is no driver {} for the kernel that runs ({})", wish.driver, facts.host.kernel),
                  wish.driver == "nvidia"
                      ? "install it first: gpu.driver, or the packages of the distribution with the "
                        "kernel's headers"
                      : "modinfo " + wish.driver + " has to find it");
  }
  const std::string& next = facts.host.next_kernel;
  if (wish.persist == Persist::yes && !next.empty() && next != facts.host.kernel &&
      facts.driver_on_disk(wish.driver, next) == nullptr) {
    return refuse(
        fmt::format("the kernel that boots next ({}, {}) has no driver {}", next, facts.host.next_reason, wish.driver),
        "build it for that kernel too (its headers, dkms autoinstall -k " + next + "), or pin the one that runs");
  }
  const DriverOnDisk* disk = facts.driver_on_disk("nvidia", facts.host.kernel);
  if (wish.driver == "nvidia" && disk != nullptr && !facts.nvidia_version.empty() && !disk->version.empty() &&
      disk->version != facts.nvidia_version) {
    picture.notes.push_back(fmt::format("nvidia {} is loaded, {} is on disk: it was changed without being loaded again",
                                        facts.nvidia_version, disk->version));
  }
  return {};
}

std::string reboot_reason(const GpuFacts& facts, const BindPicture& picture) {
  for (const std::string& address : picture.functions) {
    if (facts.stuck.count(address) != 0)
      return fmt::format("{} could not leave its driver while the host runs", address);
    if (facts.function(address).override_unreadable) {
      return fmt::format("the kernel keeps the lock of {}: an unbind has not ended", address);
    }
  }
  for (const Move& move : picture.moves) {
    const PciFunction& f = facts.function(move.address);
    if (move.from == kNone || f.on_vfio()) continue;
    const bool console = contains(facts.console_on, move.address) || (f.boot_vga == true && !facts.console.empty());
    if (console) return fmt::format("the boot console uses {}", move.address);
  }
  return {};
}

}  // namespace millwright::gpu
