#include "steps/gpu/driver_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"
#include "orchestrator/base/units.hpp"
#include "steps/contract/apt_packages.hpp"

namespace millwright::gpu {

namespace {

Failure refuse(std::string message, std::string hint, const std::string& source = {}) {
  if (!source.empty()) message += " [" + source + "]";
  return fail(make_error(ErrorKind::refused, std::move(message)).with_hint(std::move(hint)));
}

bool holds(const Value& list, const std::string& one) {
  return std::find(list.begin(), list.end(), Value(one)) != list.end();
}

// The numbers at the beginning: "6.17.2-1-pve" -> 6, 17, 2.
std::vector<int> leading_numbers(const std::string& text) {
  std::vector<int> out;
  for (const std::string& part : split(text, '.')) {
    int value = 0;
    const auto end = std::from_chars(part.data(), part.data() + part.size(), value);
    if (end.ec != std::errc()) break;
    out.push_back(value);
    if (end.ptr != part.data() + part.size()) break;
  }
  return out;
}

bool at_least(const std::string& version, const std::string& floor) {
  return leading_numbers(version) >= leading_numbers(floor);
}

class Chooser {
 public:
  Chooser(const GpuFacts& facts, const DriverState& state, const DriverWish& wish, const Knowledge& knowledge)
      : facts_(facts), state_(state), wish_(wish), knowledge_(knowledge), data_(knowledge.file("gpu")) {}

  Result<DriverChoice> choose() {
    for (const auto step : {&Chooser::look_at_system, &Chooser::choose_method, &Chooser::look_at_gpus,
                            &Chooser::choose_packages, &Chooser::look_at_architectures, &Chooser::look_at_kernels,
                            &Chooser::look_at_others, &Chooser::choose_changes}) {
      if (auto fine = (this->*step)(); !fine) return fail(fine.error());
    }
    return std::move(choice_);
  }

 private:
  Result<void> look_at_system() {
    if (!state_.apt) return refuse("this node has no apt", "only Debian, Ubuntu and Proxmox are known to gpu.driver");
    if (!state_.half_installed.empty()) {
      const std::vector<std::string> names(state_.half_installed.begin(), state_.half_installed.end());
      return refuse("packages are left half installed: " + join(names, ", "),
                    "dpkg --configure -a says why; a module that does not build leaves them so", "pop-os/pop#3811");
    }
    if (state_.run_file) {
      return refuse("a driver of NVIDIA's .run installer is here; packages beside it break both",
                    "nvidia-uninstall --silent takes it away", "NVIDIA/nvidia-docker#62");
    }
    choice_.kernels = {facts_.host.kernel};
    const std::string& next = facts_.host.next_kernel;
    if (!next.empty() && next != facts_.host.kernel) choice_.kernels.push_back(next);
    return {};
  }

  Result<void> choose_method() {
    choice_.method = wish_.method;
    if (wish_.method == "auto") {
      choice_.method = state_.nvidia_repo ? "nvidia-repo" : facts_.host.os_id == "ubuntu" ? "ubuntu" : "debian";
    }
    if (choice_.method == "nvidia-repo" && !state_.nvidia_repo) {
      return refuse("NVIDIA's package source is not set up on this node",
                    "install its cuda-keyring package first; steps `command` or `package` can");
    }
    if (choice_.method != "nvidia-repo" && state_.nvidia_repo) {
      return refuse(fmt::format("NVIDIA's package source is set up here, and method is {}: apt would mix the two",
                                choice_.method),
                    "use method: nvidia-repo, or take the source out", "NVIDIA/ansible-role-nvidia-driver#11");
    }
    return {};
  }

