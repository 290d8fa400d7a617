#include "orchestrator/engine/action_parts.hpp"

#include <fmt/format.h>

#include "orchestrator/base/shell.hpp"

namespace millwright {

std::string rotate_audit() {
  constexpr int most_audit = 1 << 20;
  return fmt::format(
      "[ -z \"$mw_first\" ] || [ \"$(wc -c 2>/dev/null <\"$S/audit.log\" || echo 0)\" -lt {} ] || "
      "mv -f \"$S/audit.log\" \"$S/audit.log.1\" || exit {}\n",
      most_audit, cannot_create);
}

// The state folder itself is passed through by the users of servers; what is this run's is not. `folders` are shell
// words.
std::string make_folders(const std::string& folders) {
  return fmt::format(
      "R=${{D%/*}}; mw_first=; [ -f \"$R/begun\" ] || mw_first=yes\nmkdir -p {} || exit {}\n"
      "if [ -n \"$mw_first\" ]; then {{ chmod 711 \"$S\"; : >\"$R/begun\"; }} 2>/dev/null; fi\n",
      folders, cannot_create);
}

// A symbolic link is made atomically and carries who holds the lock in its target. It may be let go between the two
// looks at it (this run may reach one node by two names), so an empty answer is asked again. `say` tells who holds it.
std::string take_lock(const std::string& run, const std::string& holder, const std::string& say) {
  return fmt::format(
      // An action that is not the first of its run finds the lock taken by it.
      "tries=0; held=; [ -n \"$mw_first\" ] || held=$(readlink \"$S/lock\" || true)\n"
      "until case \"$held\" in {1}\\|*) true ;; *) ln -s {0} \"$S/lock\" 2>/dev/null ;; esac; do\n"
      "  held=$(readlink \"$S/lock\" || true)\n"
      "  case \"$held\" in\n"
      "    {1}\\|*) break ;;\n"
      "    '') tries=$((tries + 1)); [ \"$tries\" -gt 20 ] || continue ;;\n"
      "  esac\n"
      "  {3} \"locked $held\"; exit {2}\n"
      "done\n",
      shell_quote(run + "|" + holder), shell_quote(run), locked_status, say);
}

// What an action needs and what takes it back, into $D. The description comes last: without it nothing was put down
// whole. On a full disk nothing may run whose undo did not get there.
std::string put_down(const ActionScript& parts) {
  const std::string or_stop = fmt::format(" || exit {}\n", cannot_create);
  const auto write = [&](const std::string& name, const std::string& text) {
    return "printf '%s' " + shell_quote(text) + " >\"$D/" + name + "\"" + or_stop;
  };
  std::string out;
  if (!parts.action->undo.empty()) out += write("undo.sh", parts.action->undo);
  if (!parts.action->script.empty()) out += write("script.sh", parts.action->script);
  if (!parts.action->save.empty()) out += write("save.sh", parts.action->save);
  if (parts.audit.is_object()) {
    out += write("audit", parts.audit.dump(-1, ' ', false, Value::error_handler_t::replace).substr(1) + "\n");
  }
  return out + write("meta.json", parts.meta + "\n");
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos || slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace millwright
