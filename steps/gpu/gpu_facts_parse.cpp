#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <regex>
#include <set>

#include "orchestrator/base/text.hpp"
#include "steps/gpu/boot_choice.hpp"
#include "steps/gpu/gpu_facts.hpp"

namespace millwright::gpu {

namespace {

using Fields = std::vector<std::string>;

std::string text(const std::string& field) { return field == "-" || field == "(null)" ? std::string() : field; }

std::uint32_t hex(const std::string& field) {
  const std::string_view digits = starts_with(field, "0x") ? std::string_view(field).substr(2) : field;
  std::uint32_t out = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), out, 16);
  return out;
}

std::optional<int> number(const std::string& field) {
  int out = 0;
  const auto end = std::from_chars(field.data(), field.data() + field.size(), out);
  if (end.ec != std::errc() || end.ptr != field.data() + field.size()) return std::nullopt;
  return out;
}

std::optional<bool> flag(const std::string& field) {
  if (field == "1") return true;
  if (field == "0") return false;
  return std::nullopt;
}

struct Process {
  std::string command, cgroup, vm_id, vm_name;
};

// Records of the answer, one by one.
class Parser {
 public:
  Result<GpuFacts> parse(const std::string& out);
  void take(const Fields& f);

 private:
  void take_function(const Fields& f);
  void take_host(const std::string& key, const std::string& value);
  void take_smi(const std::string& csv);
  void take_boot_file(const std::string& line);
  void make_gpus();
  void make_holders();

  GpuFacts facts_;
  BootHints hints_;
  std::map<std::string, Process> processes_;
  std::map<std::string, std::set<std::string>> holds_;
  std::map<std::string, Fields> nvidia_;  // by address
  std::vector<Fields> smi_;
  std::vector<Fields> claims_;
  bool ended_ = false;
};

void Parser::take_function(const Fields& f) {
  if (f.size() < 18) return;
  PciFunction one;
  one.address = f[1];
  one.class_code = hex(f[2]);
  one.vendor = static_cast<std::uint16_t>(hex(f[3]));
  one.device = static_cast<std::uint16_t>(hex(f[4]));
  one.subsystem_vendor = static_cast<std::uint16_t>(hex(f[5]));
  one.subsystem_device = static_cast<std::uint16_t>(hex(f[6]));
  one.driver = text(f[7]);
  one.override_unreadable = f[8] == "?";
  one.driver_override = one.override_unreadable ? "" : text(f[8]);
  one.iommu_group = number(f[9]);
  one.physical_function = text(f[10]);
  one.boot_vga = flag(f[11]);
  one.reset_method = text(f[12]);
  one.virtual_functions = number(f[13]).value_or(0);
  one.virtual_functions_possible = number(f[14]).value_or(0);
  one.d3cold_allowed = flag(f[15]);
  one.power_control = text(f[16]);
  one.power_state = text(f[17]);
  one.off_the_bus = f.size() > 18 && f[18] == "ffffffff";
  facts_.functions[one.address] = std::move(one);
}

void Parser::take_host(const std::string& key, const std::string& value) {
  HostFacts& host = facts_.host;
  const std::map<std::string_view, std::string*> texts = {{"osrelease", &host.kernel},
                                                          {"hostname", &host.hostname},
                                                          {"cmdline", &host.command_line},
                                                          {"os_ID", &host.os_id},
                                                          {"os_VERSION_ID", &host.os_version},
                                                          {"os_VERSION_CODENAME", &host.os_codename},
                                                          {"loader_info", &host.loader_info},
                                                          {"proxmox-boot-pin", &hints_.pinned},
                                                          {"next-boot-pin", &hints_.pinned_once},
                                                          {"grub_saved_entry", &hints_.saved_entry},
                                                          {"grub_next_entry", &hints_.next_entry},
                                                          {"loader_default", &hints_.loader_default}};
  if (const auto at = texts.find(key); at != texts.end()) *at->second = text(value);
  if (key == "uid") host.root = value == "0";
  if (key == "efi") host.efi = value == "yes";
  if (key == "secure_boot") host.secure_boot = flag(value);
  if (key == "proxmox_boot") hints_.proxmox = true;
  if (key == "reboot_required") host.reboot_required = true;
}

void Parser::take_boot_file(const std::string& line) {
  if (!facts_.boot_files.empty()) facts_.boot_files.back().content += line + "\n";
}

