#include "steps/server/unit_file.hpp"

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"

namespace millwright {

namespace {

std::string fill(std::string script, const ServerSpec& spec) {
  script = replace_all(std::move(script), "@USER@", shell_quote(spec.user()));
  return replace_all(std::move(script), "@PORT@", std::to_string(spec.port));
}

constexpr const char* kAwaitGpusText = R"sh(#!/bin/sh
n=0
until [ -c /dev/nvidiactl ] && [ -c /dev/nvidia-uvm ] && ls /dev/nvidia[0-9]* >/dev/null 2>&1; do
  n=$((n + 1))
  if [ $n -gt 60 ]; then
    echo "millwright: no NVIDIA GPU: one of /dev/nvidiactl, /dev/nvidia-uvm, /dev/nvidia0 is missing after a minute"
    exit 1
  fi
  sleep 1
done
)sh";

// cgroup v2 counts in memory.events: oom_kill for every kill in the group, oom for each time that its own limit was the
// cause. v1 counts kills in memory.oom_control and how often the limit was hit in memory.failcnt. Source: the kernel's
// Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst. In a container the path may begin above its mount.
constexpr const char* kEndedText = R"sh(#!/bin/sh
kills=0; limit=0
for path in "$(sed -n 's/^0:://p' /proc/self/cgroup)" "$(sed -n 's/^[0-9]*:[^:]*memory[^:]*://p' /proc/self/cgroup)"; do
  [ -n "$path" ] || continue
  for group in "/sys/fs/cgroup$path" "/sys/fs/cgroup/memory$path" "/sys/fs/cgroup/${path#*/system.slice}" \
    "/sys/fs/cgroup/system.slice${path#*/system.slice}" "/sys/fs/cgroup/memory/system.slice${path#*/system.slice}"; do
    if [ -e "$group/memory.events" ]; then
      kills=$(sed -n 's/^oom_kill //p' "$group/memory.events"); limit=$(sed -n 's/^oom //p' "$group/memory.events"); break
    elif [ -e "$group/memory.oom_control" ]; then
      kills=$(sed -n 's/^oom_kill //p' "$group/memory.oom_control"); limit=$(cat "$group/memory.failcnt"); break
    fi
  done
done
[ "${kills:-0}" = 0 ] || echo "millwright: memory: kills=$kills limit=${limit:-0}"
)sh";

constexpr const char* kProcessFunctions = R"sh(server_pids() {
  uid=$(id -u @USER@ 2>/dev/null) || return 0
  stat -c '%u %n' /proc/[0-9]* 2>/dev/null | sed -n "s|^$uid /proc/||p"
}
await_gone() {
  waited=0
  while pids=$(server_pids); [ -n "$pids" ]; do
    waited=$((waited + 1))
    if [ $waited -ge 30 ]; then
      for pid in $pids; do echo "process $pid ($(cat "/proc/$pid/comm" 2>/dev/null)) of "@USER@" does not end" >&2; done
      return 1
    fi
    if [ $waited -ge 5 ]; then for pid in $pids; do kill -9 "$pid" 2>/dev/null || :; done; fi
    sleep 1
  done
}
gpu_holders() {  # those of the processes that were there for which the driver still keeps memory
  timeout 20 nvidia-smi --query-compute-apps=pid,used_memory --format=csv,noheader,nounits 2>/dev/null | tr -d ' ' |
    while IFS=, read -r pid mib; do
      case " $server_was " in *" $pid "*) echo "process $pid: $mib MiB" ;; esac
    done
}
await_gpu_free() {
  command -v nvidia-smi >/dev/null && [ -n "$server_was" ] || return 0
  waited=0
  while held=$(gpu_holders); [ -n "$held" ]; do
    waited=$((waited + 1))
    if [ $waited -ge 30 ]; then
      echo "the GPU driver still keeps memory of processes that have ended:" $held >&2
      return 1
    fi
    sleep 1
  done
}
stop_server() {  # the unit, with all that it leaves
  server_was=$(server_pids | tr '\n' ' ')
  systemctl stop "$1" 2>/dev/null || :
  await_gone
  await_gpu_free
}
)sh";

