#!/usr/bin/env bash
# Does this tree build, and pass its unit tests, on Debian 13? Makes a root file system of it (cached), copies the tree
# in, installs what cmake/packages.txt says, builds, tests. Needs root.
# usage: build-debian13.sh [PRESET] [SUITE]      dev and trixie unless said otherwise
set -euo pipefail
here=$(dirname "$(realpath "$0")")
tree=$(realpath "$here/../..")
preset=${1:-dev} suite=${2:-trixie}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/millwright/build-$suite
say() { echo "build on $suite: $*" >&2; }
die() { say "$@"; exit 1; }
# shellcheck source=tests/lab/lib/machine.sh
. "$here/lib/machine.sh"
cd "$tree"
packages=$(sed -nE 's/^(build|test) +//p' cmake/packages.txt | sort -u | paste -sd,)
sources=$(machine_apt_sources "$suite")
root=$cache/root-$({ echo "$packages"; echo "$sources"; } | sha256sum | cut -c1-12)
mkdir -p "$cache/ccache"
if [ ! -d "$root" ]; then
  say "making the root file system"
  rm -rf --one-file-system "$root.new"
  machine_apt_settings >"$cache/apt.conf"
  mmdebstrap --quiet --variant=apt --aptopt="$cache/apt.conf" --aptopt='APT::Install-Recommends "false"' \
    --include="ca-certificates,$packages" "$suite" "$root.new" ${sources:+-} <<<"$sources"
  mv "$root.new" "$root"
fi

# A mount namespace of its own: /proc, /dev and the tree's copy are gone when this ends, however it ends.
git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
  [ ! -e "$file" ] || printf '%s\0' "$file"
done >"$cache/files"
export root preset cache tree
# shellcheck disable=SC2016  # for the inner shells
exec unshare --mount --pid --fork --kill-child bash -euc '
  mkdir -p "$root/src" "$root/ccache"
  rsync --archive --delete --exclude=/build --from0 --files-from="$cache/files" "$tree/" "$root/src/"
  mount --bind "$cache/ccache" "$root/ccache"
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev" && mount --make-rslave "$root/dev"
  mount -t tmpfs tmpfs "$root/tmp"; mount -t tmpfs tmpfs "$root/run"; mkdir -p "$root/run/sshd"
  exec chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root CCACHE_DIR=/ccache CI="${CI:-}" sh -euc "
    cd /src
    g++ --version | head -n 1
    cmake --preset $preset -DMILLWRIGHT_TESTS=ON >/tmp/cmake.log 2>&1 || { cat /tmp/cmake.log; exit 1; }
    ninja -C build/$preset
    ctest --test-dir build/$preset -L unit -j\$(nproc) --output-on-failure --no-tests=error"'
