#include <algorithm>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"
#include "steps/container/container_backend.hpp"
#include "steps/container/lxc_actions.hpp"
#include "steps/container/lxc_config.hpp"
#include "steps/contract/apt_packages.hpp"

namespace millwright {

namespace {

struct Found {
  std::vector<std::string> missing_tools;  // packages
  std::string state;                       // "RUNNING", "STOPPED", "absent"
  std::string config;
  std::string rootfs_digest;
  bool rootfs = false;
  LxcHost host;
  std::string subnet;  // of our own bridge as its unit says; empty: no such unit
  bool bridge_up = false;
  std::string others;  // addresses of the other containers
  std::string routes;
};

std::string line_of(const std::vector<std::string>& lines, std::size_t i) { return i < lines.size() ? lines[i] : ""; }

Found read(const ContainerSpec& spec, const Answers& answers) {
  Found found;
  const std::vector<std::string> tools = split_lines(answers.text("tools"));
  found.missing_tools = tools;
  const std::vector<std::string> container = split_lines(answers.text("container"));
  found.state = line_of(container, 0);
  found.rootfs = line_of(container, 1) == "rootfs";
  found.rootfs_digest = line_of(container, 2);
  found.config = answers.at("config").out;
  const std::vector<std::string> host = split_lines(answers.text("host"));
  found.host.apparmor = line_of(host, 0) == "apparmor Y";
  found.host.cgroup2 = line_of(host, 1) == "cgroup2fs";
  if (spec.bridge == "auto") {
    const std::vector<std::string> bridge = split_lines(answers.text("bridge"));
    found.bridge_up = line_of(bridge, 0) == "up";
    found.subnet = line_of(bridge, 1);
    found.others = answers.text("others");
    found.routes = answers.text("routes");
  }
  return found;
}

std::string tools_question(const ContainerSpec& spec) {
  std::string script = "need() { command -v \"$1\" >/dev/null 2>&1 || echo \"$2\"; }\nneed lxc-start lxc\n";
  if (!spec.image.from_tarball()) script += "need mmdebstrap mmdebstrap\n";
  if (spec.bridge == "auto") script += "need nft nftables\nneed ip iproute2\nneed sysctl procps\n";
  return script;
}

std::string container_question(const ContainerSpec& spec) {
  const std::string folder = shell_quote(lxc_folder(spec.name));
  return "if [ ! -e " + folder + " ]; then echo absent; exit 0; fi\n" + "lxc-info -n " + shell_quote(spec.name) +
         " -sH 2>/dev/null || echo STOPPED\n" + "if [ -d " + folder +
         "/rootfs ]; then echo rootfs; else echo none; fi\n" + "cat " + folder + "/" + kRootfsMarker +
         " 2>/dev/null || :\n";
}

// Existing containers keep their address: it is in their configuration.
Result<LxcNetwork> network_for(const ContainerSpec& spec, const Found& found) {
  if (spec.bridge != "auto") return LxcNetwork{spec.bridge, spec.address, spec.gateway};
  std::string subnet = found.subnet;
  if (subnet.empty()) {
    const auto number = free_subnet(found.routes);
    if (!number) {
      return fail(make_error(ErrorKind::refused, "no network of 10.213.0.0/16 is free on the node")
                      .with_hint("name a bridge of the node and an address: bridge, address, gateway"));
    }
    subnet = "10.213." + std::to_string(*number) + ".";
  }
  std::string address = spec.address;
  if (address == "auto") {
    const auto before = lxc_config_value(found.config, "lxc.net.0.ipv4.address");
    if (before && starts_with(*before, subnet)) {
      address = *before;
    } else if (const auto host = free_host(subnet, found.others)) {
      address = subnet + std::to_string(*host) + "/24";
    } else {
      return fail(ErrorKind::refused, "all addresses of " + subnet + "0/24 are taken by containers");
    }
  }
  return LxcNetwork{kOwnBridge, address, subnet + "1"};
}

std::string diff_of(const std::string& before, const std::string& after) {
  const std::vector<std::string> old_lines = split_lines(before);
  const std::vector<std::string> new_lines = split_lines(after);
  const auto lacks = [](const std::vector<std::string>& lines, const std::string& line) {
    return std::find(lines.begin(), lines.end(), line) == lines.end();
  };
  std::string out;
  for (const std::string& line : old_lines) {
    if (lacks(new_lines, line)) out += "- " + line + "\n";
  }
  for (const std::string& line : new_lines) {
    if (lacks(old_lines, line)) out += "+ " + line + "\n";
  }
  return out;
}

class LxcBackend final : public ContainerBackend {
 public:
  std::string name() const override { return "lxc"; }

