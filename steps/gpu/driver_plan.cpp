#include <fmt/format.h>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"
#include "steps/contract/apt_packages.hpp"
#include "steps/gpu/driver_choice.hpp"

namespace millwright::gpu {

namespace {

bool installed(const DriverState& state, const std::string& package) {
  const auto at = state.packages.find(package);
  return at != state.packages.end() && !at->second.installed.empty();
}

// Builds what the package's own script should have built, and says why where it cannot.
Action build_action(const std::vector<std::string>& kernels, const std::string& driver) {
  Action action;
  action.title = "build the module for " + join(kernels, ", ");
  action.save = ": >\"$MW_SAVE/built\"\n";
  for (const std::string& kernel : kernels) {
    action.script += fmt::format(
        "dkms autoinstall -k {0} >/dev/null 2>&1 || :\n"
        "modinfo -k {0} {1} >/dev/null 2>&1 || modinfo -k {0} {1}-current >/dev/null 2>&1 || {{\n"
        "  echo \"the module does not build for kernel\" {0} >&2\n"
        "  for f in /var/lib/dkms/nvidia*/*/build/make.log; do [ ! -e \"$f\" ] || grep -E 'error|Error' \"$f\" | head "
        "-n 5 >&2; "
        "done\n"
        "  exit 1\n}}\n",
        shell_quote(kernel), shell_quote(driver));
  }
  action.undo = "exit 0\n";  // the package takes what was built for it along
  action.undo_title = "nothing: what was built goes with the package";
  action.deadline = std::chrono::minutes(30);
  action.marks.guard_self = true;
  return action;
}

// All of the family: holding some of it lets the rest move away from it.
Action hold_action(const std::vector<std::string>& packages) {
  const std::string names = shell_join(packages);
  Action action;
  action.title = "hold " + join(packages, ", ");
  action.save = "apt-mark showhold >\"$MW_SAVE/held\"\n";
  action.script = "apt-mark hold " + names + " >/dev/null\n";
  action.undo = "[ -e \"$MW_SAVE/held\" ] || exit 0\nfor p in " + names +
                "; do grep -qxF \"$p\" \"$MW_SAVE/held\" || apt-mark unhold \"$p\" >/dev/null; done\n";
  action.undo_title = "let them change again";
  action.marks.guard_self = true;
  return action;
}

}  // namespace

Result<Change> plan_driver(const GpuFacts& facts, const DriverState& state, const DriverWish& wish,
                           const Knowledge& knowledge) {
  const auto choice = choose_driver(facts, state, wish, knowledge);
  if (!choice) return fail(choice.error());
  Change change;
  std::vector<std::string> missing, unbuilt, to_hold;
  for (const std::string& package : choice->packages) {
    if (!installed(state, package)) missing.push_back(package);
  }
  for (const std::string& kernel : choice->kernels) {
    if (facts.driver_on_disk("nvidia", kernel) == nullptr) unbuilt.push_back(kernel);
  }
  if (wish.hold) {
    for (const auto& [package, version] : state.family) {
      if (state.held.count(package) == 0) to_hold.push_back(package);
    }
    for (const std::string& package : missing) to_hold.push_back(package);
  }
  if (!missing.empty()) {
    change.actions.push_back(install_packages_action(missing));
    change.actions.back().deadline = std::chrono::minutes(60);
    for (const std::string& package : missing) change.diff += "+ " + package + "\n";
  }
  if (!unbuilt.empty()) change.actions.push_back(build_action(unbuilt, "nvidia"));
  if (!to_hold.empty()) change.actions.push_back(hold_action(to_hold));
  const bool reload = !facts.nvidia_version.empty() && facts.nvidia_version != choice->version;
  change.summary = fmt::format("nvidia {} ({}, {} module){}", choice->version, choice->method, choice->flavour,
                               change.empty() ? ", as wanted" : "");
  std::vector<std::string> notes = choice->notes;
  if (reload) {
    notes.push_back(fmt::format("{} is loaded until it is loaded again or the host reboots", facts.nvidia_version));
  }
  for (const std::string& note : notes) change.summary += "; " + note;
  change.outputs = {{"version", choice->version},
                    {"branch", choice->branch},
                    {"module", choice->flavour},
                    {"method", choice->method},
                    {"kernels", choice->kernels},
                    {"needs_reload", reload},
                    {"notes", notes}};
  return change;
}

}  // namespace millwright::gpu
