# The nodes' root file system: made once by mmdebstrap, kept under the cache by the hash of what goes into it, and from
# then on a read-only lower layer. Sourced by lab.

image_suite=bookworm
# A plain server with what a host of containers has; nothing that millwright itself would need there.
image_packages=systemd-sysv,dbus,libpam-systemd,openssh-server,sudo,ca-certificates,iproute2,iputils-ping,procps,kmod,netbase
image_packages+=,lxc,dnsmasq-base,iptables,mmdebstrap,debian-archive-keyring

# Prints the path of the root file system with the extra packages $1 (comma separated).
image_make() {
  local extra=$1 key root sources
  sources=$(machine_apt_sources $image_suite)
  key=$({ echo "$image_suite $image_packages $extra"; echo "$sources"; machine_apt_settings; machine_pip_conf
          certificates_of /etc/ssl/certs/ca-certificates.crt; cat "$here/lib/image.sh" "$here/lib/machine.sh"; } |
    sha256sum | cut -c1-12)
  root=$cache/root-$key
  (
    flock 8
    [ -d "$root" ] || image_build "$root" "$extra" "$sources"
  ) 8>"$cache/.image.lock" >&2
  echo "$root"
}

image_build() {
  local root=$1 extra=$2 sources=$3 new=$1.new.$$ began=$SECONDS
  say "making the root file system once (about half a minute)"
  trap 'rm -rf --one-file-system "$new"' EXIT
  machine_apt_settings >"$cache/apt.conf.$$"
  mmdebstrap --quiet --variant=minbase --aptopt="$cache/apt.conf.$$" --aptopt='APT::Install-Recommends "false"' \
    --include="$image_packages${extra:+,$extra}" "$image_suite" "$new" ${sources:+- } <<<"$sources" ||
    die "mmdebstrap could not make Debian $image_suite from this machine's mirrors (see above)"
  mv "$cache/apt.conf.$$" "$new/etc/apt/apt.conf.d/90controller"
  image_settle "$new"
  mv "$new" "$root"
  trap - EXIT
  say "root file system made in $((SECONDS - began)) s: $root"
}

# What makes a root file system a node, the same for all nodes.
image_settle() {
  local root=$1
  machine_trust_into "$root"
  machine_pip_conf >"$root/etc/pip.conf"
  rm -f "$root"/etc/ssh/ssh_host_* "$root/etc/hostname" "$root/etc/resolv.conf"
  : >"$root/etc/machine-id"   # made at first boot, so that no two nodes are the same machine
  # Units that have no business in a container or only wait for something that is not there.
  chroot "$root" systemctl mask --quiet systemd-udevd.service systemd-udevd-kernel.socket systemd-udevd-control.socket \
    dev-hugepages.mount sys-kernel-debug.mount sys-kernel-tracing.mount systemd-modules-load.service \
    systemd-remount-fs.service apt-daily.timer apt-daily-upgrade.timer >/dev/null
  # A node plays a real machine, so it has LXC's own bridge (which LXC leaves out inside a container).
  mkdir -p "$root/etc/systemd/system/lxc-net.service.d"
  printf '[Unit]\nConditionVirtualization=\n' >"$root/etc/systemd/system/lxc-net.service.d/node.conf"
  chroot "$root" useradd --create-home --shell /bin/bash --groups sudo mw
  printf 'PasswordAuthentication no\nUseDNS no\n' >"$root/etc/ssh/sshd_config.d/lab.conf"
}
