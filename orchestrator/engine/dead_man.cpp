#include "orchestrator/engine/dead_man.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"
#include "orchestrator/engine/script_parts.hpp"

namespace millwright {

namespace {

std::string unit_name(const std::string& remote_dir) {
  return "millwright-undo-" + sha256_hex(remote_dir).substr(0, 16);
}

constexpr const char* unit_folder = "/etc/systemd/system/";

// $U is the unit. Stopping the timer does not stop the service, so timer.sh may call this.
constexpr const char* take_units_away = R"sh(mw_units_away() {
  systemctl disable --now --quiet "$U.timer" 2>/dev/null || :
  rm -f "/etc/systemd/system/$U.timer" "/etc/systemd/system/$U.service"
  systemctl daemon-reload || :
  systemctl reset-failed "$U.service" 2>/dev/null || :
}
)sh";

// What the timer starts. $D, $S, $U, $TITLE, $RUN and $SECONDS_ are set before.
constexpr const char* timer_body = R"sh(
mw_say() {
  mkdir -p "$S/by-itself" && printf '%s %s\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$1" >>"$S/by-itself/$U" || :
}
# Only one instance of a unit runs, so a claim of the node's own is that of a node that was switched off in the middle.
ln -s node "$D/timer.claim" 2>/dev/null || :
[ "$(readlink "$D/timer.claim")" = node ] || exit 0
if [ ! -f "$D/outcome" ]; then mw_units_away; exit 0; fi
if mw_alive "$D/pid"; then
  kill -s KILL -- "-$mw_pid" 2>/dev/null || kill -s KILL "$mw_pid" 2>/dev/null || :
fi
# $1: an action's folder.
mw_take_back() {
  [ -f "$1/undo.sh" ] || return 0
  mw_outcome "$1"
  case $mw_last in started* | done* | failed* | timer_failed*) ;; *) return 0 ;; esac
  code=0
  (export MW_SAVE="$1/save"; umask 022; exec /bin/sh -eu "$1/undo.sh") </dev/null >>"$D/timer.log" 2>&1 || code=$?
  (
    D=$1
    if [ "$code" = 0 ]; then
      mw_mark undone_by_timer
      mw_audit undone
    else
      mw_mark "timer_failed $code"
      mw_audit "undo failed $code"
    fi
  )
  return "$code"
}
if [ ! -e "$D/timer.first" ]; then
  code=0
  mw_take_back "$D" || code=$?
  : >"$D/timer.first"
  mw_sync "$D/timer.first" "$D/outcome" "$D"
  # When its undo did not work by itself, what it needs may be among what is taken back below.
  if [ "$code" = 0 ]; then
    mw_say "took '$TITLE' of run $RUN back by itself: nobody had come back after $SECONDS_ s"
    rm -f "$D/timer.claim"
    exit 0
  fi
fi
own=${D##*/}
left=
for name in $(cd "${D%/*}" && ls -d [0-9]*-* | sort -t - -k 1,1nr); do
  [ "${name%%-*}" -lt "${own%%-*}" ] || continue
  mw_take_back "${D%/*}/$name" || left="$left $name"
done
mw_take_back "$D" || left="$left $own"
for name in $(cd "${D%/*}" && ls -d [0-9]*-* | sort -t - -k 1,1nr); do
  [ -f "${D%/*}/$name/save/after.sh" ] || continue
  if (export MW_SAVE="${D%/*}/$name/save"; umask 022; exec /bin/sh -eu "$MW_SAVE/after.sh") </dev/null \
    >>"$D/timer.log" 2>&1; then
    rm -f "${D%/*}/$name/save/after.sh"
  else
    left="$left $name"
  fi
done
if [ -z "$left" ]; then
  mw_say "took '$TITLE' and everything before it of run $RUN back by itself: nobody had come back"
else
  mw_say "could not take back all of run $RUN by itself (left:$left); what the undos said is in $D/timer.log"
fi
mw_sync "$S/by-itself/$U" "$D"
rm -f "$D/timer.claim"
mw_units_away
)sh";

}  // namespace

