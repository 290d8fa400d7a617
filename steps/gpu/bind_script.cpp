#include "steps/gpu/bind_script.hpp"

#include <fmt/format.h>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"
#include "steps/gpu/bind_checks.hpp"

namespace millwright::gpu {

namespace {

constexpr std::string_view kFunctions = R"sh(P=$R/sys/bus/pci
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
detach=
if command -v setsid >/dev/null 2>&1; then detach=setsid; fi
cat >"$T/beside" <<'MW_END'
cd / || exit
t=$1
shift
code=0
"$@" >"$t/out" 2>&1 || code=$?
echo "$code" >"$t/code.part"
mv "$t/code.part" "$t/code"
MW_END
cat >"$T/put" <<'MW_END'
printf '%s\n' "$2" >"$1"
MW_END
# mw_beside SECONDS COMMAND...: its exit status, 124 when it did not end in time. Nobody waits for it then: what sleeps in
# the kernel hears no signal. Its output is in $T/beside.out.
mw_beside() {
  seconds=$1
  shift
  b=$(mktemp -d)
  $detach /bin/sh "$T/beside" "$b" "$@" </dev/null >/dev/null 2>&1 &
  n=0
  while [ ! -e "$b/code" ] && [ "$n" -lt $((seconds * 10)) ]; do
    n=$((n + 1))
    sleep 0.1 2>/dev/null || { sleep 1; n=$((n + 9)); }
  done
  if [ ! -e "$b/code" ]; then
    kill -9 $! 2>/dev/null || :
    return 124
  fi
  cp "$b/out" "$T/beside.out"
  read -r c <"$b/code"
  rm -rf "$b"
  return "$c"
}
# mw_write SECONDS PATH TEXT
mw_write() { mw_beside "$1" /bin/sh "$T/put" "$2" "$3"; }
mw_driver() {
  d=$(readlink "$P/devices/$1/driver" 2>/dev/null) || d=none
  printf '%s\n' "${d##*/}"
}
mw_group() {
  g=$(readlink "$P/devices/$1/iommu_group" 2>/dev/null) || g=-
  printf '%s\n' "${g##*/}"
}
# The device files of a function as it is bound now; "nvidia" for all of that driver's.
mw_nodes() {
  case $(mw_driver "$1") in
    none) return 0 ;;
    nvidia) echo nvidia ;;
    *vfio-pci) echo "/dev/vfio/$(mw_group "$1")" ;;
  esac
  for u in "$P/devices/$1"/*/*/dev "$P/devices/$1"/*/*/*/dev; do
    [ ! -r "$u" ] || sed -n 's|^DEVNAME=|/dev/|p' "${u%/dev}/uevent"
  done
}
# Who has one of them open, as "pid name: device".
mw_holders() {
  for f in "$R/proc"/[0-9]*/fd; do printf '%s\n' "$f"; done >"$T/fds"
  set -- "$T" "$1"
  watched=$2
  set -- "$T"
  while IFS= read -r f; do set -- "$@" "$f"; done <"$T/fds"
  ls -l "$@" 2>/dev/null | awk -v nodes="$watched" 'BEGIN { split(nodes, l, " "); for (i in l) own[l[i]] = 1 }
    /:$/ { p = $0; sub(/\/fd:$/, "", p); sub(/^.*\//, "", p); next }
    { i = index($0, " -> "); if (!i) next; t = substr($0, i + 4) }
    t in own || (("nvidia" in own) && t ~ /^\/dev\/nvidia/) { print p, t }' | sort -u | while read -r p t; do
    c=unknown
    read -r c 2>/dev/null <"$R/proc/$p/comm" || :
    case $c in nvidia-persiste*) continue ;; esac
    echo "process $p ($c) has $t"
  done
}
# The state of a host on which an unbind does not end. Where the boot files are set it is only late, not wrong.
mw_late() {
  mkdir -p "$R/run/millwright-gpu"
  for a in $1; do echo "$a $2" >>"$R/run/millwright-gpu/stuck"; done
  : >>"$R/run/reboot-required"
  grep -qxF 'millwright (gpu.bind)' "$R/run/reboot-required.pkgs" 2>/dev/null ||
    echo 'millwright (gpu.bind)' >>"$R/run/reboot-required.pkgs"
  echo "$3: the host needs a reboot" >&2
  dmesg 2>/dev/null | grep -E 'usage count|Relaying device request|device request' | tail -n 3 >&2 || :
  if [ -n "${up:-}" ] && [ -d "$R/sys/module/nvidia" ]; then
    mw_beside 60 modprobe nvidia_uvm || :
    systemctl start nvidia-persistenced || :
  fi
  [ "$persist" = yes ] || exit 1
  echo "needs reboot"
  exit 0
}
mw_fail() {
  echo "$1" >&2
  [ ! -s "$T/beside.out" ] || cat "$T/beside.out" >&2
  dmesg 2>/dev/null | grep -E "${2:-NVRM}|NVRM" | tail -n 5 >&2 || :
  exit 1
}
)sh";

