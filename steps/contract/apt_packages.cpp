#include "steps/contract/apt_packages.hpp"

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"

namespace millwright {

namespace {

constexpr const char* kApt =
    "DEBIAN_FRONTEND=noninteractive; export DEBIAN_FRONTEND\n"
    "apt() { apt-get -y -q -o DPkg::Lock::Timeout=120 -o Dpkg::Options::=--force-confold \"$@\"; }\n";

}  // namespace

std::string_view to_file_function() {
  return R"sh(mw_to_file() {
  log=${MW_SAVE:-/tmp}/apt.log
  code=0
  : >"$log"
  tail -n +1 -f "$log" 2>/dev/null & follow=$!
  "$@" >"$log" 2>&1 || code=$?
  sleep 0.1
  kill "$follow" 2>/dev/null || :
  wait "$follow" 2>/dev/null || :
  [ "$code" = 0 ] || tail -n 20 "$log" >&2 || :
  return "$code"
}
)sh";
}

std::string_view finish_dpkg_script() {
  return R"sh(for f in /var/lib/dpkg/updates/[0-9]*; do
  [ -e "$f" ] || continue
  DEBIAN_FRONTEND=noninteractive dpkg --force-confdef --force-confold --configure -a </dev/null || :
  break
done
)sh";
}

std::string missing_packages_script(const std::vector<std::string>& packages) {
  return "for p in " + shell_join(packages) +
         "; do\n"
         "  s=$(dpkg-query -W -f '${db:Status-Status}' \"$p\" 2>/dev/null) || s=none\n"
         "  if [ \"$s\" != installed ]; then echo \"$p\"; fi\ndone\n";
}

Action install_packages_action(const std::vector<std::string>& packages) {
  const std::string wanted = shell_join(packages);
  Action action;
  action.title = "install " + join(packages, ", ");
  action.save =
      R"sh(dpkg-query -W -f '${Package} ${db:Status-Status}\n' | sed -n 's/ installed$//p' | sort -u > "$MW_SAVE/packages"
)sh";
  // A node that never ran `apt update` knows no package: only then the lists are fetched.
  action.script = std::string(to_file_function()) + kApt + "mw_to_file apt install --no-install-recommends " + wanted +
                  " || { mw_to_file apt update; mw_to_file apt install --no-install-recommends " + wanted + "; }\n";
  action.undo =
      std::string(to_file_function()) + kApt + R"sh([ -e "$MW_SAVE/packages" ] || exit 0
)sh" + std::string(finish_dpkg_script()) +
      R"sh(new=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' | sed -n 's/ installed$//p' | sort -u | comm -13 "$MW_SAVE/packages" -)
[ -n "$new" ] || exit 0
{ printf '%s\n' )sh" +
      wanted +
      R"sh(; apt-mark showauto; } | sort -u > "$MW_SAVE/removable"
remove=$(printf '%s\n' "$new" | comm -12 - "$MW_SAVE/removable")
[ -z "$remove" ] || mw_to_file apt purge $remove
)sh";
  action.undo_title = "remove what that installed";
  action.marks.guard_self = true;
  return action;
}

}  // namespace millwright