  Result<void> look_at_gpus() {
    for (const Gpu& gpu : facts_.gpus) {
      if (!facts_.function(gpu.address).is_nvidia()) continue;
      if (gpu.product.architecture.empty()) {
        choice_.notes.push_back(fmt::format("{} ({}) is in no data: whether the driver knows it is not checked",
                                            gpu.address, facts_.function(gpu.address).id()));
      } else {
        architectures_.insert(gpu.product.architecture);
      }
    }
    if (facts_.gpus.empty()) return refuse("there is no GPU on this node", "lspci -nn shows what there is");
    // What all of them work with.
    for (const char* flavour : {"open", "proprietary"}) {
      const bool all = std::all_of(architectures_.begin(), architectures_.end(), [&](const std::string& one) {
        const Value* row = flavour_row(one);
        return row == nullptr || holds(row->at("modules"), flavour);
      });
      if (all) flavours_.insert(flavour);
    }
    if (flavours_.empty()) {
      return refuse(
          "no module runs all GPUs of this node: " + join({architectures_.begin(), architectures_.end()}, " and "),
          "one of them needs the open module, another one the proprietary module");
    }
    if (wish_.module != "auto" && flavours_.count(wish_.module) == 0) {
      const auto which = std::find_if(architectures_.begin(), architectures_.end(), [&](const std::string& one) {
        const Value* row = flavour_row(one);
        return row != nullptr && !holds(row->at("modules"), wish_.module);
      });
      return refuse(fmt::format("the {} module does not run {} GPUs", wish_.module, *which),
                    "module: " + *flavours_.begin(), flavour_row(*which)->at("source"));
    }
    return {};
  }

  const Value* flavour_row(const std::string& architecture) const {
    for (const Value& row : data_.at("flavours")) {
      if (holds(row.at("architectures"), architecture)) return &row;
    }
    return nullptr;
  }

  const Value* branch_row(const std::string& branch) const {
    for (const Value& row : data_.at("branches")) {
      if (std::to_string(row.at("branch").get<int>()) == branch) return &row;
    }
    return nullptr;
  }

  const Value* package_row(const std::string& flavour) const {
    for (const Value& row : data_.at("packages")) {
      if (row.at("method") == choice_.method && row.at("flavour") == flavour) return &row;
    }
    return nullptr;
  }

  // The version that a package will have: what is there stays unless another one is asked for.
  std::string candidate(const std::string& package) const {
    const auto at = state_.packages.find(package);
    const DriverState::Package known = at == state_.packages.end() ? DriverState::Package() : at->second;
    if (!wish_.version.empty() && wish_.version != "newest") return available(package, wish_.version);
    const bool newest = wish_.version == "newest" || known.installed.empty();
    return newest && !known.candidate.empty() ? known.candidate : known.installed;
  }

  std::string available(const std::string& package, const std::string& driver) const {
    const auto at = state_.available.find(package);
    if (at == state_.available.end()) return {};
    const auto same = [&](const std::string& version) { return driver_version_of(version) == driver; };
    const auto found = std::find_if(at->second.begin(), at->second.end(), same);
    return found == at->second.end() ? std::string() : *found;
  }

  // All that is installed of the driver moves together.
  Result<void> choose_changes() {
    for (const auto& [package, installed] : driver_packages(state_, knowledge_)) {
      if (driver_version_of(installed) == choice_.version) continue;
      const std::string version = available(package, choice_.version);
      if (version.empty()) {
        return refuse(fmt::format("{} {} is installed, and apt has no {} of it", package, installed, choice_.version),
                      "apt-cache madison " + package + " shows what there is; a package that is not needed can go");
      }
      if (state_.held.count(package) != 0 && !wish_.hold) {
        return refuse(fmt::format("{} is held at {}", package, installed),
                      "apt-mark unhold " + package + " lets it change; so does hold: true, which holds it again");
      }
      choice_.changes[package] = version;
    }
    return {};
  }

  // With Ubuntu the branch is in the name; elsewhere it is whatever the source has.
  std::vector<std::string> branches_to_try() const {
    std::vector<std::string> out;
    if (choice_.method != "ubuntu") return {"any"};
    for (const Value& row : data_.at("branches")) out.push_back(std::to_string(row.at("branch").get<int>()));
    std::reverse(out.begin(), out.end());
    return wish_.branch == "auto" ? out : std::vector<std::string>{wish_.branch};
  }

