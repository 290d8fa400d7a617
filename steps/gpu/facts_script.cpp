#include "steps/gpu/facts_script.hpp"

#include <fmt/format.h>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"

namespace millwright::gpu {

namespace {

// Records are lines of fields with tabs between them; "-" stands for nothing.
constexpr std::string_view kTools = R"sh(T=$(mktemp -d) || exit 1
trap 'rm -rf "$T"' EXIT
P=$R/sys/bus/pci/devices
tab=$(printf '\t')
rd() {
  v=
  if [ -r "$1" ]; then IFS= read -r v <"$1" || :; fi 2>/dev/null
  [ -n "$v" ] || v=-
}
link() { v=$(readlink "$1" 2>/dev/null) && v=${v##*/} || v=-; }
rec() {
  l=
  for w; do l="$l$tab$w"; done
  printf '%s\n' "${l#"$tab"}"
}
# wait_for FILE TENTHS
wait_for() {
  n=0
  while [ ! -e "$1" ] && [ "$n" -lt "$2" ]; do
    n=$((n + 1))
    sleep 0.1 2>/dev/null || sleep 1
  done
  [ -e "$1" ]
}
rec facts 1
)sh";

// nvidia-smi goes first: it takes longest and may never end.
constexpr std::string_view kStartSmi = R"sh(smi=
if [ "$detail" = full ] && command -v "$nvidia_smi" >/dev/null 2>&1; then
  (
    rc=0
    "$nvidia_smi" --query-gpu=index,uuid,pci.bus_id,name,driver_version,memory.total,compute_cap,persistence_mode \
      --format=csv,noheader,nounits >"$T/smi" 2>"$T/smi.err" || rc=$?
    echo "$rc" >"$T/smi.part"
    mv "$T/smi.part" "$T/smi.rc"
  ) </dev/null >/dev/null 2>&1 &
  smi=$!
fi
)sh";

// All functions of slots with a display controller, then what shares an IOMMU group with one of them.
constexpr std::string_view kFindFunctions = R"sh(F=
S=
add() { case " $F " in *" $1 "*) ;; *) F="$F $1" ;; esac; }
for d in "$P"/*; do
  [ -r "$d/class" ] || continue
  rd "$d/class"
  case $v in
    0x03*) a=${d##*/} && case " $S " in *" ${a%.*} "*) ;; *) S="$S ${a%.*}" ;; esac ;;
  esac
done
for s in $S; do
  for d in "$P/$s".*; do add "${d##*/}"; done
done
for a in $F; do
  link "$P/$a/iommu_group"
  [ "$v" != - ] || continue
  for d in "$R/sys/kernel/iommu_groups/$v/devices"/*; do
    [ ! -e "$P/${d##*/}" ] || add "${d##*/}"
  done
done
# Reading an override waits for the lock of the device, which an unbind that does not end keeps.
readers=
for a in $F; do
  (
    rd "$P/$a/driver_override"
    printf '%s\n' "$v" >"$T/part.$a"
    mv "$T/part.$a" "$T/override.$a"
  ) </dev/null >/dev/null 2>&1 &
  readers="$readers $!"
done
)sh";

constexpr std::string_view kFunctions = R"sh(nodes=
device_nodes() {
  for u in "$P/$1"/*/*/dev "$P/$1"/*/*/*/dev; do
    [ -r "$u" ] || continue
    while IFS= read -r line; do
      case $line in
        DEVNAME=*)
          rec node "$1" "/dev/${line#DEVNAME=}"
          nodes="$nodes /dev/${line#DEVNAME=}"
          ;;
      esac
    done <"${u%/dev}/uevent"
  done
}
left=30
for a in $F; do
  wait_for "$T/override.$a" "$left" && continue
  [ "$left" = 0 ] || rec locked
  left=0