std::string arm_dead_man(const DeadMan& timer, int failed_status) {
  const std::string unit = unit_name(timer.remote_dir);
  const auto seconds = std::max<long long>(1, std::chrono::ceil<Seconds>(timer.after).count());
  const std::string state = timer.remote_dir.substr(0, timer.remote_dir.rfind("/runs/"));
  const std::string script =
      fmt::format("umask 077\nexport LC_ALL=C\nS={}; D={}; U={}\nTITLE={}\nRUN={}; SECONDS_={}\n", shell_quote(state),
                  shell_quote(timer.remote_dir), unit, shell_quote(replace_all(timer.title, "\n", " ")),
                  shell_quote(timer.run), seconds) +
      script_helpers() + script_audit("the node's own timer") + take_units_away + timer_body;
  const std::string about = fmt::format("[Unit]\nDescription=Takes back an action of millwright run {}\n", timer.run);
  const std::string service = about + "\n[Service]\nType=oneshot\nKillMode=process\nExecStart=/bin/sh \"" +
                              replace_all(replace_all(timer.remote_dir, "%", "%%"), "$", "$$") + "/timer.sh\"\n";
  // Beside the first time also a second one, and again from the beginning when the node has booted.
  const std::string calendar =
      about + fmt::format(
                  "\n[Timer]\nOnActiveSec={0}s\nOnUnitInactiveSec={0}s\nAccuracySec=1s\n\n[Install]\n"
                  "WantedBy=timers.target\n",
                  seconds);
  return fmt::format("U={}\n", unit) + take_units_away + "mw_arm() {\n  " + script_put("$D/timer.sh", script) +
         " &&\n  " + script_put(unit_folder + std::string("$U.service"), service) + " &&\n  " +
         script_put(unit_folder + std::string("$U.timer"), calendar) +
         " &&\n  chmod 644 \"/etc/systemd/system/$U.service\" \"/etc/systemd/system/$U.timer\" &&\n"
         "  mw_sync \"$D/timer.sh\" \"$D\" \"/etc/systemd/system/$U.service\" \"/etc/systemd/system/$U.timer\" &&\n"
         "  systemctl daemon-reload && systemctl enable --now --quiet \"$U.timer\"\n}\n" +
         fmt::format(
             "mw_arm || {{ code=$?; mw_units_away; mw_mark \"unprepared $code arming the timer that would undo this "
             "failed\"; exit {}; }}\n",
             failed_status);
}

std::string settle_dead_man(const std::string& remote_dir) {
  return "if [ -f \"$D/timer.sh\" ]; then\n  U=" + unit_name(remote_dir) + "\n" + take_units_away +
         R"sh(  ln -s controller "$D/timer.claim" 2>/dev/null || :
  if [ "$(readlink "$D/timer.claim")" = node ]; then
    case "$(systemctl show -p ActiveState --value "$U.service" 2>/dev/null)" in
      activ* | deactivating) running=yes ;;
      *) ln -sfn controller "$D/timer.claim" ;; # it was switched off in the middle of it
    esac
  fi
  [ "$running" = yes ] || [ ! -e "/etc/systemd/system/$U.timer" ] || mw_units_away
fi
)sh";
}

std::string dismiss_dead_men_script(const std::string& run) {
  return take_units_away + fmt::format("R={}\n", shell_quote(run)) +
         R"sh(for f in /etc/systemd/system/millwright-undo-*.service; do
  [ -f "$f" ] || continue
  D=$(sed -n 's|^ExecStart=/bin/sh "\(.*\)/timer.sh"$|\1|p' "$f")
  case "$D" in */runs/"$R"/*) ;; *) continue ;; esac
  U=${f##*/}; U=${U%.service}; n=0
  until ln -s controller "$D/timer.claim" 2>/dev/null || [ "$(readlink "$D/timer.claim")" = controller ]; do
    case "$(systemctl show -p ActiveState --value "$U.service")" in
      activ* | deactivating) [ "$n" -lt 60 ] || break ;;
      *) ln -sfn controller "$D/timer.claim" ;;
    esac
    n=$((n + 1)); sleep 1
  done
  mw_units_away
done
)sh";
}

std::string told_by_node_script() {
  return "for f in \"$S\"/by-itself/*; do\n"
         "  [ ! -f \"$f\" ] || while IFS= read -r line; do printf 'by-itself %s %s\\n' \"$f\" \"$line\"; done <\"$f\"\n"
         "done\n";
}

std::string forget_told_script(const std::string& file) { return "rm -f -- " + shell_quote(file) + "\n"; }

}  // namespace millwright