  // Whether the data says that this version runs these GPUs on these kernels.
  bool suits(const std::string& version) const {
    const Value* branch = branch_row(split(version, '.').front());
    if (branch != nullptr && !std::all_of(architectures_.begin(), architectures_.end(), [&](const std::string& one) {
          return holds(branch->at("architectures"), one);
        })) {
      return false;
    }
    return std::all_of(choice_.kernels.begin(), choice_.kernels.end(),
                       [&](const std::string& kernel) { return floor_against(kernel, version) == nullptr; });
  }

  Result<void> choose_packages() {
    std::string seen;
    for (const std::string& branch : branches_to_try()) {
      for (const std::string& flavour : wanted_flavours(branch)) {
        const Value* row = package_row(flavour);
        if (row == nullptr) continue;
        const std::string module = replace_all(row->at("module").get<std::string>(), "BRANCH", branch);
        const std::string version = driver_version_of(candidate(module));
        if (version.empty()) continue;
        seen = seen.empty() ? version : seen;
        const bool last_resort = choice_.version.empty();
        if (!last_resort && !suits(version)) continue;
        if (!last_resort && suits(choice_.version)) continue;
        choice_.flavour = flavour;
        choice_.version = version;
        choice_.branch = split(version, '.').front();
        choice_.module_package = module;
        choice_.packages = {module};
        for (const Value& one : row->at("others")) {
          choice_.packages.push_back(replace_all(one.get<std::string>(), "BRANCH", branch));
        }
      }
    }
    if (choice_.version.empty() && !wish_.version.empty() && wish_.version != "newest") {
      return refuse(fmt::format("apt has no version {} of the driver (method {}, module {})", wish_.version,
                                choice_.method, wish_.module),
                    "apt-cache madison nvidia-kernel-dkms nvidia-kernel-open-dkms shows what there is");
    }
    if (choice_.version.empty()) {
      return refuse(
          fmt::format("apt knows no package of the driver (method {}, module {})", choice_.method, wish_.module),
          choice_.method == "debian" ? "add the components contrib, non-free and non-free-firmware, then apt update"
                                     : "apt update; is the component restricted, or NVIDIA's source, there?");
    }
    if (wish_.branch != "auto" && choice_.branch != wish_.branch) {
      return refuse(fmt::format("apt has {} of the driver, not branch {}", choice_.version, wish_.branch),
                    "another method may have it: nvidia-repo has most branches");
    }
    return {};
  }

  // The preferred one first.
  std::vector<std::string> wanted_flavours(const std::string& branch) const {
    if (wish_.module != "auto") return {wish_.module};
    std::string preferred = "open";
    const auto module = candidate(choice_.method == "debian" ? "nvidia-kernel-dkms" : "nvidia-kernel-open-dkms");
    const Value* row = branch_row(branch == "any" ? split(driver_version_of(module), '.').front() : branch);
    if (row != nullptr) preferred = row->at("default");
    std::vector<std::string> out;
    if (flavours_.count(preferred) != 0) out.push_back(preferred);
    for (const std::string& one : flavours_) {
      if (one != preferred) out.push_back(one);
    }
    return out;
  }

  Result<void> look_at_architectures() {
    const Value* row = branch_row(choice_.branch);
    if (row == nullptr) {
      choice_.notes.push_back("branch " + choice_.branch + " is in no data: what it runs is not checked");
      return {};
    }
    for (const std::string& one : architectures_) {
      if (holds(row->at("architectures"), one)) continue;
      return refuse(fmt::format("driver {} does not run {} GPUs", choice_.version, one),
                    "branches that do: " + branches_for(one), row->at("source"));
    }
    if (!holds(row->at("modules"), choice_.flavour)) {
      return refuse(fmt::format("branch {} has no {} module", choice_.branch, choice_.flavour), "module: open",
                    row->at("source"));
    }
    return {};
  }

