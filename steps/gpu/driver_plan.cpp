#include <fmt/format.h>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"
#include "steps/contract/apt.hpp"
#include "steps/gpu/driver_choice.hpp"

namespace millwright::gpu {

namespace {

bool installed(const DriverState& state, const std::string& package) {
  const auto at = state.packages.find(package);
  return at != state.packages.end() && !at->second.installed.empty();
}

// Builds what the package's own script should have built, and says why where it cannot.
Action build_action(const std::vector<std::string>& kernels, const std::string& version) {
  Action action;
  action.title = "build the module for " + join(kernels, ", ");
  action.save = ": >\"$MW_SAVE/built\"\n";
  // Debian's packages call it nvidia-current on disk.
  action.script =
      "mw_built() { for m in nvidia nvidia-current; do [ \"$(modinfo -k \"$1\" -F version $m 2>/dev/null)\" != " +
      shell_quote(version) + " ] || return 0; done; return 1; }\n";
  for (const std::string& kernel : kernels) {
    action.script += fmt::format(
        "mw_built {0} || dkms autoinstall -k {0} >/dev/null 2>&1 || :\n"
        "mw_built {0} || {{\n"
        "  echo \"the module does not build for kernel\" {0} >&2\n"
        "  for f in /var/lib/dkms/nvidia*/*/build/make.log; do\n"
        "    [ ! -e \"$f\" ] || grep -E 'error|Error' \"$f\" | head -n 5 >&2\n"
        "  done\n"
        "  exit 1\n}}\n",
        shell_quote(kernel));
  }
  action.undo = "exit 0\n";  // the package takes what was built for it along
  action.undo_title = "nothing: what was built goes with the package";
  action.deadline = std::chrono::minutes(30);
  action.marks.guard_self = true;
  return action;
}

// All of the family: holding some of it lets the rest move away from it. With "unhold" those are let go for the time of
// the change. Undo gives each the mark that it had.
Action mark_action(const std::string& mark, const std::vector<std::string>& packages) {
  const bool hold = mark == "hold";
  const std::string names = shell_join(packages);
  Action action;
  action.title = hold ? "hold " + join(packages, ", ") : "let " + join(packages, ", ") + " change";
  action.save = "apt-mark showhold >\"$MW_SAVE/held\"\n";
  action.script = "apt-mark " + mark + " " + names + " >/dev/null\n";
  action.undo = "[ -e \"$MW_SAVE/held\" ] || exit 0\nfor p in " + names +
                "; do\n  if grep -qxF \"$p\" \"$MW_SAVE/held\"; then m=hold; else m=unhold; fi\n"
                "  apt-mark \"$m\" \"$p\" >/dev/null\ndone\n";
  action.undo_title = hold ? "let them change again" : "hold them again";
  action.marks.guard_self = true;
  return action;
}

// Unloading what is in use fails and changes nothing; then the next boot does it.
constexpr std::string_view kReload = R"sh(mw_reload() {
  [ -d /sys/module/nvidia ] || return 0
  up=
  if command -v systemctl >/dev/null 2>&1 && systemctl is-active --quiet nvidia-persistenced 2>/dev/null; then
    up=yes
    systemctl stop nvidia-persistenced || :
  fi
  loaded=
  for m in nvidia_drm nvidia_modeset nvidia_uvm nvidia_peermem; do
    if [ -d "/sys/module/$m" ] && timeout 60 modprobe -r "$m" 2>/dev/null; then loaded="$m $loaded"; fi
  done
  done=yes
  timeout 60 modprobe -r nvidia 2>&1 || done=
  if [ -n "$done" ]; then modprobe nvidia; fi
  for m in $loaded; do modprobe "$m" || :; done
  [ -z "$up" ] || systemctl start nvidia-persistenced || :
  [ -z "$done" ] || return 0
  : >>/run/reboot-required
  grep -qxF 'millwright (gpu.driver)' /run/reboot-required.pkgs 2>/dev/null ||
    echo 'millwright (gpu.driver)' >>/run/reboot-required.pkgs
  echo 'the module is in use: the host needs a reboot for the other version'
}
mw_reload
)sh";

Action reload_action(const std::string& version) {
  Action action;
  action.title = "load nvidia " + version;
  action.script = kReload;
  action.undo = "exit 0\n";
  action.undo_title = "nothing: it is loaded again when the packages are back";
  action.deadline = std::chrono::minutes(10);
  action.marks.guard_self = true;
  return action;
}

// Goes first, so that its undo comes when the packages of before are back.
Action reload_afterwards_action() {
  Action action;
  action.title = "note which module is loaded";
  action.save = "cat /sys/module/nvidia/version >\"$MW_SAVE/version\" 2>/dev/null || :\n";
  action.undo =
      "[ -s \"$MW_SAVE/version\" ] || exit 0\n"
      "[ \"$(cat /sys/module/nvidia/version 2>/dev/null)\" != \"$(cat \"$MW_SAVE/version\")\" ] || exit 0\n" +
      std::string(kReload);
  action.undo_title = "load the module of before";
  action.deadline = std::chrono::minutes(10);
  action.marks.guard_self = true;
  return action;
}

// What is to be done to packages and module, apart from its order.
struct Work {
  std::vector<std::string> missing, unbuilt, to_hold, to_unhold, specs;
  bool loaded_other = false, needs_reboot = false;
};

