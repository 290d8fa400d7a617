"""Hosts to work on: sshd instances on loopback addresses, each in a mount namespace and a root folder of its own.

All share this machine's programs and /etc, but the rest of a host's files are its own and in memory, on one file
system, so that what one host holds is not what another one holds. `Host.root` shows them from outside.
"""

import os
import pathlib
import shutil
import socket
import subprocess
import time

SSHD_CONFIG = """\
Port {port}
ListenAddress {address}
HostKey {folder}/host_keys/{name}
AuthorizedKeysFile {folder}/authorized_keys
StrictModes no
UsePAM no
UseDNS no
PasswordAuthentication no
PermitRootLogin prohibit-password
MaxStartups 5000
PidFile none
LogLevel ERROR
PrintMotd no
Subsystem sftp internal-sftp
"""

# Becomes sshd in the end, so that the process started here is the host; it ends with the bench, however that ends.
ENTER = """\
root=$1
mount -t tmpfs -o mode=0755 bench "$root" || exit 1
for name in bin sbin lib lib32 lib64 libx32; do
  [ ! -L "/$name" ] || ln -s "$(readlink "/$name")" "$root/$name"
done
for name in usr etc run tmp; do mkdir "$root/$name" && mount --bind "/$name" "$root/$name" || exit 1; done
for name in dev proc sys; do mkdir "$root/$name" && mount --rbind "/$name" "$root/$name" || exit 1; done
mkdir -p "$root/root" "$root/opt" "$root/var/lib" "$root/var/tmp" "$root/srv/bench"
exec chroot "$root" /usr/sbin/sshd -D -e -f "$2"
"""


class Host:
    def __init__(self, name, address, process):
        self.name, self.address, self.process = name, address, process

    @property
    def root(self):
        """The host's file system, seen from here."""
        return pathlib.Path(f"/proc/{self.process.pid}/root")


def need_root():
    if os.geteuid() != 0:
        raise SystemExit("the benches make mount and network namespaces: run them as root")


def free_port():
    """A port that nothing has now; two benches at a time get different ones."""
    with socket.create_server(("127.77.1.1", 0)) as probe:
        return probe.getsockname()[1]


def make_key(path, comment):
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", path], check=True)


class Farm:
    """`count` hosts; a context manager. `inside` is a command prefix, e.g. to enter a network namespace."""

    def __init__(self, folder, count, addresses=None, inside=()):
        need_root()
        self.folder, self.inside = pathlib.Path(folder), list(inside)
        self.addresses = addresses or [f"127.77.{1 + n // 250}.{1 + n % 250}" for n in range(count)]
        self.hosts, self.port = [], free_port()

    def __enter__(self):
        self.folder.mkdir(parents=True)
        os.chmod(self.folder, 0o700)
        (self.folder / "host_keys").mkdir()
        (self.folder / "roots").mkdir()
        os.makedirs("/run/sshd", exist_ok=True)
        make_key(self.folder / "key", "bench")
        shutil.copy(self.folder / "key.pub", self.folder / "authorized_keys")
        try:
            for number, address in enumerate(self.addresses):
                self.hosts.append(self._start(f"h{number:03}", address))
            for host in self.hosts:
                self._wait_for(host)
        except BaseException:
            self.__exit__()
            raise
        self._write_client_files()
        return self

    def __exit__(self, *_):
        for host in self.hosts:
            host.process.terminate()
        for host in self.hosts:
            host.process.wait()
        self.hosts = []

    def _start(self, name, address):
        make_key(self.folder / "host_keys" / name, name)
        config = self.folder / f"{name}.conf"
        config.write_text(SSHD_CONFIG.format(port=self.port, address=address, folder=self.folder, name=name))
        root = self.folder / "roots" / name
        root.mkdir()
        log = open(self.folder / f"{name}.log", "wb")
        command = ["setpriv", "--pdeathsig", "TERM", "unshare", "--mount", "--propagation", "private",
                   "/bin/sh", "-c", ENTER, "enter", root, config]
        process = subprocess.Popen([*self.inside, *command], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        log.close()
        return Host(name, address, process)

    def _wait_for(self, host):
        """Until its sshd listens. Looked up in the process's own network namespace: nothing is connected to."""
        packed = "".join(f"{byte:02X}" for byte in reversed(socket.inet_aton(host.address)))
        wanted = f"{packed}:{self.port:04X} 00000000:0000 0A"
        until = time.monotonic() + 60
        while time.monotonic() < until:
            if host.process.poll() is not None:
                break
            if wanted in pathlib.Path(f"/proc/{host.process.pid}/net/tcp").read_text():
                return
            time.sleep(0.02)
        raise RuntimeError(f"no sshd on {host.address}: {(self.folder / (host.name + '.log')).read_text()}")

    def _write_client_files(self):
        """The same files for every tool: an inventory, an ssh configuration, known hosts, a list for the floor."""
        known, config = [], [f"Host *\n  User root\n  Port {self.port}\n  IdentityFile {self.folder}/key\n"
                             f"  IdentitiesOnly yes\n  UserKnownHostsFile {self.folder}/known_hosts\n"
                             "  GlobalKnownHostsFile /dev/null\n  StrictHostKeyChecking yes\n  LogLevel ERROR\n"]
        for host in self.hosts:
            key = (self.folder / "host_keys" / f"{host.name}.pub").read_text().split()
            known.append(f"[{host.address}]:{self.port} {key[0]} {key[1]}\n")
            config.append(f"Host {host.name}\n  HostName {host.address}\n")
        (self.folder / "known_hosts").write_text("".join(known))
        (self.folder / "ssh_config").write_text("".join(config))

    def inventory(self, path, count, extra=""):
        """An inventory in Ansible's INI shape, which millwright reads too."""
        lines = [f"{host.name} ansible_host={host.address}\n" for host in self.hosts[:count]]
        path.write_text(
            "".join(lines) + "\n[all:vars]\nansible_user=root\n"
            f"ansible_port={self.port}\nansible_ssh_private_key_file={self.folder}/key\n"
            f"ansible_ssh_common_args=-o UserKnownHostsFile={self.folder}/known_hosts -o IdentitiesOnly=yes\n{extra}")
        return path

    def addresses_file(self, path, count):
        path.write_text("".join(f"{host.name} {host.address} {self.port}\n" for host in self.hosts[:count]))
        return path
