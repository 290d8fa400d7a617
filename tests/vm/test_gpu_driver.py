"""From vfio-pci to a driver that dkms builds, over a reboot, and back: one playbook, unattended."""
import shutil

import pytest
from conftest import VM, run
from nvidia_packages import OTHERS, build_driver, index

OLD, NEW = "535.261.03", "550.163.01"
ON_VFIO = ["vfio-pci"] * 4
BIND = {"id": "bind", "uses": "gpu.bind", "become": True, "with": {"driver": "nvidia"}}
BUILT = ("nvidia-kernel-dkms", "nvidia-smi", "libcuda1")  # the others count on their own
BOOT = {"id": "boot", "uses": "reboot", "become": True, "with": {"when": "needed", "timeout": "15m"}}
TRACES = ("dpkg-query -W -f '${Package} ${db:Status-Abbrev}\\n' 'nvidia-*' libcuda1 2>/dev/null | grep -v un; apt-mark showhold; "
          "ls -d /usr/src/nvidia* /var/lib/dkms/nvidia* 2>/dev/null; find /lib/modules -name 'nvidia.ko*'; true")


def driver(version=None, **inputs):
    wished = {"version": version} if version else {}
    return {"id": "driver", "uses": "gpu.driver", "become": True, "with": {"method": "debian", "hold": True, **wished, **inputs}}


def versions(machine):
    out = machine.ssh("dpkg-query -W -f '${Package} ${Version}\\n' " + " ".join(BUILT))
    return {line.split()[1] for line in out.splitlines()}


def on_nvidia(machine, version):
    drivers = machine.drivers()
    return [drivers[0], drivers[2]] == ["nvidia"] * 2 and "vfio-pci" not in drivers and \
        version in machine.ssh("cat /sys/module/nvidia/version")


@pytest.fixture(scope="module")
def source(machine, tmp_path_factory):
    """The driver's packages in a source of the machine's apt, the only one it has."""
    folder = tmp_path_factory.mktemp("driver")
    for version in (OLD, NEW):
        repo = build_driver(folder, version)
    index(repo)
    for name in repo.iterdir():
        if name.is_dir():
            shutil.rmtree(name)
    run(VM, "copy", machine.name, repo)
    # Two drivers for one device would race at boot.
    machine.ssh("dkms remove fakegpu/1.0 --all >/dev/null; depmod")
    machine.ssh("rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/*; mv /root/repo /srv/repo; "
                "echo 'deb [trusted=yes] file:/srv/repo ./' >/etc/apt/sources.list; apt-get update -qq")


def test_v02_driver_by_dkms_up_and_down_kept_over_reboots_and_taken_back(machine, millwright, source):
    before = machine.boot_files()
    assert machine.drivers() == ON_VFIO
    assert machine.ssh(TRACES) == ""
    done = millwright.apply(driver(OLD), BIND, BOOT, {**BIND, "id": "after"})
    assert done.code == 0, done.text
    assert done.outputs("driver") == {"version": OLD, "branch": "535", "module": "proprietary", "method": "debian",
                                      "kernels": [machine.ssh("uname -r").strip()], "needs_reload": False,
                                      "needs_reboot": False, "notes": []}
    assert done.states()["after"] == "ok", done.text
    assert on_nvidia(machine, OLD)
    # Device nodes with the major that the kernel gave.
    major = machine.ssh("awk '$2 == \"nvidia\" { print $1 }' /proc/devices").strip()
    for node in ("nvidia0", "nvidia1", "nvidiactl"):
        assert machine.ssh(f"stat -c '%Hr' /dev/{node}").strip() == major
    assert set(machine.ssh("apt-mark showhold").split()) == {"nvidia-kernel-dkms", *OTHERS}
    # A newer one is to be had, and nobody asked for it.
    again = millwright.apply(driver(), BIND)
    assert again.states() == {"driver": "ok", "bind": "ok"}, again.text

    # Nobody uses the module: up, and the other one is loaded at once.
    boot = machine.boot_id()
    up = millwright.apply(driver(NEW), {**BOOT, "id": "unneeded"}, BIND)
    assert up.code == 0, up.text
    assert up.states() == {"driver": "changed", "unneeded": "ok", "bind": "ok"}, up.text
    assert on_nvidia(machine, NEW) and machine.boot_id() == boot and versions(machine) == {f"{NEW}-1"}
    gone = millwright.apply(driver(state="absent"))
    assert gone.code in (2, 3) and "is run by nvidia" in gone.text, gone.text

    # Somebody does: down, and the next boot loads it.
    pid = machine.hold("exec 3</dev/nvidia0; echo holding; exec sleep 100000", "/root/user.log")
    down = millwright.apply(driver(OLD), BOOT, BIND)
    assert down.code == 0, down.text
    assert down.outputs("driver")["needs_reboot"] is True, (pid, down.text)
    assert down.states()["boot"] == "changed", down.text
    assert machine.boot_id() != boot
    assert on_nvidia(machine, OLD) and versions(machine) == {f"{OLD}-1"}
    checked = millwright.apply(driver(OLD), BIND)
    assert checked.states() == {"driver": "ok", "bind": "ok"}, checked.text

    back = millwright("rollback", done.id, "-y")
    assert machine.ssh(TRACES) == "", back.text
    assert machine.boot_files() == before
    machine.reboot()
    assert machine.drivers() == ON_VFIO
    assert back.code == 0, back.text


def test_gone_without_a_trace_and_back_with_its_configuration(machine, millwright, source):
    put = millwright.apply(driver(NEW))
    assert put.code == 0, put.text
    machine.ssh("echo '# mine' >>/etc/nvidia-lab.conf")
    mine = machine.ssh("cat /etc/nvidia-lab.conf")
    gone = millwright.apply(driver(state="absent"))
    assert gone.states() == {"driver": "changed"}, gone.text
    assert machine.ssh(TRACES) == "" and machine.ssh("ls /etc/nvidia-lab.conf 2>&1", check=False).startswith("ls: cannot")
    back = millwright("rollback", gone.id, "-y")
    assert back.code == 0, back.text
    assert versions(machine) == {f"{NEW}-1"} and machine.ssh("cat /etc/nvidia-lab.conf") == mine
    assert set(machine.ssh("apt-mark showhold").split()) == {"nvidia-kernel-dkms", *OTHERS}
    assert millwright("rollback", put.id, "-y").code == 0
    assert machine.ssh(TRACES) == ""