  std::string branches_for(const std::string& architecture) const {
    std::vector<std::string> out;
    for (const Value& row : data_.at("branches")) {
      if (holds(row.at("architectures"), architecture)) out.push_back(std::to_string(row.at("branch").get<int>()));
    }
    return join(out, ", ");
  }

  const Value* floor_against(const std::string& kernel, const std::string& version) const {
    for (const Value& row : data_.at("kernel_floors")) {
      if (!version_at_least(kernel, row.at("kernel"))) continue;
      return at_least(version, row.at("driver").get<std::string>()) ? nullptr : &row;
    }
    return nullptr;
  }

  Result<void> look_at_kernels() {
    for (const std::string& kernel : choice_.kernels) {
      if (const Value* row = floor_against(kernel, choice_.version)) {
        return refuse(fmt::format("driver {} does not build for kernel {}: that needs {} or newer", choice_.version,
                                  kernel, row->at("driver").get<std::string>()),
                      "method: nvidia-repo has newer ones; or pin an older kernel", row->at("source"));
      }
      const auto headers = state_.headers.find(kernel);
      if (headers != state_.headers.end() && headers->second) continue;
      const auto package = state_.header_packages.find(kernel);
      if (package == state_.header_packages.end()) {
        return refuse(fmt::format("the headers of kernel {} are not installed, and apt has none", kernel),
                      "apt update; a kernel that is no longer in the sources has to be replaced by one that is");
      }
      choice_.packages.push_back(package->second);
    }
    return {};
  }

  Result<void> look_at_others() {
    if (facts_.host.secure_boot == true && choice_.method != "ubuntu" && !state_.key_enrolled) {
      return refuse(
          "Secure Boot is on, and a module that is built here is signed with a key that the firmware does not know",
          "mokutil --import /var/lib/dkms/mok.pub, reboot, and confirm at the console (MokManager); then run this "
          "again",
          "dkms-project/dkms#347");
    }
    std::set<std::string> versions;
    for (const auto& [package, version] : driver_packages(state_, knowledge_))
      versions.insert(driver_version_of(version));
    if (versions.size() > 1) {
      return refuse("packages of different drivers are installed: " + join({versions.begin(), versions.end()}, ", "),
                    "apt-get purge what belongs to the wrong one; apt list --installed '*nvidia*' shows them",
                    "Syllo/nvtop#125");
    }
    return {};
  }

  const GpuFacts& facts_;
  const DriverState& state_;
  const DriverWish& wish_;
  const Knowledge& knowledge_;
  const Value& data_;
  DriverChoice choice_;
  std::set<std::string> architectures_, flavours_;
};

}  // namespace

bool version_at_least(const std::string& version, const std::string& floor) { return at_least(version, floor); }

std::string driver_version_of(const std::string& package_version) {
  std::string out = package_version.substr(package_version.find(':') + 1);
  return out.substr(0, out.find_first_of("-~+"));
}

std::map<std::string, std::string> driver_packages(const DriverState& state, const Knowledge& knowledge) {
  std::set<std::string> own;
  for (const Value& row : knowledge.file("gpu").value("own_versions", Value::array()))
    own.insert(row.at("package").get<std::string>());
  std::map<std::string, std::string> out;
  for (const auto& [package, version] : state.family) {
    const std::string number = driver_version_of(version);
    // Drivers are 535.261.03; CUDA's toolkit is 11.8, and a date has no dots.
    const bool driver = number.find('.') != std::string::npos && at_least(number, "300");
    if (driver && own.count(package) == 0) out[package] = version;
  }
  return out;
}

Result<DriverChoice> choose_driver(const GpuFacts& facts, const DriverState& state, const DriverWish& wish,
                                   const Knowledge& knowledge) {
  return Chooser(facts, state, wish, knowledge).choose();
}

}  // namespace millwright::gpu
