"""Fixtures of the tests in a virtual machine: the machine, what runs in it, and the real binary."""
import json
import os
import pathlib
import shlex
import subprocess
import time

import pytest
import yaml

HERE = pathlib.Path(__file__).resolve().parent
VM = HERE / "vm"
BINARY = os.environ.get("MILLWRIGHT", HERE.parents[1] / "build/dev/orchestrator/cli/millwright")
FUNCTIONS = [f"0000:0{bus}:00.{function}" for bus in (1, 2) for function in (0, 1)]


def run(*words, timeout=1200, check=True):
    """Runs a command of this machine; its output is in the failure's text."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=timeout, check=False)
    if check and done.returncode != 0:
        pytest.fail(f"{' '.join(map(str, words))}: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


class Machine:
    """One virtual machine with two GPUs."""

    def __init__(self, name):
        self.name = name
        self.inventory = run(VM, "inventory" if name == os.environ.get("MW_VM") else "up", name).stdout.strip()

    def ssh(self, script, check=True):
        return run(VM, "ssh", self.name, script, check=check).stdout

    def copy(self, *files):
        run(VM, "copy", self.name, *files)

    def boot_id(self):
        return self.ssh("cat /proc/sys/kernel/random/boot_id").strip()

    def reboot(self):
        before = self.boot_id()
        run(VM, "ssh", self.name, "systemctl reboot", check=False)
        run(VM, "wait", self.name, before)

    def drivers(self):
        """The driver of each function, by sysfs itself."""
        script = "for a in %s; do basename \"$(readlink /sys/bus/pci/devices/$a/driver || echo none)\"; done" % " ".join(FUNCTIONS)
        return self.ssh(script).split()

    def boot_files(self):
        """Every file that says what happens at boot: name, mode, owner and digest."""
        return self.ssh("find /etc/modprobe.d /etc/modules /etc/modules-load.d /etc/initramfs-tools /etc/udev/rules.d "
                        "/etc/default/grub /boot/grub/grub.cfg -type f -exec stat -c '%n %a %U' {} + | sort; "
                        "find /etc/modprobe.d /etc/modules /etc/modules-load.d /etc/initramfs-tools /etc/udev/rules.d "
                        "/etc/default/grub /boot/grub/grub.cfg -type f -exec sha256sum {} + | sort -k 2")

    def wait_until(self, script, seconds=120):
        end = time.monotonic() + seconds
        while self.ssh(f"({script}) >/dev/null 2>&1 && echo yes", check=False).strip() != "yes":
            if time.monotonic() > end:
                pytest.fail(f"not so within {seconds} s: {script}")
            time.sleep(0.5)

    def hold(self, command, log):
        """Starts what holds a device and waits until it does; returns its process id."""
        # The machine has no interrupt remapping: with it, QEMU loses interrupts of its disk now and then.
        self.ssh("echo 1 >/sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts")
        self.ssh(f"rm -f {log}; printf '%s\\n' {shlex.quote('echo $$ >' + log + '.pid')} {shlex.quote(command)} >{log}.sh; "
                 f"setsid sh {log}.sh >{log} 2>&1 </dev/null &")
        self.wait_until(f"grep -q holding {log}")
        return self.ssh(f"cat {log}.pid").strip()

    def end(self, pid):
        self.ssh(f"kill {pid} 2>/dev/null; true")
        self.wait_until(f"! kill -0 {pid}")


class Run:
    """What one call of the binary did."""

    def __init__(self, done):
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr
        self.text = done.stdout + done.stderr

    @property
    def events(self):
        return [json.loads(line) for line in self.out.splitlines() if line.startswith("{")]

    @property
    def id(self):
        return self.events[0]["run"]

    def outputs(self, step):
        """Outputs of a step, as the run tells them at its end."""
        for event in reversed(self.events):
            if event["type"] == "step_finished" and event.get("step") == step:
                return event["data"].get("outputs", {})
        pytest.fail(f"no step {step}\n{self.text}")

    def states(self):
        return {event["step"]: event["data"]["state"] for event in self.events if event["type"] == "step_finished"}


class Millwright:
    """The real program with a state folder of its own."""

    def __init__(self, machine, folder):
        self.machine, self.folder = machine, folder

    def __call__(self, verb, *words):
        return Run(run(BINARY, verb, *words, "--state", self.folder / "state", check=False))

    def apply(self, *steps, verb="apply"):
        book = self.folder / "play.yml"
        book.write_text(yaml.safe_dump({"name": "GPUs", "hosts": "all", "steps": list(steps)}, sort_keys=False))
        return self(verb, book, "-i", self.machine.inventory, "--json")

    def facts(self):
        done = self("facts", self.machine.name, "-i", self.machine.inventory, "--json")
        assert done.code == 0, done.text
        return json.loads(done.out)


@pytest.fixture(scope="module")
def machine():
    """A machine of its own; with $MW_VM that one, which runs already and stays."""
    name = os.environ.get("MW_VM") or f"test-{os.getpid()}"
    try:
        made = Machine(name)
        made.copy(HERE / "guest/vfio_hold.py")
        yield made
    finally:
        if not os.environ.get("MW_VM"):
            run(VM, "down", name, check=False)


@pytest.fixture(scope="module")
def millwright(machine, tmp_path_factory):
    return Millwright(machine, tmp_path_factory.mktemp("millwright"))
