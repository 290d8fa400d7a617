"""What goes wrong around a run: the network, the disk, the clock, locks, other controllers, and what commands do."""
import hashlib
import os
import pathlib
import re
import subprocess
import time

import pytest
from conftest import LAB, Millwright, run, wait_until

NODE = "fault1"


@pytest.fixture(scope="module")
def lab(make_lab):
    return make_lab("fault", 1)


def command(step, script, undo="true", **more):
    keys = ("timeout", "needs", "on_failure", "retry")
    return {"id": step, "uses": "command", "with": {"run": script, "undo": undo,
                                                    **{k: v for k, v in more.items() if k not in keys}},
            **{k: v for k, v in more.items() if k in keys}}


def there(lab, path):
    return lab.ssh(NODE, f"test -e {path}", check=False).returncode == 0


def error_of(done, step):
    return done.of("step_finished", step=step)[-1]["data"]["error"]["message"]


def finish(process, timeout=180):
    out, _ = process.communicate(timeout=timeout)
    return process.returncode, out


def begun(lab, millwright, playbook, mark, *words):
    """A run in the background, at the instant when `mark` exists on the node."""
    process = millwright.start("apply", playbook, "-i", millwright.inventory, "--json", *words)
    wait_until(lambda: there(lab, mark), 60, f"{mark} is made")
    return process


# The network

def test_a_partition_in_the_middle_of_a_command(lab, millwright, write):
    """Shorter than the keepalive allows: nothing is noticed. The command runs once."""
    lab.ssh(NODE, "rm -rf /root/cut; mkdir /root/cut")
    playbook = write(command("one", "echo x >>/root/cut/log; sleep 8; touch /root/cut/end", creates="/root/cut/end"),
                     command("two", "touch /root/cut/two", creates="/root/cut/two"))
    process = begun(lab, millwright, playbook, "/root/cut/log")
    lab.verb("cut", NODE)
    time.sleep(4)  # how long the network is away is what is tested
    lab.verb("mend", NODE)
    code, out = finish(process)
    assert code == 0, out
    assert lab.ssh(NODE, "cat /root/cut/log; ls /root/cut").stdout.split() == ["x", "end", "log", "two"]


@pytest.mark.slow
def test_a_partition_longer_than_the_keepalive(lab, millwright, write):
    """The line is given up and found again; the action, which went on, is not done twice."""
    lab.ssh(NODE, "rm -rf /root/cut; mkdir /root/cut")
    playbook = write(command("one", "echo x >>/root/cut/log; sleep 20; touch /root/cut/end", creates="/root/cut/end"),
                     command("two", "touch /root/cut/two", creates="/root/cut/two"))
    process = begun(lab, millwright, playbook, "/root/cut/log")
    lab.verb("cut", NODE)
    time.sleep(75)  # three keepalives of 15 s
    lab.verb("mend", NODE)
    code, out = finish(process)
    assert code == 0, out
    assert lab.ssh(NODE, "cat /root/cut/log; ls /root/cut").stdout.split() == ["x", "end", "log", "two"]


def test_sshd_and_the_session_are_killed(lab, millwright, write):
    lab.ssh(NODE, "rm -rf /root/cut; mkdir /root/cut")
    playbook = write(command("one", "echo x >>/root/cut/log; sleep 4; touch /root/cut/end", creates="/root/cut/end"),
                     command("two", "touch /root/cut/two", creates="/root/cut/two"))
    process = begun(lab, millwright, playbook, "/root/cut/log")
    lab.ssh(NODE, "systemctl kill -s KILL ssh; systemctl reset-failed ssh; pkill -KILL -f '^sshd:' || true; "
                  "systemctl start ssh", check=False)
    wait_until(lambda: lab.ssh(NODE, "systemctl start ssh", check=False).returncode == 0, 30, "sshd is back")
    code, out = finish(process)
    assert code == 0, out
    assert lab.ssh(NODE, "cat /root/cut/log; ls /root/cut").stdout.split() == ["x", "end", "log", "two"]


