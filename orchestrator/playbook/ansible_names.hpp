// Step kinds for people who come from Ansible. Internal to playbook/.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace millwright {

struct AnsibleName {
  std::string_view kind;  // the step kind that does it here
  std::string_view how;   // what to write with it; may be empty
};

// What a module of Ansible's, "copy" or "ansible.builtin.copy", is here; nothing for those that have no counterpart.
std::optional<AnsibleName> ansible_name(std::string_view module);

}  // namespace millwright
