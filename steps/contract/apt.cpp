#include "steps/contract/apt.hpp"

#include <fmt/format.h>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"
#include "steps/contract/apt_packages.hpp"

namespace millwright::apt {

namespace {

// Five minutes: as long as an unattended upgrade usually holds dpkg's lock.
constexpr std::string_view kFunctions =
    R"sh(export DEBIAN_FRONTEND=noninteractive APT_LISTCHANGES_FRONTEND=none NEEDRESTART_MODE=l
mw_apt() {
  apt-get -q -y -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 \
    -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold --no-install-recommends "$@"
}
mw_list() {
  native=$(dpkg --print-architecture)
  dpkg-query -W -f '${Package} ${Architecture} ${Version} ${db:Status-Abbrev}\n' | while read -r n a v s; do
    if [ "$a" != "$native" ] && [ "$a" != all ]; then n=$n:$a; fi
    echo "$n $v $s"
  done
}
)sh";

// What apt would install or upgrade, "NAME VERSION" a line; what it would remove, "NAME" a line.
constexpr std::string_view kInstalls = R"(sed -n 's/^Inst \([^ ]*\) \(\[[^]]*\] \)\{0,1\}(\([^ ]*\) .*/\1 \3/p')";
constexpr std::string_view kRemoves = R"(sed -n 's/^\(Remv\|Purg\) \([^ ]*\) .*/\2/p')";

std::string save_script(const std::string& simulate, std::string_view filter) {
  std::string out = "set -eu\numask 077\n";
  out += kFunctions;
  return out + fmt::format(
                   "mw_list >\"$MW_SAVE/list\"\n"
                   "apt-mark showmanual >\"$MW_SAVE/manual\"\n"
                   "mw_apt -s {} >\"$MW_SAVE/simulated\"\n"
                   "{} <\"$MW_SAVE/simulated\" >\"$MW_SAVE/planned.new\"\n"
                   "mv -f \"$MW_SAVE/planned.new\" \"$MW_SAVE/planned\"\n",
                   simulate, filter);
}

constexpr std::string_view kUndoGuard = R"sh([ -f "$MW_SAVE/planned" ] || exit 0
[ ! -e "$MW_SAVE/undone" ] || exit 0
)sh";

constexpr std::string_view kUndoHead = R"sh(mw_refuse() {
  [ -z "${MW_FORCE:-}" ] || return 0
  echo "$1" >&2
  exit 65
}
mw_list >"$MW_SAVE/now"
field() { sed -n "s/^$2 //p" "$MW_SAVE/$1"; }
specs=
)sh";

constexpr std::string_view kUndoTail = R"sh([ -n "$specs" ] || exit 0
# shellcheck disable=SC2086
mw_apt -s --allow-downgrades install $specs >"$MW_SAVE/undo-simulated" 2>"$MW_SAVE/undo-errors" || {
  cat "$MW_SAVE/undo-errors" >&2
  mw_refuse "the packages of before can not be had any more ($specs)"
}
)sh";

constexpr std::string_view kUndoInstall = R"sh(while read -r name version; do
  before=$(field list "$name")
  now=$(field now "$name")
  [ "$before" != "$now" ] || continue
  case $now in
    "$version "*) ;;
    *" i"* | *" h"*) mw_refuse "$name is ${now%% *} by now and not $version: someone else changed it, so it stays" ;;
    *) continue ;;
  esac
  case $before in
    *" i"* | *" h"*) specs="$specs $name=${before%% *}" ;;
    *) specs="$specs $name-" ;;
  esac
done <"$MW_SAVE/planned"
)sh";

// Nothing may go that the undo was not meant for: a package that came later and needs one of ours stops it.
constexpr std::string_view kUndoInstallCheck = R"sh(for name in $(REMOVES <"$MW_SAVE/undo-simulated"); do
  case " $specs " in
    *" $name- "*) ;;
    *) mw_refuse "$name was installed since and needs what would be removed, so that stays" ;;
  esac
