# A bridge with a subnet of its own and NAT to the outside, in a table of its own: nothing else of the machine's
# firewall is touched. Sourced by lab; $name and $dir say which lab.

network_bridge() { echo "mwl-$(printf %s "$name" | sha256sum | cut -c1-8)"; }
network_table() { echo "millwright_lab_${name//-/_}"; }
# The first three numbers of the lab's addresses.
network_prefix() { cat "$dir/prefix"; }

network_up() {
  local bridge prefix
  bridge=$(network_bridge)
  (
    flock 7
    if ! ip link show "$bridge" >/dev/null 2>&1; then
      prefix=$(network_free) || die "no free subnet below 10.213.0.0/16: lab down --all removes old labs"
      echo "$prefix" >"$dir/prefix"
      ip link add "$bridge" type bridge
      ip addr add "$prefix.1/24" dev "$bridge"
      ip link set "$bridge" up
    fi
  ) 7>"$state/.network.lock"
  prefix=$(network_prefix)
  # Remembered once for all labs, given back by the last one.
  [ -e "$state/.ip_forward" ] || cat /proc/sys/net/ipv4/ip_forward >"$state/.ip_forward"
  echo 1 >/proc/sys/net/ipv4/ip_forward
  nft list table ip "$(network_table)" >/dev/null 2>&1 || nft -f - <<N
table ip $(network_table) {
  set cut { type ipv4_addr; }
  chain gone { type filter hook prerouting priority raw; ip saddr @cut drop; ip daddr @cut drop; }
  chain lost { type filter hook output priority raw; ip daddr @cut drop; }
  chain nat { type nat hook postrouting priority srcnat; ip saddr $prefix.0/24 oifname != "$bridge" masquerade; }
}
N
  network_pass -C || network_pass -I
}

# Another tool's FORWARD policy (Docker's, ufw's) would drop what the nodes send: let this bridge pass, by rules that
# carry its name. $1: -C asks, -I adds, -D removes.
network_pass() {
  local bridge
  bridge=$(network_bridge)
  command -v iptables >/dev/null || return 0
  [ "$1" = -D ] || [[ $(iptables -w -S FORWARD 2>/dev/null) == *"-P FORWARD DROP"* ]] || return 0
  iptables -w "$1" FORWARD -i "$bridge" -j ACCEPT 2>/dev/null && iptables -w "$1" FORWARD -o "$bridge" -j ACCEPT 2>/dev/null
}

network_down() {
  network_pass -D || true
  nft delete table ip "$(network_table)" 2>/dev/null || true
  ip link delete "$(network_bridge)" 2>/dev/null || true
  if [ -e "$state/.ip_forward" ] && [[ $(ip -o link show type bridge) != *" mwl-"* ]]; then
    cat "$state/.ip_forward" >/proc/sys/net/ipv4/ip_forward
    rm "$state/.ip_forward"
  fi
}

# A /24 that neither an address nor a route of this machine touches.
network_free() {
  local n taken
  taken=$(ip -4 -o addr; ip -4 route)
  for n in $(seq 1 250); do
    if [[ $taken != *"10.213.$n."* ]]; then
      echo "10.213.$n"
      return 0
    fi
  done
  return 1
}

network_cut() { nft add element ip "$(network_table)" cut "{ $1 }"; }
network_mend() { nft flush set ip "$(network_table)" cut; }
