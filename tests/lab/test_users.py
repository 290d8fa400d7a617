"""Who logs in: a user whose sudo asks for a password, and one who has no sudo at all."""
import hashlib
import json
import signal

import pytest
from conftest import Millwright, busybox_rootfs, wait_until

NODE = "user1"
STATE = "/home/mw/.local/state/millwright"


@pytest.fixture(scope="module")
def lab(make_lab):
    lab = make_lab("user", 1, "--user", "mw")
    lab.ssh(NODE, "apt-get update -qq; apt-get install -qqy nftables >/dev/null", timeout=300)
    return lab


@pytest.fixture
def plain(lab, tmp_path):
    """Logs in as mw and stays mw."""
    millwright = Millwright(lab, tmp_path / "state")
    text = "\n".join(line for line in lab.inventory.read_text().splitlines() if "become" not in line)
    path = tmp_path / "inventory.yml"
    path.write_text(text + "\n")
    millwright.inventory = str(path)
    return millwright


def sha256_there(lab, path, inside=""):
    words = f"lxc-attach -n {inside} -- " if inside else ""
    return lab.ssh(NODE, f"{words}sha256sum {path} </dev/null").stdout.split()[0]


@pytest.mark.parametrize("mebibytes", [20, pytest.param(241, marks=pytest.mark.slow)])
def test_a_big_file_through_sudo_and_into_a_container(lab, write, tmp_path, mebibytes):
    """241 MiB once arrived in part: what the hop says of itself on standard error was taken for a complaint."""
    big = tmp_path / "big"
    block = bytes(range(256)) * 4096
    digest = hashlib.sha256()
    with open(big, "wb") as file:
        for number in range(mebibytes):
            piece = number.to_bytes(4, "big") + block[4:]
            digest.update(piece)
            file.write(piece)
    tar = busybox_rootfs(tmp_path)
    millwright = Millwright(lab, tmp_path / "state")
    millwright.apply(write(
        {"id": "here", "uses": "file", "with": {"path": "/root/big", "source": str(big)}},
        {"id": "box", "uses": "container",
         "with": {"name": "box", "image": {"rootfs": str(tar), "sha256": hashlib.sha256(tar.read_bytes()).hexdigest()}}},
        {"id": "inside", "uses": "file", "in": "box", "with": {"path": "/big", "source": str(big)}}), timeout=600).expect(0)
    assert sha256_there(lab, "/root/big") == digest.hexdigest()
    assert sha256_there(lab, "/big", inside="box") == digest.hexdigest()
    millwright.run("rollback", "last", "-i", millwright.inventory, "-y", "--json", timeout=300).expect(0)
    assert lab.ssh(NODE, "ls /root/big /var/lib/lxc/box", check=False).stdout == ""
    events = "".join(path.read_text(errors="replace") for path in tmp_path.rglob("*.html"))
    assert (lab.inventory.parent / "sudo_password").read_text().strip() not in events


HOME = [{"id": "file", "uses": "file", "with": {"path": "/home/mw/app/conf", "content": "x\n"}, "needs": ["folder"]},
        {"id": "folder", "uses": "file", "with": {"path": "/home/mw/app", "state": "directory"}, "needs": []},
        {"id": "run", "uses": "command", "needs": ["file"],
         "with": {"run": "touch /home/mw/app/begun; sleep 3; touch /home/mw/app/done", "creates": "/home/mw/app/done",
                  "undo": "rm -f /home/mw/app/begun /home/mw/app/done"}}]


def test_without_root_everything_is_kept_in_the_home_of_the_user(lab, plain, write):
    done = plain.apply(write(*HOME)).expect(0)
    assert {state for state in done.states().values()} == {"changed"}
    assert lab.ssh(NODE, f"stat -c %U:%a {STATE}/runs {STATE}/runs/* | sort -u").stdout == "mw:700\n"
    assert lab.ssh(NODE, f"cat {STATE}/audit.log | wc -l").stdout.strip() != "0"
    assert plain.apply(write(*HOME)).expect(0).of("action_started") == []
    run_id = done.of("run_started")[0]["run"]
    plain.run("rollback", run_id, "-i", plain.inventory, "-y", "--json").expect(0)
    assert lab.ssh(NODE, "ls -d /home/mw/app", check=False).returncode == 2


@pytest.mark.parametrize("again", ["resume", "rollback", "from-node"])
def test_without_root_a_killed_run_is_taken_up_again(lab, plain, write, tmp_path, again):
    process = plain.start("apply", write(*HOME), "-i", plain.inventory, "--json")
    wait_until(lambda: lab.ssh(NODE, "test -e /home/mw/app/begun", check=False).returncode == 0, 60, "it has begun")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    run_id = json.loads(plain.run("runs", "--json").out)[0]["id"]
    if again == "resume":
        plain.run("resume", run_id, "-i", plain.inventory, "--json").expect(0)
        assert lab.ssh(NODE, "ls /home/mw/app").stdout.split() == ["begun", "conf", "done"]
    words = ["rollback", run_id, "-i", plain.inventory, "-y", "--json"]
    if again == "from-node":
        plain.env["MILLWRIGHT_STATE"] = str(tmp_path / "other")
        words += ["--from-node", NODE]
    plain.run(*words).expect(0)
    assert lab.ssh(NODE, "ls -d /home/mw/app", check=False).returncode == 2


def test_without_root_what_is_not_allowed_is_said_and_changes_nothing(lab, plain, write):
    failed = plain.apply(write({"id": "etc", "uses": "file", "with": {"path": "/etc/ours", "content": "x\n"}})).expect(2)
    assert "ermission denied" in failed.out, failed.out
    lab.ssh(NODE, f"rm -rf {STATE}; mkdir -p {STATE}; chown root {STATE}; chmod 755 {STATE}")
    try:
        failed = plain.apply(write(*HOME)).expect(2)
        assert STATE in failed.out and "may this user write" in failed.out, failed.out
        assert lab.ssh(NODE, "ls -d /home/mw/app", check=False).returncode == 2
    finally:
        lab.ssh(NODE, f"rm -rf {STATE}")


def test_sudo_that_is_not_allowed_says_so(lab, plain, write):
    """`become` without a password for it: sudo would ask, and nobody answers."""
    failed = plain.apply(write({"id": "etc", "uses": "file", "become": True,
                                "with": {"path": "/etc/ours", "content": "x\n"}})).expect(4)
    assert "sudo" in failed.out and "password" in failed.out, failed.out
    assert lab.ssh(NODE, "ls /etc/ours", check=False).returncode == 2