done
)sh";

constexpr std::string_view kUndoRemove = R"sh(while read -r name; do
  before=$(field list "$name")
  case $(field now "$name") in
    *" i"* | *" h"*) continue ;;
  esac
  specs="$specs $name=${before%% *}"
done <"$MW_SAVE/planned"
)sh";

constexpr std::string_view kSaveConffiles = R"sh(while read -r name; do
  dpkg-query -W -f '${Conffiles}\n' -- "$name"
done <"$MW_SAVE/planned" | sed -n 's/^ \/\([^ ]*\) [0-9a-f]\{32\}.*/\1/p' | while read -r f; do
  [ ! -e "/$f" ] || printf '%s\n' "$f"
done >"$MW_SAVE/conffiles"
[ ! -s "$MW_SAVE/conffiles" ] || tar -cpf "$MW_SAVE/conffiles.tar" -C / -T "$MW_SAVE/conffiles"
)sh";

// Before the packages come back: dpkg then finds files that are there already, and keeps them.
constexpr std::string_view kRestoreConffiles = R"sh(if [ -s "$MW_SAVE/conffiles.tar" ]; then
  tar -xpf "$MW_SAVE/conffiles.tar" -C / --skip-old-files
fi
)sh";

// An undo once: what `specs` makes of packages that are not as before, and what puts them back.
std::string undo_script(std::string_view specs, const std::string& back) {
  std::string out = "set -eu\n";
  out.append(kUndoGuard).append(finish_dpkg_script()).append(to_file_function()).append(kFunctions).append(kUndoHead);
  return out.append(specs).append(kUndoTail).append(back).append(": >\"$MW_SAVE/undone\"\n");
}

}  // namespace

std::string question(const std::vector<Wish>& wishes, Goal goal, long long valid_minutes) {
  std::string out = R"sh(if ! command -v apt-get >/dev/null 2>&1 || ! command -v dpkg-query >/dev/null 2>&1; then
  for m in dnf yum zypper apk pacman emerge; do
    if command -v "$m" >/dev/null 2>&1; then echo "manager $m"; exit 0; fi
  done
  echo "manager none"
  exit 0
fi
echo "manager apt"
apt-mark showhold 2>/dev/null | while read -r n; do echo "held $n"; done
dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' | while read -r s n; do
  case $s in ?[UFHR]*) echo "broken $n $s" ;; esac
done
for f in /var/lib/dpkg/updates/*; do if [ -e "$f" ]; then echo interrupted; break; fi; done
)sh";
  out += fmt::format(R"sh(lists=none
for f in /var/lib/apt/lists/*_Packages* /var/lib/apt/lists/*_InRelease; do
  if [ -e "$f" ]; then lists=old; break; fi
done
if [ "$lists" = old ]; then
  fresh=$(find /var/lib/millwright/apt-updated /var/lib/apt/periodic/update-success-stamp /var/lib/apt/lists \
    -maxdepth 0 -mmin -{} 2>/dev/null) || true
  [ -z "$fresh" ] || lists=fresh
fi
echo "lists $lists"
mw_ask() {{
  state=$(dpkg-query -W -f '${{db:Status-Abbrev}} ${{Version}}' -- "$1" 2>/dev/null) || state=
  status=${{state%% *}}
  version=${{state##* }}
  candidate=-
  case $status in
    [ih]i) installed=yes ;;
    *) installed=no ;;
  esac
  if [ "$2" = absent ]; then
    :
  elif [ "$installed" = no ] || [ "$2" = latest ] || [ -n "$3" ]; then
    candidate=$(apt-cache policy -- "$1" 2>/dev/null | sed -n 's/^  Candidate: //p')
    case $candidate in "" | "(none)") candidate=- ;; esac
  fi
  echo "package $1 ${{status:--}} ${{version:--}} $candidate"
  if [ -n "$3" ]; then
    apt-cache madison -- "$1" 2>/dev/null | while IFS='| ' read -r n v rest; do echo "version $1 $v"; done
  fi
  if [ "$candidate" = - ] && [ "$installed" = no ] && [ "$2" != absent ]; then
    apt-cache showpkg -- "$1" 2>/dev/null | sed -n '1,/^Reverse Provides/d; s/ .*//p' | while read -r n; do
      echo "provider $1 $n"
    done
    apt-cache pkgnames -- "$4" 2>/dev/null | head -n 500 | while read -r n; do echo "near $n"; done
  fi
}}
)sh",
                     valid_minutes);
  const char* word = goal == Goal::latest ? "latest" : goal == Goal::absent ? "absent" : "present";
  std::vector<std::string> names;
  for (const Wish& wish : wishes) {
    names.push_back(wish.name);
    out += fmt::format("mw_ask {} {} {} {}\n", shell_quote(wish.name), word, shell_quote(wish.version),
                       shell_quote(wish.name.substr(0, starts_with(wish.name, "lib") ? 5 : 3)));
  }
  if (goal == Goal::absent) {
    out += fmt::format("apt-get -s -q remove -- {} 2>/dev/null | {} | while read -r n; do echo \"takes $n\"; done\n",
                       shell_join(names), kRemoves);
  }
  return out;
}