  std::vector<Question> ask(const ContainerSpec& spec) const override {
    const std::string folder = shell_quote(lxc_folder(spec.name));
    if (spec.state == ContainerState::existing) {
      const std::string name = shell_quote(spec.name);
      return {{.key = "running",
               .script = "lxc-info -n " + name + " -sH 2>/dev/null || echo absent\nlxc-info -n " + name +
                         " -iH 2>/dev/null | grep -v : | head -n 1 || :\n"}};
    }
    std::vector<Question> out = {
        {.key = "tools", .script = tools_question(spec)},
        {.key = "container", .script = container_question(spec)},
        {.key = "config", .script = "cat " + folder + "/config 2>/dev/null || :\n"},
        {.key = "host",
         .script = "echo \"apparmor $(cat /sys/module/apparmor/parameters/enabled 2>/dev/null || :)\"\n"
                   "stat -fc %T /sys/fs/cgroup\n"},
    };
    if (spec.bridge == "auto") {
      out.push_back(
          {.key = "bridge",
           .script = "if [ -e /sys/class/net/mwbr0 ] && systemctl is-active -q millwright-bridge.service; then "
                     "echo up; else echo down; fi\n"
                     "sed -n 's|.*ip addr replace \\([0-9.]*\\)1/24 dev mwbr0.*|\\1|p' " +
                     std::string(kBridgeUnitPath) + " 2>/dev/null || :\n"});
      out.push_back({.key = "others",
                     .script = "for f in /var/lib/lxc/*/config; do if [ -e \"$f\" ] && [ \"$f\" != " + folder +
                               "/config ]; then sed -n 's/^lxc.net.0.ipv4.address *= *//p' \"$f\"; fi; done\n"});
      // Our own bridge does not compete with itself.
      out.push_back({.key = "routes",
                     .script =
                         "{ ip -4 -o addr; ip -4 route; } 2>/dev/null | grep -v mwbr0 | "
                         "sed -n 's/.*inet \\([0-9./]*\\).*/\\1/p; s|^\\([0-9.]*/[0-9]*\\) .*|\\1|p' | sort -u\n"});
    }
    return out;
  }

  Result<Change> plan(const ContainerSpec& spec, const Answers& answers) const override {
    if (spec.state == ContainerState::existing) return take_existing(spec, answers);
    const Found found = read(spec, answers);
    if (found.state != "absent" && found.rootfs_digest.empty() && (found.rootfs || !found.config.empty())) {
      return fail(make_error(ErrorKind::refused, "a container " + spec.name + " is there that millwright did not make")
                      .with_hint("give yours another name, or remove that one (lxc-destroy -n " + spec.name + ")"));
    }
    if (spec.state == ContainerState::absent) return plan_absent(spec, found);
    if (!found.rootfs_digest.empty() && found.rootfs_digest != spec.image.digest()) {
      return fail(make_error(ErrorKind::refused, "container " + spec.name + " was made from another image")
                      .with_hint("destroy it first (state: absent), or give the new one another name"));
    }
    return plan_present(spec, found);
  }

 private:
  static Result<Change> take_existing(const ContainerSpec& spec, const Answers& answers) {
    const std::vector<std::string> lines = split_lines(answers.text("running"));
    if (line_of(lines, 0) != "RUNNING") {
      return fail(make_error(ErrorKind::refused, "there is no running container " + spec.name + " on the node")
                      .with_hint("lxc-ls -f there lists them"));
    }
    Change change;
    change.summary = "container " + spec.name + " runs";
    change.outputs = {
        {"node", {{"backend", "lxc"}, {"id", spec.name}}}, {"name", spec.name}, {"address", line_of(lines, 1)}};
    return change;
  }

  static Result<Change> plan_absent(const ContainerSpec& spec, const Found& found) {
    Change change;
    change.summary = "container " + spec.name + (found.state == "absent" ? " is absent, as wanted" : " destroyed");
    if (found.state != "absent") change.actions.push_back(destroy_action(spec));
    return change;
  }

  static Result<Change> plan_present(const ContainerSpec& spec, const Found& found) {
    auto network = network_for(spec, found);
    if (!network) return fail(network.error());
    Change change;
    if (!found.missing_tools.empty()) change.actions.push_back(install_packages_action(found.missing_tools));
    if (spec.bridge == "auto" && (!found.bridge_up || found.subnet.empty())) {
      change.actions.push_back(bridge_action(network->gateway.substr(0, network->gateway.rfind('.') + 1)));
    }
    if (!found.rootfs || found.rootfs_digest.empty()) {
      if (spec.image.from_tarball() && !spec.image.tarball_on_node()) change.actions.push_back(cache_folder_action());
      change.actions.push_back(rootfs_action(spec));
    }
    const bool running = found.state == "RUNNING";
    const bool wanted_running = spec.state == ContainerState::started;
    const std::string config = lxc_config(spec, found.host, *network);
    if (config != found.config) {
      change.actions.push_back(configure_action(spec, config, running && wanted_running));
      change.diff = lxc_folder(spec.name) + "/config\n" + diff_of(found.config, config);
    }
    if (wanted_running && !running) change.actions.push_back(start_action(spec));
    if (!wanted_running && running) change.actions.push_back(stop_action(spec));
    describe(spec, found, network->address, change);
    return change;
  }

  static void describe(const ContainerSpec& spec, const Found& found, const std::string& address, Change& change) {
    const std::string ip = address.substr(0, address.find('/'));
    if (change.empty()) {
      change.summary = "container " + spec.name + " at " + ip + ", as wanted";
    } else if (found.state == "absent") {
      change.summary = "container " + spec.name + " created, " + ip;
    } else {
      change.summary = "container " + spec.name + " changed";
    }
    change.outputs = {{"node", {{"backend", "lxc"}, {"id", spec.name}}}, {"name", spec.name}, {"address", ip}};
  }
};

}  // namespace

const ContainerBackend& lxc_backend() {
  static const LxcBackend backend;
  return backend;
}

}  // namespace millwright
