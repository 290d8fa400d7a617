#include "steps/container/lxc_config.hpp"

#include <cstdint>
#include <regex>
#include <sstream>

#include "orchestrator/base/text.hpp"

namespace millwright {

namespace {

// Half-open range of IPv4 addresses.
struct Range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

std::vector<Range> ranges_in(const std::string& text) {
  static const std::regex pattern("([0-9]+)\\.([0-9]+)\\.([0-9]+)\\.([0-9]+)(/([0-9]+))?");
  std::vector<Range> out;
  for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it) {
    std::uint64_t address = 0;
    for (int part = 1; part <= 4; ++part) address = address * 256 + std::stoull((*it)[part].str());
    const int bits = (*it)[6].matched ? std::stoi((*it)[6].str()) : 32;
    if (bits < 1 || bits > 32) continue;
    const std::uint64_t size = 1ULL << (32 - bits);
    const std::uint64_t begin = address / size * size;
    out.push_back({begin, begin + size});
  }
  return out;
}

void limits(const ContainerSpec& spec, const LxcHost& host, std::string& out) {
  if (spec.memory_bytes) {
    const std::string key = host.cgroup2 ? "lxc.cgroup2.memory.max" : "lxc.cgroup.memory.limit_in_bytes";
    out += key + " = " + std::to_string(*spec.memory_bytes) + "\n";
  }
  if (spec.cores) {
    constexpr int kPeriodMicroseconds = 100'000;  // the kernel's default
    const std::string quota = std::to_string(*spec.cores * kPeriodMicroseconds);
    out += host.cgroup2 ? "lxc.cgroup2.cpu.max = " + quota + " " + std::to_string(kPeriodMicroseconds) + "\n"
                        : "lxc.cgroup.cpu.cfs_quota_us = " + quota + "\n";
  }
}

}  // namespace

std::string lxc_folder(const std::string& name) { return "/var/lib/lxc/" + name; }

std::string lxc_config(const ContainerSpec& spec, const LxcHost& host, const LxcNetwork& network) {
  std::string out = "# Written by millwright; changes here are replaced by the next run.\n";
  out += "lxc.include = /usr/share/lxc/config/common.conf\n";
  if (spec.nesting) out += "lxc.include = /usr/share/lxc/config/nesting.conf\n";
  out += "lxc.uts.name = " + spec.name + "\n";
  out += "lxc.rootfs.path = dir:" + lxc_folder(spec.name) + "/rootfs\n";
  out += "lxc.net.0.type = veth\n";
  out += "lxc.net.0.link = " + network.bridge + "\n";
  out += "lxc.net.0.flags = up\n";
  out += "lxc.net.0.name = eth0\n";
  out += "lxc.net.0.ipv4.address = " + network.address + "\n";
  if (!network.gateway.empty()) out += "lxc.net.0.ipv4.gateway = " + network.gateway + "\n";
  // Without AppArmor in the kernel every profile but this one fails the start; systemd inside needs to mount.
  out += host.apparmor ? "lxc.apparmor.profile = generated\nlxc.apparmor.allow_nesting = " +
                             std::string(spec.nesting ? "1" : "0") + "\n"
                       : std::string("lxc.apparmor.profile = unconfined\n");
  limits(spec, host, out);
  if (spec.autostart) out += "lxc.start.auto = 1\n";
  return out;
}

std::optional<std::string> lxc_config_value(const std::string& config, const std::string& key) {
  for (const std::string& line : split_lines(config)) {
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos || trim(std::string_view(line).substr(0, equals)) != key) continue;
    return std::string(trim(std::string_view(line).substr(equals + 1)));
  }
  return std::nullopt;
}

std::optional<int> free_subnet(const std::string& routes) {
  const std::vector<Range> taken = ranges_in(routes);
  for (int n = 0; n < 256; ++n) {
    const std::uint64_t begin = (10ULL << 24) + (213ULL << 16) + (static_cast<std::uint64_t>(n) << 8);
    bool free = true;
    for (const Range& range : taken) free = free && (range.end <= begin || range.begin >= begin + 256);
    if (free) return n;
  }
  return std::nullopt;
}

std::optional<int> free_host(const std::string& subnet_prefix, const std::string& taken) {
  for (int host = 2; host < 255; ++host) {
    const std::string address = subnet_prefix + std::to_string(host) + "/";
    if (taken.find(address) == std::string::npos) return host;
  }
  return std::nullopt;
}

}  // namespace millwright
