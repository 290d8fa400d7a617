"""gpu.bind on a machine with a real IOMMU and real vfio-pci.

The tests share one machine: two GPUs that an administrator gave to vfio-pci, and a driver of a vendor that was installed
by dkms (fakegpu plays it). Each leaves the machine as it was.
"""
ON_VFIO = ["vfio-pci"] * 4
BIND = {"id": "bind", "uses": "gpu.bind", "become": True}


def bind(driver, **inputs):
    return {**BIND, "with": {"driver": driver, **inputs}}


def group_of(machine, address):
    return machine.ssh(f"basename \"$(readlink /sys/bus/pci/devices/{address}/iommu_group)\"").strip()


def test_facts_of_two_gpus_on_vfio(machine, millwright):
    facts = millwright.facts()
    gpus = facts["gpus"]
    assert [gpu["address"] for gpu in gpus] == ["0000:01:00.0", "0000:02:00.0"]
    assert [gpu["product"] for gpu in gpus] == ["RTX A6000"] * 2
    assert [gpu["architecture"] for gpu in gpus] == ["ampere"] * 2
    assert [[f["driver"] for f in gpu["functions"]] for gpu in gpus] == [["vfio-pci"] * 2] * 2
    assert [str(gpu["iommu_group"]) for gpu in gpus] == [group_of(machine, gpu["address"]) for gpu in gpus]
    assert facts["host"]["boot_loader"] == "grub"
    assert facts["host"]["next_kernel"] == facts["host"]["kernel"]
    assert facts["host"]["initramfs_older_than"] == {facts["host"]["kernel"]: ""}
    assert facts["holders"] == []
    assert "/etc/modprobe.d/vfio.conf" in [file["path"] for file in facts["boot_files"]]


def test_v19_a_process_that_holds_the_group_is_refused_by_name(machine, millwright):
    before = machine.boot_files()
    group = group_of(machine, "0000:01:00.0")
    pid = machine.hold(f"exec /root/vfio_hold.py {group} 0000:01:00.0 device", "/root/hold.log")
    try:
        assert [holder["pid"] for holder in millwright.facts()["holders"]] == [int(pid)]
        refused = millwright.apply(bind("fakegpu"))
        assert refused.code in (2, 3), refused.text
        assert f"process {pid}" in refused.text and f"/dev/vfio/{group}" in refused.text, refused.text
        assert machine.drivers() == ON_VFIO
        assert machine.boot_files() == before
    finally:
        machine.end(pid)


def test_v20_a_virtual_machine_that_starts_with_the_host_is_refused_by_name(machine, millwright):
    machine.ssh("mkdir -p /etc/pve/qemu-server /etc/pve/mapping; printf 'a6000\\n\\tmap id=10de:2230,node=%s,path=0000:02:00.0\\n' "
                "\"$(hostname)\" >/etc/pve/mapping/pci.cfg; "
                "printf 'name: win11\\nonboot: 1\\nhostpci0: mapping=a6000,pcie=1\\n\\n[old]\\nhostpci1: 01:00\\n' >/etc/pve/qemu-server/101.conf")
    try:
        refused = millwright.apply(bind("fakegpu"))
        assert refused.code in (2, 3), refused.text
        assert "VM 101 (win11)" in refused.text and "qm set 101 --delete hostpci0" in refused.text, refused.text
        # The other one is only in a snapshot.
        planned = millwright.apply(bind("fakegpu", select="01:00", persist=False), verb="plan")
        assert planned.code == 0, planned.text
    finally:
        machine.ssh("rm -r /etc/pve")
    assert machine.drivers() == ON_VFIO


def test_v12_one_of_two_identical_gpus_changes_hands_and_comes_back(machine, millwright):
    before = machine.boot_files()
    done = millwright.apply(bind("fakegpu", select="02:00", persist=False))
    assert done.code == 0, done.text
    assert machine.drivers()[:2] == ["vfio-pci"] * 2
    assert machine.drivers()[2] == "fakegpu" and machine.drivers()[3] != "vfio-pci"
    assert machine.ssh("cat /sys/bus/pci/devices/0000:02:00.0/driver_override").strip() == "(null)"
    assert machine.ssh("ls /dev/fakegpu0").strip() == "/dev/fakegpu0"
    again = millwright.apply(bind("fakegpu", select="02:00", persist=False))
    assert again.states() == {"bind": "ok"}, again.text
    back = millwright("rollback", done.id, "-y")
    assert back.code == 0, back.text
    assert machine.drivers() == ON_VFIO
    assert machine.boot_files() == before


def test_no_driver_at_all_and_back(machine, millwright):
    done = millwright.apply(bind("none", select=0))
    assert done.code == 0, done.text
    assert machine.drivers() == ["none", "none", "vfio-pci", "vfio-pci"]
    machine.ssh("echo 0000:01:00.0 >/sys/bus/pci/drivers_probe")
    assert machine.drivers()[0] == "none"  # the override keeps everybody away
    back = millwright("rollback", done.id, "-y")
    assert back.code == 0, back.text
    assert machine.drivers() == ON_VFIO
    assert machine.ssh("cat /sys/bus/pci/devices/0000:01:00.0/driver_override").strip() == "(null)"
