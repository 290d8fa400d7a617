#include "steps/core/path_actions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"
#include "orchestrator/base/units.hpp"

namespace millwright::core {

namespace {

// One line that says all that an undo has to compare. Links have no mode or owner worth keeping; a target of several
// lines, which no line can hold, is none of ours. All that stat says is asked at once and left in mw_stat, since
// starting a program takes longer than most of them run; openssl takes a quarter of sha256sum's time, which pays for
// large files. What was seen of many paths at once (path_look) is in mw_paths; it is read line by line, since shells
// take quadratic time to cut a long text by a pattern.
constexpr std::string_view kStateFunction = R"sh(mw_hash() {
  if [ "$1" -gt 4194304 ] && command -v openssl >/dev/null 2>&1; then openssl dgst -sha256 -r; else sha256sum; fi
}
mw_seen() {
  mw_stat='' mw_sum='' mw_next=''
  [ -n "${mw_paths-}" ] || return 0
  mw_want=$1 mw_ifs=$IFS
  IFS="
"
  set -f
  set -- $mw_paths
  set +f
  IFS=$mw_ifs
  for mw_line do
    [ -z "$mw_next" ] || mw_stat=$mw_line
    mw_next=
    case $mw_line in
      "$mw_want") mw_next=yes ;;
      *"  $mw_want") mw_sum=${mw_line%% *} ;;
    esac
  done
}
mw_state() {
  if [ -L "$1" ]; then
    mw_target=$(readlink "$1" && echo .) || return 1
    mw_target=${mw_target%??}
    case $mw_target in
      *"
"*) echo "other link to a name of several lines" ;;
      *) printf 'link %s\n' "$mw_target" ;;
    esac
  elif [ -d "$1" ] || [ -f "$1" ]; then
    mw_seen "$1"
    [ -n "$mw_stat" ] || mw_stat=$(stat -c '%a %u %g / %h %s %U %G' "$1") || return 1
    if [ -d "$1" ]; then
      printf 'directory %s\n' "${mw_stat%% /*}"
      return 0
    fi
    if [ -z "$mw_sum" ]; then
      mw_sum=${mw_stat##*/ }
      mw_sum=${mw_sum#* }
      mw_sum=$(mw_hash "${mw_sum%% *}" <"$1") || return 1
    fi
    printf 'file %s %s\n' "${mw_stat%% /*}" "${mw_sum%% *}"
  elif [ -e "$1" ]; then
    mw_kind=$(stat -c '%F' "$1") || return 1
    printf 'other %s\n' "$mw_kind"
  else echo absent
  fi
}
)sh";

std::string header(std::string_view path) {
  return fmt::format("set -eu\numask 077\np={}\n{}", shell_quote(path), kStateFunction);
}

// The marker `state` is written last: while it is empty or missing nothing was done yet, and undo has nothing to do.
std::string save_script(std::string_view path, std::string_view keep) {
  return fmt::format(
      "{}mw_state \"$p\" >\"$MW_SAVE/state.new\"\n{}"
      "IFS= read -r mw_before <\"$MW_SAVE/state.new\"\nprintf '%s\\n' \"$mw_before\" >\"$MW_SAVE/state\"\n",
      header(path), keep);
}

// The old content with all that belongs to it: mode, owner, times, and attributes and access lists where this cp knows
// them. Of a file with several names the inode itself is held too: a copy would no longer be what the others name.
constexpr std::string_view kKeepFile = R"sh(cp -a -- "$p" "$MW_SAVE/content"
case ${mw_stat##*/ } in
  "1 "*) ;;
  *) ln -- "$p" "$MW_SAVE/inode" 2>/dev/null || : ;;
esac
)sh";

constexpr std::string_view kRestoreFile = R"sh(mw_restore() {
  if [ -f "$MW_SAVE/inode" ] && [ "$(mw_state "$MW_SAVE/inode")" = "$before" ] &&
    ln -f -- "$MW_SAVE/inode" "$p.millwright-restoring" 2>/dev/null; then :
  else
    cp -a -- "$MW_SAVE/content" "$p.millwright-restoring"
  fi
  mv -f -- "$p.millwright-restoring" "$p"
}
)sh";

// What GNU's tar has to be told and busybox's does not know.
constexpr std::string_view kTarOptions = R"sh(x=
case $(tar --version 2>/dev/null) in *GNU*) x="--acls --xattrs --xattrs-include=*" ;; esac
)sh";