constexpr std::string_view kSteps = R"sh(mw_wake() {
  d=$P/devices/$1
  [ ! -e "$d/d3cold_allowed" ] || mw_write 10 "$d/d3cold_allowed" 0 || :
  [ ! -e "$d/power/control" ] || mw_write 10 "$d/power/control" on || :
  case $(od -An -tx1 -N4 "$d/config" 2>/dev/null | tr -d ' ') in
    ffffffff) mw_fail "$1 does not answer on the bus (power state $(cat "$d/power_state" 2>/dev/null || echo unknown)); only a power cycle brings it back" "$1" ;;
  esac
}
# All of nvidia at once: unloading fails cleanly where it is in use, unbinding would never end.
mw_unload_nvidia() {
  if command -v systemctl >/dev/null 2>&1 && systemctl is-active --quiet nvidia-persistenced 2>/dev/null; then
    systemctl stop nvidia-persistenced
  fi
  for m in nvidia_uvm nvidia_drm nvidia_modeset nvidia_peermem nvidia_fs gdrdrv nvidia; do
    [ -d "$R/sys/module/$m" ] || continue
    code=0
    mw_beside "$unbind_deadline" rmmod "$m" || code=$?
    [ "$code" != 124 ] || mw_late "$all" "$wanted" "unloading $m did not end in $unbind_deadline s"
    [ "$code" = 0 ] || mw_late "$all" "$wanted" "$m cannot be unloaded ($(cat "$T/beside.out"))"
  done
}
mw_leave() {
  [ "$(mw_driver "$1")" != none ] || return 0
  code=0
  mw_write "$unbind_deadline" "$P/devices/$1/driver/unbind" "$1" || code=$?
  [ "$code" != 124 ] || mw_late "$1" "$2" "unbinding $1 did not end in $unbind_deadline s"
  [ "$code" = 0 ] || [ "$(mw_driver "$1")" = none ] || mw_fail "unbinding $1 failed" "$1"
}
mw_override() {
  mw_write 10 "$P/devices/$1/driver_override" "$2" || mw_fail "driver_override of $1 cannot be set to '$2'" "$1"
}
# vfio-pci forgets ids that were given to it while it runs, else it takes the device back at the next probe.
mw_forget_id() {
  [ -e "$P/drivers/vfio-pci/remove_id" ] || return 0
  read -r v <"$P/devices/$1/vendor"
  read -r i <"$P/devices/$1/device"
  mw_write 10 "$P/drivers/vfio-pci/remove_id" "${v#0x} ${i#0x}" || :
}
mw_wait_driver() {
  n=0
  while [ "$(mw_driver "$1")" != "$2" ]; do
    n=$((n + 1))
    [ "$n" -lt $((bind_deadline * 5)) ] || mw_fail "$1 is on $(mw_driver "$1"), not on $2, after $bind_deadline s" "$1"
    sleep 0.2 2>/dev/null || sleep 1
  done
}
mw_load() {
  code=0
  mw_beside "$bind_deadline" modprobe "$1" || code=$?
  [ "$code" != 124 ] || mw_late "$all" "$wanted" "loading $1 did not end in $bind_deadline s"
  [ "$code" = 0 ] || mw_fail "modprobe $1 failed"
}
)sh";

