// What the node says about an action, and how it is asked.
#include <charconv>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"
#include "orchestrator/engine/action_script.hpp"
#include "orchestrator/engine/dead_man.hpp"
#include "orchestrator/engine/script_parts.hpp"

namespace millwright {

namespace {

// It was put down together with others, and the node has booted since (pipeline_prepare.cpp). Its mark may be lost: it
// counts as begun.
constexpr const char* lost_function = R"sh(mw_lost() {
  [ -f "$D/pipe" ] && read -r mw_gate <"$D/pipe" && [ -f "$mw_gate.boot" ] && read -r mw_at <"$mw_gate.boot" &&
    mw_boot && [ "$mw_at" != "$mw_id" ]
}
)sh";

// Whether it runs is asked first: what has ended by then has its mark.
std::string mark_text(const std::string& when_ended) {
  return R"sh(running=no
if mw_alive "$D/pid"; then
  running=yes
elif [ -e "$D/claim" ] && [ ! -s "$D/pid" ] && [ ! -s "$D/outcome" ]; then
  running=unsure
else
  :
)sh" + when_ended +
         R"sh(fi
boot_at_start=; [ ! -f "$D/pid" ] || read -r mw_rest mw_rest boot_at_start <"$D/pid"
mw_outcome "$D"
[ -n "$mw_last" ] || ! mw_lost || mw_last=started
mw_boot
printf 'mark=%s\nrunning=%s\nboot=%s\nboot_at_start=%s\n' "$mw_last" "$running" "$mw_id" "$boot_at_start"
)sh";
}

}  // namespace

std::string settle_mark_script(const std::string& remote_dir) {
  return "umask 077\nD=" + shell_quote(remote_dir) + script_helpers() + lost_function +
         "mw_outcome \"$D\"\n"
         "if [ -z \"$mw_last\" ] && { [ -d \"$D\" ] || mkdir -p \"$D\"; }; then\n"
         "  if mw_lost; then mw_claim; mw_mark started\n"
         "  elif mw_claim; then mw_mark undone\n"
         "  fi\n"
         "fi\n" +
         mark_text(settle_dead_man(remote_dir)) +
         // Sessions are killed first when a node goes down: it still answers, and what is done now is lost.
         "case $mw_last in started*)\n"
         "  [ \"$running\" != no ] || [ ! -d /run/systemd/system ] ||\n"
         "    echo \"system=$(systemctl is-system-running 2>/dev/null || :)\" ;;\nesac\n";
}

std::string read_mark_script(const std::string& remote_dir) {
  return "D=" + shell_quote(remote_dir) + script_helpers() + lost_function + mark_text("");
}

namespace {

int number_of(std::string_view text) {
  int number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

void read_mark(ActionMark& mark, const std::string& text) {
  using Kind = ActionMark::Kind;
  const std::size_t blank = std::min(text.find(' '), text.size());
  const std::string word = text.substr(0, blank);
  const std::string rest = blank < text.size() ? text.substr(blank + 1) : std::string();
  if (word == "stale") mark.kind = Kind::stale;
  if (word == "started") mark.kind = Kind::started;
  if (word == "done") mark.kind = Kind::done;
  if (word == "undone") mark.kind = Kind::undone;
  if (word == "undone_by_timer") mark.kind = Kind::undone_by_timer;
  if (word == "timer_failed") mark.kind = Kind::timer_failed;
  if (word == "locked") {
    mark.kind = Kind::locked;
    mark.text = rest;
  }
  if (word == "failed") {
    mark.kind = Kind::failed;
    mark.status = number_of(rest);
  }
  if (word == "unprepared") {
    mark.kind = Kind::unprepared;
    mark.status = number_of(rest);
    const std::size_t second = rest.find(' ');
    if (second != std::string::npos) mark.text = rest.substr(second + 1);
  }
}

}  // namespace

ActionMark parse_mark(const std::string& out) {
  ActionMark mark;
  for (const std::string& line : split_lines(out)) {
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos) continue;
    const std::string key = line.substr(0, equals);
    const std::string value = line.substr(equals + 1);
    if (key == "mark") read_mark(mark, value);
    if (key == "running") mark.running = value == "yes";
    if (key == "running") mark.unsure = value == "unsure";
    if (key == "system") mark.going_down = value == "stopping";
    if (key == "boot") mark.boot = value;
    if (key == "boot_at_start") mark.boot_at_start = value;
  }
  return mark;
}

bool action_ran(const ActionMark& mark) {
  using Kind = ActionMark::Kind;
  return mark.kind == Kind::started || mark.kind == Kind::done || mark.kind == Kind::failed ||
         mark.kind == Kind::timer_failed;
}

}  // namespace millwright
