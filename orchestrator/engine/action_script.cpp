#include "orchestrator/engine/action_script.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"
#include "orchestrator/engine/dead_man.hpp"
#include "orchestrator/engine/script_parts.hpp"
#include "orchestrator/transport/frame.hpp"

namespace millwright {

namespace {

// Exit statuses of the composed script before the action itself runs. sysexits.h where one fits.
constexpr int cannot_create = 73;
constexpr int taken_status = 72;
constexpr int locked_status = 77;
constexpr int stale_status = 75;
constexpr int unprepared_status = 70;

// Nothing runs that the log does not know of. It is renamed when it has grown, which a run looks at once.
std::string audit_start(const ActionScript& parts) {
  if (!parts.audit.is_object()) return {};
  constexpr int most = 1 << 20;
  const std::string about = parts.audit.dump(-1, ' ', false, Value::error_handler_t::replace).substr(1);
  return "printf '%s\\n' " + shell_quote(about) + " >\"$D/audit\" && " +
         fmt::format(
             "{{ [ -z \"$mw_first\" ] || [ \"$(wc -c 2>/dev/null <\"$S/audit.log\" || echo 0)\" -lt {} ] || "
             "mv -f \"$S/audit.log\" \"$S/audit.log.1\"; }} && mw_audit started || exit {}\n",
             most, cannot_create);
}

// A symbolic link is made atomically and carries who holds the lock in its target. It may be let go between the two
// looks at it (this run may reach one node by two names), so an empty answer is asked again.
std::string take_lock(const ActionScript& parts) {
  const std::string target = parts.run + "|" + parts.holder;
  return fmt::format(
      // An action that is not the first of its run finds the lock taken by it.
      "tries=0; held=; [ -n \"$mw_first\" ] || held=$(readlink \"$S/lock\" || true)\n"
      "until case \"$held\" in {1}\\|*) true ;; *) ln -s {0} \"$S/lock\" 2>/dev/null ;; esac; do\n"
      "  held=$(readlink \"$S/lock\" || true)\n"
      "  case \"$held\" in\n"
      "    {1}\\|*) break ;;\n"
      "    '') tries=$((tries + 1)); [ \"$tries\" -gt 20 ] || continue ;;\n"
      "  esac\n"
      "  mw_mark \"locked $held\"; exit {2}\n"
      "done\n",
      shell_quote(target), shell_quote(parts.run), locked_status);
}

std::string undo_text(const ActionScript& parts) {
  // On a full disk nothing may run whose undo did not get there.
  const std::string or_stop = fmt::format(" || exit {}\n", cannot_create);
  const auto write = [&](const std::string& name, const std::string& text) {
    return "printf '%s' " + shell_quote(text) + " >\"$D/new/" + name + "\"" + or_stop;
  };
  std::string out = write("meta.json", parts.meta);
  if (!parts.action->undo.empty()) out += write("undo.sh", parts.action->undo);
  out += write("script.sh", parts.action->script);
  if (!parts.action->save.empty()) out += write("save.sh", parts.action->save);
  out += "mv -f \"$D/new\"/* \"$D\"" + or_stop;
  // After a power cut the folder holds what is needed to go back, or nothing was done.
  return out + "mw_sync \"$D\"/*.sh \"$D/meta.json\" \"$D\"\n";
}

std::string save_text(const ActionScript& parts) {
  if (parts.action->save.empty()) return {};
  return fmt::format(
      "code=0; /bin/sh -eu \"$D/save.sh\" </dev/null || code=$?\n"
      "if [ \"$code\" != 0 ]; then mw_mark \"unprepared $code saving what undo needs failed\"; exit {}; fi\n"
      "mw_sync \"$D/save\"\n",
      unprepared_status);
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos || slash == 0 ? "/" : path.substr(0, slash);
}

std::string place_text(const PlacedFile& placed, std::size_t index, const std::string& tag) {
  const FilePlacement& file = *placed.file;
  const std::string folder = folder_of(file.path);
  const std::string temporary = (folder == "/" ? "" : folder) + "/.millwright-" + tag + "-" + std::to_string(index);
  std::string out = fmt::format("F={}; T={}\n", shell_quote(file.path), shell_quote(temporary));
  out += "mw_place() {\n  [ ! -d \"$F\" ] || { echo \"$F is a folder\" >&2; return 1; }\n";
  if (placed.delivery == Delivery::inside) {
    // A word of the shell holds no NUL; the format of printf can make one.
    const bool plain = file.content->find('\0') == std::string::npos;
    out += fmt::format("  printf {} >\"$T\" || return 1\n",
                       plain ? "'%s' " + shell_quote(*file.content) : printf_word(*file.content));
    out += fmt::format(
        "  sum=$(sha256sum <\"$T\"); [ \"${{sum%% *}}\" = {} ] || {{ echo \"$F did not arrive whole\" >&2; return 1; "
        "}}\n",
        sha256_hex(*file.content));
  } else {
    out += fmt::format("  mv -f \"$D/files/{}\" \"$T\" || return 1\n", index);
  }
  if (!file.owner.empty() || !file.group.empty()) {
    const std::string owner = file.owner + (file.group.empty() ? "" : ":" + file.group);
    out += fmt::format("  chown {} \"$T\" || return 1\n", shell_quote(owner));
  }
  out += fmt::format("  chmod {} \"$T\" || return 1\n", shell_quote(file.mode.empty() ? "0644" : file.mode));
  out += "  mw_sync \"$T\"; mv -f \"$T\" \"$F\" && mw_sync \"${F%/*}/\"\n}\n";
  return out + "mw_place || { rm -f \"$T\"; mw_mark 'failed 74'; mw_audit 'failed 74'; exit 74; }\n";
}

// The action itself. One that may cut the line runs in a session of its own with its output in files, so that neither
// a hang-up nor a broken pipe stops it half-way.
std::string run_text(const ActionScript& parts) {
  const std::string body =
      "code=0; umask 022; /bin/sh -eu \"$D/script.sh\" </dev/null || code=$?\n"
      "if [ \"$code\" = 0 ]; then mw_mark 'done 0'; mw_audit done; else mw_mark \"failed $code\"; mw_audit \"failed "
      "$code\"; fi\nexit \"$code\"\n";
  if (!parts.action->marks.may_drop_connection) return body;
  const std::string detached = "D=" + shell_quote(parts.remote_dir) + script_helpers() + script_audit(parts.by) +
                               "pid=$$; printf '%s %s %s\\n' \"$pid\" \"$(mw_start_of \"$pid\")\" \"$(mw_boot)\" "
                               ">\"$D/pid\"\nexport MW_SAVE=\"$D/save\"\n" +
                               body;
  return script_put("$D/run.sh", detached) +
         "\nif command -v setsid >/dev/null 2>&1; then S_=setsid; else S_=; fi\n"
         "code=0; $S_ /bin/sh \"$D/run.sh\" </dev/null >\"$D/out\" 2>\"$D/err\" & wait $! || code=$?\n"
         "cat \"$D/out\"; cat \"$D/err\" >&2; exit \"$code\"\n";
}

}  // namespace

bool fits_inside(const std::string& content) {
  constexpr std::size_t most = 64u << 10;
  return content.size() <= most;
}

std::string guard_script(const std::vector<Question>& guard, const std::string& digest, const std::string& otherwise) {
  std::vector<const Question*> ordered;
  for (const Question& question : guard) ordered.push_back(&question);
  std::sort(ordered.begin(), ordered.end(), [](const Question* a, const Question* b) { return a->key < b->key; });
  std::string out = "mkdir -p \"$D/guard\"\n: >\"$D/guard/lines\"\n";
  // As the transport does, output beyond 4 MiB does not count.
  constexpr int most = 4 << 20;
  for (const Question* question : ordered) {
    out += fmt::format(
        "printf '%s' {} >\"$D/guard/ask\"\n"
        "code=0; /bin/sh \"$D/guard/ask\" </dev/null >\"$D/guard/out\" 2>/dev/null || code=$?\n"
        "sum=$(head -c {} \"$D/guard/out\" | sha256sum)\n"
        "printf '%s %s %s\\n' {} \"$code\" \"${{sum%% *}}\" >>\"$D/guard/lines\"\n",
        shell_quote(question->script), most, shell_quote(question->key));
  }
  return out + fmt::format(
                   "sum=$(sha256sum <\"$D/guard/lines\"); rm -rf \"$D/guard\"\n"
                   "if [ \"${{sum%% *}}\" != {} ]; then {}; fi\n",
                   shell_quote(digest), otherwise);
}

std::string compose_action(const ActionScript& parts) {
  std::string out = fmt::format("# millwright: {}\n", replace_all(parts.action->title, "\n", " "));
  out += fmt::format("umask 077\nS={}\nD={}\n", shell_quote(parts.state_dir), shell_quote(parts.remote_dir));
  out += parts.gate + script_helpers() + script_audit(parts.by);
  // The state folder itself is passed through by the users of servers; what is this run's is not.
  out +=
      fmt::format("mw_first=; [ -f \"${{D%/*}}/begun\" ] || mw_first=yes\nmkdir -p \"$D/save\" \"$D/new\" || exit {}\n",
                  cannot_create);
  out +=
      "if [ -n \"$mw_first\" ]; then { chmod 711 \"$S\"; chmod 700 \"$S/runs\"; : >\"${D%/*}/begun\"; } 2>/dev/null; "
      "fi\n";
  out += fmt::format("mkdir \"$D/claim\" 2>/dev/null || exit {}\n", taken_status);
  out +=
      "pid=; { read -r pid mw_rest </proc/self/stat; } 2>/dev/null || pid=$(/bin/sh -c 'echo \"$PPID\"')\n"
      "printf '%s %s %s\\n' \"$pid\" \"$(mw_start_of \"$pid\")\" \"$(mw_boot)\" >\"$D/pid\"\n";
  out += take_lock(parts);
  if (!parts.guard.empty()) {
    out += guard_script(parts.guard, parts.digest, fmt::format("mw_mark stale; exit {}", stale_status));
  }
  out += undo_text(parts);
  out += "export MW_SAVE=\"$D/save\"\n";
  out += save_text(parts);
  if (parts.dead_man.count() != 0) {
    out += arm_dead_man({parts.remote_dir, parts.run, parts.action->title, parts.dead_man}, unprepared_status);
  }
  out += audit_start(parts);
  // Without this mark the controller takes it that nothing ran.
  out += fmt::format("mw_mark started || exit {}\nmw_sync \"$D/outcome\" \"$D\"\n", cannot_create);
  const std::string tag = sha256_hex(parts.remote_dir).substr(0, 12);
  for (std::size_t i = 0; i < parts.files.size(); ++i) out += place_text(parts.files[i], i, tag);
  return out + run_text(parts);
}

namespace {

// Whether it runs is asked first: what has ended by then has its mark.
std::string mark_text(const std::string& when_ended) {
  return "running=no\n"
         "if mw_alive \"$D/pid\"; then\n  running=yes\n"
         "elif [ -d \"$D/claim\" ] && [ ! -f \"$D/pid\" ] && [ ! -f \"$D/outcome\" ]; then\n  running=unsure\n"
         "else\n  :\n" +
         when_ended +
         "fi\n"
         "boot_at_start=; [ ! -f \"$D/pid\" ] || read -r pid start boot_at_start <\"$D/pid\"\n"
         "mark=; { read -r mark <\"$D/outcome\"; } 2>/dev/null || :\necho \"mark=$mark\"\necho \"running=$running\"\n"
         "echo \"boot=$(mw_boot)\"\necho \"boot_at_start=$boot_at_start\"\n";
}

}  // namespace

std::string settle_mark_script(const std::string& remote_dir) {
  return "umask 077\nD=" + shell_quote(remote_dir) + script_helpers() +
         "if mkdir -p \"$D\" && mkdir \"$D/claim\" 2>/dev/null; then mw_mark undone; fi\n" +
         mark_text(settle_dead_man(remote_dir));
}

std::string read_mark_script(const std::string& remote_dir) {
  return "D=" + shell_quote(remote_dir) + script_helpers() + mark_text("");
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

std::string compose_undo(const std::string& remote_dir, const std::string& fallback, const std::string& by,
                         Force force) {
  std::string out = "umask 077\nD=" + shell_quote(remote_dir) + script_helpers() + script_audit(by);
  out +=
      "case \"$(cat \"$D/outcome\" 2>/dev/null)\" in\n"
      "  started*|done*|failed*|timer_failed*) ;;\n"
      "  *) exit 0 ;;\n"
      "esac\n";
  if (!fallback.empty()) out += "[ -f \"$D/undo.sh\" ] || { " + script_put("$D/undo.sh", fallback) + "; }\n";
  out += "export MW_SAVE=\"$D/save\"\n" + std::string(force == Force::yes ? "export MW_FORCE=1\n" : "") +
         "code=0; umask 022; /bin/sh -eu \"$D/undo.sh\" </dev/null || code=$?\n"
         "if [ \"$code\" = 0 ]; then mw_mark undone; mw_audit undone; else mw_audit \"undo failed $code\"; fi\n"
         "exit \"$code\"\n";
  return out;
}

std::string compose_after(const std::vector<std::string>& remote_dirs) {
  std::string out = "umask 022; failed=0\n";
  for (const std::string& dir : remote_dirs) {
    out += "D=" + shell_quote(dir) +
           "\nif [ -f \"$D/save/after.sh\" ]; then\n"
           "  export MW_SAVE=\"$D/save\"\n"
           "  if /bin/sh -eu \"$D/save/after.sh\" </dev/null; then rm -f \"$D/save/after.sh\"; else failed=1; fi\nfi\n";
  }
  return out + "exit \"$failed\"\n";
}

std::string release_lock_script(const std::string& state_dir, const std::string& run) {
  return fmt::format("S={}\ncase \"$(readlink \"$S/lock\" 2>/dev/null)\" in\n  {}\\|*) rm -f \"$S/lock\" ;;\nesac\n",
                     shell_quote(state_dir), shell_quote(run));
}

}  // namespace millwright
