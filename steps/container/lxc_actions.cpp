#include "steps/container/lxc_actions.hpp"

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"
#include "steps/container/lxc_config.hpp"

namespace millwright {

namespace {

// Fills @NAME@ with quoted values, so that the scripts below read as scripts.
std::string fill(std::string script, const std::vector<std::pair<std::string, std::string>>& values) {
  for (const auto& [name, value] : values)
    script = replace_all(std::move(script), "@" + name + "@", shell_quote(value));
  return script;
}

FilePlacement text_file(std::string path, const std::string& text, std::string mode) {
  FilePlacement file;
  file.path = std::move(path);
  file.content = std::make_shared<const std::string>(text);
  file.mode = std::move(mode);
  return file;
}

// A start that fails says why only in LXC's own log.
constexpr const char* kStart = R"sh(log=/var/log/lxc/@NAME@.millwright.log; mkdir -p /var/log/lxc; : > "$log"
if [ "$(lxc-info -n @NAME@ -sH)" != RUNNING ]; then
  lxc-start -n @NAME@ -l INFO -o "$log" || { grep -E ' (ERROR|FATAL) ' "$log" | tail -n 20 >&2; exit 1; }
fi
)sh";

// Ready means: the init inside answers. "degraded" is a finished boot too.
constexpr const char* kWaitBooted = R"sh(n=0
while :; do
  state=$(lxc-attach -n @NAME@ --clear-env -- /bin/systemctl is-system-running 2>/dev/null </dev/null) || :
  case $state in running|degraded) break ;; esac
  n=$((n + 1)); [ $n -lt 120 ] || { echo "the container did not finish booting: ${state:-no answer}" >&2; exit 1; }
  sleep 0.5
done
)sh";

constexpr const char* kStop = R"sh(if [ "$(lxc-info -n @NAME@ -sH 2>/dev/null)" = RUNNING ]; then
  lxc-stop -n @NAME@ -t 30
fi
)sh";

std::string placed_config_unchanged(const std::string& folder, const std::string& config) {
  return fill(R"sh(if [ -e @CONFIG@ ] && [ "$(sha256sum < @CONFIG@ | cut -d ' ' -f 1)" != @SHA@ ]; then
  if [ ! -e "$MW_SAVE/config" ] || ! cmp -s @CONFIG@ "$MW_SAVE/config"; then
    echo "the configuration "@CONFIG@" was changed by someone else since" >&2
    [ -n "${MW_FORCE:-}" ] || exit 65
    cp -p @CONFIG@ "$MW_SAVE/config.forced"
  fi
fi
)sh",
              {{"CONFIG", folder + "/config"}, {"SHA", sha256_hex(config)}});
}

