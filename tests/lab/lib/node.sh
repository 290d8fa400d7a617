# One node: an LXC container whose root is a layer of its own over the image. Sourced by lab.

keys_make() {
  [ -e "$dir/id_ed25519" ] || ssh-keygen -q -t ed25519 -N '' -C "millwright lab $name" -f "$dir/id_ed25519"
  [ -e "$dir/sudo_password" ] || (umask 077; head -c 12 /dev/urandom | base64 | tr '+/' xy >"$dir/sudo_password")
  touch "$dir/known_hosts"
}

nodes_list() { find "$dir/nodes" -mindepth 1 -maxdepth 1 -printf '%f\n' 2>/dev/null | sort -V; }
node_exists() { [ -e "$dir/nodes/$1/ready" ]; }
node_address() { cat "$dir/nodes/$1/address"; }
node_state() { lxc-info -P "$dir/nodes" -n "$1" -sH 2>/dev/null || echo BROKEN; }
node_running() { [ "$(node_state "$1")" = RUNNING ]; }

# Writes standard input to $3 of the root layered over $1, with $2 as its mode; new folders are as in the image.
node_put() {
  local layer=$1 mode=$2 path=$3 base=$4 part=''
  local -a parts
  IFS=/ read -ra parts <<<"$(dirname "$path")"
  for p in "${parts[@]}"; do
    [ -n "$p" ] || continue
    part=$part/$p
    [ -d "$layer$part" ] || install -d -m "$(stat -c %a "$base$part" 2>/dev/null || echo 700)" "$layer$part"
  done
  install -m "$mode" /dev/stdin "$layer$path"
}

node_create() {
  local node=$1 number=$2 base=$3 at layer address hash
  at=$dir/nodes/$node; layer=$at/layer; address=$(network_prefix).$((10 + number))
  rm -rf --one-file-system "$at"
  mkdir -p "$layer"
  echo "$address" >"$at/address"
  echo "$node" | node_put "$layer" 644 /etc/hostname "$base"
  printf '127.0.0.1 localhost\n%s %s\n' "$address" "$node" | node_put "$layer" 644 /etc/hosts "$base"
  machine_resolv_conf | node_put "$layer" 644 /etc/resolv.conf "$base"
  node_put "$layer" 600 /root/.ssh/authorized_keys "$base" <"$dir/id_ed25519.pub"
  node_put "$layer" 600 /home/mw/.ssh/authorized_keys "$base" <"$dir/id_ed25519.pub"
  chown -R "$(stat -c %u:%g "$base/home/mw")" "$layer/home/mw"
  hash=$(openssl passwd -6 -stdin <"$dir/sudo_password")
  awk -F: -v OFS=: -v h="$hash" '$1 == "mw" {$2 = h} {print}' "$base/etc/shadow" | node_put "$layer" 640 /etc/shadow "$base"
  chgrp "$(stat -c %g "$base/etc/shadow")" "$layer/etc/shadow"
  ssh-keygen -q -t ed25519 -N '' -C "$node" -f "$at/host_key"
  node_put "$layer" 600 /etc/ssh/ssh_host_ed25519_key "$base" <"$at/host_key"
  node_put "$layer" 644 /etc/ssh/ssh_host_ed25519_key.pub "$base" <"$at/host_key.pub"
  sed -i "/^$address /d" "$dir/known_hosts"
  echo "$address $(cut -d' ' -f1,2 "$at/host_key.pub")" >>"$dir/known_hosts"
  node_config "$node" "$address" "$base" >"$at/config"
  touch "$at/ready"
}