done
[ "$left" != 0 ] || for a in $readers; do kill "$a" 2>/dev/null || :; done
one_function() {
  d=$P/$1
  set -- "$1"
  for f in class vendor device subsystem_vendor subsystem_device; do
    rd "$d/$f"
    set -- "$@" "$v"
  done
  link "$d/driver"
  set -- "$@" "$v"
  v='?'
  [ ! -e "$T/override.$1" ] || rd "$T/override.$1"
  set -- "$@" "$v"
  link "$d/iommu_group"
  set -- "$@" "$v"
  link "$d/physfn"
  set -- "$@" "$v"
  for f in boot_vga reset_method sriov_numvfs sriov_totalvfs d3cold_allowed power/control; do
    rd "$d/$f"
    set -- "$@" "$v"
  done
  rd "$d/power_state"
  case $detail$v in
    full* | stableD3cold) ;;
    *) v=- ;;
  esac
  set -- "$@" "$v"
  v=-
  case $2 in 0x03*) [ ! -r "$d/config" ] || v=$(od -An -tx1 -N4 "$d/config" 2>/dev/null | tr -d ' ') ;; esac
  rec fn "$@" "${v:--}"
}
for a in $F; do
  one_function "$a"
  device_nodes "$a"
done
)sh";

constexpr std::string_view kDrivers =
    R"sh(for m in nvidia nvidia_uvm nvidia_drm nvidia_modeset nvidia_peermem nvidia_fs gdrdrv nouveau nova_core vfio_pci; do
  d=$R/sys/module/$m
  [ -d "$d" ] || continue
  h=
  for x in "$d/holders"/*; do [ ! -e "$x" ] || h="$h${h:+,}${x##*/}"; done
  rd "$d/refcnt"
  c=$v
  case $detail$c in stable0 | stable- | full*) ;; *) c=used ;; esac
  rd "$d/version"
  rec module "$m" "$c" "$v" "${h:--}"
done
for k in "$R/lib/modules"/*; do
  [ -d "$k" ] || continue
  for m in $drivers; do
    for x in "$m" "$m-current"; do
      i=$(modinfo -b "${R:-/}" -k "${k##*/}" "$x" 2>/dev/null) || continue
      printf '%s\n' "$i" | awk -v m="$m" -v k="${k##*/}" 'BEGIN { f = v = l = "-" }
        $1 == "filename:" { f = $2 } $1 == "version:" { v = $2 } $1 == "license:" { sub(/^license: */, ""); l = $0 }
        END { print "ondisk\t" m "\t" k "\t" v "\t" l "\t" f }'
      break
    done
  done
done
[ ! -r "$R/proc/driver/nvidia/version" ] || {
  rd "$R/proc/driver/nvidia/version"
  rec nvversion "$v"
}
for g in "$R/proc/driver/nvidia/gpus"/*; do
  [ -r "$g/information" ] || continue
  awk -F': *' -v a="${g##*/}" 'BEGIN { m = u = n = "-" } { sub(/^[ \t]+/, "", $2); sub(/[ \t]+$/, "", $2) }
    $1 ~ /^Model/ { m = $2 } $1 ~ /^GPU UUID/ { u = $2 } $1 ~ /^Device Minor/ { n = $2 }
    END { print "nvgpu\t" a "\t" n "\t" u "\t" m }' "$g/information"
done
if [ -r "$R/run/millwright-gpu/stuck" ]; then
  while read -r a w; do rec stuck "$a" "$w"; done <"$R/run/millwright-gpu/stuck"
fi
)sh";

constexpr std::string_view kHost = R"sh(for f in osrelease hostname; do
  rd "$R/proc/sys/kernel/$f"
  rec host "$f" "$v"
done
rec host uid "$(id -u)"
rd "$R/proc/cmdline"
rec host cmdline "$v"
if [ -r "$R/etc/os-release" ]; then
  while IFS='=' read -r w v; do
    v=${v#\"}
    case $w in ID | VERSION_ID | VERSION_CODENAME) rec host "os_$w" "${v%\"}" ;; esac
  done <"$R/etc/os-release"
