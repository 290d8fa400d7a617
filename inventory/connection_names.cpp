#include "inventory/connection_names.hpp"

#include <algorithm>

#include "orchestrator/base/text.hpp"

namespace millwright {

// Source: the `vars:` of the options of ansible/plugins/connection/ssh.py and ansible/plugins/become/sudo.py, 2.14.
const std::vector<ConnectionName>& connection_names() {
  static const std::vector<ConnectionName> names = {
      {"connection", {"ansible_connection"}},
      {"host", {"ansible_host", "ansible_ssh_host"}},
      {"port", {"ansible_port", "ansible_ssh_port"}},
      {"user", {"ansible_user", "ansible_ssh_user"}},
      {"password", {"ansible_password", "ansible_ssh_pass", "ansible_ssh_password"}},
      {"identity_file", {"ansible_private_key_file", "ansible_ssh_private_key_file"}},
      {"ssh_config_file", {}},
      {"known_hosts_file", {}},
      {"host_key_checking", {"ansible_host_key_checking", "ansible_ssh_host_key_checking"}},
      {"ssh_args", {"ansible_ssh_args", "ansible_ssh_common_args", "ansible_ssh_extra_args"}},
      {"connect_timeout", {"ansible_ssh_timeout"}},
      {"become", {"ansible_become"}},
      {"become_user", {"ansible_become_user", "ansible_sudo_user"}},
      {"become_method", {"ansible_become_method"}},
      {"become_password", {"ansible_become_password", "ansible_become_pass", "ansible_sudo_pass"}},
  };
  return names;
}

namespace {

// Equal but for one character more, less, other, or two neighbours swapped.
bool one_slip_apart(std::string_view a, std::string_view b) {
  if (a.size() > b.size()) std::swap(a, b);
  if (b.size() - a.size() > 1) return false;
  std::size_t same = 0;
  while (same < a.size() && a[same] == b[same]) ++same;
  if (a.size() < b.size()) return a.substr(same) == b.substr(same + 1);
  if (same == a.size()) return false;
  if (a.substr(same + 1) == b.substr(same + 1)) return true;
  return same + 1 < a.size() && a[same] == b[same + 1] && a[same + 1] == b[same] &&
         a.substr(same + 2) == b.substr(same + 2);
}

// Equal but for two neighbours swapped, a vowel less, or a letter twice.
bool plain_slip(std::string_view known, std::string_view given) {
  constexpr std::string_view vowels = "aeiou";
  for (std::size_t at = 0; at < known.size(); ++at) {
    std::string changed(known);
    if (at + 1 < known.size() && known[at] != known[at + 1]) {
      std::swap(changed[at], changed[at + 1]);
      if (changed == given) return true;
      changed = known;
    }
    changed.insert(at, 1, known[at]);
    if (changed == given) return true;
    if (vowels.find(known[at]) == std::string_view::npos) continue;
    changed = known;
    changed.erase(at, 1);
    if (changed == given) return true;
  }
  return false;
}

}  // namespace

std::optional<std::string> misspelt_plain_name(const std::string& name) {
  constexpr std::size_t long_name = 6;
  std::optional<std::string> meant;
  for (const ConnectionName& entry : connection_names()) {
    const std::string known(entry.plain);
    if (known == name) return std::nullopt;
    const bool near =
        plain_slip(known, name) || (known.size() >= long_name && name != known + "s" && one_slip_apart(known, name));
    if (near) meant = known;
  }
  return meant;
}

std::optional<std::string> misspelt_connection_name(const std::string& name) {
  if (!starts_with(name, "ansible_") && !starts_with(name, "ansibel_")) return std::nullopt;
  std::optional<std::string> meant;
  for (const ConnectionName& entry : connection_names()) {
    for (std::string_view known : entry.ansible) {
      if (known == name) return std::nullopt;
      if (one_slip_apart(known, name)) meant = std::string(known);
    }
  }
  return meant;
}

}  // namespace millwright
