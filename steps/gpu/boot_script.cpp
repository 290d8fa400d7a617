#include <fmt/format.h>

#include <set>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"
#include "steps/gpu/bind_script.hpp"

namespace millwright::gpu {

namespace {

constexpr std::string_view kTools = R"sh(mw_tool() {
  t=$1
  shift
  if [ -n "$R" ]; then "$R/usr/sbin/$t" "$@"; else "$t" "$@"; fi
}
# Keeps the output of a tool for when it fails.
mw_run_tool() {
  w=$(mktemp -d)
  if mw_tool "$@" >"$w/log" 2>&1; then
    rm -rf "$w"
    return 0
  fi
  echo "$* failed:" >&2
  tail -n 20 "$w/log" >&2
  rm -rf "$w"
  return 1
}
mw_initramfs() {
  if [ -x "$R/usr/sbin/update-initramfs" ]; then
    mw_run_tool update-initramfs -u -k all
  else
    mw_run_tool dracut --regenerate-all --force
  fi
}
mw_menu() {
  if [ -e "$R/etc/kernel/proxmox-boot-uuids" ]; then
    mw_run_tool proxmox-boot-tool refresh
  else
    mw_run_tool update-grub
  fi
}
)sh";

// In an initramfs there has to be what is on disk, and in the menu no id that was taken out.
constexpr std::string_view kReadBack = R"sh(mw_read_back() {
  command -v unmkinitramfs >/dev/null 2>&1 || [ -n "$R" ] || return 0
  for k in $kernels; do
    [ -f "$R/boot/initrd.img-$k" ] || continue
    w=$(mktemp -d /var/tmp/millwright.XXXXXX)
    if [ -n "$R" ]; then
      "$R/usr/bin/unmkinitramfs" "$R/boot/initrd.img-$k" "$w" || :
    else
      unmkinitramfs "$R/boot/initrd.img-$k" "$w" >/dev/null 2>&1 || :
    fi
    bad=
    for p in $files; do
      case $p in /etc/modprobe.d/*) ;; *) continue ;; esac
      in=$(find "$w" -path "*$p" | head -n 1)
      if [ -f "$R$p" ]; then
        { [ -n "$in" ] && cmp -s "$in" "$R$p"; } || bad="$bad $p"
      else
        [ -z "$in" ] || bad="$bad $p"
      fi
    done
    rm -rf "$w"
    [ -z "$bad" ] || {
      echo "the initramfs of $k is not as the files it was made from:$bad" >&2
      exit 1
    }
  done
}
mw_read_menu() {
  for i in $gone_ids; do
    if [ -r "$R/boot/grub/grub.cfg" ] && grep -E '^[[:space:]]*linux' "$R/boot/grub/grub.cfg" | grep -qiE "vfio[-_]pci\.ids=[^ ]*$i"; then
      echo "/boot/grub/grub.cfg still gives $i to vfio-pci; look at /etc/grub.d and /etc/default/grub.d" >&2
      exit 1
    fi
  done
}
)sh";

std::string heredoc(const std::string& content) {
  const std::string end = "MW_END_" + sha256_hex(content).substr(0, 12);
  return " <<'" + end + "'\n" + content + end + "\n";
}

std::string prelude(const std::string& root) { return fmt::format("R={}\n", shell_quote(root)); }

std::string numbered(const std::vector<FileEdit>& edits) {
  std::string out;
  for (std::size_t i = 0; i < edits.size(); ++i) out += fmt::format("{} {}\n", i, edits[i].path);
  return out;
}

std::string save_text(const std::vector<FileEdit>& edits, const std::string& root) {
  std::string out = prelude(root);
  out += "cat >\"$MW_SAVE/list\"" + heredoc(numbered(edits));
  for (std::size_t i = 0; i < edits.size(); ++i) {
    out +=
        fmt::format("[ ! -e \"$R\"{0} ] || cp -p -- \"$R\"{0} \"$MW_SAVE/{1}.old\"\n", shell_quote(edits[i].path), i);
    if (edits[i].after) out += fmt::format("cat >\"$MW_SAVE/{}.new\"", i) + heredoc(*edits[i].after);
  }
  return out +
         "[ ! -e \"$R/run/reboot-required\" ] || : >\"$MW_SAVE/reboot-was-required\"\n"
         ": >\"$MW_SAVE/saved.part\"\nmv \"$MW_SAVE/saved.part\" \"$MW_SAVE/saved\"\n";
}

std::string place_text(const std::vector<FileEdit>& edits) {
  std::string out = R"sh(mw_put() {
  p=$R$1
  mkdir -p "${p%/*}"
  if [ -e "$p" ]; then
    cp -p -- "$p" "$p.millwright-new"
  else
    : >"$p.millwright-new"
    chmod "$2" "$p.millwright-new"
  fi
  cat >"$p.millwright-new"
  mv -- "$p.millwright-new" "$p"
}
)sh";
  for (const FileEdit& one : edits) {
    if (one.after) {
      const bool hook = starts_with(one.path, "/etc/initramfs-tools/hooks/");
      out += fmt::format("mw_put {} {}", shell_quote(one.path), hook ? "0755" : "0644") + heredoc(*one.after);
    } else {
      out += fmt::format("rm -f -- \"$R\"{}\n", shell_quote(one.path));
    }
  }
  return out;
}

constexpr std::string_view kMarkReboot = R"sh(mkdir -p "$R/run"
: >>"$R/run/reboot-required"
grep -qxF 'millwright (gpu.bind)' "$R/run/reboot-required.pkgs" 2>/dev/null ||
  echo 'millwright (gpu.bind)' >>"$R/run/reboot-required.pkgs"
)sh";

// Either all files are as they were, or each is as it was or as it was made: then they are put back together.
constexpr std::string_view kUndo = R"sh([ -e "$MW_SAVE/saved" ] || exit 0
same() { if [ -e "$1" ] && [ -e "$2" ]; then cmp -s -- "$1" "$2"; else [ ! -e "$1" ] && [ ! -e "$2" ]; fi; }
differs=
while read -r n f; do
  same "$R$f" "$MW_SAVE/$n.old" && continue
  differs=1
  if ! same "$R$f" "$MW_SAVE/$n.new"; then
    if [ -z "${MW_FORCE:-}" ]; then
      echo "$f was changed by someone else since, so it stays" >&2
      exit 65
    fi
    [ ! -e "$R$f" ] || cp -p -- "$R$f" "$MW_SAVE/$n.overwritten"
  fi
done <"$MW_SAVE/list"
if [ -n "$differs" ]; then
  : >"$MW_SAVE/restoring"
  while read -r n f; do
    if [ -e "$MW_SAVE/$n.old" ]; then
      mkdir -p "$R${f%/*}"
      cp -p -- "$MW_SAVE/$n.old" "$R$f.millwright-restoring"
      mv -- "$R$f.millwright-restoring" "$R$f"
    else
      rm -f -- "$R$f"
    fi
  done <"$MW_SAVE/list"
fi
)sh";

std::string undo_tools(const BootPlan& boot) {
  std::string out = "if [ -e \"$MW_SAVE/restoring\" ]; then\n";
  if (boot.initramfs) out += "  mw_initramfs\n";
  if (boot.menu) out += "  mw_menu\n";
  return out + "  rm -f \"$MW_SAVE/restoring\"\nfi\n";
}

std::set<std::string> words_gone(const BootPlan& boot) {
  std::set<std::string> out;
  for (const FileEdit& one : boot.edits) {
    if (one.path.find("grub") == std::string::npos || !one.before) continue;
    std::string before = *one.before, after = one.after.value_or("");
    for (std::size_t at = 0; at + 9 <= before.size(); ++at) {
      const std::string id = before.substr(at, 9);
      const bool hex = id[4] == ':' && id.find_first_not_of("0123456789abcdefABCDEF:") == std::string::npos;
      if (hex && after.find(id) == std::string::npos) out.insert(id);
    }
  }
  return out;
}

std::string title_of(const BootPlan& boot, bool reboot) {
  std::vector<std::string> parts;
  for (const FileEdit& one : boot.edits) {
    parts.push_back((one.after ? one.before ? "change " : "write " : "remove ") + one.path);
  }
  if (boot.initramfs) parts.push_back("make the initramfs again");
  if (boot.menu) parts.push_back("write the boot menu again");
  if (reboot) parts.push_back("mark that the host needs a reboot");
  return join(parts, ", ");
}

}  // namespace

Action boot_action(const GpuFacts& facts, const BootPlan& boot, const std::string& reboot_reason,
                   const std::string& root) {
  const bool reboot = !reboot_reason.empty();
  std::string files, kernels;
  for (const FileEdit& one : boot.edits) files += (files.empty() ? "" : " ") + one.path;
  for (const std::string& kernel : std::set<std::string>{facts.host.kernel, facts.host.next_kernel}) {
    if (!kernel.empty()) kernels += (kernels.empty() ? "" : " ") + kernel;
  }
  const std::set<std::string> gone = words_gone(boot);
  Action action;
  action.title = title_of(boot, reboot);
  action.save = save_text(boot.edits, root);
  action.script = prelude(root) + std::string(kTools) +
                  fmt::format("files={}\nkernels={}\ngone_ids={}\n", shell_quote(files), shell_quote(kernels),
                              shell_quote(join({gone.begin(), gone.end()}, " "))) +
                  std::string(kReadBack) + place_text(boot.edits);
  if (boot.initramfs) action.script += "mw_initramfs\nmw_read_back\n";
  if (boot.menu) action.script += "mw_menu\nmw_read_menu\n";
  if (reboot) action.script += kMarkReboot;
  action.undo = prelude(root) + std::string(kTools) + std::string(kUndo) + undo_tools(boot);
  if (reboot) {
    action.undo +=
        "[ -e \"$MW_SAVE/reboot-was-required\" ] || rm -f \"$R/run/reboot-required\" \"$R/run/reboot-required.pkgs\"\n";
    action.marks.needs_reboot = true;
  }
  action.undo_title = boot.edits.empty() ? "leave the boot files as they are" : "put the boot files back as they were";
  action.deadline = std::chrono::minutes(20);  // an initramfs for each kernel, on a slow disk
  return action;
}

}  // namespace millwright::gpu
