#!/usr/bin/env bash
# Makes llama.cpp-<version>.tar.gz from Debian's own packages: llama-server, its tools, every CPU back end, the RPC
# back end and server, and the C library they were built against, so that it runs on any x86-64 Linux.
# usage: llama_bundle.sh OUT_DIR [SUITE]      (SUITE: forky by default, the first Debian with llama.cpp)
set -euo pipefail
out=$(realpath "${1:?OUT_DIR}"); suite=${2:-forky}
# shellcheck source=tests/lab/lib/machine.sh
. "$(dirname "$(realpath "$0")")/../lib/machine.sh"
sources=$(machine_apt_sources "$suite" | grep -E " $suite main" || true)
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
mmdebstrap --quiet --variant=extract --aptopt='Acquire::Check-Valid-Until "false"' \
  --include=llama.cpp-tools,llama.cpp-tools-extra,libggml0-backend-rpc "$suite" "$tmp/root" ${sources:+-} <<<"$sources"
arch=x86_64-linux-gnu; lib=$tmp/root/usr/lib/$arch; b=$tmp/b; mkdir -p "$b/bin" "$b/lib"
for f in "$tmp"/root/usr/bin/llama-* "$tmp/root/usr/libexec/$arch/llama/bin/ggml-rpc-server"; do
  [ -f "$f" ] && head -c 4 "$f" | grep -q ELF && cp "$f" "$b/lib/"      # beside the libraries: ggml looks there for back ends
done
find "$lib" \( -name 'lib*.so.*' -o -path '*/llama/*.so' -o -path '*/ggml/backends0/*.so' \) -exec cp -L {} "$b/lib/" \; 2>/dev/null
cp -L "$tmp/root/usr/lib64/ld-linux-x86-64.so.2" "$b/lib/" 2>/dev/null || cp -L "$lib/ld-linux-x86-64.so.2" "$b/lib/"
for f in "$b"/lib/llama-* "$b/lib/ggml-rpc-server"; do
  n=$(basename "$f")
  # shellcheck disable=SC2016  # for the wrapper's own shell
  printf '#!/bin/sh\nd=$(dirname "$(readlink -f "$0")")/../lib\nexec "$d/ld-linux-x86-64.so.2" --library-path "$d" "$d/%s" "$@"\n' "$n" > "$b/bin/$n"
  chmod 755 "$b/bin/$n"
done
version=$("$b/bin/llama-server" --version 2>&1 | sed -n 's/^version: \([^ ]*\).*/\1/p')
tar -C "$b" --sort=name --mtime=@0 --owner=0 --group=0 -I 'gzip -n' -cf "$out/llama.cpp-$version.tar.gz" bin lib
sha256sum "$out/llama.cpp-$version.tar.gz"
