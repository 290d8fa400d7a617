// Pure parts of the LXC backend: configuration text, addresses.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "steps/container/container_spec.hpp"

namespace millwright {

inline constexpr const char* kOwnBridge = "mwbr0";

// What the node says about itself as far as a container's configuration depends on it.
struct LxcHost {
  bool apparmor = false;
  bool cgroup2 = false;  // unified hierarchy only
};

struct LxcNetwork {
  std::string bridge;
  std::string address;  // with prefix length
  std::string gateway;  // may be empty
};

std::string lxc_folder(const std::string& name);  // /var/lib/lxc/NAME
std::string lxc_config(const ContainerSpec& spec, const LxcHost& host, const LxcNetwork& network);
// The value of the first `key = value` line.
std::optional<std::string> lxc_config_value(const std::string& config, const std::string& key);

// The third number of 10.213.N.0/24 for our own bridge: the first N that no route or address of the node overlaps
// (`routes`: output of `ip -4 -o addr` and `ip -4 route`).
std::optional<int> free_subnet(const std::string& routes);
// The lowest host number from 2 to 254 that is not in `taken` ("10.213.0.2/24", one a line).
std::optional<int> free_host(const std::string& subnet_prefix, const std::string& taken);

}  // namespace millwright
