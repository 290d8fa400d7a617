"""One contender for each tool: how it is told to do a piece of work, from a cold start, and what it leaves behind."""

import os
import pathlib
import shlex
import shutil
import subprocess

from benchlib.measure import run_once


class Contender:
    """A tool in a workload. `prepare` and `check` are not timed; `check` raises when the work was not done."""

    def __init__(self, name, command, log, prepare=(), check=(), environment=None):
        self.name, self.command, self.log = name, command, log
        self._prepare, self._check, self.environment = prepare, check, environment

    def prepare(self):
        for step in self._prepare:
            step()

    def run(self):
        return run_once(self.command, self.log, self.environment)

    def check(self):
        for step in self._check:
            step()


class Tools:
    """Makes contenders for one workload on the first `hosts` of a farm. `inside`: a prefix for every command."""

    def __init__(self, programs, farm, hosts, folder, reset, check, inside=()):
        self.programs, self.farm, self.folder = programs, farm, pathlib.Path(folder)
        self.hosts = farm.hosts[:hosts]
        self.inside = list(inside)
        self.reset, self.done = reset, check
        self.folder.mkdir(parents=True)
        self.inventory = farm.inventory(self.folder / "hosts.ini", hosts)
        self.addresses = farm.addresses_file(self.folder / "hosts.txt", hosts)
        self.ssh = ["ssh", "-F", str(farm.folder / "ssh_config")]

    def _contender(self, name, command, before=(), after=(), environment=None):
        return Contender(name, [*self.inside, *command], self.folder / (name.replace(" ", "-") + ".log"),
                         [self.reset, *before], [self.done, *after], environment)

    def _script(self, name, text):
        path = self.folder / name
        path.write_text("set -eu\n" + text)
        return ["sh", str(path)]

    def _everywhere(self, name, per_host):
        """A script that does per_host(host) on all hosts at once and fails when one does."""
        lines = [f"( {per_host(host)} ) & p{n}=$!\n" for n, host in enumerate(self.hosts)]
        waits = [f"wait $p{n}\n" for n in range(len(self.hosts))]
        return self._script(name, "".join(lines + waits))

    def millwright(self, steps, name="millwright", verb=("apply",)):
        playbook = self.folder / "millwright.yml"
        playbook.write_text("name: bench\nhosts: all\nsteps:\n" + "".join(f"  - {step}\n" for step in steps))
        state = self.folder / "state"
        command = [self.programs.millwright, *verb, playbook, "-i", self.inventory, "--state", state,
                   "-f", str(len(self.hosts))]
        return self._contender(name, command, [lambda: shutil.rmtree(state, ignore_errors=True)])

    def _ansible(self, name, tasks, settings):
        play = self.folder / f"{name}.yml"
        play.write_text("- hosts: all\n  gather_facts: false\n  tasks:\n" + "".join(f"    - {task}\n" for task in tasks))
        config, sockets = self.folder / f"{name}.cfg", self.folder / f"{name}-cp"
        config.write_text(
            f"[defaults]\nforks = {len(self.hosts)}\nremote_tmp = /srv/ansible\ninterpreter_python = /usr/bin/python3\n"
            f"home = {self.folder}/ansible-home\nlocal_tmp = {self.folder}/ansible-tmp\n{settings}"
            f"[ssh_connection]\npipelining = True\ncontrol_path_dir = {sockets}\n")
        environment = {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")}
        environment["ANSIBLE_CONFIG"] = str(config)

        def hang_up():  # or the next run would find its connections open
            for socket in sockets.glob("*"):
                subprocess.run(["ssh", "-O", "exit", "-o", f"ControlPath={socket}", "x"], capture_output=True)
            shutil.rmtree(sockets, ignore_errors=True)

        command = [self.programs.peers.ansible_playbook, "-i", self.inventory, play]
        return self._contender(name, command, [hang_up], [hang_up], environment)

    def ansible(self, tasks):
        return self._ansible("ansible", tasks, "")

    def mitogen(self, tasks):
        return self._ansible("mitogen", tasks,
                             f"strategy_plugins = {self.programs.peers.mitogen_strategies}\n"
                             "strategy = mitogen_linear\n")

    def bare(self, mode, commands):
        listed = self.folder / "commands.txt"
        listed.write_text("".join(f"{command}\n" for command in commands))
        return self._contender(f"libssh {mode}", self._bare(mode) + [listed])

    def bare_put(self, file, path):
        return self._contender("libssh cat", self._bare("put") + [file, path])

    def _bare(self, mode):
        return [self.programs.bare, mode, self.addresses, self.farm.folder / "key", self.farm.folder / "known_hosts"]

    def control_master(self, commands):
        """`ssh` for each command over connections that are open already; opening them is not timed."""
        sockets = self.folder / "masters"

        def words(host):
            return shlex.join([*self.ssh, "-S", f"{sockets}/{host.name}", host.name])

        def close():
            for host in self.hosts:
                subprocess.run([*self.ssh, "-S", f"{sockets}/{host.name}", "-O", "exit", host.name],
                               capture_output=True)

        def warm():
            close()
            sockets.mkdir(exist_ok=True)
            for host in self.hosts:
                subprocess.run([*self.inside, *self.ssh, "-S", f"{sockets}/{host.name}", "-MNf", host.name], check=True,
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        script = self._everywhere(
            "masters.sh", lambda host: " && ".join(f"{words(host)} {shlex.quote(one)}" for one in commands))
        return self._contender("ssh ControlMaster", script, [warm], [close])

    def per_host(self, name, line):
        """A shell line for each host: line(ssh words, host)."""
        return self._contender(name, self._everywhere(name.replace(" ", "-").replace("|", "") + ".sh",
                                                      lambda host: line(shlex.join(self.ssh), host)))
