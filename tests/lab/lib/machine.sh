# What this machine is set up with, to be handed on to the nodes: mirrors, proxies, trusted certificates, name servers.
# Nothing of it is written down in the repository. Sourced by lab.

need_commands() {
  local c missing=()
  for c in "$@"; do command -v "$c" >/dev/null || missing+=("$c"); done
  [ ${#missing[@]} -eq 0 ] || die "not installed: ${missing[*]} (./check and ./try install what the lab needs)"
}

# sources.list lines for a Debian suite. Empty: this machine has none, and mmdebstrap knows its own default.
machine_apt_sources() {
  local suite=$1 own
  # shellcheck disable=SC2016  # apt's own placeholders
  own=$(apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian' |
    sed 's#/ # #' | sort -u)
  if grep -qE " $suite(-| |$)" <<<"$own"; then
    grep -E " $suite(-[a-z]+)? " <<<"$own"
  elif [ -n "$own" ]; then  # another Debian: the same mirrors carry this suite
    sed -E "s# [a-z]+((-security|-updates)?) # $suite\\1 #" <<<"$own" | grep -E " $suite(-security|-updates)? main" | sort -u
  fi
}

# apt settings that decide whether a mirror is reached and trusted.
machine_apt_settings() {
  apt-config dump Acquire | grep -E '^Acquire::(http|https|ftp)::|^Acquire::(Check-Valid-Until|Check-Date|Languages|Retries)' |
    grep -v 'CaInfo' || true
}

# /etc/pip.conf for a node: where packages come from and by which proxy; certificates are the node's own store.
machine_pip_conf() {
  local key value
  echo '[global]'
  echo 'cert = /etc/ssl/certs/ca-certificates.crt'
  if command -v pip3 >/dev/null; then
    pip3 config list 2>/dev/null | while IFS='=' read -r key value; do
      case ${key##*.} in
        index-url | extra-index-url | trusted-host | proxy | default-timeout | timeout | retries)
          value=${value#\'}; printf '%s = %s\n' "${key##*.}" "${value%\'}" ;;
      esac
    done | sort -u
  fi
}

# Certificates that this machine trusts and the root file system $1 does not, one file each below its
# /usr/local/share/ca-certificates: behind an inspecting proxy nothing can be fetched without them.
machine_trust_into() {
  local root=$1 bundle n=0 line
  local known=$root/etc/ssl/certs/ca-certificates.crt own=$root/usr/local/share/ca-certificates/controller
  mkdir -p "$own"
  for bundle in /etc/ssl/certs/ca-certificates.crt "${SSL_CERT_FILE:-}" "${PIP_CERT:-}" "${REQUESTS_CA_BUNDLE:-}"; do
    [ -f "$bundle" ] && certificates_of "$bundle"
  done | sort -u | comm -23 - <(certificates_of "$known" | sort -u) | while read -r line; do
    n=$((n + 1))
    tr ' ' '\n' <<<"-----BEGIN_CERTIFICATE----- $line -----END_CERTIFICATE-----" | tr _ ' ' >"$own/$n.crt"
  done
  chroot "$root" update-ca-certificates --fresh >/dev/null 2>&1
}
# One line for each certificate of a PEM bundle, its base64 lines joined by spaces.
certificates_of() {
  awk '/BEGIN CERTIFICATE/ {on = 1; c = ""; next} /END CERTIFICATE/ {on = 0; print c; next} on {sub(/\r$/, ""); c = c (c == "" ? "" : " ") $0}' "$1"
}

# Name servers that are of use from another network namespace, so no loopback stubs.
machine_resolv_conf() {
  local file lines
  for file in /etc/resolv.conf /run/systemd/resolve/resolv.conf; do
    [ -e "$file" ] || continue
    lines=$(grep -E '^(nameserver|search|options)' "$file" | grep -vE '^nameserver +(127\.|::1)' || true)
    if [[ $lines == *nameserver* ]]; then
      echo "$lines"
      return 0
    fi
  done
  say "no name server of this machine can be reached from the nodes (only loopback ones in /etc/resolv.conf)"
}
