#include <fmt/format.h>

#include "steps/gpu/gpu_facts.hpp"

namespace millwright::gpu {

namespace {

template <class T>
Value maybe(const std::optional<T>& value) {
  return value ? Value(*value) : Value();
}

Value maybe(const std::string& text) { return text.empty() ? Value() : Value(text); }

Value function_json(const PciFunction& f) {
  return {{"address", f.address},
          {"class", fmt::format("{:06x}", f.class_code)},
          {"id", f.id()},
          {"subsystem", fmt::format("{:04x}:{:04x}", f.subsystem_vendor, f.subsystem_device)},
          {"driver", maybe(f.driver)},
          {"driver_override", maybe(f.driver_override)},
          {"iommu_group", maybe(f.iommu_group)},
          {"boot_vga", maybe(f.boot_vga)},
          {"power_state", maybe(f.power_state)},
          {"power_control", maybe(f.power_control)},
          {"d3cold_allowed", maybe(f.d3cold_allowed)},
          {"reset_method", maybe(f.reset_method)},
          {"physical_function", maybe(f.physical_function)},
          {"virtual_functions", f.virtual_functions},
          {"virtual_functions_possible", f.virtual_functions_possible},
          {"off_the_bus", f.off_the_bus},
          {"nodes", f.nodes}};
}

Value gpu_json(const GpuFacts& facts, const Gpu& gpu) {
  Value out = function_json(facts.function(gpu.address));
  out["index"] = gpu.index;
  out["product"] = maybe(gpu.product.name.empty() ? gpu.model : gpu.product.name);
  out["architecture"] = maybe(gpu.product.architecture);
  out["compute_capability"] = gpu.product.compute_capability > 0 ? Value(gpu.product.compute_capability) : Value();
  out["source"] = maybe(gpu.product.source);
  out["uuid"] = maybe(gpu.uuid);
  out["minor"] = maybe(gpu.minor);
  out["memory_mib"] = maybe(gpu.memory_mib);
  out["persistence_mode"] = maybe(gpu.persistence_mode);
  out["functions"] = Value::array();
  for (const std::string& address : gpu.functions) out["functions"].push_back(function_json(facts.function(address)));
  out["peers"] = Value::array();
  for (const std::string& address : gpu.peers) out["peers"].push_back(function_json(facts.function(address)));
  out["claims"] = Value::array();
  for (const VmClaim& claim : facts.claims.on(gpu.address)) {
    out["claims"].push_back({{"vm", claim.vm}, {"key", claim.key}, {"mapping", maybe(claim.mapping)}});
  }
  return out;
}

Value host_json(const HostFacts& host) {
  return {{"hostname", host.hostname},
          {"asked_as_root", host.root},
          {"os", {{"id", host.os_id}, {"version", host.os_version}, {"codename", host.os_codename}}},
          {"kernel", host.kernel},
          {"kernels", host.kernels},
          {"command_line", host.command_line},
          {"efi", host.efi},
          {"reboot_required", host.reboot_required},
          {"secure_boot", maybe(host.secure_boot)},
          {"boot_loader", maybe(host.loader)},
          {"next_kernel", maybe(host.next_kernel)},
          {"next_command_line", maybe(host.next_command_line)},
          {"next_reason", maybe(host.next_reason)},
          {"initramfs_older_than", host.initramfs_newer}};
}

Value drivers_json(const GpuFacts& facts) {
  Value modules = Value::object();
  for (const auto& [name, module] : facts.modules) {
    modules[name] = {
        {"references", maybe(module.references)}, {"version", maybe(module.version)}, {"used_by", module.holders}};
  }
  Value on_disk = Value::array();
  for (const DriverOnDisk& one : facts.on_disk) {
    on_disk.push_back({{"driver", one.driver},
                       {"kernel", one.kernel},
                       {"version", maybe(one.version)},
                       {"license", maybe(one.license)},
                       {"file", maybe(one.file)}});
  }
  return {{"loaded", modules},
          {"on_disk", on_disk},
          {"nvidia_version", maybe(facts.nvidia_version)},
          {"nvidia_smi",
           {{"exit_status", maybe(facts.smi_status)}, {"late", facts.smi_late}, {"error", maybe(facts.smi_error)}}}};
}

}  // namespace

Value to_json(const GpuFacts& facts) {
  Value out = {{"schema_version", 1}, {"host", host_json(facts.host)}, {"drivers", drivers_json(facts)}};
  out["gpus"] = Value::array();
  for (const Gpu& gpu : facts.gpus) out["gpus"].push_back(gpu_json(facts, gpu));
  out["holders"] = Value::array();
  for (const Holder& holder : facts.holders) {
    out["holders"].push_back({{"kind", to_string(holder.kind)},
                              {"pid", holder.pid},
                              {"command", holder.command},
                              {"id", maybe(holder.id)},
                              {"name", maybe(holder.name)},
                              {"devices", holder.devices}});
  }
  out["virtual_machines"] = Value::array();
  for (const auto& [id, vm] : facts.claims.machines) {
    Value claims = Value::array();
    for (const VmClaim& claim : facts.claims.claims) {
      if (claim.vm != id) continue;
      claims.push_back({{"key", claim.key},
                        {"device", claim.pattern},
                        {"mapping", maybe(claim.mapping)},
                        {"section", maybe(claim.section)}});
    }
    out["virtual_machines"].push_back({{"id", id},
                                       {"name", maybe(vm.name)},
                                       {"manager", vm.libvirt ? "libvirt" : "proxmox"},
                                       {"running", vm.running},
                                       {"starts_at_boot", vm.starts_at_boot},
                                       {"claims", claims}});
  }
  out["containers"] = facts.container_claims;
  out["boot_files"] = Value::array();
  for (const BootFile& file : facts.boot_files) {
    out["boot_files"].push_back({{"path", file.path}, {"content", file.content}});
  }
  out["console"] = facts.console;
  out["console_on"] = facts.console_on;
  out["stuck"] = facts.stuck;
  out["device_lock_held"] = facts.device_lock_held;
  return out;
}

}  // namespace millwright::gpu