Action update_action() {
  Action action;
  action.title = "refresh the package lists";
  action.script = std::string(kFunctions) + R"sh(n=0
until out=$(mw_apt update 2>&1); do
  case $out in
    *"Could not get lock"*) ;;
    *) printf '%s\n' "$out" >&2; exit 100 ;;
  esac
  [ "$n" -lt 150 ] || { printf '%s\nstill locked after 5 minutes\n' "$out" >&2; exit 100; }
  n=$((n + 1))
  sleep 2
done
case $out in
  *"Failed to fetch"* | *"Some index files failed"*)
    printf '%s\n' "$out" >&2
    exit 100
    ;;
esac
umask 077
mkdir -p /var/lib/millwright
: >/var/lib/millwright/apt-updated
)sh";
  action.undo = "exit 0\n";
  action.undo_title = "nothing: fresh package lists do no harm";
  return action;
}

Action install_action(const std::vector<std::string>& specs, std::string title) {
  const std::string command = "--allow-downgrades install -- " + shell_join(specs);
  Action action;
  action.title = std::move(title);
  action.script = std::string(to_file_function()).append(kFunctions) + "mw_to_file mw_apt " + command + "\n";
  action.save = save_script(command, kInstalls);
  action.undo = undo_script(kUndoInstall, replace_all(std::string(kUndoInstallCheck), "REMOVES", kRemoves) +
                                              "# shellcheck disable=SC2086\n"
                                              "mw_to_file mw_apt --allow-downgrades --purge install $specs\n");
  action.undo_title = "remove what came with it, and put older versions back";
  action.deadline = std::chrono::minutes(60);
  return action;
}

Action remove_action(const std::vector<std::string>& names, std::string title, Conffiles conffiles) {
  const bool purge = conffiles == Conffiles::remove;
  const std::string command = (purge ? "purge -- " : "remove -- ") + shell_join(names);
  Action action;
  action.title = std::move(title);
  action.script = std::string(to_file_function()).append(kFunctions) + "mw_to_file mw_apt " + command + "\n";
  action.save = save_script(command, kRemoves);
  if (purge) action.save += kSaveConffiles;
  action.undo = undo_script(kUndoRemove, std::string(purge ? kRestoreConffiles : "") + R"sh(# shellcheck disable=SC2086
mw_to_file mw_apt --allow-downgrades install $specs
while read -r name; do
  grep -qxF -e "$name" "$MW_SAVE/manual" || apt-mark auto -- "$name" >/dev/null
done <"$MW_SAVE/planned"
)sh");
  action.undo_title = "install " + join(names, " ") + " again";
  action.deadline = std::chrono::minutes(60);
  return action;
}

}  // namespace millwright::apt