@pytest.mark.slow
def test_the_node_is_switched_off_during_a_step(lab, millwright, write):
    lab.ssh(NODE, "rm -rf /root/cut; mkdir /root/cut")
    playbook = write({"id": "file", "uses": "file", "with": {"path": "/root/cut/file", "content": "x\n"}},
                     command("one", "echo x >>/root/cut/log; sleep 300; touch /root/cut/end", creates="/root/cut/end",
                             undo="rm -f /root/cut/log /root/cut/end"))
    process = begun(lab, millwright, playbook, "/root/cut/log")
    lab.verb("stop", NODE)
    lab.verb("start", NODE)
    code, out = finish(process)
    assert code == 2 and "rebooted" in out, out
    millwright.run("rollback", "last", "-i", millwright.inventory, "-y", "--json").expect(0)
    assert lab.ssh(NODE, "ls /root/cut").stdout == ""


def test_a_slow_link(lab, millwright, write):
    """2 Mbit/s and a queue of packets: 600 kB take seconds, and arrive whole."""
    address = run(LAB, "status", "--name", "fault").stdout.split()[1]
    device = re.search(r"dev (\S+)", run("ip", "route", "get", address).stdout)[1]
    run("tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", "2mbit", "burst", "16kb", "latency", "400ms")
    try:
        content = os.urandom(450_000).hex()[:600_000]
        began = time.monotonic()
        millwright.apply(write({"id": "big", "uses": "file", "with": {"path": "/root/big", "content": content}}))\
            .expect(0)
        assert time.monotonic() - began > 1.5
    finally:
        run("tc", "qdisc", "del", "dev", device, "root")
    assert lab.ssh(NODE, "sha256sum /root/big").stdout.split()[0] == hashlib.sha256(content.encode()).hexdigest()


# Disks

def test_the_disk_of_the_node_is_full(lab, millwright, write):
    lab.ssh(NODE, "mkdir -p /mnt/small; mount -t tmpfs -o size=256k,mode=755 small /mnt/small; echo old >/mnt/small/kept")
    try:
        playbook = write({"id": "fits", "uses": "file", "with": {"path": "/mnt/small/fits", "content": "x\n"}},
                         {"id": "big", "uses": "file", "with": {"path": "/mnt/small/kept", "content": "y" * 400_000},
                          "on_failure": [{"do": "rollback"}]})
        failed = millwright.apply(playbook).expect(3)
        assert "space" in failed.out, failed.out
        assert lab.ssh(NODE, "cat /mnt/small/kept; ls -A /mnt/small").stdout.split() == ["old", "kept"]
    finally:
        lab.ssh(NODE, "umount /mnt/small")


def test_the_state_folder_of_the_node_is_full(lab, millwright, write):
    """What could not be taken back is not begun."""
    lab.ssh(NODE, "systemctl stop nothing 2>/dev/null; mkdir -p /var/lib/millwright; "
                  "mount -t tmpfs -o size=64k,mode=711 small /var/lib/millwright; "
                  "head -c 60000 /dev/zero >/var/lib/millwright/fill || true; echo old >/root/kept")
    try:
        failed = millwright.apply(write({"id": "one", "uses": "file",
                                         "with": {"path": "/root/kept", "content": "new\n"}})).expect(2)
        assert "space" in failed.out, failed.out
        assert lab.ssh(NODE, "cat /root/kept").stdout == "old\n"
        lab.ssh(NODE, "rm -f /var/lib/millwright/fill")
        millwright.apply(write({"id": "one", "uses": "file", "with": {"path": "/root/kept", "content": "new\n"}}))\
            .expect(0)
    finally:
        lab.ssh(NODE, "umount /var/lib/millwright")


def test_the_disk_of_the_controller_is_full(lab, tmp_path, write):
    small = tmp_path / "small"
    small.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=512k", "small", small)
    try:
        millwright = Millwright(lab, small / "state")
        lab.ssh(NODE, "rm -rf /root/full; mkdir /root/full")
        steps = [command(f"s{i}", f"touch /root/full/{i}; head -c 20000 /dev/zero | tr '\\0' x", undo=f"rm -f /root/full/{i}",
                         creates=f"/root/full/{i}") for i in range(40)]
        failed = millwright.apply(write(*steps))
        assert failed.code not in (0, 139, 134), "not done, and no crash"
        assert "space" in failed.out + failed.err or "full" in failed.out + failed.err, failed.out + failed.err
        # No action is begun of which the journal could not be told.
        done = {int(name) for name in lab.ssh(NODE, "ls /root/full").stdout.split()}
        assert len(done) < 40
        run("mount", "-o", "remount,size=64m", small)
        millwright.run("rollback", "last", "-i", millwright.inventory, "-y", "--json").expect(0)
        assert lab.ssh(NODE, "ls /root/full").stdout == ""
    finally:
        run("umount", small)


