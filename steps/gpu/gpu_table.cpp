#include <fmt/format.h>

#include <algorithm>

#include "orchestrator/base/text.hpp"
#include "steps/gpu/gpu_facts.hpp"

namespace millwright::gpu {

namespace {

std::string group_of(const PciFunction& f) { return f.iommu_group ? std::to_string(*f.iommu_group) : "-"; }

std::string or_dash(const std::string& text) { return text.empty() ? "-" : text; }

std::string name_of(const Gpu& gpu, const PciFunction& function) {
  if (!gpu.product.name.empty()) return gpu.product.name;
  return gpu.model.empty() ? function.id() : gpu.model;
}

std::string architecture_of(const Gpu& gpu) {
  if (gpu.product.architecture.empty()) return "-";
  return fmt::format("{} {:.1f}", gpu.product.architecture, gpu.product.compute_capability);
}

// What a person has to know about one GPU beside its row.
std::vector<std::string> remarks(const GpuFacts& facts, const Gpu& gpu) {
  const PciFunction& own = facts.function(gpu.address);
  std::vector<std::string> out;
  if (own.off_the_bus) out.push_back("does not answer on the bus");
  if (!own.power_state.empty() && own.power_state != "D0") out.push_back("power state " + own.power_state);
  if (own.boot_vga == true) out.push_back("boot display");
  if (own.virtual_functions > 0) out.push_back(fmt::format("{} virtual functions in use", own.virtual_functions));
  if (!own.physical_function.empty()) out.push_back("virtual function of " + own.physical_function);
  if (!own.driver_override.empty()) out.push_back("driver_override " + own.driver_override);
  if (const auto stuck = facts.stuck.find(gpu.address); stuck != facts.stuck.end()) {
    out.push_back("an unbind has not ended: the host needs a reboot");
  }
  for (const std::string& address : gpu.functions) {
    if (address == gpu.address) continue;
    const PciFunction& f = facts.function(address);
    out.push_back(fmt::format("{} {} on {}", address.substr(address.rfind('.')), f.id(), or_dash(f.driver)));
  }
  for (const std::string& address : gpu.peers) {
    out.push_back(fmt::format("shares its group with {} ({}, {})", address, facts.function(address).id(),
                              or_dash(facts.function(address).driver)));
  }
  for (const VmClaim& claim : facts.claims.on(gpu.address)) {
    const auto vm = facts.claims.machines.find(claim.vm);
    std::string text = facts.claims.title(claim.vm);
    if (vm != facts.claims.machines.end() && vm->second.running) text += ", running,";
    text += fmt::format(" has it as {}", claim.key);
    if (!claim.mapping.empty()) text += " by mapping " + claim.mapping;
    if (vm != facts.claims.machines.end() && vm->second.starts_at_boot) text += " and starts at boot";
    out.push_back(std::move(text));
  }
  return out;
}

std::string host_lines(const GpuFacts& facts) {
  const HostFacts& host = facts.host;
  std::string out = fmt::format("{}: {} {}, kernel {}\n", or_dash(host.hostname), or_dash(host.os_id), host.os_version,
                                or_dash(host.kernel));
  out += fmt::format("  boots next    {}{}\n", host.next_kernel.empty() ? "not to be told" : host.next_kernel,
                     host.next_reason.empty() ? "" : " (" + host.next_reason + ")");
  out += fmt::format("  boot loader   {}, Secure Boot {}\n", or_dash(host.loader),
                     !host.efi           ? "impossible (no EFI)"
                     : !host.secure_boot ? "unknown"
                     : *host.secure_boot ? "on"
                                         : "off");
  const DriverOnDisk* disk = facts.driver_on_disk("nvidia", host.kernel);
  out += fmt::format("  nvidia        loaded {}, on disk {}\n", or_dash(facts.nvidia_version),
                     disk == nullptr ? "-" : or_dash(disk->version));
  if (!host.root) out += "  not asked as root: who holds devices cannot be seen\n";
  return out;
}

}  // namespace

std::string to_table(const GpuFacts& facts) {
  std::string out = host_lines(facts);
  if (facts.gpus.empty()) return out + "no display or 3D controller\n";
  std::vector<std::vector<std::string>> rows = {{"GPU", "ADDRESS", "NAME", "ARCH", "DRIVER", "GROUP", "MINOR", "UUID"}};
  for (const Gpu& gpu : facts.gpus) {
    const PciFunction& f = facts.function(gpu.address);
    rows.push_back({f.is_nvidia() ? std::to_string(gpu.index) : "-", gpu.address, name_of(gpu, f), architecture_of(gpu),
                    or_dash(f.driver), group_of(f), gpu.minor ? std::to_string(*gpu.minor) : "-", or_dash(gpu.uuid)});
  }
  std::vector<std::size_t> widths(rows[0].size(), 0);
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::string line;
    for (std::size_t i = 0; i < rows[r].size(); ++i) line += fmt::format("{:<{}}  ", rows[r][i], widths[i]);
    while (!line.empty() && line.back() == ' ') line.pop_back();
    out += line + "\n";
    if (r == 0) continue;
    for (const std::string& remark : remarks(facts, facts.gpus[r - 1])) out += "     " + remark + "\n";
  }
  if (!facts.holders.empty()) out += "held open by\n";
  for (const Holder& holder : facts.holders) {
    out += fmt::format("  {}: {}\n", holder.text(), join(holder.devices, ", "));
  }
  return out;
}

}  // namespace millwright::gpu