// mw_is FIELD FORMAT VALUE...: whether what stat says of $p is what it was before, or one of the values.
constexpr std::string_view kSame = R"sh(mw_is() {
  mw_was=$(echo "$before" | cut -d ' ' -f "$1")
  mw_has=$(stat -c "$2" -- "$p") || return 1
  shift 2
  for v in "$mw_was" "$@"; do
    case " $mw_has " in *" $v "*) return 0 ;; esac
  done
  return 1
}
)sh";

// The test that mode and owner are those of before or ours; empty parts may be anything.
std::string attributes_same(const std::string& modes, const std::string& owner, const std::string& group) {
  return fmt::format("mw_is 2 %a {} && mw_is 3 '%u %U' {} && mw_is 4 '%g %G' {}", modes, owner, group);
}

// `undone` makes undo harmless the second time, also when an earlier action of the same change was taken back since.
constexpr std::string_view kUndoneBefore = "[ ! -e \"$MW_SAVE/undone\" ] || exit 0\n";
constexpr std::string_view kUndoneNow = ": >\"$MW_SAVE/undone\"\n";

// When told to overwrite what someone else put there (MW_FORCE), that is not lost either.
constexpr std::string_view kMoveAway = R"sh(mw_move_away() {
  [ -e "$1" ] || [ -L "$1" ] || return 0
  n=0
  while [ -e "$MW_SAVE/forced.$n" ] || [ -L "$MW_SAVE/forced.$n" ]; do n=$((n + 1)); done
  mv -- "$1" "$MW_SAVE/forced.$n"
  printf '%s as someone else left it is kept as %s\n' "$1" "$MW_SAVE/forced.$n" >&2
}
)sh";

std::string undo_script(std::string_view path, std::string_view body) {
  std::string out = header(path);
  out +=
      "mw_refuse() {\n"
      "  [ -z \"${MW_FORCE:-}\" ] || return 0\n"
      "  printf '%s %s, so it stays; what was there before is kept in %s\\n' \"$p\" \"$1\" \"$MW_SAVE\" >&2\n"
      "  exit 65\n"
      "}\n";
  out += kMoveAway;
  out += "[ -s \"$MW_SAVE/state\" ] || exit 0\n";
  out += kUndoneBefore;
  out +=
      "before=$(cat \"$MW_SAVE/state\")\n"
      "now=$(mw_state \"$p\")\n"
      "[ \"$now\" != \"$before\" ] || exit 0\n";
  return out.append(body).append(kUndoneNow);
}

// With five digits and more chmod of the coreutils sets exactly this mode; with fewer it leaves the set-user and
// set-group bits of folders as they are, and what was declared would not be there.
std::string whole_mode(const std::string& mode) { return "0000" + mode; }

std::string attribute_commands(const std::string& path, const Attributes& wanted) {
  const std::string quoted = shell_quote(path);
  std::string out;
  if (!wanted.owner.empty()) out += fmt::format("chown -- {} {}\n", shell_quote(wanted.owner), quoted);
  if (!wanted.group.empty()) out += fmt::format("chgrp -- {} {}\n", shell_quote(wanted.group), quoted);
  // Last, since changing the owner clears the set-user bit.
  if (!wanted.mode.empty()) out += fmt::format("chmod -- {} {}\n", whole_mode(wanted.mode), quoted);
  return out;
}

std::string four_digits(std::string mode) {
  if (mode.size() < 4) mode.insert(0, 4 - mode.size(), '0');
  return mode;
}

std::string as_stat_prints(const std::string& mode) {
  const std::size_t zeros = std::min(mode.find_first_not_of('0'), mode.size() - 1);
  return mode.substr(zeros);
}

void read_state_line(const std::string& line, PathState& state) {
  const std::vector<std::string> words = split(line, ' ');
  if (words[0] == "link") {
    state.type = PathType::link;
    state.target = line.size() > 5 ? line.substr(5) : "";
  } else if (words[0] == "other") {
    state.type = PathType::other;
    state.kind = line.size() > 6 ? line.substr(6) : "";
  } else if (words.size() >= 4) {
    state.type = words[0] == "file" ? PathType::file : PathType::directory;
    state.mode = four_digits(words[1]);
    state.uid = words[2];
    state.gid = words[3];
    if (words.size() > 4) state.sha256 = words[4];
  }
}