std::string copy_node_settings() {
  // Behind a proxy or a private certificate authority the container needs what the node needed. A resolver on the
  // node's loopback does not exist in the container: the one behind it is taken.
  return R"sh(for f in /usr/local/share/ca-certificates /etc/ssl/certs/ca-certificates.crt /etc/pip.conf; do
  to=$new${f%/*}
  if [ -e "$f" ]; then mkdir -p "$to"; cp -aL "$f" "$to/"; fi
done
resolv=/etc/resolv.conf
if grep -q '^nameserver 127\.' /etc/resolv.conf && [ -e /run/systemd/resolve/resolv.conf ]; then
  resolv=/run/systemd/resolve/resolv.conf
fi
rm -f "$new/etc/resolv.conf"; cat "$resolv" > "$new/etc/resolv.conf"
grep -iE '^(http|https|no|ftp)_proxy=' /etc/environment >> "$new/etc/environment" 2>/dev/null || :
)sh";
}

std::string make_by_mmdebstrap(const ContainerImage& image) {
  std::vector<std::string> packages = {"systemd", "systemd-sysv", "dbus"};
  packages.insert(packages.end(), image.packages.begin(), image.packages.end());
  return fill(R"sh(sources=
for f in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
  if [ -s "$f" ]; then sources="$sources $f"; fi
done
[ -n "$sources" ] || { echo "the node has no package sources under /etc/apt" >&2; exit 1; }
apt-config dump | grep -E '^Acquire::(Check-|http|https|Retries)' > "$folder/apt.conf" || :
mmdebstrap --quiet --variant=minbase --aptopt="$folder/apt.conf" --include=@PACKAGES@ @SUITE@ "$new" $sources
rm -f "$folder/apt.conf"
)sh",
              {{"PACKAGES", join(packages, ",")}, {"SUITE", image.suite}});
}

std::string make_from_tarball(const ContainerImage& image) {
  return fill(R"sh(have=$(sha256sum @TAR@ | cut -d ' ' -f 1)
[ "$have" = @SHA@ ] || { echo @TAR@" has SHA-256 $have, wanted "@SHA@ >&2; exit 1; }
mkdir "$new"
tar -C "$new" --numeric-owner --xattrs -xf @TAR@
[ -d "$new/etc" ] || { echo @TAR@" holds no root file system: no etc/ at its top" >&2; exit 1; }
)sh",
              {{"TAR", image.node_path()}, {"SHA", image.sha256}});
}

}  // namespace

std::string bridge_unit(const std::string& subnet) {
  const std::string network = subnet + "0/24";
  const std::string bridge = kOwnBridge;
  return "# Written by millwright: the bridge of its containers.\n"
         "[Unit]\nDescription=Bridge " +
         bridge +
         " for millwright's containers\n"
         "After=network.target\nBefore=lxc.service\n\n"
         "[Service]\nType=oneshot\nRemainAfterExit=yes\n"
         "ExecStart=/bin/sh -ec 'ip link show " +
         bridge + " >/dev/null 2>&1 || ip link add " + bridge +
         " type bridge; "
         "ip addr replace " +
         subnet + "1/24 dev " + bridge + "; ip link set " + bridge +
         " up; "
         "sysctl -qw net.ipv4.ip_forward=1; nft delete table ip millwright 2>/dev/null || :; "
         "nft \"add table ip millwright; "
         "add chain ip millwright out { type nat hook postrouting priority 100 ; }; "
         "add rule ip millwright out ip saddr " +
         network + " oifname != " + bridge +
         " masquerade\"'\n"
         "ExecStop=/bin/sh -c 'nft delete table ip millwright; ip link del " +
         bridge +
         "'\n\n"
         "[Install]\nWantedBy=multi-user.target\n";
}

Action bridge_action(const std::string& subnet) {
  const std::string unit = bridge_unit(subnet);
  Action action;
  action.title = std::string("bring up bridge ") + kOwnBridge + " (" + subnet + "0/24, NAT)";
  action.files.push_back(text_file(kBridgeUnitPath, unit, "0644"));
  action.save =
      "if [ -e " + std::string(kBridgeUnitPath) + " ]; then cp " + kBridgeUnitPath + " \"$MW_SAVE/unit\"; fi\n";
  action.script =
      "systemctl daemon-reload\nsystemctl enable -q millwright-bridge.service\n"
      "systemctl restart millwright-bridge.service\n";
  action.undo = R"sh(if grep -lqsE '^lxc.net.0.link *= *mwbr0$' /var/lib/lxc/*/config; then
  echo "containers still use the bridge mwbr0" >&2; exit 65
fi
if [ -e "$MW_SAVE/unit" ]; then
  cp "$MW_SAVE/unit" /etc/systemd/system/millwright-bridge.service
  systemctl daemon-reload; systemctl restart millwright-bridge.service
elif [ -e /etc/systemd/system/millwright-bridge.service ]; then
  systemctl disable -q --now millwright-bridge.service || :
  rm -f /etc/systemd/system/millwright-bridge.service; systemctl daemon-reload
fi
)sh";
  action.undo_title = "take the bridge down";
  action.marks.guard_self = true;
  return action;
}

Action cache_folder_action() {
  Action action;
  action.title = "make /var/lib/millwright/cache";
  action.script = "mkdir -p /var/lib/millwright/cache; chmod 0700 /var/lib/millwright/cache\n";
  action.undo = "rmdir /var/lib/millwright/cache 2>/dev/null || :\n";
  action.undo_title = "remove /var/lib/millwright/cache when empty";
  action.marks.guard_self = true;
  return action;
}