# The clock

@pytest.mark.parametrize("step", [3600, -3600])
def test_the_clock_of_the_controller_is_set_by_an_hour(lab, millwright, write, tmp_path, step):
    """libfaketime reads the offset from a file: set in the middle of a command, as by ntpd."""
    library = next(iter(pathlib.Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")), None)
    assert library, "faketime is in cmake/packages.txt"
    stamp = tmp_path / "clock"
    stamp.write_text("+0s\n")
    millwright.env |= {"LD_PRELOAD": str(library), "FAKETIME_TIMESTAMP_FILE": str(stamp), "FAKETIME_NO_CACHE": "1",
                       "FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_DONT_RESET": "1"}
    lab.ssh(NODE, "rm -rf /root/clock; mkdir /root/clock")
    playbook = write(command("one", "touch /root/clock/begun; sleep 2; touch /root/clock/one", creates="/root/clock/one",
                             undo="rm -f /root/clock/*"),
                     {"id": "wait", "uses": "wait", "with": {"path": "/root/clock/one", "timeout": "10s"}},
                     command("two", "touch /root/clock/two", creates="/root/clock/two", timeout="20s"))
    process = begun(lab, millwright, playbook, "/root/clock/begun")
    stamp.write_text(f"{step:+d}s\n")
    code, out = finish(process)
    assert code == 0, out
    millwright.run("rollback", "last", "-i", millwright.inventory, "-y", "--json").expect(0)
    assert lab.ssh(NODE, "ls /root/clock").stdout in ("", "two\n")


# Locks

# As dpkg does, by fcntl: holds the lock until it is told to let go.
HOLD = """use Fcntl; open(F, ">>/var/lib/dpkg/lock-frontend"); $p = pack("s s l! l! i", F_WRLCK, 0, 0, 0, 0);
fcntl(F, F_SETLK, $p) or die; open(M, ">/root/held"); close(M); sleep 1 until -e "/root/release"; """


def test_apt_is_at_work_for_somebody_else(lab, millwright, write):
    lab.ssh(NODE, "rm -f /root/held /root/release; apt-get update -qq; apt-get install -qqy hello >/dev/null", timeout=300)
    lab.ssh(NODE, "cat >/root/hold.pl; perl /root/hold.pl >/dev/null 2>&1 </dev/null &", input=HOLD)
    wait_until(lambda: there(lab, "/root/held"), 30, "the lock is held")
    playbook = write({"id": "apt", "uses": "package", "with": {"name": "hello", "state": "absent"}})
    process = millwright.start("apply", playbook, "-i", millwright.inventory, "--json")
    said = ""
    for line in process.stdout:
        said += line
        if re.search(r"step_output", line) and re.search(r"held by process \d+ \(perl\)", line):
            break
    lab.ssh(NODE, "touch /root/release")
    code, rest = finish(process)
    assert code == 0 and re.search(r"held by process \d+ \(perl\)", said), said + rest
    assert lab.ssh(NODE, "command -v hello", check=False).returncode == 1


def test_a_second_controller_is_told_who_holds_the_node(lab, millwright, write, tmp_path):
    lab.ssh(NODE, "rm -f /root/locked")
    process = begun(lab, millwright, write(command("one", "touch /root/locked; sleep 15", undo="rm -f /root/locked")),
                    "/root/locked")
    try:
        other = Millwright(lab, tmp_path / "other")
        second = other.apply(write(command("two", "touch /root/second"), name="other")).expect(7)
        runs = millwright.run("runs", "--json").out
        held = error_of(second, "two")
        assert re.search(r"fault1 is locked by run 20\d+-\d+-\w+ of \S+", held), held
        assert re.search(r"run (\S+) of", held)[1] in runs
        assert not there(lab, "/root/second")
        waited = other.apply(write(command("two", "touch /root/second"), name="other"), "--lock-wait", "60s").expect(0)
        assert waited.states()[(NODE, "two")] == "changed"
    finally:
        finish(process)


# What commands do

def test_a_command_that_prints_a_gigabyte(lab, millwright, write, tmp_path):
    playbook = write(command("loud", "head -c 1000000000 /dev/zero | tr '\\0' 'x' | fold -w 4000; echo the end >&2"))
    with open(tmp_path / "out", "wb") as out:
        process = subprocess.Popen(millwright.command("apply", playbook, "-i", millwright.inventory, "--json"), stdout=out,
                                   stderr=out, env=millwright.env)
        _, status, used = os.wait4(process.pid, 0)
    text = (tmp_path / "out").read_bytes()
    assert os.waitstatus_to_exitcode(status) == 0, text[-2000:]
    assert used.ru_maxrss < 300_000, f"{used.ru_maxrss} KiB"
    state = sum(file.stat().st_size for file in pathlib.Path(millwright.env["MILLWRIGHT_STATE"]).rglob("*") if file.is_file())
    assert state < 200 << 20, f"the journal took {state >> 20} MiB"


def test_a_command_that_never_ends(lab, millwright, write):
    playbook = write(command("endless", "echo so far; sleep 1000 & sleep 1001", timeout="3s"))
    failed = millwright.apply(playbook, timeout=200).expect(2)
    assert failed.states()[(NODE, "endless")] == "failed"
    wait_until(lambda: lab.ssh(NODE, "pgrep -f '^sleep 100[01]'", check=False).returncode == 1, 20, "nothing is left of it")


def test_a_command_that_closes_its_output_and_one_that_leaves_something_running(lab, millwright, write):
    playbook = write(command("closes", "exec >&- 2>&-; sleep 1; touch /root/closed", creates="/root/closed",
                             undo="rm -f /root/closed"),
                     command("leaves", "sleep 300 & echo $! >/root/left; echo said", creates="/root/left",
                             undo="kill $(cat /root/left); rm -f /root/left"),
                     command("after", "echo clean"))
    began = time.monotonic()
    done = millwright.apply(playbook, timeout=200).expect(0)
    assert time.monotonic() - began < 100, "it does not wait for what was left running"
    assert done.of("step_finished", step="after")[0]["data"]["outputs"]["stdout"] == "clean"
    assert lab.ssh(NODE, "kill -0 $(cat /root/left)").returncode == 0
    millwright.run("rollback", "last", "-i", millwright.inventory, "-y", "--json").expect(0)
    assert lab.ssh(NODE, "ls /root/closed /root/left", check=False).returncode == 2


# Undo and other people

def test_an_undo_refuses_what_somebody_else_changed_unless_forced(lab, millwright, write):
    lab.ssh(NODE, "rm -rf /root/ours /root/folder; echo before >/root/ours")
    playbook = write({"id": "file", "uses": "file", "with": {"path": "/root/ours", "content": "run\n"}},
                     {"id": "folder", "uses": "file", "with": {"path": "/root/folder/sub", "state": "directory"}},
                     {"id": "link", "uses": "file", "with": {"path": "/root/folder/link", "target": "sub"}},
                     command("mine", "true", undo='test -n "${MW_FORCE:-}" || { echo not mine >&2; exit 65; }'))
    millwright.apply(playbook).expect(0)
    lab.ssh(NODE, "echo precious >/root/ours; echo too >/root/folder/sub/file; ln -sfn /etc /root/folder/link")
    refused = millwright.run("rollback", "last", "-i", millwright.inventory, "-y", "--json").expect(5)
    remaining = refused.of("rollback_finished")[0]["data"]["remaining"]
    assert len(remaining) == 4 and all("--force-undo" in line for line in remaining), remaining
    assert "was changed by someone else since" in remaining[-1] and "not mine" in remaining[0]
    assert lab.ssh(NODE, "cat /root/ours /root/folder/sub/file; readlink /root/folder/link").stdout == "precious\ntoo\n/etc\n"
    millwright.run("rollback", "last", "-i", millwright.inventory, "-y", "--json", "--force-undo").expect(0)
    assert lab.ssh(NODE, "cat /root/ours; ls /root/folder", check=False).stdout == "before\n"
    kept = lab.ssh(NODE, "find /var/lib/millwright/runs -path '*forced*' -type f -exec cat {} +").stdout.split()
    assert {"precious", "too"} <= set(kept), "what was overwritten is kept"
