# Installs what cmake/packages.txt lists, for ./try and ./check. Sourced from the repository's root.

as_root() { if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi; }

# packages_missing TIER...: the packages of these tiers that are not installed, one a line.
packages_missing() {
  local tiers package
  tiers=$(IFS='|'; echo "$*")
  sed -nE "s/^($tiers) +//p" cmake/packages.txt | sort -u | while read -r package; do
    dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || echo "$package"
  done
}

# packages_install TIER...: says what is about to be installed, then installs it. Nothing missing: says nothing.
packages_install() {
  local missing
  command -v apt-get >/dev/null || { echo "this needs Debian or Ubuntu (apt-get); cmake/packages.txt lists what to install by hand" >&2; return 1; }
  mapfile -t missing < <(packages_missing "$@")
  [ ${#missing[@]} -gt 0 ] || return 0
  echo "installing ${#missing[@]} packages: ${missing[*]}"
  [ "$(id -u)" -eq 0 ] || command -v sudo >/dev/null || { echo "run this as root, or install sudo" >&2; return 1; }
  as_root apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 apt-get install -y -qq --no-install-recommends \
    -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 "${missing[@]}" >/dev/null
}
