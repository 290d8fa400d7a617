#include "orchestrator/engine/pipeline_prepare.hpp"

#include <fmt/format.h>

#include <map>
#include <set>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"
#include "orchestrator/engine/action_parts.hpp"
#include "orchestrator/engine/script_parts.hpp"
#include "orchestrator/transport/frame.hpp"

namespace millwright {

namespace {

// A file of an action, as it lies below the folder of the run.
struct Piled {
  const ActionScript* action = nullptr;
  const FilePlacement* file = nullptr;
  std::string name;  // relative to the run's folder
};

std::vector<Piled> files_of(const std::vector<const ActionScript*>& actions) {
  std::vector<Piled> out;
  for (const ActionScript* action : actions) {
    const std::string folder = action->remote_dir.substr(action->remote_dir.rfind('/') + 1);
    for (std::size_t i = 0; i < action->files.size(); ++i) {
      if (action->files[i].delivery != Delivery::put_down) continue;
      out.push_back({action, action->files[i].file, fmt::format("{}/files/{}", folder, i)});
    }
  }
  return out;
}

// An owner is set where the file is to be: chown may need what an earlier action of the pipeline makes.
bool moves_as_it_is(const FilePlacement& file) { return file.owner.empty() && file.group.empty(); }

std::string write_files(const std::vector<Piled>& files) {
  if (files.empty()) return {};
  std::string out, sums;
  std::map<std::string, std::string> modes;
  for (const Piled& piled : files) {
    const std::string& content = *piled.file->content;
    const bool plain = content.find('\0') == std::string::npos;  // a word of the shell holds none, printf can make one
    out += fmt::format("printf {} >{} || exit {}\n", plain ? "'%s' " + shell_quote(content) : printf_word(content),
                       shell_quote(piled.name), cannot_create);
    sums += sha256_hex(content) + "  " + piled.name + "\n";
    modes[piled.file->mode.empty() ? "0644" : piled.file->mode] += " " + shell_quote(piled.name);
  }
  out += fmt::format(
      "printf '%s' {} | sha256sum -c >/dev/null || {{ echo 'a file did not arrive whole' >&2; exit {}; }}\n",
      shell_quote(sums), cannot_create);
  for (const auto& [mode, names] : modes) out += fmt::format("chmod {}{} || exit {}\n", mode, names, cannot_create);
  return out;
}

// Which of them can be renamed to where they are to be: the same file system, and a folder that gives its files no
// label or access list of its own.
std::string find_near(const std::vector<Piled>& files) {
  std::set<std::string> folders;
  std::string marks;
  for (const Piled& piled : files) {
    if (!moves_as_it_is(*piled.file)) continue;
    // With the dot it is asked about what a link points to.
    const std::string folder = shell_quote(folder_of(piled.file->path) + "/.");
    folders.insert(folder);
    marks += fmt::format("! mw_near {} || : >{}\n", folder, shell_quote(piled.name + ".near"));
  }
  if (folders.empty()) return {};
  std::string all;
  for (const std::string& folder : folders) all += " " + folder;
  return "mw_devices=\n"
         "if [ ! -e /sys/fs/selinux/enforce ]; then\n"
         "  case $(ls -ld" +
         all +
         " 2>/dev/null) in\n    *[-xtTsS]'+ '*) ;;\n"
         "    *) mw_devices=\"\n$(stat -c '%d %n' \"$S\"" +
         all +
         " 2>/dev/null)\n\" ;;\n  esac\nfi\n"
         "mw_device=${mw_devices#?}; mw_device=${mw_device%% *}\n"
         "mw_near() {\n  [ -n \"$mw_device\" ] || return 1\n"
         "  case $mw_devices in\n    *\"\n$mw_device $1\n\"*) return 0 ;;\n  esac\n  return 1\n}\n" +
         marks;
}

}  // namespace

std::string prepare_script(const std::string& gate_file, const std::vector<const ActionScript*>& actions) {
  const ActionScript& first = *actions.front();
  const std::vector<Piled> files = files_of(actions);
  std::string folders, down;
  for (const ActionScript* action : actions) {
    folders += " " + shell_quote(action->remote_dir + "/save");
    if (!action->files.empty()) folders += " " + shell_quote(action->remote_dir + "/files");
    down += fmt::format("D={}\nprintf '%s\\n' \"$G\" >\"$D/pipe\" || exit {}\n", shell_quote(action->remote_dir),
                        cannot_create) +
            put_down(*action) + "set -- \"$@\" \"$D\"/* \"$D\"\n";
    if (!action->files.empty()) down += "set -- \"$@\" \"$D\"/files/*\n";
  }
  return fmt::format("# what {} actions of millwright need\numask 077\nS={}\nD={}\nG={}\n", actions.size(),
                     shell_quote(first.state_dir), shell_quote(first.remote_dir), shell_quote(gate_file)) +
         script_helpers() + script_audit(first.by) + make_folders(folders) +
         take_lock(first.run, first.holder, "printf '%s\\n'") + rotate_audit() + "cd \"$R\" || exit\n" +
         write_files(files) + "set --\n" + down + find_near(files) +
         // After a power cut what takes an action back is there, or the gate is not and nothing was done.
         fmt::format(
             "mw_sync \"$@\" \"$R\"\n"
             "mw_now; [ -z \"$mw_up\" ] || printf '%s %s %s\\n' \"$mw_up\" \"$mw_day\" \"$mw_second\" >\"$G.clock\"\n"
             "mw_boot; printf '%s\\n' \"$mw_id\" >\"$G.boot\" && mw_sync \"$G.boot\" \"$R\" && echo 0 >\"$G\" || exit "
             "{}\n",
             cannot_create);
}

std::string finish_script(const std::string& gate_file, const std::vector<const ActionScript*>& actions) {
  std::string out = "G=" + shell_quote(gate_file) + script_helpers() + "set --\n";
  for (const ActionScript* action : actions) {
    out +=
        "D=" + shell_quote(action->remote_dir) + "\nif [ -f \"$D/outcome\" ]; then set -- \"$@\" \"$D/outcome\" \"$D\"";
    std::set<std::string> folders;
    for (const PlacedFile& placed : action->files) folders.insert(shell_quote(folder_of(placed.file->path)));
    for (const std::string& folder : folders) out += " " + folder;
    out += "; fi\n";
  }
  return out + "[ \"$#\" = 0 ] || mw_sync \"$@\"\nrm -f \"$G\" \"$G.boot\" \"$G.clock\"\n";
}

std::string read_clock() { return "{ read -r mw_up_then mw_day mw_second <\"$G.clock\"; } 2>/dev/null || :\n"; }

}  // namespace millwright