fi
E=$R/sys/firmware/efi
if [ -d "$E" ]; then
  rec host efi yes
  v=$(od -An -tu1 -j4 -N1 "$E/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c" 2>/dev/null | tr -d ' ') || v=
  rec host secure_boot "${v:--}"
  v=$(tr -dc ' -~' 2>/dev/null <"$E/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f") || v=
  rec host loader_info "${v:--}"
else
  rec host efi no
fi
[ ! -e "$R/run/reboot-required" ] || rec host reboot_required yes
[ ! -e "$R/etc/kernel/proxmox-boot-uuids" ] || rec host proxmox_boot yes
for f in proxmox-boot-pin next-boot-pin; do
  [ ! -r "$R/etc/kernel/$f" ] || {
    rd "$R/etc/kernel/$f"
    rec host "$f" "$v"
  }
done
for k in "$R/boot"/vmlinuz-*; do [ ! -e "$k" ] || rec kernel "${k##*/vmlinuz-}"; done
if [ -r "$R/boot/grub/grub.cfg" ]; then
  awk 'function quoted(s) { return match(s, /'"'[^']*'"'/) ? substr(s, RSTART + 1, RLENGTH - 2) : "-" }
    function last(s) { sub(/^.*menuentry_id_option +/, "", s); return quoted(s) }
    /^[ \t]*submenu / { sub_ = top "" ; subt = quoted($0); subi = last($0); inner = 0; inside = 1; top++; next }
    /^[ \t]*menuentry / {
      if (inside) { at = sub_ ">" inner++; title = subt ">" quoted($0); id = subi ">" last($0) }
      else { at = top++ ""; title = quoted($0); id = last($0) } ; entry = 1; next }
    /^[ \t]*linux(16|efi)?[ \t]/ && entry { sub(/^[ \t]*linux[^ \t]*[ \t]+/, ""); print "grub\t" at "\t" title "\t" id "\t" $0 }
    /^}/ { inside = 0; entry = 0 }' "$R/boot/grub/grub.cfg"
fi
if [ -r "$R/boot/grub/grubenv" ]; then
  while IFS='=' read -r w v; do
    case $w in saved_entry | next_entry) rec host "grub_$w" "${v:--}" ;; esac
  done <"$R/boot/grub/grubenv"
fi
for f in "$R/boot/loader/entries"/*.conf "$R/boot/efi/loader/entries"/*.conf "$R/efi/loader/entries"/*.conf; do
  [ ! -r "$f" ] || awk -v f="${f##*/}" '$1 == "linux" || $1 == "options" { w = $1; $1 = ""; sub(/^ /, ""); print "entry\t" f "\t" w "\t" $0 }' "$f"
done
for f in "$R/boot/loader/loader.conf" "$R/boot/efi/loader/loader.conf" "$R/efi/loader/loader.conf"; do
  [ ! -r "$f" ] || awk '$1 == "default" { print "host\tloader_default\t" $2 }' "$f"
done
)sh";

