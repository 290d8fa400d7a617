// Which variables say how a host is reached.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace millwright {

// What a connection is made of, and the variables that set it: the weakest first, as Ansible's ssh connection reads
// them. `plain` is millwright's own name.
struct ConnectionName {
  std::string_view plain;
  std::vector<std::string_view> ansible;
};

const std::vector<ConnectionName>& connection_names();

// The Ansible variable that `name` is one slip of the keyboard away from, when it is none that Ansible knows.
std::optional<std::string> misspelt_connection_name(const std::string& name);

// The same for millwright's own plain names. They are words, and variables may be called by words that are near them
// (users, ports, cost, sort), so only slips that make no other word count: neighbours swapped (hots, prot), a vowel
// forgotten (hst, usr), a letter doubled (hosst); in a name of six letters and more any one slip but a plural.
std::optional<std::string> misspelt_plain_name(const std::string& name);

}  // namespace millwright