Action rootfs_action(const ContainerSpec& spec) {
  const std::string folder = lxc_folder(spec.name);
  Action action;
  action.title = "make the root file system of " + spec.name + " from " +
                 (spec.image.from_tarball() ? spec.image.rootfs : spec.image.suite);
  if (spec.image.from_tarball() && !spec.image.tarball_on_node()) {
    FilePlacement tarball;
    tarball.path = spec.image.node_path();
    tarball.local_path = spec.image.rootfs;
    tarball.mode = "0600";
    action.files.push_back(tarball);
  }
  action.script = fill("folder=@FOLDER@; new=$folder/rootfs.partial\n", {{"FOLDER", folder}});
  // A container is some hundred MiB at least; said before minutes are spent.
  action.script += R"sh(mkdir -p "$folder"; chmod 0755 "$folder"
free=$(df -Pk "$folder" | awk 'NR == 2 { print $4 }')
[ "$free" -ge 1048576 ] || { echo "only $((free / 1024)) MiB are free under $folder, 1024 MiB are needed" >&2; exit 1; }
rm -rf --one-file-system "$new"
)sh";
  action.script += spec.image.from_tarball() ? make_from_tarball(spec.image) : make_by_mmdebstrap(spec.image);
  action.script += copy_node_settings();
  action.script += fill(R"sh(printf '%s\n' @NAME@ > "$new/etc/hostname"; : > "$new/etc/machine-id"
mv "$new" "$folder/rootfs"
printf '%s\n' @DIGEST@ > "$folder"/@MARKER@
)sh",
                        {{"NAME", spec.name}, {"DIGEST", spec.image.digest()}, {"MARKER", kRootfsMarker}});
  if (spec.image.from_tarball() && !spec.image.tarball_on_node()) {
    action.script += "rm -f " + shell_quote(spec.image.node_path()) + "\n";
  }
  action.undo =
      fill(kStop, {{"NAME", spec.name}}) + fill(
                                               "if [ -e @FOLDER@/config ]; then echo @FOLDER@\" has a configuration "
                                               "that is not ours\" >&2; [ -n \"${MW_FORCE:-}\" ] || exit 65; fi\n"
                                               "rm -rf --one-file-system @FOLDER@\n",
                                               {{"FOLDER", folder}});
  action.undo_title = "remove container " + spec.name;
  action.deadline = std::chrono::minutes(15);
  action.marks.guard_self = true;
  return action;
}

Action configure_action(const ContainerSpec& spec, const std::string& config, bool running) {
  const std::string folder = lxc_folder(spec.name);
  Action action;
  action.title = "configure container " + spec.name;
  action.files.push_back(text_file(folder + "/config", config, "0600"));
  action.save =
      fill("if [ -e @FOLDER@/config ]; then cp -p @FOLDER@/config \"$MW_SAVE/config\"; fi\n", {{"FOLDER", folder}});
  if (running) action.script = fill(std::string(kStop) + kStart, {{"NAME", spec.name}});
  action.undo = placed_config_unchanged(folder, config) + fill(R"sh(if [ -e "$MW_SAVE/config" ]; then
  if ! cmp -s "$MW_SAVE/config" @FOLDER@/config; then
    cp -p "$MW_SAVE/config" @FOLDER@/config
    if [ "$(lxc-info -n @NAME@ -sH)" = RUNNING ]; then lxc-stop -n @NAME@ -t 30; lxc-start -n @NAME@; fi
  fi
elif [ -e @FOLDER@/config ]; then
  if [ "$(lxc-info -n @NAME@ -sH 2>/dev/null)" = RUNNING ]; then lxc-stop -n @NAME@ -t 30; fi
  rm -f @FOLDER@/config
fi
)sh",
                                                               {{"FOLDER", folder}, {"NAME", spec.name}});
  action.undo_title = "put the configuration of container " + spec.name + " back";
  action.marks.guard_self = true;
  return action;
}

Action start_action(const ContainerSpec& spec) {
  Action action;
  action.title = "start container " + spec.name;
  action.script = fill(std::string(kStart) + kWaitBooted, {{"NAME", spec.name}});
  action.undo = fill(kStop, {{"NAME", spec.name}});
  action.undo_title = "stop container " + spec.name;
  action.deadline = std::chrono::minutes(2);
  action.marks.guard_self = true;
  return action;
}

Action stop_action(const ContainerSpec& spec) {
  Action action;
  action.title = "stop container " + spec.name;
  action.script = fill(kStop, {{"NAME", spec.name}});
  action.undo = fill(kStart, {{"NAME", spec.name}});
  action.undo_title = "start container " + spec.name;
  action.deadline = std::chrono::minutes(2);
  action.marks.guard_self = true;
  return action;
}

Action destroy_action(const ContainerSpec& spec) {
  Action action;
  action.title = "destroy container " + spec.name;
  action.script = fill(kStop, {{"NAME", spec.name}}) +
                  fill("rm -rf --one-file-system @FOLDER@\n", {{"FOLDER", lxc_folder(spec.name)}});
  action.marks.destructive = true;
  action.marks.guard_self = true;
  return action;
}

}  // namespace millwright
