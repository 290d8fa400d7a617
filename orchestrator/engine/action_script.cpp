#include "orchestrator/engine/action_script.hpp"

#include <fmt/format.h>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"
#include "orchestrator/engine/action_parts.hpp"
#include "orchestrator/engine/dead_man.hpp"
#include "orchestrator/engine/pipeline_prepare.hpp"
#include "orchestrator/engine/script_parts.hpp"
#include "orchestrator/transport/frame.hpp"

namespace millwright {

namespace {

std::string save_text(const ActionScript& parts) {
  if (parts.action->save.empty()) return {};
  return fmt::format(
      "( set -eu; . \"$D/save.sh\" ) </dev/null\nmw_code=$?\n"
      "if [ \"$mw_code\" != 0 ]; then mw_mark \"unprepared $mw_code saving what undo needs failed\"; exit {}; fi\n"
      "set -- \"$D\"/save/*; [ ! -e \"$1\" ] || mw_sync \"$@\" \"$D/save\"\nset --\n",
      unprepared_status);
}

// Puts the content, or what was put down before, under the temporary name $T.
std::string fill_temporary(const PlacedFile& placed, std::size_t index) {
  if (placed.delivery != Delivery::inside) return fmt::format("  mv -f \"$D/files/{}\" \"$T\" || return 1\n", index);
  const std::string& content = *placed.file->content;
  // A word of the shell holds no NUL; the format of printf can make one.
  const bool plain = content.find('\0') == std::string::npos;
  return fmt::format(
      "  printf {} >\"$T\" || return 1\n"
      "  sum=$(sha256sum <\"$T\"); [ \"${{sum%% *}}\" = {} ] || {{ echo \"$F did not arrive whole\" >&2; return 1; "
      "}}\n",
      plain ? "'%s' " + shell_quote(content) : printf_word(content), sha256_hex(content));
}

std::string set_attributes(const FilePlacement& file) {
  std::string out;
  if (!file.owner.empty() || !file.group.empty()) {
    const std::string owner = file.owner + (file.group.empty() ? "" : ":" + file.group);
    out += fmt::format("  chown {} \"$T\" || return 1\n", shell_quote(owner));
  }
  return out + fmt::format("  chmod {} \"$T\" || return 1\n", shell_quote(file.mode.empty() ? "0644" : file.mode));
}

std::string place_text(const PlacedFile& placed, std::size_t index, const std::string& tag) {
  const FilePlacement& file = *placed.file;
  const std::string folder = folder_of(file.path);
  const std::string temporary = (folder == "/" ? "" : folder) + "/.millwright-" + tag + "-" + std::to_string(index);
  std::string out = fmt::format("F={}; T={}\n", shell_quote(file.path), shell_quote(temporary));
  out += "mw_place() {\n  [ ! -d \"$F\" ] || { echo \"$F is a folder\" >&2; return 1; }\n";
  if (placed.delivery == Delivery::put_down) {
    // One rename where that stays within one file system; what it needs afterwards is done by the pipeline's end.
    out += fmt::format("  [ ! -e \"$D/files/{0}.near\" ] || {{ mv -f \"$D/files/{0}\" \"$F\"; return; }}\n", index);
  }
  out += fill_temporary(placed, index) + set_attributes(file);
  out += "  mw_sync \"$T\"; mv -f \"$T\" \"$F\" && mw_sync \"${F%/*}/\"\n}\n";
  return out + "mw_place || { rm -f \"$T\"; mw_mark 'failed 74'; mw_audit 'failed 74'; exit 74; }\n";
}

// The action itself. One that may cut the line runs in a session of its own with its output in files, so that neither
// a hang-up nor a broken pipe stops it half-way.
std::string run_text(const ActionScript& parts) {
  const std::string run = parts.action->script.empty()
                              ? ""
                              : "umask 022; /bin/sh -eu \"$D/script.sh\" </dev/null || mw_code=$?; umask 077\n";
  const std::string body = "mw_code=0\n" + run +
                           "if [ \"$mw_code\" = 0 ]; then mw_mark 'done 0'; mw_audit 'done'\n"
                           "else mw_mark \"failed $mw_code\"; mw_audit \"failed $mw_code\"; fi\nexit \"$mw_code\"\n";
  if (!parts.action->marks.may_drop_connection) return body;
  const std::string detached = "umask 077; D=" + shell_quote(parts.remote_dir) + script_helpers() +
                               script_audit(parts.by) + "mw_note_pid \"$$\"\nexport MW_SAVE=\"$D/save\"\n" + body;
  return script_put("$D/run.sh", detached) +
         "\nif command -v setsid >/dev/null 2>&1; then S_=setsid; else S_=; fi\n"
         "mw_code=0; $S_ /bin/sh \"$D/run.sh\" </dev/null >\"$D/out\" 2>\"$D/err\" & wait $! || mw_code=$?\n"
         "cat \"$D/out\"; cat \"$D/err\" >&2; exit \"$mw_code\"\n";
}

}  // namespace

bool fits_inside(const std::string& content) {
  constexpr std::size_t most = 64u << 10;
  return content.size() <= most;
}

namespace {

// As it is run for the controller: nothing of this script shows, but what it started has its own standard input.
constexpr const char* ask_function =
    "mw_ask() {\n"
    "  mw_question=$1\n"
    "  ( set --; unset S D R F T G held tries sum; umask 022; eval \"$mw_question\" ) </dev/null 2>/dev/null\n"
    "}\n";

// Word by word where the answer is short, which starts no program; else by its hash.
std::string expect_answer(const Question& question, const Answer& answer, const std::string& otherwise) {
  constexpr std::size_t most_literal = 4096;
  // As the transport does, output beyond 4 MiB does not count.
  constexpr int most = 4 << 20;
  // eval would take a leading '-' for an option.
  const std::string asked = shell_quote((starts_with(question.script, "-") ? " " : "") + question.script);
  if (answer.out.size() <= most_literal && answer.out.find('\0') == std::string::npos) {
    return fmt::format("said=$(mw_ask {}; echo \".$?\")\n[ \"$said\" = {} ] || {{ {}; }}\n", asked,
                       shell_quote(fmt::format("{}.{}", answer.out, answer.exit_code)), otherwise);
  }
  return fmt::format(
      "mw_ask {} >\"$mw_guard\"\nsaid=$?\nsum=$(head -c {} \"$mw_guard\" | sha256sum); rm -f \"$mw_guard\"\n"
      "[ \"$said ${{sum%% *}}\" = {} ] || {{ {}; }}\n",
      asked, most, shell_quote(fmt::format("{} {}", answer.exit_code, sha256_hex(answer.out))), otherwise);
}

}  // namespace

std::string guard_script(const std::vector<Question>& guard, const Answers& planned_on, const std::string& otherwise) {
  std::string out = ask_function;
  for (const Question& question : guard) {
    out += expect_answer(question, planned_on.at(question.key), otherwise);
  }
  return out;
}

std::string compose_action(const ActionScript& parts) {
  const bool prepared = !parts.gate.file.empty();
  std::string out = fmt::format("# millwright: {}\n", replace_all(parts.action->title, "\n", " "));
  out += fmt::format("umask 077\nS={}\nD={}\n", shell_quote(parts.state_dir), shell_quote(parts.remote_dir));
  if (prepared) out += gate_text(parts.gate);
  out += script_helpers() + script_audit(parts.by);
  if (!prepared) out += make_folders("\"$D/save\"");
  out += fmt::format("mw_claim || exit {}\n", taken_status) + script_own_pid() + "mw_note_pid \"$mw_pid\"\n";
  if (!prepared) out += take_lock(parts.run, parts.holder, "mw_mark");
  if (!parts.guard.empty()) {
    out += "mw_guard=$D/guard\n" +
           guard_script(parts.guard, parts.planned_on, fmt::format("mw_mark stale; exit {}", stale_status));
  }
  if (!prepared) out += put_down(parts) + "mw_sync \"$D\"/*.sh \"$D/meta.json\" \"$D\"\n";
  out += "export MW_SAVE=\"$D/save\"\n" + save_text(parts);
  if (parts.dead_man.count() != 0) {
    out += arm_dead_man({parts.remote_dir, parts.run, parts.action->title, parts.dead_man}, unprepared_status);
  }
  if (!prepared) out += rotate_audit();
  if (prepared) out += read_clock();
  // Without this mark the controller takes it that nothing ran. Of what was put down beforehand and has nothing to
  // save, a node that boots in between says so by itself (mw_lost).
  out += fmt::format("mw_audit started && mw_mark started || exit {}\n", cannot_create);
  if (!prepared || !parts.action->save.empty()) out += "mw_sync \"$D/outcome\" \"$D\"\n";
  const std::string tag = sha256_hex(parts.remote_dir).substr(0, 12);
  for (std::size_t i = 0; i < parts.files.size(); ++i) out += place_text(parts.files[i], i, tag);
  return out + run_text(parts);
}

std::string compose_undo(const std::string& remote_dir, const std::string& fallback, const std::string& by,
                         Force force) {
  std::string out = "umask 077\nD=" + shell_quote(remote_dir) + script_helpers() + script_audit(by);
  // One whose line broke may still be at work.
  out +=
      "while mw_alive \"$D/undo.pid\"; do sleep 1; done\n"
      "mw_outcome \"$D\"\n"
      "case $mw_last in\n"
      "  started*|done*|failed*|timer_failed*) ;;\n"
      "  *) exit 0 ;;\n"
      "esac\n";
  out += script_own_pid() + "mw_note_pid \"$mw_pid\" undo.pid\n";
  if (!fallback.empty()) out += "[ -f \"$D/undo.sh\" ] || { " + script_put("$D/undo.sh", fallback) + "; }\n";
  out += "export MW_SAVE=\"$D/save\"\n" + std::string(force == Force::yes ? "export MW_FORCE=1\n" : "") +
         "mw_code=0; umask 022; /bin/sh -eu \"$D/undo.sh\" </dev/null || mw_code=$?\numask 077\n"
         "if [ \"$mw_code\" = 0 ]; then mw_mark undone; mw_audit undone; else mw_audit \"undo failed $mw_code\"; fi\n"
         "exit \"$mw_code\"\n";
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
