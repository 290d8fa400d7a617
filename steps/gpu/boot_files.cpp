#include "steps/gpu/boot_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <regex>

#include "orchestrator/base/text.hpp"
#include "steps/gpu/boot_lines.hpp"

namespace millwright::gpu {

namespace {

bool is_modprobe(const BootFile& file) { return file.path.find("/modprobe.d/") != std::string::npos; }
bool is_driverctl(const BootFile& file) { return starts_with(file.path, "/etc/driverctl.d/"); }
bool is_command_line(const BootFile& file) {
  return starts_with(file.path, "/etc/default/grub") || file.path == "/etc/kernel/cmdline";
}
bool is_module_list(const BootFile& file) {
  return file.path == "/etc/modules" || starts_with(file.path, "/etc/modules-load.d/") ||
         file.path == "/etc/initramfs-tools/modules";
}

// driverctl names its files after the device, with or without the bus in front.
std::string driverctl_address(const BootFile& file) {
  std::string name = file.path.substr(file.path.rfind('/') + 1);
  if (starts_with(name, "pci-")) name.erase(0, 4);
  return normal_pci_address(name);
}

bool names_vfio(std::string_view driver) {
  const std::string name = module_name(trim(driver));
  return name == "vfio_pci" || ends_with(name, "_vfio_pci");
}

bool blocks(const ModprobeLine& line) {
  return line.words.size() >= 3 && line.words[0] == "install" &&
         (line.words[2] == "/bin/false" || line.words[2] == "/bin/true" || line.words[2] == "false" ||
          line.words[2] == "true");
}

void read_modprobe(const BootFile& file, BootPicture& picture) {
  for (const ModprobeLine& line : modprobe_lines(file.content)) {
    if (line.words.size() < 2) continue;
    for (const std::string& id : vfio_ids_of(line)) picture.vfio_ids.insert(id);
    if (line.words[0] == "blacklist") picture.blacklisted.insert(module_name(line.words[1]));
    if (blocks(line)) picture.blocked.insert(module_name(line.words[1]));
    const bool before = line.words[0] == "softdep" && line.words.size() >= 4 && line.words[2] == "pre:";
    if (before && std::any_of(line.words.begin() + 3, line.words.end(), names_vfio)) picture.vfio_early = true;
  }
}

void read_module_list(const BootFile& file, BootPicture& picture) {
  for (const std::string& line : split_lines(file.content)) {
    const std::string name(trim(line.substr(0, line.find_first_of("# \t"))));
    if (names_vfio(name)) picture.vfio_early = true;
  }
}

const std::regex& own_rule() {
  static const std::regex form("^ACTION==\"add\".*KERNEL==\"([0-9a-f:.]+)\".*ATTR\\{driver_override\\}=\"vfio-pci\"");
  return form;
}

std::set<std::string> own_rules(const std::string& content) {
  std::set<std::string> out;
  std::smatch found;
  for (const std::string& line : split_lines(content)) {
    if (std::regex_search(line, found, own_rule())) out.insert(found[1]);
  }
  return out;
}

// A line of somebody's script, rule or unit that gives devices to a driver.
void read_unclear(const BootFile& file, BootPicture& picture) {
  for (const std::string& line : split_lines(file.content)) {
    const std::string text(trim(line));
    if (text.empty() || text.front() == '#') continue;
    if (text.find("driver_override") == std::string::npos && text.find("new_id") == std::string::npos) continue;
    picture.unclear.push_back(file.path + ": " + text);
  }
}

}  // namespace

BootPicture read_boot_files(const GpuFacts& facts) {
  BootPicture picture;
  for (const BootFile& file : facts.boot_files) {
    if (is_modprobe(file)) {
      read_modprobe(file, picture);
    } else if (is_driverctl(file)) {
      const std::string address = driverctl_address(file);
      if (address.empty()) continue;
      if (names_vfio(file.content)) {
        picture.vfio_addresses.insert(address);
        picture.vfio_early = true;  // driverctl loads it
      } else {
        picture.other_overrides[address] = std::string(trim(file.content));
      }
    } else if (is_command_line(file)) {
      for (const std::string& line : split_lines(file.content)) {
        if (starts_with(trim(line), "#")) continue;
        for (const std::string& id : vfio_ids_of_command_line(line)) picture.vfio_ids.insert(id);
        for (const std::string& one : blacklist_of_command_line(line)) picture.blacklisted.insert(one);
      }
    } else if (is_module_list(file)) {
      read_module_list(file, picture);
    } else if (file.path == kOwnRules) {
      for (const std::string& address : own_rules(file.content)) picture.vfio_addresses.insert(address);
    } else if (file.path == kOwnHook) {
      picture.vfio_early = true;
    } else {
      read_unclear(file, picture);
    }
  }
  return picture;
}

namespace {

const std::set<std::string>& nvidia_family() {
  static const std::set<std::string> names = {"nvidia", "nvidia_uvm", "nvidia_drm", "nvidia_modeset", "nvidia_current"};
  return names;
}

class BootPlanner {
 public:
  BootPlanner(const GpuFacts& facts, const BootWish& wish)
      : facts_(facts), wish_(wish), picture_(read_boot_files(facts)), foreign_(read_boot_files(without_own(facts))) {
    for (const BootFile& file : facts.boot_files) files_[file.path] = file.content;
    if (const auto rules = files_.find(kOwnRules); rules != files_.end()) rules_ = own_rules(rules->second);
    read_own_modprobe();
  }