# LXC's own overlay lives in the container's mount namespace: when the node is gone, so is the mount.
node_config() {
  local node=$1 address=$2 base=$3 at=$dir/nodes/$1
  cat <<C
lxc.include = /usr/share/lxc/config/common.conf
lxc.include = /usr/share/lxc/config/nesting.conf
lxc.arch = linux64
lxc.signal.halt = SIGRTMIN+3
lxc.uts.name = $node
lxc.rootfs.path = $(node_root "$at" "$base")
lxc.apparmor.profile = unconfined
# A node is a host of containers: it mounts, it makes cgroups and it needs the devices that its guests get.
lxc.mount.auto =
lxc.mount.auto = cgroup:rw:force proc:rw sys:rw
lxc.cgroup.devices.allow = a
lxc.cgroup2.devices.allow = a
lxc.seccomp.profile =
lxc.net.0.type = veth
lxc.net.0.link = $(network_bridge)
lxc.net.0.flags = up
lxc.net.0.name = eth0
lxc.net.0.ipv4.address = $address/24
lxc.net.0.ipv4.gateway = $(network_prefix).1
C
}
# Overlay where the file system can carry one, else a copy.
node_root() {
  local at=$1 base=$2
  if [ "$(stat -f -c %T "$at")" != overlayfs ]; then
    echo "overlayfs:$base:$at/layer"
  else
    mkdir "$at/root"
    cp -a --reflink=auto "$base/." "$at/root/"
    cp -a "$at/layer/." "$at/root/"
    echo "dir:$at/root"
  fi
}

node_start() {
  lxc-start -P "$dir/nodes" -n "$1" -d -l INFO -o "$dir/nodes/$1/lxc.log" -L "$dir/nodes/$1/console.log" 7>&- 8>&- || {
    tail -n 20 "$dir/nodes/$1/lxc.log" >&2 || true
    die "node $1 did not start (its log is above)"
  }
}

node_stop() { lxc-stop -P "$dir/nodes" -n "$1" -t 20; }

node_remove() {
  lxc-stop -P "$dir/nodes" -n "$1" -k >/dev/null 2>&1 || true
  wait_for 20 node_stopped "$1" || say "node $1 does not stop"
}
node_stopped() { [ "$(node_state "$1")" != RUNNING ] && [ "$(node_state "$1")" != STOPPING ]; }

node_ssh() {
  local node=$1; shift
  ssh -F none -i "$dir/id_ed25519" -o IdentitiesOnly=yes -o UserKnownHostsFile="$dir/known_hosts" -o BatchMode=yes \
    -o StrictHostKeyChecking=yes -o ConnectTimeout=5 -o LogLevel=ERROR "root@$(node_address "$node")" "$@"
}

# Up means: systemd has settled, and ssh lets us in with the host key that we know.
node_wait() {
  local node=$1 settled
  wait_for 60 node_ssh "$node" true || {
    lxc-attach -P "$dir/nodes" -n "$node" -- systemctl --no-pager --failed >&2 </dev/null || true
    die "node $node does not let us in by ssh within 60 s"
  }
  settled=$(node_ssh "$node" 'timeout 60 systemctl is-system-running --wait' || true)
  [ "$settled" = running ] || say "node $node is '$settled': $(node_ssh "$node" 'systemctl list-units --failed --plain --no-legend' | cut -d' ' -f1 | paste -sd' ')"
}

inventory_write() {
  local node
  {
    echo "# Written by tests/lab/lab; lab down --name $name removes it."
    echo "all:"
    echo "  vars:"
    echo "    ansible_user: $user"
    echo "    ansible_ssh_private_key_file: $dir/id_ed25519"
    echo "    ansible_ssh_common_args: -o UserKnownHostsFile=$dir/known_hosts -o StrictHostKeyChecking=yes"
    if [ "$user" = mw ]; then
      echo "    ansible_become: true"
      echo "    ansible_become_password: !secret file:$dir/sudo_password"
    fi
    echo "  hosts:"
    for node in $(nodes_list); do
      echo "    $node: {ansible_host: $(node_address "$node"), ansible_port: 22}"
    done
  } >"$dir/inventory.yml"
}

# Run through sudo, what was made in the caller's home is the caller's to read; the nodes' files stay root's.
own_by_caller() {
  [ -z "${SUDO_UID:-}" ] || chown "$SUDO_UID:${SUDO_GID:-$SUDO_UID}" "$dir" "$dir"/id_ed25519* "$dir/known_hosts" \
    "$dir/inventory.yml" "$dir/sudo_password"
}
