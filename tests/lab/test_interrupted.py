"""The controller dies or is told to stop in the middle of a run."""
import signal

import pytest
from conftest import Millwright, wait_until


@pytest.fixture(scope="module")
def lab(make_lab):
    return make_lab("cut", 1)


@pytest.fixture
def half_done(lab, tmp_path):
    """A run whose second step is at work on the node."""
    lab.ssh("cut1", "rm -rf /srv/slow /var/tmp/slow.log")
    millwright = Millwright(lab, tmp_path)
    process = millwright.start("apply", "playbooks/slow.yml", "-i", lab.inventory, "--json")
    wait_until(lambda: lab.ssh("cut1", "test -e /srv/slow/second.began", check=False).returncode == 0, 30,
               "the second step begins")
    yield millwright, process
    if process.poll() is None:
        process.kill()
    process.communicate()


def test_kill_9_then_resume_finishes(lab, half_done):
    millwright, process = half_done
    process.send_signal(signal.SIGKILL)
    process.wait(10)
    # Taken up while the node may still be at work, and also after: the second step must not run twice side by side.
    resumed = millwright.run("resume", "last", "-i", millwright.inventory, "--json", timeout=120).expect(0)
    log = lab.ssh("cut1", "cat /var/tmp/slow.log").stdout.split()
    assert log[0] == "first" and log[-1] == "third" and log.count("first") == 1
    assert resumed.states()[("cut1", "third")] == "changed"
    assert lab.ssh("cut1", "ls /srv/slow").stdout.split() == ["first", "second", "second.began", "third"]


def test_kill_9_then_rollback_leaves_nothing(lab, half_done):
    millwright, process = half_done
    process.send_signal(signal.SIGKILL)
    process.wait(10)
    millwright.run("rollback", "last", "-i", millwright.inventory, "-y", "--json", timeout=120).expect(0)
    assert lab.ssh("cut1", "ls -d /srv/slow", check=False).returncode == 2


def test_control_c_finishes_what_runs_and_starts_nothing_new(lab, half_done):
    millwright, process = half_done
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130, out
    assert lab.ssh("cut1", "ls /srv/slow").stdout.split() == ["first", "second", "second.began"]
    assert "resume" in out
    millwright.run("resume", "last", "-i", millwright.inventory, "--json", timeout=120).expect(0)
    assert lab.ssh("cut1", "cat /var/tmp/slow.log").stdout.split() == ["first", "second", "third"]
