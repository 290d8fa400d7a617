#include "orchestrator/playbook/ansible_names.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "orchestrator/base/text.hpp"

namespace millwright {
namespace {

// Source: https://docs.ansible.com/ansible/latest/collections/ansible/builtin/ and community/general/
constexpr std::array<std::pair<std::string_view, AnsibleName>, 24> kModules = {{
    {"apk", {"package", ""}},
    {"apt", {"package", ""}},
    {"dnf", {"package", ""}},
    {"pacman", {"package", ""}},
    {"yum", {"package", ""}},
    {"zypper", {"package", ""}},
    {"blockinfile", {"file", "content: or source: says what the whole file holds"}},
    {"copy", {"file", "content: or source: says what is in it"}},
    {"get_url", {"command", "with creates: or unless:"}},
    {"git", {"command", "with creates: or unless:"}},
    {"lineinfile", {"file", "content: or source: says what the whole file holds"}},
    {"synchronize", {"file", "source: copies one file"}},
    {"unarchive", {"command", "with creates: or unless:"}},
    {"raw", {"command", ""}},
    {"shell", {"command", ""}},
    {"systemd", {"service", ""}},
    {"systemd_service", {"service", ""}},
    {"sysvinit", {"service", ""}},
    {"uri", {"wait", "url: and status: say for which answer"}},
    {"wait_for", {"wait", ""}},
    {"wait_for_connection", {"wait", "hosts are waited for by themselves"}},
    {"fail", {"assert", "that: says what must hold"}},
    {"lxc_container", {"container", ""}},
    {"user", {"command", "with unless: and undo:"}},
}};

}  // namespace

std::optional<AnsibleName> ansible_name(std::string_view module) {
  for (const std::string_view collection :
       {"ansible.builtin.", "ansible.legacy.", "community.general.", "ansible.posix."}) {
    if (starts_with(module, collection)) module.remove_prefix(collection.size());
  }
  const auto found =
      std::find_if(kModules.begin(), kModules.end(), [&](const auto& entry) { return entry.first == module; });
  if (found == kModules.end()) return std::nullopt;
  return found->second;
}

}  // namespace millwright
