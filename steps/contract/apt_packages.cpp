#include "steps/contract/apt_packages.hpp"

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"

namespace millwright {

namespace {

constexpr const char* kApt =
    "DEBIAN_FRONTEND=noninteractive; export DEBIAN_FRONTEND\n"
    "apt() { apt-get -y -q -o DPkg::Lock::Timeout=120 -o Dpkg::Options::=--force-confold \"$@\"; }\n";

}  // namespace

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
  action.script = std::string(kApt) + "apt install --no-install-recommends " + wanted + " || { apt update; " +
                  "apt install --no-install-recommends " + wanted + "; }\n";
  action.undo = std::string(kApt) + R"sh([ -e "$MW_SAVE/packages" ] || exit 0
new=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' | sed -n 's/ installed$//p' | sort -u | comm -13 "$MW_SAVE/packages" -)
[ -n "$new" ] || exit 0
{ printf '%s\n' )sh" +
                wanted +
                R"sh(; apt-mark showauto; } | sort -u > "$MW_SAVE/removable"
remove=$(printf '%s\n' "$new" | comm -12 - "$MW_SAVE/removable")
[ -z "$remove" ] || apt purge $remove
)sh";
  action.undo_title = "remove what that installed";
  action.marks.guard_self = true;
  return action;
}

}  // namespace millwright
