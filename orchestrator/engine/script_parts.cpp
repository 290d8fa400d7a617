#include "orchestrator/engine/script_parts.hpp"

#include <fmt/format.h>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/value.hpp"

namespace millwright {

std::string script_helpers() {
  // sync FILE is coreutils 8.24 and newer; elsewhere everything is synced. A mark that a full disk has cut begins a
  // line of its own, which the next one ends.
  return R"sh(
mw_sync() { sync "$@" 2>/dev/null || sync; }
mw_mark() { printf '\n%s\n' "$1" >>"$D/outcome"; }
mw_outcome() {
  mw_last=
  [ ! -f "$1/outcome" ] || while read -r mw_line; do [ -z "$mw_line" ] || mw_last=$mw_line; done <"$1/outcome"
}
mw_claim() { set -C; { true >"$D/claim"; } 2>/dev/null && set +C || { set +C; return 1; }; }
mw_start_of() {
  mw_line=; { read -r mw_line <"/proc/$1/stat"; } 2>/dev/null || :
  # Behind the name, which may hold anything, come the state and, as the 20th, when it started.
  set -- ${mw_line##*") "}
  case "${1:-Z}" in Z | X) mw_start=0 ;; *) mw_start=${20:-0} ;; esac
}
# A container that is started anew has the kernel's boot id still, but another first process.
mw_boot() {
  mw_id=; { read -r mw_id </proc/sys/kernel/random/boot_id; } 2>/dev/null || :
  mw_start_of 1
  mw_id=${mw_id:-unknown}.$mw_start
}
mw_note_pid() {
  mw_boot
  mw_start_of "$1"
  printf '%s %s %s\n' "$1" "$mw_start" "$mw_id" >"$D/${2:-pid}"
}
mw_alive() {
  [ -f "$1" ] && read -r mw_pid mw_began mw_at <"$1" && [ -n "$mw_pid" ] && mw_boot && [ "$mw_at" = "$mw_id" ] &&
    mw_start_of "$mw_pid" && [ "$mw_start" = "$mw_began" ]
}
)sh";
}

std::string script_own_pid() {
  return "mw_pid=; { read -r mw_pid mw_rest </proc/self/stat; } 2>/dev/null || mw_pid=$(/bin/sh -c 'echo \"$PPID\"')\n";
}

std::string script_audit(const std::string& by) {
  const std::string who = Value(by).dump(-1, ' ', false, Value::error_handler_t::replace);
  return R"sh(mw_now() {
  mw_up=; { read -r mw_up mw_rest </proc/uptime; } 2>/dev/null || :
  mw_up=${mw_up%%.*}
  mw_gone=$((${mw_up:-0} - ${mw_up_then:-0}))
  mw_s=$((${mw_second:-0} + mw_gone))
  if [ -z "$mw_up" ] || [ -z "${mw_day:-}" ] || [ "$mw_gone" -lt 0 ] || [ "$mw_gone" -gt 60 ] || [ "$mw_s" -ge 86400 ]
  then
    mw_time=$(date -u +%Y-%m-%dT%H:%M:%SZ)
    mw_up_then=$mw_up mw_day=${mw_time%T*} mw_s=${mw_time#*T}
    mw_h=${mw_s%%:*} mw_m=${mw_s#*:} mw_s=${mw_s##*:}
    mw_m=${mw_m%%:*} mw_s=${mw_s%Z}
    mw_second=$((${mw_h#0} * 3600 + ${mw_m#0} * 60 + ${mw_s#0}))
    return 0
  fi
  mw_h=$((mw_s / 3600)) mw_m=$((mw_s / 60 % 60)) mw_s=$((mw_s % 60))
  [ "$mw_h" -gt 9 ] || mw_h=0$mw_h
  [ "$mw_m" -gt 9 ] || mw_m=0$mw_m
  [ "$mw_s" -gt 9 ] || mw_s=0$mw_s
  mw_time=${mw_day}T$mw_h:$mw_m:${mw_s}Z
}
mw_audit() {
  [ -f "$D/audit" ] || return 0
  mw_about=; read -r mw_about <"$D/audit" || :
  mw_now
  printf '{"time":"%s","outcome":"%s","by":%s,%s\n' "$mw_time" "$1" )sh" +
         shell_quote(who) + " \"$mw_about\" >>\"${D%/runs/*}/audit.log\"\n}\n";
}

std::string script_put(const std::string& path_expression, const std::string& text) {
  return fmt::format("printf '%s' {} >\"{}.tmp\" && mv -f \"{}.tmp\" \"{}\"", shell_quote(text), path_expression,
                     path_expression, path_expression);
}

}  // namespace millwright