// Files that say what happens at boot, whole where they mention a GPU's drivers; and which of them an initramfs lacks.
constexpr std::string_view kBootFiles = R"sh(pattern='vfio|nvidia|nouveau|driver_override|iommu'
whole() {
  for f; do
    [ -f "$f" ] && [ -r "$f" ] || continue
    case ${f#"$R"} in
      /etc/driverctl.d/* | /etc/default/grub* | /etc/kernel/cmdline) ;;
      *) grep -qiE "$pattern" "$f" || continue ;;
    esac
    rec file "${f#"$R"}"
    awk '{ print "|\t" $0 }' "$f"
  done
}
whole "$R/etc/modprobe.d"/*.conf "$R/run/modprobe.d"/*.conf
[ -h "$R/lib" ] || whole "$R/lib/modprobe.d"/*.conf
whole "$R/usr/lib/modprobe.d"/*.conf "$R/etc/modules" "$R/etc/modules-load.d"/*.conf "$R/etc/initramfs-tools/modules"
whole "$R/etc/driverctl.d"/* "$R/etc/default/grub" "$R/etc/default/grub.d"/*.cfg "$R/etc/kernel/cmdline"
whole "$R/etc/udev/rules.d"/*.rules "$R/etc/systemd/system"/*.service
whole "$R/etc/initramfs-tools/scripts"/*/* "$R/etc/initramfs-tools/hooks"/*
for i in "$R/boot"/initrd.img-*; do
  [ -f "$i" ] || continue
  newer=$(find "$R/etc/modprobe.d" "$R/etc/initramfs-tools/modules" "$R/etc/initramfs-tools/hooks" -newer "$i" \
    2>/dev/null | sort | head -n 1) || :
  newer=${newer#"$R"}
  rec initrd "${i##*/initrd.img-}" "${newer:--}"
done
for w in update-initramfs update-grub proxmox-boot-tool dracut driverctl; do
  if [ -x "$R/usr/sbin/$w" ] || [ -x "$R/sbin/$w" ] || [ -x "$R/usr/bin/$w" ]; then rec tool "$w"; fi
done
)sh";

constexpr std::string_view kHolders = R"sh({
  for f in "$R/proc"/[0-9]*/fd; do [ ! -d "$f" ] || printf '%s\n' "$f"; done >"$T/fds"
  # The temporary folder goes along so that ls names each folder, however few there are.
  set -- "$T"
  while IFS= read -r f; do set -- "$@" "$f"; done <"$T/fds"
  ls -l "$@" 2>/dev/null | awk -v nodes="$nodes" 'BEGIN { split(nodes, l, " "); for (i in l) own[l[i]] = 1 }
    /:$/ { p = $0; sub(/\/fd:$/, "", p); sub(/^.*\//, "", p); next }
    { i = index($0, " -> "); if (!i) next; t = substr($0, i + 4) }
    t ~ /^\/dev\/(nvidia|vfio\/[^v]|vfio\/devices\/|dri\/)/ || t in own { print p "\t" t }'
  grep -oHE '/dev/(nvidia|dri/)[^ ]*' "$R/proc"/[0-9]*/maps 2>/dev/null |
    sed 's|^.*/proc/\([0-9]*\)/maps:|\1'"$tab"'|' || :
} | sort -u >"$T/holds"
while IFS="$tab" read -r p t; do
  rec hold "$p" "$t"
  printf '%s\n' "$p" >>"$T/pids"
done <"$T/holds"
[ ! -e "$T/pids" ] || sort -un "$T/pids" | while read -r p; do
  rd "$R/proc/$p/comm"
  c=$v
  v=$(sed -n 's/^0:://p' "$R/proc/$p/cgroup" 2>/dev/null) || v=
  # Of the arguments only those that name a virtual machine: others may be secrets.
  tr '\0' '\n' 2>/dev/null <"$R/proc/$p/cmdline" | awk -v p="$p" -v c="$c" -v g="${v:--}" 'BEGIN { i = n = "-" }
    w == "-id" { i = $0 } w == "-name" { n = $0; sub(/,.*/, "", n); sub(/^guest=/, "", n) } { w = $0 }
    END { print "proc\t" p "\t" c "\t" g "\t" i "\t" n }'
done
if [ -r "$R/proc/fb" ]; then
  while IFS= read -r v; do rec fb "$v"; done <"$R/proc/fb"
fi
[ ! -r "$R/proc/iomem" ] || awk '$3 ~ /^[0-9a-f]+:[0-9a-f][0-9a-f]:[0-9a-f][0-9a-f]\.[0-7]$/ { a = $3 }
  / : (BOOTFB|efifb|simplefb|simple-framebuffer|vesafb)/ && a != "" { print "console\t" a "\t" $3 }
  /^[0-9a-f]/ { a = "" }' "$R/proc/iomem"
)sh";

