#include "steps/gpu/boot_choice.hpp"

#include <algorithm>

#include "orchestrator/base/text.hpp"

namespace millwright::gpu {

namespace {

// Numbers by value, everything else by letters: "6.14.11-4-pve" before "6.17.2-1-pve".
bool version_before(const std::string& a, const std::string& b) {
  std::size_t i = 0, j = 0;
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  while (i < a.size() && j < b.size()) {
    if (!digit(a[i]) || !digit(b[j])) {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i, ++j;
      continue;
    }
    std::size_t m = i, n = j;
    while (m < a.size() && digit(a[m])) ++m;
    while (n < b.size() && digit(b[n])) ++n;
    const std::string x = a.substr(i, m - i), y = b.substr(j, n - j);
    const std::string p = std::string(y.size() > x.size() ? y.size() - x.size() : 0, '0') + x;
    const std::string q = std::string(x.size() > y.size() ? x.size() - y.size() : 0, '0') + y;
    if (p != q) return p < q;
    i = m, j = n;
  }
  return a.size() - i < b.size() - j;
}

std::string kernel_of(const std::string& image) {
  const std::size_t at = image.rfind("vmlinuz-");
  if (at != std::string::npos) return image.substr(at + 8);
  // kernel-install puts it into a folder of its own: /MACHINE/6.12.5-amd64/linux
  const std::vector<std::string> parts = split(image, '/');
  return parts.size() >= 2 && parts.back() == "linux" ? parts[parts.size() - 2] : std::string();
}

std::string default_of_grub(const HostFacts& host, const BootHints& hints, const std::vector<BootFile>& files,
                            std::string& reason) {
  std::string wanted = "0";
  for (const BootFile& file : files) {
    if (!starts_with(file.path, "/etc/default/grub")) continue;
    if (const std::string value = shell_variable(file.content, "GRUB_DEFAULT"); !value.empty()) wanted = value;
  }
  reason = "GRUB_DEFAULT=" + wanted;
  if (wanted == "saved") {
    wanted = hints.saved_entry.empty() ? "0" : hints.saved_entry;
    reason = "saved entry of GRUB";
  }
  if (!hints.next_entry.empty()) {
    wanted = hints.next_entry;
    reason = "chosen for the next boot only";
  }
  // A submenu's name alone means its first entry.
  for (const BootEntry& entry : host.entries) {
    for (const std::string& name : {entry.index, entry.title, entry.id}) {
      if (name == wanted || starts_with(name, wanted + ">")) return entry.index;
    }
  }
  return {};
}

void take_entry(HostFacts& host, const BootEntry& entry) {
  host.next_kernel = entry.kernel;
  host.next_command_line = entry.command_line;
}

void choose_with_grub(HostFacts& host, const BootHints& hints, const std::vector<BootFile>& files) {
  const std::string index = default_of_grub(host, hints, files, host.next_reason);
  for (const BootEntry& entry : host.entries) {
    if (entry.index == index) return take_entry(host, entry);
  }
}

void choose_with_systemd_boot(HostFacts& host, const BootHints& hints) {
  const BootEntry* best = nullptr;
  for (const BootEntry& entry : host.entries) {
    const std::string id = ends_with(entry.id, ".conf") ? entry.id.substr(0, entry.id.size() - 5) : entry.id;
    std::string wanted = hints.loader_default;
    if (ends_with(wanted, ".conf")) wanted.erase(wanted.size() - 5);
    if (ends_with(wanted, "*") && starts_with(id, wanted.substr(0, wanted.size() - 1))) wanted = id;
    if (!wanted.empty() && wanted == id) {
      host.next_reason = "default of loader.conf";
      return take_entry(host, entry);
    }
    if (best == nullptr || version_before(best->kernel, entry.kernel)) best = &entry;
  }
  if (best == nullptr) return;
  host.next_reason = "newest entry";
  take_entry(host, *best);
}

void choose_with_proxmox(HostFacts& host, const BootHints& hints) {
  if (!hints.pinned_once.empty() || !hints.pinned.empty()) {
    host.next_kernel = hints.pinned_once.empty() ? hints.pinned : hints.pinned_once;
    host.next_reason = hints.pinned_once.empty() ? "pinned" : "pinned for the next boot only";
    return;
  }
  if (host.kernels.empty()) return;
  host.next_kernel = *std::max_element(host.kernels.begin(), host.kernels.end(), version_before);
  host.next_reason = "newest kernel";
}

}  // namespace

std::string shell_variable(const std::string& content, const std::string& name) {
  std::string out;
  for (const std::string& line : split_lines(content)) {
    std::string text(trim(line));
    if (starts_with(text, "export ")) text = std::string(trim(text.substr(7)));
    if (!starts_with(text, name + "=")) continue;
    out = text.substr(name.size() + 1);
    const char quote = out.empty() ? '\0' : out.front();
    if (quote == '"' || quote == '\'') {
      const std::size_t end = out.find(quote, 1);
      out = out.substr(1, end == std::string::npos ? end : end - 1);
    } else {
      out = out.substr(0, out.find_first_of(" \t#"));
    }
  }
  return out;
}

void choose_boot(HostFacts& host, const BootHints& hints, const std::vector<BootFile>& files) {
  const bool grub = !host.entries.empty();
  for (BootEntry& entry : host.entries) {
    const std::string image = entry.command_line.substr(0, entry.command_line.find(' '));
    entry.kernel = kernel_of(image);
    entry.command_line.erase(0, std::min(entry.command_line.size(), image.size() + 1));
  }
  const bool systemd =
      host.loader_info.find("systemd-boot") != std::string::npos || (!grub && !hints.loader_entries.empty());
  if (hints.proxmox) {
    host.loader = "proxmox-boot-tool";
    return choose_with_proxmox(host, hints);
  }
  if (systemd) {
    host.loader = "systemd-boot";
    host.entries.clear();
    for (const auto& [file, lines] : hints.loader_entries) {
      const auto value = [&, &lines = lines](const char* key) {
        const auto at = lines.find(key);
        return at == lines.end() ? std::string() : at->second;
      };
      host.entries.push_back({"", "", file, kernel_of(value("linux")), value("options")});
    }
    return choose_with_systemd_boot(host, hints);
  }
  if (!grub) return;
  host.loader = "grub";
  choose_with_grub(host, hints, files);
}

}  // namespace millwright::gpu