// moves: "address from to [override afterwards]" a line.
constexpr std::string_view kRebind = R"sh(mw_rebind() {
  all=$(awk '{ printf "%s ", $1 }' "$1")
  wanted=$(awk '$3 != "-" { print $3; exit }' "$1")
  nodes=$(awk '{ print $1 }' "$1" | while read -r a; do mw_nodes "$a"; done | tr '\n' ' ')
  held=$(mw_holders "$nodes")
  if [ -n "$held" ]; then
    printf 'in use: %s\n' "$held" >&2
    exit "${in_use_status:-1}"
  fi
  while read -r a f t o; do mw_wake "$a"; done <"$1"
  others=
  if awk '$2 == "nvidia" { found = 1 } END { exit !found }' "$1"; then
    for d in "$P/drivers/nvidia"/*:*; do
      [ -e "$d" ] || continue
      case " $all " in *" ${d##*/} "*) ;; *) others="$others ${d##*/}" ;; esac
    done
    mw_unload_nvidia
  fi
  while read -r a f t o; do
    case $t in
      -) mw_override "$a" "" ;;
      *) mw_override "$a" "$t" ;;
    esac
    mw_leave "$a" "$t"
  done <"$1"
  for t in $(awk '$3 != "-" && $3 != "none" { print $3 }' "$1" | sort -u); do mw_load "$t"; done
  while read -r a f t o; do
    case $t in none) continue ;; *vfio-pci) ;; *) mw_forget_id "$a" ;; esac
    if [ "$(mw_driver "$a")" = none ]; then
      mw_write "$bind_deadline" "$P/drivers_probe" "$a" || :
    fi
    if [ "$t" = - ]; then
      case $(mw_driver "$a") in *vfio-pci) mw_fail "vfio-pci took $a again" "$a" ;; esac
    else
      mw_wait_driver "$a" "$t"
    fi
  done <"$1"
  while read -r a f t o; do
    mw_override "$a" "$o"
    read -r v <"$P/devices/$a/driver_override" || v='(null)'
    [ "$v" = "${o:-(null)}" ] || mw_fail "driver_override of $a stays at $v" "$a"
  done <"$1"
  if [ -n "$others" ]; then
    mw_load nvidia
    for a in $others; do mw_wait_driver "$a" nvidia; done
  fi
  if [ "$wanted" = nvidia ] || [ -n "$others" ]; then
    if command -v nvidia-modprobe >/dev/null 2>&1; then
      mw_beside 60 nvidia-modprobe -c=0 -u || :
    else
      mw_beside 60 modprobe nvidia_uvm || :
    fi
  fi
}
)sh";

constexpr std::string_view kUndo = R"sh([ -e "$MW_SAVE/before" ] || exit 0
in_use_status=65
persist=no
for a in $(awk '{ print $1 }' "$MW_SAVE/before"); do
  if grep -q "^$a " "$R/run/millwright-gpu/stuck" 2>/dev/null; then
    echo "an unbind of $a has not ended, so it can only be given back by a reboot" >&2
    exit 1
  fi
done
: >"$T/moves"
while read -r a b o; do
  now=$(mw_driver "$a")
  was=$b
  [ "$was" != - ] || was=none
  read -r v <"$P/devices/$a/driver_override" || v='(null)'
  case $o in '(null)') o= ;; esac
  case $v in '(null)') v= ;; esac
  [ "$now $v" != "$was $o" ] || continue
  w=$(awk -v a="$a" '$1 == a { print $3 }' "$T/done")
  case $w in
    -) case $now in *vfio-pci) foreign=1 ;; *) foreign= ;; esac ;;
    *) if [ "$now" = "$w" ] || [ "$now" = none ]; then foreign=; else foreign=1; fi ;;
  esac
  if [ "$now" != "$was" ] && [ -n "$foreign" ] && [ -z "${MW_FORCE:-}" ]; then
    echo "$a was given to $now by someone else since, so it stays there" >&2
    exit 65
  fi
  echo "$a $now $was $o" >>"$T/moves"