constexpr std::string_view kVirtualMachines = R"sh(runs_by() {
  up=no
  [ -r "$1" ] || return 0
  rd "$1"
  [ ! -d "$R/proc/$v" ] || up=yes
}
for f in "$R/etc/pve/qemu-server"/*.conf; do
  [ -r "$f" ] || continue
  i=${f##*/}
  i=${i%.conf}
  runs_by "$R/run/qemu-server/$i.pid"
  rec vm "$i" "$up"
  awk -v i="$i" '/^\[/ { s = $0; gsub(/[][]/, "", s) } /^#/ { next }
    /^(name|onboot|template|delete|hostpci[0-9]+):/ { print "vmline\t" i "\t" (s == "" ? "-" : s) "\t" $0 }' "$f"
done
[ ! -r "$R/etc/pve/mapping/pci.cfg" ] || awk '{ print "mapping\t" $0 }' "$R/etc/pve/mapping/pci.cfg"
[ ! -r "$R/run/qemu-server/pci-id-reservations" ] || awk '{ print "reserved\t" $0 }' "$R/run/qemu-server/pci-id-reservations"
# What runs may have got devices since: its own record is read as well.
for f in "$R/etc/libvirt/qemu"/*.xml "$R/run/libvirt/qemu"/*.xml; do
  [ -r "$f" ] || continue
  i=${f##*/}
  i=${i%.xml}
  runs_by "$R/run/libvirt/qemu/$i.pid"
  boot=no
  [ ! -e "$R/etc/libvirt/qemu/autostart/$i.xml" ] || boot=yes
  rec domain "$i" "$up" "$boot"
  tr '\n<' ' \n' <"$f" | awk -v i="$i" '
    function of(name) { return match($0, name "=[\"'"'"'][^\"'"'"']*") ? substr($0, RSTART + length(name) + 2, RLENGTH - length(name) - 2) : "0" }
    /^hostdev / { pci = /type=["'"'"']pci["'"'"']/ } /^\/hostdev/ { pci = 0 }
    /^source/ { source = pci } /^\/source/ { source = 0 }
    /^address / && source { print "hostdev\t" i "\t" of("domain") "\t" of("bus") "\t" of("slot") "\t" of("function") }'
done
for f in "$R/etc/pve/lxc"/*.conf "$R/var/lib/lxc"/*/config; do
  [ -r "$f" ] || continue
  awk -v f="${f#"$R"}" '/^\[/ { exit } /^#/ { next } /\/dev\/(nvidia|dri)/ { print "container\t" f "\t" $0 }' "$f"
done
)sh";

constexpr std::string_view kEnd = R"sh(if [ -n "$smi" ]; then
  if wait_for "$T/smi.rc" 150; then
    rd "$T/smi.rc"
    rec smirc "$v"
    while IFS= read -r v; do rec smi "$v"; done <"$T/smi"
    rd "$T/smi.err"
    rec smierr "$v"
  else
    rec smirc late
    kill "$smi" 2>/dev/null || :
  fi
fi
rec end
)sh";

}  // namespace

std::string facts_script(const FactsQuery& query) {
  std::string script = fmt::format("R={}\ndetail={}\ndrivers={}\nnvidia_smi={}\n", shell_quote(query.root),
                                   query.detail == FactsDetail::full ? "full" : "stable",
                                   shell_quote(join(query.drivers, " ")), shell_quote(query.nvidia_smi));
  for (const std::string_view part :
       {kTools, kStartSmi, kFindFunctions, kFunctions, kDrivers, kHost, kBootFiles, kHolders, kVirtualMachines, kEnd}) {
    script += part;
  }
  return script;
}

Question facts_question(const FactsQuery& query) {
  return {.key = kFactsKey, .script = facts_script(query), .deadline = std::chrono::seconds(60)};
}

}  // namespace millwright::gpu
