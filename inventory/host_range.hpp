// Host entries of Ansible's inventories: "web[01:50].example.com", "db-[a:f]:2222", "[2001:db8::1]:22".
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "orchestrator/base/error.hpp"

namespace millwright {

struct HostEntry {
  std::vector<std::string> names;  // ranges expanded
  std::optional<int> port;         // written behind the name
  bool range = false;
};

// Errors (invalid, without a place) are malformed, empty or huge ranges. Text that is no host name at all is taken as a
// name, as Ansible does.
Result<HostEntry> parse_host_entry(const std::string& text);

// Whether Ansible would take the text for one address, with ranges and a port allowed: "web[1:3]", "web:22", "::1".
// Such a host pattern is not split at its colons.
bool is_one_address(const std::string& text);

// More hosts than this from one entry is taken for a mistake: "[1:1000000000]" would fill the memory.
inline constexpr std::size_t kMaxRangeHosts = 100'000;

}  // namespace millwright