  BootPlan plan() {
    if (names_vfio(wish_.driver)) {
      give_to_vfio();
    } else {
      take_from_vfio();
      allow_driver();
    }
    write_own_files();
    finish();
    return std::move(plan_);
  }

 private:
  static GpuFacts without_own(const GpuFacts& facts) {
    GpuFacts out;
    for (const BootFile& file : facts.boot_files) {
      if (file.path.find("millwright-gpu") == std::string::npos) out.boot_files.push_back(file);
    }
    return out;
  }

  bool wished(const std::string& address) const {
    return std::find(wish_.devices.begin(), wish_.devices.end(), address) != wish_.devices.end();
  }

  std::string id_of(const std::string& address) const { return facts_.function(address).id(); }

  void read_own_modprobe() {
    const auto own = files_.find(kOwnModprobe);
    if (own == files_.end()) return;
    for (const ModprobeLine& line : modprobe_lines(own->second)) {
      for (const std::string& id : vfio_ids_of(line)) own_ids_.insert(id);
      if (line.words.size() == 2 && line.words[0] == "blacklist" && line.words[1] == "nouveau") own_nouveau_ = true;
    }
  }

  // Puts new text in place of what the file has; own files are written at the end.
  void edit(const std::string& path, const std::optional<std::string>& after) {
    const auto at = files_.find(path);
    const std::optional<std::string> before = at == files_.end() ? std::nullopt : std::optional(at->second);
    if (before == after) return;
    plan_.edits.push_back({path, before, after});
    if (starts_with(path, "/etc/modprobe.d/") || starts_with(path, "/etc/initramfs-tools/") || path == kOwnRules) {
      plan_.initramfs = true;
    }
    if (starts_with(path, "/etc/default/grub") || path == "/etc/kernel/cmdline") plan_.menu = true;
  }

  bool all_wished(const std::string& id) const {
    return std::all_of(facts_.functions.begin(), facts_.functions.end(),
                       [&](const auto& one) { return one.second.id() != id || wished(one.first); });
  }

  void give_to_vfio() {
    for (const std::string& address : wish_.devices) {
      if (facts_.function(address).is_bridge()) continue;
      const std::string id = id_of(address);
      for (const BootFile& file : facts_.boot_files) {
        if (is_driverctl(file) && driverctl_address(file) == address && !names_vfio(file.content)) {
          edit(file.path, std::nullopt);
        }
      }
      if (picture_.vfio_ids.count(id) != 0 || picture_.vfio_addresses.count(address) != 0) continue;
      if (all_wished(id)) {
        own_ids_.insert(id);
      } else {
        rules_.insert(address);  // an id would take its twins along
      }
    }
    early_ = !foreign_.vfio_early;
  }