std::uint64_t number(std::string_view text) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

std::string_view to_string(PathType type) {
  switch (type) {
    case PathType::absent:
      return "absent";
    case PathType::file:
      return "file";
    case PathType::directory:
      return "directory";
    case PathType::link:
      return "link";
    case PathType::other:
      return "other";
  }
  return "other";
}

std::string path_state_script(std::string_view path, TreeSize tree, const std::optional<ContentAsked>& content) {
  std::string out = fmt::format("p={}\n{}", shell_quote(path), kStateFunction);
  out += R"sh(mw_state "$p" || exit 1
if [ -L "$p" ]; then :
elif [ -f "$p" ] || [ -d "$p" ]; then
  more=${mw_stat##*/ }
  more=${more#* }
  names=${more#* }
  printf 'owner %s\ngroup %s\n' "${names%% *}" "${names#* }"
  if [ -f "$p" ]; then echo "size ${more%% *}"; fi
elif [ ! -e "$p" ]; then
  d=${p%/*}
  while [ -n "$d" ] && [ ! -e "$d" ] && [ ! -L "$d" ]; do d=${d%/*}; done
  if [ -d "${d:-/}" ]; then printf 'ancestor folder %s\n' "${d:-/}"; else printf 'ancestor file %s\n' "$d"; fi
fi
)sh";
  if (tree == TreeSize::ask) {
    out +=
        "if [ -d \"$p\" ] && [ ! -L \"$p\" ]; then\n"
        "  kib=$(du -sk -- \"$p\" 2>/dev/null) || true\n"
        "  echo \"kib ${kib%%[!0-9]*}\"\n"
        "fi\n";
  }
  if (content) {
    out += fmt::format(
        "mw_show=no\n"
        "if [ -f \"$p\" ] && [ ! -L \"$p\" ] && [ \"${{mw_sum%% *}}\" != {} ] && [ \"${{more%% *}}\" -le {} ]; then\n"
        "  case ${{mw_stat%% *}} in {}) mw_show=yes ;; esac\nfi\n"
        "if [ \"$mw_show\" = yes ]; then echo content; cat -- \"$p\"; fi\n",
        shell_quote(content->unless_sha256), content->max_bytes, content->also_private ? "*" : "*[4567]");
  }
  return out;
}

Result<PathState> parse_path_state(const Answer& answer, std::string_view path) {
  // What stands behind it is the file's.
  constexpr std::string_view content_line = "\ncontent\n";
  const std::size_t content = answer.out.find(content_line);
  const std::vector<std::string> lines = split_lines(answer.out.substr(0, content));
  if (!answer.ok() || lines.empty()) {
    Error error = make_error(ErrorKind::refused, fmt::format("cannot look at {}", path));
    error.hint = "the step's user may not read it (become: true?), or stat and sha256sum are missing";
    error.detail = answer.err;
    return fail(std::move(error));
  }
  PathState state;
  if (content != std::string::npos) state.content = answer.out.substr(content + content_line.size());
  read_state_line(lines[0], state);
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const std::string& line = lines[i];
    if (starts_with(line, "owner ")) state.owner = line.substr(6);
    if (starts_with(line, "group ")) state.group = line.substr(6);
    if (starts_with(line, "size ")) state.size = number(line.substr(5));
    if (starts_with(line, "kib ")) state.size = number(line.substr(4)) * 1024;
    if (starts_with(line, "ancestor folder ")) state.ancestor = line.substr(16);
    if (starts_with(line, "ancestor file ")) {
      state.ancestor = line.substr(14);
      state.ancestor_is_folder = false;
    }
  }
  return state;
}

Expectation expect_path_state(std::string key, const ExpectedPath& path) {
  if (path.type == PathType::absent) return {std::move(key), {"absent\n", ""}};
  if (path.type == PathType::link) return {std::move(key), {"link " + path.target + "\n"}};
  Expectation expected{std::move(key), {std::string(to_string(path.type)) + " "}};
  const auto text = [&](const std::string& words) { expected.pieces.back() += words; };
  const auto number = [](const std::string& name) {
    return name.find_first_not_of("0123456789") == std::string::npos ? name : std::string();
  };
  const auto name = [&](const std::string& given) { return number(given).empty() ? given : std::string(); };
  const auto part = [&](const std::string& wanted) {
    if (wanted.empty()) {
      expected.pieces.emplace_back();
    } else {
      text(wanted);
    }
  };
  part(path.mode.empty() ? "" : as_stat_prints(path.mode));
  text(" ");
  part(number(path.owner));
  text(" ");
  part(number(path.group));
  if (path.type == PathType::file) {
    text(" ");
    part(path.sha256);
  }
  text("\nowner ");
  part(name(path.owner));
  text("\ngroup ");
  part(name(path.group));
  text("\n");
  expected.pieces.emplace_back();  // sizes
  return expected;
}

Action write_action(const FilePlacement& file, const std::string& sha256, const PathState& before) {
  const bool fresh = before.type == PathType::absent;
  Action action;
  action.title = (fresh ? "create " : "write ") + file.path;
  action.files.push_back(file);
  action.save = save_script(file.path, fmt::format("if [ -f \"$p\" ]; then\n{}fi\n", kKeepFile));
  std::string body(kSame);
  body.append(kRestoreFile);
  // Whose a new file is that nothing was said of: whoever places it, and in a set-group folder the folder's group.
  const std::string same =
      attributes_same(as_stat_prints(file.mode), file.owner.empty() ? "\"$(id -u)\"" : shell_quote(file.owner),
                      file.group.empty() ? "\"$(stat -c %g -- \"$p\")\"" : shell_quote(file.group));
  action.undo = undo_script(file.path, body + fmt::format(R"sh(case $now in
  "file "*" {}") {{ {}; }} || mw_refuse "got another mode or owner from someone else since" ;;
  absent) mw_refuse "was removed by someone else since" ;;
  *) mw_refuse "was changed by someone else since"; mw_move_away "$p" ;;
esac
case $before in
  absent) rm -f -- "$p" ;;
  *) mw_restore ;;
esac
)sh",
                                                          sha256, same));
  action.undo_title = (fresh ? "remove " : "restore the old ") + file.path;
  return action;
}

Action attributes_action(const std::string& path, const Attributes& wanted, const PathState& before) {
  std::vector<std::string> words;
  if (!wanted.mode.empty()) words.push_back("mode " + wanted.mode);
  if (!wanted.owner.empty()) words.push_back("owner " + wanted.owner);
  if (!wanted.group.empty()) words.push_back("group " + wanted.group);
  Action action;
  action.title = fmt::format("set {} of {}", join(words, ", "), path);
  action.script = attribute_commands(path, wanted);
  action.save = save_script(path, "");
  const std::string own = wanted.mode.empty() ? before.mode : wanted.mode;
  // chown clears the set-user and set-group bits: that, too, is a state that the action leaves when it ran half.
  std::string cleared = before.mode;
  if (cleared.size() == 4) cleared[0] = static_cast<char>('0' + ((cleared[0] - '0') & 1));
  const std::string same = attributes_same(as_stat_prints(own) + " " + as_stat_prints(cleared),
                                           wanted.owner.empty() ? "" : shell_quote(wanted.owner),
                                           wanted.group.empty() ? "" : shell_quote(wanted.group));
  action.undo = undo_script(path, std::string(kSame) + fmt::format(R"sh(kind=${{before%% *}}
[ "${{now%% *}}" = "$kind" ] || mw_refuse "is no $kind any more"
{{ {}; }} || mw_refuse "got another mode or owner from someone else since"
mw_mode() {{ set -- $1; echo "0000$2"; }}
mw_owner() {{ set -- $1; echo "$3:$4"; }}
chown -- "$(mw_owner "$before")" "$p"
chmod -- "$(mw_mode "$before")" "$p"
)sh",
                                                                   same));
  action.undo_title =
      fmt::format("set mode {} and owner {}:{} of {} again", before.mode, before.owner, before.group, path);
  return action;
}

Action folder_action(const std::string& path, const Attributes& wanted) {
  Action action;
  action.title = "make folder " + path;
  action.script = fmt::format("umask 022\nmkdir -p -- {}\n", shell_quote(path)) + attribute_commands(path, wanted);
  action.save = header(path) +
                ": >\"$MW_SAVE/made.new\"\n"
                "d=$p\n"
                "while [ -n \"$d\" ] && [ ! -e \"$d\" ] && [ ! -L \"$d\" ]; do\n"
                "  printf '%s\\n' \"$d\" >>\"$MW_SAVE/made.new\"\n"
                "  d=${d%/*}\n"
                "done\n"
                "mv -f \"$MW_SAVE/made.new\" \"$MW_SAVE/made\"\n";
  action.undo = "set -eu\n[ -f \"$MW_SAVE/made\" ] || exit 0\n";
  action.undo.append(kMoveAway)
      .append(kUndoneBefore)
      .append(R"sh(while IFS= read -r d; do
  [ -e "$d" ] || [ -L "$d" ] || continue
  if [ -n "${MW_FORCE:-}" ]; then
    rmdir -- "$d" 2>/dev/null || mw_move_away "$d"
    continue
  fi
  if [ -L "$d" ] || [ ! -d "$d" ]; then
    printf '%s is no folder any more: someone else replaced it, so it stays\n' "$d" >&2
    exit 65
  fi
  rmdir -- "$d" 2>/dev/null || {
    printf 'the folder %s holds something that came later, so it stays\n' "$d" >&2
    exit 65
  }
done <"$MW_SAVE/made"
)sh")
      .append(kUndoneNow);
  action.undo_title = "remove the folder " + path + " if it is empty";
  return action;
}

Action link_action(const std::string& path, const std::string& target, const PathState& before) {
  Action action;
  action.title = fmt::format("link {} to {}", path, target);
  action.script = fmt::format("ln -sfn -- {} {}\n", shell_quote(target), shell_quote(path));
  action.save = save_script(path, "");
  action.undo = undo_script(path, fmt::format("ours={}\n", shell_quote("link " + target)) + R"sh(case $now in
  "$ours") ;;
  absent) ;;
  *) mw_refuse "was changed by someone else since"; mw_move_away "$p" ;;
esac
case $before in
  "link "*) ln -sfn -- "${before#link }" "$p" ;;
  *) rm -f -- "$p" ;;
esac
)sh");
  action.undo_title = before.type == PathType::link ? fmt::format("link {} to {} again", path, before.target)
                                                    : "remove the link " + path;
  return action;
}

Action remove_action(const std::string& path, const PathState& before) {
  Action action;
  const bool tree = before.type == PathType::directory;
  action.title = tree ? fmt::format("remove folder {} ({})", path, format_size(before.size)) : "remove " + path;
  action.undo_title = "put " + path + " back";
  const std::string refuse_unless_absent =
      "[ \"$now\" = absent ] || { mw_refuse \"is something else by now\"; mw_move_away \"$p\"; }\n";
  if (tree) {
    action.save = save_script(path, std::string(kTarOptions) + "tar -cp $x -f \"$MW_SAVE/tree.tar\" -C \"$p\" .\n");
    action.script = fmt::format(
        "p={}\n"
        "while read -r _ mounted _; do\n"
        "  case $mounted in\n"
        "    \"$p\" | \"$p\"/*) printf 'a file system is mounted at %s: unmount it first\\n' \"$mounted\" >&2; exit 65 "
        ";;\n"
        "  esac\n"
        "done </proc/self/mounts\n"
        "rm -rf -- \"$p.millwright-removing\"\n"
        "mv -- \"$p\" \"$p.millwright-removing\"\n"
        "rm -rf -- \"$p.millwright-removing\"\n",
        shell_quote(path));
    action.undo = undo_script(path, refuse_unless_absent + std::string(kTarOptions) +
                                        "rm -rf -- \"$p.millwright-restoring\"\n"
                                        "mkdir -- \"$p.millwright-restoring\"\n"
                                        "tar -xp $x -f \"$MW_SAVE/tree.tar\" -C \"$p.millwright-restoring\"\n"
                                        "mv -- \"$p.millwright-restoring\" \"$p\"\n"
                                        // What kept it from being removed keeps it still; the folder is back anyway.
                                        "rm -rf -- \"$p.millwright-removing\" ||\n"
                                        "  printf '%s could not be removed\\n' \"$p.millwright-removing\" >&2\n");
    return action;
  }
  action.save = save_script(path, before.type == PathType::file ? kKeepFile : "");
  action.script = fmt::format("rm -f -- {}\n", shell_quote(path));
  action.undo = undo_script(path, refuse_unless_absent + std::string(kRestoreFile) + R"sh(case $before in
  "link "*) ln -s -- "${before#link }" "$p" ;;
  *) mw_restore ;;
esac
)sh");
  return action;
}

}  // namespace millwright::core
