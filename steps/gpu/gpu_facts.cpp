#include "steps/gpu/gpu_facts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <stdexcept>

#include "orchestrator/base/text.hpp"

namespace millwright::gpu {

bool PciFunction::on_vfio() const { return driver == "vfio-pci" || ends_with(driver, "-vfio-pci"); }

std::string PciFunction::slot() const { return address.substr(0, address.rfind('.')); }

std::string PciFunction::id() const { return fmt::format("{:04x}:{:04x}", vendor, device); }

std::string_view to_string(HolderKind kind) {
  switch (kind) {
    case HolderKind::process:
      return "process";
    case HolderKind::virtual_machine:
      return "VM";
    case HolderKind::container:
      return "container";
    case HolderKind::service:
      return "service";
  }
  return "process";
}

std::string Holder::text() const {
  const std::string process = fmt::format("process {} ({})", pid, command.empty() ? "name unknown" : command);
  switch (kind) {
    case HolderKind::virtual_machine:
      if (id.empty() && name.empty()) return "a virtual machine, " + process;
      return fmt::format("VM {}{}, {}", id.empty() ? name : id, id.empty() || name.empty() ? "" : " (" + name + ")",
                         process);
    case HolderKind::container:
      return fmt::format("container {}, {}", id, process);
    case HolderKind::service:
      return fmt::format("{}, {}", id, process);
    case HolderKind::process:
      break;
  }
  return process;
}

bool HostFacts::has_tool(std::string_view name) const {
  return std::find(tools.begin(), tools.end(), name) != tools.end();
}

const Gpu* GpuFacts::find_gpu(std::string_view address) const {
  const auto at = std::find_if(gpus.begin(), gpus.end(), [&](const Gpu& gpu) { return gpu.address == address; });
  return at == gpus.end() ? nullptr : &*at;
}

const PciFunction& GpuFacts::function(const std::string& address) const { return functions.at(address); }

const DriverOnDisk* GpuFacts::driver_on_disk(std::string_view driver, std::string_view kernel) const {
  const auto at = std::find_if(on_disk.begin(), on_disk.end(),
                               [&](const DriverOnDisk& one) { return one.driver == driver && one.kernel == kernel; });
  return at == on_disk.end() ? nullptr : &*at;
}

GpuProduct product_of(const Knowledge& knowledge, std::uint16_t vendor, std::uint16_t device) {
  GpuProduct out;
  if (vendor != 0x10de) return out;
  const auto number = [](const std::string& digits) {
    unsigned value = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    return value;
  };
  const Value& file = knowledge.file("gpu");
  for (const Value& row : file.value("architectures", Value::array())) {
    for (const Value& range : row.at("devices")) {
      const std::vector<std::string> ends = split(range.get<std::string>(), '-');
      if (device < number(ends.front()) || device > number(ends.back())) continue;
      out.architecture = row.at("architecture");
      out.compute_capability = row.at("compute_capability");
      out.source = row.at("source");
    }
  }
  for (const Value& row : file.value("products", Value::array())) {
    if (row.at("device") != fmt::format("{:04x}", device)) continue;
    out.name = row.at("name");
    out.source = row.at("source");
  }
  return out;
}

}  // namespace millwright::gpu