  void take_from_vfio() {
    std::set<std::string> ids;
    for (const std::string& address : wish_.devices) {
      ids.insert(id_of(address));
      rules_.erase(address);
    }
    std::set<std::string> released;
    for (const std::string& id : ids) {
      if (picture_.vfio_ids.count(id) != 0) released.insert(id);
      own_ids_.erase(id);
    }
    // Claims of others that stay may count on our files to have vfio-pci loaded early.
    const bool claims_stay = std::any_of(foreign_.vfio_ids.begin(), foreign_.vfio_ids.end(),
                                         [&](const std::string& id) { return ids.count(id) == 0; });
    early_ = claims_stay && files_.count(kOwnModules) != 0 && !foreign_.vfio_early;
    // Twins that are to stay where they are were claimed by the same line.
    for (const auto& [address, function] : facts_.functions) {
      if (!wished(address) && function.on_vfio() && released.count(function.id()) != 0) rules_.insert(address);
    }
    for (const BootFile& file : facts_.boot_files) {
      if (file.path == kOwnModprobe || file.path == kOwnRules) continue;
      if (is_modprobe(file)) clean_modprobe(file, ids);
      if (is_command_line(file)) edit(file.path, clean_command_line(file.content, ids, unwanted_blacklist()));
      if (is_driverctl(file) && wished(driverctl_address(file)) &&
          module_name(trim(file.content)) != module_name(wish_.driver)) {
        edit(file.path, std::nullopt);
      }
    }
  }

  std::set<std::string> family() const {
    return wish_.driver == "nvidia" ? nvidia_family() : std::set<std::string>{module_name(wish_.driver)};
  }
  std::set<std::string> unwanted_blacklist() const { return family(); }

  void clean_modprobe(const BootFile& file, const std::set<std::string>& ids) {
    std::string after;
    for (const ModprobeLine& line : modprobe_lines(file.content)) {
      const auto claimed = vfio_ids_of(line);
      const bool claims =
          std::any_of(claimed.begin(), claimed.end(), [&](const std::string& id) { return ids.count(id) != 0; });
      const bool forbids = line.words.size() >= 2 && (line.words[0] == "blacklist" || blocks(line)) &&
                           family().count(module_name(line.words[1])) != 0;
      after += claims ? without_ids(line, ids) : forbids ? std::string() : line.text;
    }
    if (after == file.content) return;
    if (!starts_with(file.path, "/etc/")) {
      plan_.impossible.push_back(
          fmt::format("{} stands against it and is no file to edit; a file of that name in "
                      "/etc/modprobe.d takes its place",
                      file.path));
      return;
    }
    edit(file.path, after);
  }

  // What the wanted driver needs beside not being forbidden.
  void allow_driver() {
    if (wish_.driver == "nvidia" && picture_.blacklisted.count("nouveau") == 0 &&
        picture_.blocked.count("nouveau") == 0) {
      own_nouveau_ = true;
    }
  }

  void write_own_files() {
    std::string modprobe;
    if (!own_ids_.empty()) {
      modprobe += "options vfio-pci ids=" + join({own_ids_.begin(), own_ids_.end()}, ",") + "\n";
    }
    if (!own_ids_.empty() || !rules_.empty() || early_) {
      for (const char* name : {"nvidia", "nvidiafb", "nouveau", "snd_hda_intel"}) {
        modprobe += fmt::format("softdep {} pre: vfio-pci\n", name);
      }
    }
    if (own_nouveau_) modprobe += "blacklist nouveau\noptions nouveau modeset=0\n";
    const auto head = [](const std::string& text) {
      return text.empty() ? std::optional<std::string>() : "# Written by millwright (gpu.bind).\n" + text;
    };
    std::string rules;
    for (const std::string& address : rules_) {
      rules += fmt::format(
          "ACTION==\"add\", SUBSYSTEM==\"pci\", KERNEL==\"{}\", ATTR{{driver_override}}=\"vfio-pci\"\n", address);
    }
    const bool vfio = !own_ids_.empty() || !rules_.empty() || early_;
    edit(kOwnModprobe, head(modprobe));
    edit(kOwnRules, head(rules));
    edit(kOwnModules, vfio ? head("vfio-pci\n") : std::nullopt);
    const bool initramfs_tools = facts_.host.has_tool("update-initramfs");
    edit(kOwnHook, vfio && initramfs_tools ? std::optional<std::string>(hook()) : std::nullopt);
  }

