"""gpu.bind over reboots: a real initramfs, a real unbind that never ends, and back.

One story: two GPUs on vfio-pci, one held by somebody whom nobody sees; a vendor's driver (fakegpu plays it) gets them all
the same, by a reboot; and everything is taken back, byte by byte.
"""
ON_VFIO = ["vfio-pci"] * 4
BIND = {"id": "bind", "uses": "gpu.bind", "become": True}


def bind(driver, **inputs):
    return {**BIND, "with": {"driver": driver, **inputs}}


def group_of(machine, address):
    return machine.ssh(f"basename \"$(readlink /sys/bus/pci/devices/{address}/iommu_group)\"").strip()


def test_v01_v21_a_hidden_user_makes_it_wait_for_the_reboot_that_completes_it_and_undo_gives_all_back(machine, millwright):
    before = machine.boot_files()
    group = group_of(machine, "0000:01:00.0")
    machine.hold(f"exec /root/vfio_hold.py {group} 0000:01:00.0 mapped", "/root/hold.log")
    assert millwright.facts()["holders"] == []  # its files are closed, only the memory is mapped
    boot = machine.boot_id()
    done = millwright.apply(bind("fakegpu", unbind_timeout="5s"),
                            {"id": "boot", "uses": "reboot", "with": {"when": "needed", "timeout": "15m"}},
                            {**bind("fakegpu"), "id": "after"})
    assert done.code == 0, done.text
    assert done.outputs("bind")["needs_reboot"] is True
    assert done.states() == {"bind": "changed", "boot": "changed", "after": "ok"}, done.text
    assert machine.boot_id() != boot
    drivers = machine.drivers()
    assert [drivers[0], drivers[2]] == ["fakegpu"] * 2 and "vfio-pci" not in drivers
    assert "ids=" not in machine.ssh("cat /etc/modprobe.d/vfio.conf")
    again = millwright.apply(bind("fakegpu"))
    assert again.states() == {"bind": "ok"}, again.text

    # A user of the vendor's driver is refused by name, too.
    pid = machine.hold("exec 3</dev/fakegpu0; echo holding; exec sleep 100000", "/root/user.log")
    refused = millwright.apply(bind("vfio-pci"))
    assert refused.code in (2, 3), refused.text
    assert f"process {pid}" in refused.text and "/dev/fakegpu0" in refused.text, refused.text
    kept = millwright("rollback", done.id, "-y")
    assert kept.code == 5 and f"process {pid}" in kept.text, kept.text
    machine.end(pid)

    back = millwright("rollback", done.id, "-y")
    assert machine.drivers() == ON_VFIO, back.text
    assert machine.boot_files() == before
    machine.reboot()
    assert machine.drivers() == ON_VFIO
