#include "steps/gpu/vm_claims.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <regex>

#include "orchestrator/base/text.hpp"

namespace millwright::gpu {

std::string normal_pci_address(std::string_view text) {
  static const std::regex form("(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{1,2}):([0-9a-fA-F]{1,2})(?:\\.([0-7]))?");
  std::cmatch found;
  if (!std::regex_match(text.begin(), text.end(), found, form)) return {};
  std::string domain = found[1].matched ? found[1].str() : "0000";
  // nvidia-smi writes eight digits, sysfs four, or five where it needs them.
  while (domain.size() > 4 && domain.front() == '0') domain.erase(0, 1);
  const auto two = [](const std::string& digits) { return digits.size() == 1 ? "0" + digits : digits; };
  std::string out = domain + ":" + two(found[2]) + ":" + two(found[3]);
  if (found[4].matched) out += "." + found[4].str();
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

bool claim_names(const VmClaim& claim, std::string_view address) {
  if (claim.pattern == address) return true;
  return claim.pattern.find('.') == std::string::npos && address.substr(0, address.rfind('.')) == claim.pattern;
}

std::vector<VmClaim> VmClaims::on(std::string_view address) const {
  std::vector<VmClaim> out;
  for (const VmClaim& claim : claims) {
    if (!claim.section.empty() && claim.section != "PENDING") continue;
    const auto machine = machines.find(claim.vm);
    // What goes away with the next start is no claim of a machine that does not run.
    if (machine != machines.end() && claim.section.empty() && !machine->second.running) {
      const auto& gone = machine->second.pending_deletes;
      if (std::find(gone.begin(), gone.end(), claim.key) != gone.end()) continue;
    }
    if (claim_names(claim, address)) out.push_back(claim);
  }
  return out;
}

std::string VmClaims::title(const std::string& vm) const {
  const auto found = machines.find(vm);
  if (found == machines.end()) return "VM " + vm;
  if (found->second.libvirt) return "domain " + vm;
  return found->second.name.empty() ? "VM " + vm : fmt::format("VM {} ({})", vm, found->second.name);
}

namespace {

bool is_libvirt(const VmClaims& claims, const std::string& vm) {
  const auto found = claims.machines.find(vm);
  return found != claims.machines.end() && found->second.libvirt;
}

}  // namespace

std::string VmClaims::to_end(const std::string& vm) const {
  return (is_libvirt(*this, vm) ? "virsh shutdown " : "qm shutdown ") + vm;
}

std::string VmClaims::to_take_out(const VmClaim& claim) const {
  if (is_libvirt(*this, claim.vm)) return fmt::format("virsh edit {} (its <hostdev>)", claim.vm);
  return fmt::format("qm set {} --delete {}", claim.vm, claim.key);
}

std::string VmClaims::to_start_by_hand(const std::string& vm) const {
  return is_libvirt(*this, vm) ? "virsh autostart --disable " + vm : fmt::format("qm set {} --onboot 0", vm);
}

void VmClaimsBuilder::domain(const std::string& name, bool running, bool starts_at_boot) {
  VirtualMachine& vm = out_.machines[name];
  vm.id = name;
  vm.libvirt = true;
  vm.running = running;
  vm.starts_at_boot = starts_at_boot;
}

void VmClaimsBuilder::hostdev(const std::string& name, const std::array<std::string, 4>& address) {
  const auto number = [&](std::size_t at) { return std::strtoul(address[at].c_str(), nullptr, 0); };
  const std::string text = fmt::format("{:04x}:{:02x}:{:02x}.{:x}", number(0), number(1), number(2), number(3));
  const std::string pattern = normal_pci_address(text);
  const auto same = [&](const VmClaim& claim) { return claim.vm == name && claim.pattern == pattern; };
  if (pattern.empty() || std::any_of(hostdevs_.begin(), hostdevs_.end(), same)) return;
  hostdevs_.push_back({name, "hostdev", pattern, "", ""});
}

void VmClaimsBuilder::machine(const std::string& id, bool running) {
  out_.machines[id].id = id;
  out_.machines[id].running = running;
}

void VmClaimsBuilder::line(const std::string& id, const std::string& section, const std::string& text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) return;
  const std::string key = text.substr(0, colon);
  const std::string value(trim(text.substr(colon + 1)));
  const std::string where = section == "-" ? "" : section == "PENDING" || section == "pending" ? "PENDING" : section;
  VirtualMachine& vm = out_.machines[id];
  if (where.empty()) {
    if (key == "name") vm.name = value;
    if (key == "onboot") vm.starts_at_boot = value == "1";
    if (key == "template") vm.is_template = value == "1";
  } else if (where == "PENDING") {
    if (key == "onboot") vm.starts_at_boot = vm.starts_at_boot || value == "1";
    if (key == "delete") {
      for (const std::string& name : split(value, ',')) vm.pending_deletes.emplace_back(trim(name));
    }
  }
  if (starts_with(key, "hostpci")) lines_.push_back({id, where, key, value});
}

// "map id=10de:2230,iommugroup=17,node=kpro5,path=0000:01:00.0" below a line with the mapping's name.
void VmClaimsBuilder::mapping_line(const std::string& text) {
  if (text.empty()) return;
  if (text.front() != ' ' && text.front() != '\t') {
    mapping_ = std::string(trim(text));
    return;
  }
  const std::string line(trim(text));
  if (!starts_with(line, "map ") || mapping_.empty()) return;
  std::string node;
  std::vector<std::string> paths;
  for (const std::string& part : split(std::string(trim(line.substr(4))), ',')) {
    if (starts_with(part, "node=")) node = part.substr(5);
    if (starts_with(part, "path=")) paths = split(part.substr(5), ';');
  }
  if (node != hostname_) return;
  for (const std::string& path : paths) mappings_[mapping_].push_back(path);
}

// "0000:01:00.0 101 pid:12345", or time:... while it starts.
void VmClaimsBuilder::reservation(const std::string& text) {
  const std::vector<std::string> words = split(text, ' ');
  const std::string address = words.empty() ? "" : normal_pci_address(words[0]);
  if (words.size() >= 2 && !address.empty()) out_.reserved[address] = words[1];
}

void VmClaimsBuilder::add_claims(const Line& line) {
  for (const std::string& part : split(line.value, ',')) {
    const std::size_t equals = part.find('=');
    const std::string name = equals == std::string::npos ? "host" : part.substr(0, equals);
    const std::string value = equals == std::string::npos ? part : part.substr(equals + 1);
    std::vector<std::string> hosts;
    if (name == "host") hosts = split(value, ';');
    if (name == "mapping") hosts = mappings_[value];
    for (const std::string& host : hosts) {
      const std::string pattern = normal_pci_address(trim(host));
      if (pattern.empty()) continue;
      out_.claims.push_back({line.vm, line.key, pattern, name == "mapping" ? value : "", line.section});
    }
  }
}

VmClaims VmClaimsBuilder::finish() {
  for (const Line& line : lines_) add_claims(line);
  out_.claims.insert(out_.claims.end(), hostdevs_.begin(), hostdevs_.end());
  return std::move(out_);
}

}  // namespace millwright::gpu
