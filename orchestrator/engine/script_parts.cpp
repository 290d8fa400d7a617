#include "orchestrator/engine/script_parts.hpp"

#include <fmt/format.h>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/value.hpp"

namespace millwright {

// sync FILE is coreutils 8.24 and newer; elsewhere everything is synced. What the shell can do by itself it does: a
// program costs a node a millisecond, and these run several times for each action.
std::string script_helpers() {
  return R"sh(
mw_sync() { sync "$@" 2>/dev/null || sync; }
mw_mark() { (umask 077; printf '%s\n' "$1" >"$D/outcome.tmp" && exec mv -f "$D/outcome.tmp" "$D/outcome"); }
mw_start_of() {
  mw_line=; { read -r mw_line <"/proc/$1/stat"; } 2>/dev/null || :
  # Behind the name, which may hold anything, come the state and, as the 20th, when it started.
  set -- ${mw_line##*") "}
  case "${1:-Z}" in Z | X) echo 0 ;; *) echo "${20:-0}" ;; esac
}
mw_boot() {
  mw_id=; { read -r mw_id </proc/sys/kernel/random/boot_id; } 2>/dev/null || :
  echo "${mw_id:-unknown}"
}
mw_alive() {
  [ -f "$1" ] && read -r mw_pid mw_start mw_at <"$1" && [ -n "$mw_pid" ] && [ "$mw_at" = "$(mw_boot)" ] &&
    [ "$(mw_start_of "$mw_pid")" = "$mw_start" ]
}
)sh";
}

std::string script_audit(const std::string& by) {
  const std::string who = Value(by).dump(-1, ' ', false, Value::error_handler_t::replace);
  return "mw_audit() {\n"
         "  [ -f \"$D/audit\" ] || return 0\n"
         "  about=; read -r about <\"$D/audit\" || :\n"
         "  umask 077; printf '{\"time\":\"%s\",\"outcome\":\"%s\",\"by\":%s,%s\\n' "
         "\"$(date -u +%Y-%m-%dT%H:%M:%SZ)\" \"$1\" " +
         shell_quote(who) + " \"$about\" >>\"${D%/runs/*}/audit.log\"\n}\n";
}

std::string script_put(const std::string& path_expression, const std::string& text) {
  return fmt::format("printf '%s' {} >\"{}.tmp\" && mv -f \"{}.tmp\" \"{}\"", shell_quote(text), path_expression,
                     path_expression, path_expression);
}

}  // namespace millwright
