"""The lab keeps its promises: nodes that are real enough, and nothing left behind."""
import subprocess

import pytest
import yaml
from conftest import LAB, run


@pytest.fixture(scope="module")
def lab(make_lab):
    return make_lab("itself", 2)


class Loader(yaml.SafeLoader):
    pass


Loader.add_constructor("!secret", lambda loader, node: loader.construct_scalar(node))


def inventory(lab):
    return yaml.load(lab.inventory.read_text(), Loader)["all"]


def test_the_inventory_lets_a_strict_ssh_in(lab):
    everything = inventory(lab)
    for name, host in everything["hosts"].items():
        done = run("ssh", "-F", "none", "-i", everything["vars"]["ansible_ssh_private_key_file"], "-o", "BatchMode=yes",
                   *everything["vars"]["ansible_ssh_common_args"].split(), "-p", host["ansible_port"],
                   f"{everything['vars']['ansible_user']}@{host['ansible_host']}", "hostname; id -u")
        assert done.stdout.split() == [name, "0"]


def test_systemd_runs_with_nothing_failed(lab):
    assert lab.ssh("itself1", "systemctl is-system-running").stdout == "running\n"


def test_nodes_differ_and_see_each_other(lab):
    ids = {lab.ssh(node, "cat /etc/machine-id").stdout for node in lab.nodes}
    assert len(ids) == 2
    address = inventory(lab)["hosts"]["itself2"]["ansible_host"]
    lab.ssh("itself1", f"ping -c 1 -W 2 {address}")


def test_apt_reaches_the_mirrors(lab):
    lab.ssh("itself1", "apt-get update -qq && apt-get install -y -qq hello >/dev/null && hello")


def test_the_user_mw_needs_a_password_for_sudo(lab):
    password = (lab.inventory.parent / "sudo_password").read_text()
    ask = "su mw -c 'sudo -S -k id -u' 2>/dev/null"
    assert lab.ssh("itself1", ask, input=password).stdout == "0\n"
    assert lab.ssh("itself1", ask, input="wrong\n", check=False).returncode != 0


def test_up_again_keeps_the_nodes_and_adds_missing_ones(lab):
    lab.ssh("itself1", "touch /root/kept")
    run(LAB, "up", 3, "--name", "itself")
    lab.ssh("itself1", "test -e /root/kept")
    lab.ssh("itself3", "true")


def test_a_node_that_is_cut_off_does_not_answer_and_mends(lab):
    lab.verb("cut", "itself2")
    assert lab.ssh("itself2", "true", check=False).returncode == 255
    lab.ssh("itself1", "true")
    lab.verb("mend", "itself2")
    lab.ssh("itself2", "true")


def test_a_node_keeps_its_disk_over_a_power_cycle(lab):
    lab.ssh("itself2", "echo kept > /root/kept; sync")
    lab.verb("stop", "itself2")
    lab.verb("start", "itself2")
    assert lab.ssh("itself2", "cat /root/kept").stdout == "kept\n"


def everything_of(lab_dir, marker):
    """What of a lab can be seen on this machine."""
    seen = []
    for words in (["ip", "-o", "link"], ["nft", "list", "tables"], ["ps", "-eo", "args"], ["cat", "/proc/self/mounts"]):
        text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        seen += [line for line in text.splitlines() if marker in line or str(lab_dir) in line]
    return seen + [str(path) for path in lab_dir.parent.glob(lab_dir.name + "*")]


def test_down_leaves_nothing_and_can_be_said_twice(make_lab):
    lab = make_lab("gone", 1)
    place = lab.inventory.parent
    assert everything_of(place, "millwright_lab_gone")
    lab.down()
    assert everything_of(place, "millwright_lab_gone") == []
    lab.down()


def test_a_failing_up_cleans_up(make_lab, tmp_path):
    home = tmp_path / "state"
    done = run("env", f"XDG_STATE_HOME={home}", "PATH=" + str(broken_path(tmp_path)), LAB, "up", 1, "--name", "fails", check=False)
    assert done.returncode != 0 and "did not start" in done.stderr
    assert everything_of(home / "millwright/lab/fails", "millwright_lab_fails") == []


def broken_path(tmp_path):
    """A PATH whose lxc-start always fails."""
    (tmp_path / "bin").mkdir()
    broken = tmp_path / "bin/lxc-start"
    broken.write_text("#!/bin/sh\necho 'no' >&2; exit 1\n")
    broken.chmod(0o755)
    return f"{tmp_path}/bin:/usr/sbin:/usr/bin:/sbin:/bin"