  // The rules come along into the initramfs, where the first drivers are loaded.
  static std::string hook() {
    return fmt::format(R"sh(#!/bin/sh
# Written by millwright (gpu.bind).
case ${{1:-}} in prereqs) exit 0 ;; esac
. /usr/share/initramfs-tools/hook-functions
force_load vfio_pci
if [ -e {0} ]; then
  mkdir -p "$DESTDIR/usr/lib/udev/rules.d"
  cp {0} "$DESTDIR/usr/lib/udev/rules.d/"
fi
)sh",
                       kOwnRules);
  }

  void finish() {
    const HostFacts& host = facts_.host;
    const bool makes = host.has_tool("update-initramfs") || host.has_tool("dracut");
    const std::string& kernel = host.next_kernel.empty() ? host.kernel : host.next_kernel;
    const auto older = host.initramfs_newer.find(kernel);
    if (older != host.initramfs_newer.end() && !older->second.empty()) plan_.initramfs = true;
    if (older == host.initramfs_newer.end() || !makes) plan_.initramfs = false;  // none that could be stale
    check_menu();
    for (const std::string& line : picture_.unclear) {
      plan_.notes.push_back("gives devices to drivers by itself, look at " + line);
    }
  }

  // GRUB's menu is made from other files, so it may be older than they are.
  void check_menu() {
    const HostFacts& host = facts_.host;
    if (plan_.menu) {
      const bool can = host.has_tool("proxmox-boot-tool") || (host.loader == "grub" && host.has_tool("update-grub"));
      if (!can) {
        plan_.impossible.push_back(
            "the kernel command line has to change, and nothing here can write the boot menu again");
      }
      return;
    }
    if (host.loader != "grub" || !host.has_tool("update-grub")) return;
    const auto ids = vfio_ids_of_command_line(host.next_command_line);
    const bool to_vfio = names_vfio(wish_.driver);
    for (const std::string& address : wish_.devices) {
      const bool there = std::find(ids.begin(), ids.end(), id_of(address)) != ids.end();
      if (there && !to_vfio) plan_.menu = true;
    }
  }

  const GpuFacts& facts_;
  const BootWish& wish_;
  BootPicture picture_, foreign_;  // foreign: what files of others say
  std::map<std::string, std::string> files_;
  std::set<std::string> own_ids_, rules_;
  bool own_nouveau_ = false, early_ = false;
  BootPlan plan_;
};

}  // namespace

BootPlan plan_boot_files(const GpuFacts& facts, const BootWish& wish) { return BootPlanner(facts, wish).plan(); }

std::string edits_diff(const std::vector<FileEdit>& edits) {
  std::string out;
  for (const FileEdit& one : edits) {
    const std::vector<std::string> before = split_lines(one.before.value_or(""));
    const std::vector<std::string> after = split_lines(one.after.value_or(""));
    out += one.path + (one.before ? one.after ? "" : " (goes away)" : " (new)") + "\n";
    for (const std::string& line : before) {
      if (std::find(after.begin(), after.end(), line) == after.end()) out += "- " + line + "\n";
    }
    for (const std::string& line : after) {
      if (std::find(before.begin(), before.end(), line) == before.end()) out += "+ " + line + "\n";
    }
  }
  return out;
}

}  // namespace millwright::gpu