void Parser::take_smi(const std::string& csv) {
  Fields fields;
  for (const std::string& field : split(csv, ',')) fields.emplace_back(trim(field));
  if (fields.size() >= 8) smi_.push_back(std::move(fields));
}

void Parser::take(const Fields& f) {
  const std::string& what = f[0];
  const auto at = [&](std::size_t i) { return i < f.size() ? f[i] : std::string(); };
  if (what == "fn") take_function(f);
  if (what == "end") ended_ = true;
  if (what == "locked") facts_.device_lock_held = true;
  if (what == "node" && facts_.functions.count(at(1)) != 0) facts_.functions[at(1)].nodes.push_back(at(2));
  if (what == "module") {
    facts_.modules[at(1)] = {at(2) != "0" && at(2) != "-", text(at(2)), text(at(3)),
                             text(at(4)).empty() ? Fields() : split(at(4), ',')};
    // Until /proc/driver/nvidia says it.
    if (at(1) == "nvidia" && facts_.nvidia_version.empty()) facts_.nvidia_version = text(at(3));
  }
  if (what == "ondisk") facts_.on_disk.push_back({at(1), at(2), text(at(3)), text(at(4)), text(at(5))});
  if (what == "nvversion" && !nvidia_version_of(at(1)).empty()) facts_.nvidia_version = nvidia_version_of(at(1));
  if (what == "nvgpu") nvidia_[at(1)] = f;
  if (what == "stuck") facts_.stuck[at(1)] = at(2);
  if (what == "host") take_host(at(1), at(2));
  if (what == "kernel") facts_.host.kernels.push_back(at(1));
  if (what == "grub") facts_.host.entries.push_back({at(1), at(2), at(3), "", at(4)});
  if (what == "entry") hints_.loader_entries[at(1)][at(2)] = at(3);
  if (what == "file") facts_.boot_files.push_back({at(1), ""});
  if (what == "initrd") facts_.host.initramfs_newer[at(1)] = text(at(2));
  if (what == "tool") facts_.host.tools.push_back(at(1));
  if (what == "hold") holds_[at(1)].insert(at(2));
  if (what == "proc") processes_[at(1)] = {at(2), text(at(3)), text(at(4)), text(at(5))};
  if (what == "fb") facts_.console.push_back(at(1));
  if (what == "console") facts_.console_on.push_back(at(1));
  if (what == "vm" || what == "vmline" || what == "mapping" || what == "reserved" || what == "domain" ||
      what == "hostdev")
    claims_.push_back(f);
  if (what == "container") facts_.container_claims.push_back(at(1) + ": " + at(2));
  if (what == "smirc" && at(1) == "late") facts_.smi_late = true;
  if (what == "smirc") facts_.smi_status = number(at(1));
  if (what == "smierr") facts_.smi_error = text(at(1));
  if (what == "smi") take_smi(at(1));
}

void Parser::make_gpus() {
  std::map<std::uint16_t, int> counted;
  for (const auto& [address, function] : facts_.functions) {
    if (!function.is_display()) continue;
    Gpu gpu;
    gpu.address = address;
    gpu.index = counted[function.vendor]++;
    gpu.functions.push_back(address);
    std::set<int> groups;
    if (function.iommu_group) groups.insert(*function.iommu_group);
    for (const auto& [other, sibling] : facts_.functions) {
      if (other == address || sibling.slot() != function.slot() || sibling.is_display()) continue;
      gpu.functions.push_back(other);
      if (sibling.iommu_group) groups.insert(*sibling.iommu_group);
    }
    for (const auto& [other, peer] : facts_.functions) {
      const bool own = std::find(gpu.functions.begin(), gpu.functions.end(), other) != gpu.functions.end();
      if (!own && !peer.is_bridge() && peer.iommu_group && groups.count(*peer.iommu_group) != 0) {
        gpu.peers.push_back(other);
      }
    }
    if (const auto at = nvidia_.find(address); at != nvidia_.end() && at->second.size() >= 5) {
      gpu.minor = number(at->second[2]);
      // Question marks until it was used for the first time.
      if (at->second[3].find('?') == std::string::npos) gpu.uuid = text(at->second[3]);
      gpu.model = text(at->second[4]);
    }
    for (const Fields& row : smi_) {
      if (normal_pci_address(row[2]) != address) continue;
      gpu.uuid = row[1];
      gpu.model = row[3];
      gpu.smi_driver_version = row[4];
      if (const auto mib = number(row[5])) gpu.memory_mib = static_cast<std::uint64_t>(*mib);
      gpu.persistence_mode = row[7];
    }
    facts_.gpus.push_back(std::move(gpu));
  }
}