done <"$MW_SAVE/before"
[ -s "$T/moves" ] || exit 0
mw_rebind "$T/moves"
if [ -e "$MW_SAVE/persistenced" ] && [ -d "$R/sys/module/nvidia" ]; then systemctl start nvidia-persistenced || :; fi
)sh";

std::string prelude(const BindWish& wish) {
  const auto seconds = [](Milliseconds time) { return std::chrono::duration_cast<Seconds>(time).count(); };
  return fmt::format("R={}\nunbind_deadline={}\nbind_deadline={}\npersist={}\n", shell_quote(wish.root),
                     seconds(wish.unbind_deadline), seconds(wish.bind_deadline),
                     wish.persist == Persist::yes ? "yes" : "no");
}

std::string moves_text(const std::vector<Move>& moves, std::string_view file) {
  std::string out = fmt::format("cat >{} <<'MW_END'\n", file);
  for (const Move& move : moves) {
    out += fmt::format("{} {} {}{}\n", move.address, move.from, move.to, move.to == kNone ? " none" : "");
  }
  return out + "MW_END\n";
}

std::string title_of(const std::vector<Move>& moves, const BindWish& wish) {
  std::vector<std::string> addresses;
  for (const Move& move : moves) addresses.push_back(move.address);
  return (wish.driver == kNone ? "unbind " : "bind ") + join(addresses, ", ") +
         (wish.driver == kNone ? "" : " to " + wish.driver);
}

}  // namespace

Action bind_action(const std::vector<Move>& moves, const BindWish& wish) {
  Action action;
  action.title = title_of(moves, wish);
  action.save = fmt::format("R={}\n: >\"$MW_SAVE/before.part\"\n", shell_quote(wish.root));
  for (const Move& move : moves) {
    action.save += fmt::format(
        "read -r o <\"$R/sys/bus/pci/devices/{0}/driver_override\" || o='(null)'\n"
        "echo {0} {1} \"$o\" >>\"$MW_SAVE/before.part\"\n",
        move.address, shell_quote(move.from == kNone ? "-" : move.from));
  }
  action.save +=
      "if command -v systemctl >/dev/null 2>&1 && systemctl is-active --quiet nvidia-persistenced 2>/dev/null; then\n"
      "  : >\"$MW_SAVE/persistenced\"\nfi\nmv \"$MW_SAVE/before.part\" \"$MW_SAVE/before\"\n";
  const std::string common = prelude(wish) + std::string(kFunctions) + std::string(kSteps) + std::string(kRebind);
  action.script =
      common + moves_text(moves, "\"$T/moves\"") +
      "up=\nif command -v systemctl >/dev/null 2>&1 && systemctl is-active --quiet nvidia-persistenced "
      "2>/dev/null; then up=1; fi\nmw_rebind \"$T/moves\"\n"
      "if [ -n \"$up\" ] && [ -d \"$R/sys/module/nvidia\" ]; then systemctl start nvidia-persistenced || :; fi\n";
  action.undo = common + moves_text(moves, "\"$T/done\"") + std::string(kUndo);
  std::vector<std::string> back;
  for (const Move& move : moves)
    back.push_back(move.address + (move.from == kNone ? " to no driver" : " to " + move.from));
  action.undo_title = "give back " + join(back, ", ");
  const Milliseconds each = wish.unbind_deadline + 2 * wish.bind_deadline;
  action.deadline = std::chrono::minutes(3) + each * static_cast<int>(moves.size());
  action.marks.destructive = true;
  return action;
}

}  // namespace millwright::gpu