constexpr const char* kPortHolder = R"sh(own=$(id -u @USER@ 2>/dev/null) || own=none
holder() {
  pid=$1
  user=$(stat -c %u "/proc/$pid" 2>/dev/null) || return 0
  [ "$user" != "$own" ] || return 0
  unit=$(sed -n -e 's|.*/\([^/]*\.service\).*|\1|p' -e 's|.*/\([^/]*\.scope\).*|\1|p' "/proc/$pid/cgroup" 2>/dev/null | head -n 1)
  echo "pid $pid ($(cat "/proc/$pid/comm" 2>/dev/null)${unit:+, $unit})"
}
if command -v ss >/dev/null; then
  ss -ltnpH 'sport = :@PORT@' | while IFS= read -r line; do
    pids=$(printf '%s\n' "$line" | tr ',(' '\n\n' | sed -n 's/^pid=\([0-9]*\)$/\1/p' | sort -u)
    [ -n "$pids" ] || { echo "a process of another namespace"; continue; }
    for pid in $pids; do holder "$pid"; done
  done | sort -u
else
  port=$(printf '%04X' @PORT@)
  for inode in $(cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | awk -v port=":$port\$" '$2 ~ port && $4 == "0A" { print $10 }'); do
    pid=$(find /proc/[0-9]*/fd -lname "socket:\[$inode\]" 2>/dev/null | head -n 1 | cut -d / -f 3)
    if [ -n "$pid" ]; then holder "$pid"; else echo "a process of another namespace"; fi
  done | sort -u
fi
)sh";

}  // namespace

// Hardening that CUDA tolerates: no PrivateDevices, no MemoryDenyWriteExecute (Triton and torch compile at run time).
// Source: nixpkgs nixos/modules/services/misc/ollama.nix; a restart policy that gives up instead of hiding a crash
// loop. What the engine leaves when it ends, also by killing itself, is killed with it (KillMode=mixed).
// nvidia-modprobe makes the device nodes as root, as the engine may not gain that right by itself any more.
std::string unit_text(const ServerSpec& spec) {
  const std::string current = spec.folder() + "/current/";
  const std::string cache = "/var/cache/millwright-" + spec.name;
  std::string before = "ExecStopPost=-" + current + kEnded + "\n";
  if (spec.device == "cuda")
    before += "ExecStartPre=+-/usr/bin/nvidia-modprobe -c 0 -u\nExecStartPre=" + current + kAwaitGpus + "\n";
  if (spec.memory_max) before += "MemoryMax=" + std::to_string(*spec.memory_max) + "\nMemorySwapMax=0\n";
  return "# Written by millwright.\n[Unit]\nDescription=Model server " + spec.name + ": " + spec.engine + " " +
         spec.version +
         "\nAfter=network-online.target nvidia-persistenced.service\nWants=network-online.target\n"
         "StartLimitIntervalSec=900\nStartLimitBurst=3\n\n"
         "[Service]\nType=exec\nUser=" +
         spec.user() + "\nGroup=" + spec.user() + "\nSupplementaryGroups=millwright\nEnvironmentFile=" + current +
         "env\nExecStart=" + current + "run\n" + before + "SyslogIdentifier=" + spec.name +
         "\nLogRateLimitIntervalSec=0\nCacheDirectory=millwright-" + spec.name +
         "\nCacheDirectoryMode=0700\nEnvironment=HOME=" + cache + " XDG_CACHE_HOME=" + cache +
         // The environment is not the server's to write to: byte code is compiled once a server, not at each start.
         " PYTHONPYCACHEPREFIX=" + cache + "/python" +
         "\nRestart=on-failure\nRestartSec=15\nTimeoutStartSec=120\nTimeoutStopSec=90\nKillMode=mixed\n"
         "OOMPolicy=stop\nLimitNOFILE=1048576\nLimitMEMLOCK=infinity\nUMask=0077\n"
         "NoNewPrivileges=yes\nPrivateTmp=yes\nProtectSystem=strict\nProtectHome=read-only\n"
         "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK\n"
         "SystemCallFilter=@system-service @resources\nSystemCallFilter=~@privileged\nSystemCallErrorNumber=EPERM\n\n"
         "[Install]\nWantedBy=multi-user.target\n";
}

std::string await_gpus_text() { return kAwaitGpusText; }
std::string ended_text() { return kEndedText; }

std::string process_functions(const ServerSpec& spec) { return fill(kProcessFunctions, spec); }
std::string port_holder_script(const ServerSpec& spec) { return fill(kPortHolder, spec); }

}  // namespace millwright