Holder holder_of(const std::string& pid, const Process& process, const std::set<std::string>& devices) {
  Holder holder;
  holder.pid = number(pid).value_or(0);
  holder.command = process.command;
  holder.devices.assign(devices.begin(), devices.end());
  static const std::regex container(
      "/(?:lxc/|lxc\\.payload\\.|docker[-/]|libpod-|machine\\.slice/machine-)([A-Za-z0-9_][A-Za-z0-9_.-]*)");
  static const std::regex machine("/qemu\\.slice/([0-9]+)\\.scope.*");
  static const std::regex service("/system\\.slice/(?:.*/)?([^/]+\\.service)(?:/.*)?");
  std::smatch found;
  if (!process.vm_id.empty() || process.command == "kvm" || starts_with(process.command, "qemu-system")) {
    holder.kind = HolderKind::virtual_machine;
    holder.id = process.vm_id;
    holder.name = process.vm_name;
    if (holder.id.empty() && std::regex_match(process.cgroup, found, machine)) holder.id = found[1];
  } else if (std::regex_search(process.cgroup, found, container)) {
    holder.kind = HolderKind::container;
    holder.id = found[1];
    if (ends_with(holder.id, ".scope")) holder.id.erase(holder.id.size() - 6);
  } else if (std::regex_match(process.cgroup, found, service)) {
    holder.kind = HolderKind::service;
    holder.id = found[1];
  }
  return holder;
}

void Parser::make_holders() {
  for (const auto& [pid, devices] : holds_) {
    const auto process = processes_.find(pid);
    facts_.holders.push_back(holder_of(pid, process == processes_.end() ? Process() : process->second, devices));
  }
  std::sort(facts_.holders.begin(), facts_.holders.end(),
            [](const Holder& a, const Holder& b) { return a.pid < b.pid; });
  VmClaimsBuilder builder(facts_.host.hostname);
  for (const Fields& f : claims_) {
    if (f[0] == "vm" && f.size() >= 3) builder.machine(f[1], f[2] == "yes");
    if (f[0] == "vmline" && f.size() >= 4) builder.line(f[1], f[2], f[3]);
    // The line itself begins with a tab.
    if (f[0] == "mapping") builder.mapping_line(join(Fields(f.begin() + 1, f.end()), "\t"));
    if (f[0] == "reserved" && f.size() >= 2) builder.reservation(f[1]);
    if (f[0] == "domain" && f.size() >= 4) builder.domain(f[1], f[2] == "yes", f[3] == "yes");
    if (f[0] == "hostdev" && f.size() >= 6) builder.hostdev(f[1], {f[2], f[3], f[4], f[5]});
  }
  facts_.claims = builder.finish();
}

Result<GpuFacts> Parser::parse(const std::string& out) {
  const std::vector<std::string> lines = split_lines(out);
  if (lines.empty() || lines[0] != "facts\t1") {
    return fail(ErrorKind::invalid, "the node did not tell about its GPUs");
  }
  for (const std::string& line : lines) {
    if (starts_with(line, "|\t")) {
      take_boot_file(line.substr(2));
    } else {
      take(split(line, '\t'));
    }
  }
  if (!ended_) return fail(ErrorKind::invalid, "what the node tells about its GPUs is cut off");
  make_gpus();
  make_holders();
  choose_boot(facts_.host, hints_, facts_.boot_files);
  return std::move(facts_);
}

}  // namespace

std::string nvidia_version_of(std::string_view line) {
  static const std::regex form("Kernel Module(?: for \\S+)?\\s+([0-9]+\\.[0-9]+(?:\\.[0-9]+)?)");
  std::cmatch found;
  return std::regex_search(line.begin(), line.end(), found, form) ? found[1].str() : std::string();
}

Result<GpuFacts> parse_gpu_facts(const std::string& out, const Knowledge& knowledge) {
  auto facts = Parser().parse(out);
  if (!facts) return facts;
  for (Gpu& gpu : facts->gpus) {
    const PciFunction& function = facts->function(gpu.address);
    gpu.product = product_of(knowledge, function.vendor, function.device);
  }
  return facts;
}

}  // namespace millwright::gpu