Work work_of(const GpuFacts& facts, const DriverState& state, const DriverWish& wish, const DriverChoice& choice) {
  Work work;
  for (const std::string& package : choice.packages) {
    if (installed(state, package)) continue;
    work.missing.push_back(package);
    const auto at = state.available.find(package);
    std::string spec = package;
    if (!wish.version.empty() && at != state.available.end()) {
      for (const std::string& version : at->second) {
        if (driver_version_of(version) == choice.version && spec == package) spec += "=" + version;
      }
    }
    work.specs.push_back(spec);
  }
  for (const auto& [package, version] : choice.changes) {
    work.specs.push_back(package + "=" + version);
    if (state.held.count(package) != 0) work.to_unhold.push_back(package);
  }
  for (const std::string& kernel : choice.kernels) {
    const DriverOnDisk* built = facts.driver_on_disk("nvidia", kernel);
    if (built == nullptr || built->version != choice.version) work.unbuilt.push_back(kernel);
  }
  if (wish.hold) {
    for (const auto& [package, version] : state.family) {
      const bool held = state.held.count(package) != 0;
      if (!held || choice.changes.count(package) != 0) work.to_hold.push_back(package);
    }
    work.to_hold.insert(work.to_hold.end(), work.missing.begin(), work.missing.end());
  }
  work.loaded_other = !facts.nvidia_version.empty() && facts.nvidia_version != choice.version;
  work.needs_reboot = work.loaded_other && facts.host.reboot_required;
  return work;
}

void add_actions(const Work& work, const DriverWish& wish, const DriverChoice& choice, Change& change) {
  const bool reload = wish.reload && work.loaded_other && !work.needs_reboot;
  if (reload) change.actions.push_back(reload_afterwards_action());
  if (!work.to_unhold.empty()) change.actions.push_back(mark_action("unhold", work.to_unhold));
  if (!work.specs.empty()) {
    std::vector<std::string> words = work.missing;
    for (const auto& [package, version] : choice.changes) words.push_back(package + " " + version);
    change.actions.push_back(apt::install_action(work.specs, "install " + join(words, ", ")));
  }
  if (!work.unbuilt.empty()) change.actions.push_back(build_action(work.unbuilt, choice.version));
  if (reload) change.actions.push_back(reload_action(choice.version));
  if (!work.to_hold.empty()) change.actions.push_back(mark_action("hold", work.to_hold));
}

std::string diff_of(const Work& work, const DriverState& state, const DriverChoice& choice) {
  std::string diff;
  for (const std::string& package : work.missing) diff += "+ " + package + "\n";
  for (const auto& [package, version] : choice.changes) {
    diff += fmt::format("- {0} {1}\n+ {0} {2}\n", package, state.family.at(package), version);
  }
  return diff;
}

}  // namespace

Result<Change> plan_driver(const GpuFacts& facts, const DriverState& state, const DriverWish& wish,
                           const Knowledge& knowledge) {
  const auto choice = choose_driver(facts, state, wish, knowledge);
  if (!choice) return fail(choice.error());
  const Work work = work_of(facts, state, wish, *choice);
  Change change;
  add_actions(work, wish, *choice, change);
  change.diff = diff_of(work, state, *choice);
  change.summary = fmt::format("nvidia {} ({}, {} module){}", choice->version, choice->method, choice->flavour,
                               change.empty() ? ", as wanted" : "");
  std::vector<std::string> notes = choice->notes;
  if (work.loaded_other && (work.needs_reboot || !wish.reload)) {
    notes.push_back(fmt::format("{} is loaded until {}", facts.nvidia_version,
                                work.needs_reboot ? "the host reboots" : "it is loaded again or the host reboots"));
  }
  for (const std::string& note : notes) change.summary += "; " + note;
  change.outputs = {{"version", choice->version},        {"branch", choice->branch},
                    {"module", choice->flavour},         {"method", choice->method},
                    {"kernels", choice->kernels},        {"needs_reload", work.loaded_other},
                    {"needs_reboot", work.needs_reboot}, {"notes", notes}};
  return change;
}

Result<Change> plan_driver_removal(const GpuFacts& facts, const DriverState& state) {
  const auto refuse = [](std::string message, std::string hint) {
    return fail(make_error(ErrorKind::refused, std::move(message)).with_hint(std::move(hint)));
  };
  if (!state.apt) return refuse("this node has no apt", "only Debian, Ubuntu and Proxmox are known to gpu.driver");
  if (state.run_file) {
    return refuse("the driver is of NVIDIA's .run installer", "nvidia-uninstall --silent takes it away");
  }
  std::vector<std::string> names, held;
  for (const auto& [package, version] : state.family) {
    const std::string number = driver_version_of(version);
    if (!version_at_least(number, "300")) continue;  // CUDA's toolkit and the like
    names.push_back(package);
    if (state.held.count(package) != 0) held.push_back(package);
  }
  Change change;
  change.outputs = {{"version", ""},
                    {"branch", ""},
                    {"module", ""},
                    {"method", ""},
                    {"kernels", Value::array()},
                    {"needs_reload", false},
                    {"needs_reboot", false},
                    {"notes", Value::array()}};
  change.summary = names.empty() ? "no driver is installed" : "nvidia removed: " + join(names, ", ");
  if (names.empty()) return change;
  for (const auto& [address, function] : facts.functions) {
    if (function.driver != "nvidia") continue;
    return refuse(fmt::format("{} is run by nvidia", address),
                  "give the GPUs to another driver first: gpu.bind with driver: none or vfio-pci");
  }
  if (!held.empty()) change.actions.push_back(mark_action("unhold", held));
  change.actions.push_back(apt::remove_action(names, "remove " + join(names, ", "), apt::Conffiles::remove));
  for (const std::string& name : names) change.diff += "- " + name + " " + state.family.at(name) + "\n";
  return change;
}

}  // namespace millwright::gpu
