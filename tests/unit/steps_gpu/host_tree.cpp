#include "tests/unit/steps_gpu/host_tree.hpp"

#include <cstdio>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include <sys/wait.h>
#include <unistd.h>

#include "orchestrator/base/shell.hpp"

namespace millwright::testing_tools {

namespace fs = std::filesystem;

HostTree::HostTree() {
  std::string form = (fs::temp_directory_path() / "mw-gpu-XXXXXX").string();
  if (::mkdtemp(form.data()) == nullptr) throw std::runtime_error("no temporary folder");
  root_ = form;
  write("/proc/sys/kernel/osrelease", "6.8.12-10-pve\n");
  write("/proc/sys/kernel/hostname", "kpro5\n");
  write("/proc/cmdline", "BOOT_IMAGE=/boot/vmlinuz-6.8.12-10-pve root=/dev/sda1 ro quiet\n");
}

HostTree::~HostTree() {
  std::error_code ignored;
  fs::remove_all(root_, ignored);
}

void HostTree::write(const std::string& path, const std::string& content, int mode) const {
  const fs::path file = root_ / path.substr(1);
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << content;
  fs::permissions(file, static_cast<fs::perms>(mode));
}

void HostTree::link(const std::string& path, const std::string& target) const {
  const fs::path file = root_ / path.substr(1);
  fs::create_directories(file.parent_path());
  fs::create_symlink(target, file);
}

std::string HostTree::read(const std::string& path) const {
  std::ifstream in(root_ / path.substr(1), std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

void HostTree::add(const FunctionFiles& f) const {
  const std::string at = "/sys/bus/pci/devices/" + f.address;
  write(at + "/class", f.class_code + "\n");
  write(at + "/vendor", f.vendor + "\n");
  write(at + "/device", f.device + "\n");
  write(at + "/subsystem_vendor", "0x10de\n");
  write(at + "/subsystem_device", "0x1459\n");
  write(at + "/driver_override", f.override_text + "\n");
  write(at + "/power_state", f.power_state + "\n");
  write(at + "/power/control", "on\n");
  write(at + "/d3cold_allowed", "1\n");
  write(at + "/reset_method", "flr bus\n");
  if (f.class_code == "0x030000") write(at + "/boot_vga", "0\n");
  write(at + "/config", std::string("\xde\x10\x30\x22", 4));
  if (!f.driver.empty()) link(at + "/driver", "../../../../bus/pci/drivers/" + f.driver);
  if (f.group < 0) return;
  const std::string group = "/kernel/iommu_groups/" + std::to_string(f.group);
  link(at + "/iommu_group", "../../../.." + group);
  link("/sys" + group + "/devices/" + f.address, "../../../../devices/pci0000:00/" + f.address);
}

void HostTree::add_a6000(const std::string& slot, int group, const std::string& driver,
                         const std::string& audio) const {
  FunctionFiles gpu;
  gpu.address = slot + ".0";
  gpu.driver = driver;
  gpu.group = group;
  add(gpu);
  FunctionFiles sound = gpu;
  sound.address = slot + ".1";
  sound.class_code = "0x040300";
  sound.device = "0x1aef";
  sound.driver = audio;
  add(sound);
}

void HostTree::add_process(int pid, const std::string& command, const std::string& device, const std::string& cgroup,
                           const std::vector<std::string>& arguments) const {
  const std::string at = "/proc/" + std::to_string(pid);
  write(at + "/comm", command + "\n");
  write(at + "/cgroup", cgroup + "\n");
  std::string line;
  for (const std::string& one : arguments) line += one + '\0';
  write(at + "/cmdline", line);
  link(at + "/fd/7", device);
}

std::string HostTree::answer(gpu::FactsQuery query) const {
  query.root = root_.string();
  const fs::path script = root_ / "facts.sh";
  std::ofstream(script) << gpu::facts_script(query);
  const std::string command =
      "env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C /bin/sh -eu " + shell_quote(script.string()) + " </dev/null";
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("no shell");
  std::string out;
  char buffer[4096];
  for (std::size_t n; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) out.append(buffer, n);
  const int status = ::pclose(pipe);
  if (status != 0) throw std::runtime_error("the question ended with " + std::to_string(WEXITSTATUS(status)));
  return out;
}

gpu::GpuFacts HostTree::facts(gpu::FactsQuery query) const {
  auto facts = gpu::parse_gpu_facts(answer(std::move(query)), shipped_knowledge());
  if (!facts) throw std::runtime_error(facts.error().message);
  return std::move(*facts);
}

const Knowledge& shipped_knowledge() {
  static const Knowledge knowledge = [] {
    auto loaded = load_knowledge({SOURCE_DIR "/playbooks/knowledge"});
    if (!loaded) throw std::runtime_error(render(loaded.error().front()));
    return std::move(*loaded);
  }();
  return knowledge;
}

}  // namespace millwright::testing_tools
