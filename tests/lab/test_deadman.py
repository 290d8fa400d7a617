"""An action that cuts the way to a node is taken back by the node itself when nobody returns."""
import signal

import pytest
from conftest import Millwright, wait_until

NODE = "dead1"
UNITS = "ls /etc/systemd/system/ /etc/systemd/system/timers.target.wants/ | grep -c millwright-undo"


@pytest.fixture(scope="module")
def lab(make_lab):
    return make_lab("dead", 1)


STOP_SSH = """
  - id: before
    uses: file
    with: {path: /root/before, content: "x\\n"}
  - id: cut
    uses: command
    with:
      run: |
        echo cut >>/root/log; systemctl disable --now ssh; pkill -f 'sshd: root' || true
      undo: systemctl enable --now ssh; echo back >>/root/log
      may_drop_connection: true
      return_within: 5s
"""


def clear(lab):
    lab.ssh(NODE, "rm -f /root/log /root/before")


def lets_in(lab):
    return lab.ssh(NODE, "true", check=False).returncode == 0


def test_the_node_goes_back_and_the_run_that_waits_for_it_says_so(lab, millwright, write):
    clear(lab)
    done = millwright.apply(write(STOP_SSH)).expect(2)
    assert done.states()[(NODE, "cut")] == "refused"
    error = done.of("step_finished", step="cut")[0]["data"]["error"]["message"]
    assert f"{NODE} took 'run: echo cut" in error and "back by itself" in error
    assert lab.ssh(NODE, "cat /root/log; " + UNITS, check=False).stdout == "cut\nback\n0\n"
    # Only what cut the line: the rest of the run is the user's to decide.
    assert lab.ssh(NODE, "cat /root/before").stdout == "x\n"
    millwright.run("rollback", "last", "-i", millwright.inventory, "-y").expect(0)
    assert lab.ssh(NODE, "ls /root/before", check=False).returncode == 2


@pytest.fixture
def killed(lab, millwright, write):
    """A run whose controller was killed once the node had been cut off."""
    clear(lab)
    process = millwright.start("apply", write(STOP_SSH), "-i", millwright.inventory, "--json")
    wait_until(lambda: not lets_in(lab), 60, "the node is cut off")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return millwright


@pytest.mark.parametrize("verb", [pytest.param("resume", marks=pytest.mark.slow),
                                  pytest.param("rollback", marks=pytest.mark.slow), "apply"])
def test_what_it_did_is_read_at_the_next_contact(lab, killed, write, verb, tmp_path):
    wait_until(lambda: lets_in(lab), 60, "the node has gone back")
    if verb == "apply":  # of something else, by somebody who knows nothing of it
        other = Millwright(lab, tmp_path / "other")
        done = other.apply(write("  - {id: look, uses: command, with: {run: 'true', undo: 'true'}}\n")).expect(0)
    elif verb == "resume":
        done = killed.run("resume", "last", "-i", killed.inventory, "--json").expect(2)  # it cuts itself off again
    else:
        done = killed.run("rollback", "last", "-i", killed.inventory, "--json", "-y").expect(0)
    told = [event["data"]["text"] for event in done.of("warning") if "by itself" in event["data"]["text"]]
    assert told and "run: echo cut" in told[0], done.out
    assert lab.ssh(NODE, UNITS, check=False).stdout == "0\n"
    if verb == "apply":
        again = other.apply(write("  - {id: look, uses: command, with: {run: 'true', undo: 'true'}}\n")).expect(0)
        assert not [event for event in again.of("warning") if "by itself" in event["data"]["text"]], "told once"
        killed.run("rollback", "last", "-i", killed.inventory, "--json", "-y").expect(0)
    if verb != "resume":
        assert lab.ssh(NODE, "cat /root/log; ls /root", check=False).stdout == "cut\nback\nlog\n"


@pytest.mark.slow
def test_it_survives_a_reboot(lab, killed):
    lab.verb("stop", NODE)
    lab.verb("start", NODE)  # waits until ssh lets in, which is not enabled unless the node has gone back
    assert lab.ssh(NODE, "cat /root/log").stdout == "cut\nback\n"
    killed.run("rollback", "last", "-i", killed.inventory, "-y").expect(0)
    assert lab.ssh(NODE, UNITS, check=False).stdout == "0\n"


NETWORK = """
  - id: address
    uses: command
    with:
      run: {run}
      undo: ip link set eth0 up; ip route replace default via $(ip -4 -o addr show eth0 | sed 's/.*inet //; s/\\.[0-9]*\\/.*/.1/')
      may_drop_connection: true
      return_within: 5s
"""


def test_the_network_of_a_node_that_was_deployed_well_before(lab, millwright, write):
    good = millwright.apply(write(NETWORK.replace("{run}", "ip link set eth0 mtu 1400"))).expect(0)
    assert good.states()[(NODE, "address")] == "changed"
    assert lab.ssh(NODE, UNITS, check=False).stdout == "0\n", "after a new login the timer is gone"
    cut = millwright.apply(write(NETWORK.replace("{run}", "ip link set eth0 down"))).expect(2)
    assert cut.states()[(NODE, "address")] == "refused"
    assert "UP,LOWER_UP> mtu 1400" in lab.ssh(NODE, "ip link show eth0").stdout


SSHD = """
  - id: config
    uses: file
    with: {path: /etc/ssh/sshd_config.d/port.conf, content: "{line}\\n"}
  - id: sshd
    uses: service
    with: {name: ssh, state: restarted, timeout: 2s}
"""


@pytest.mark.slow
@pytest.mark.parametrize("line", ["Port 2222", "Port none"])
def test_a_configuration_that_locks_out_is_taken_back_with_the_restart(lab, millwright, write, line):
    """The restart alone does not help: it is the file before it that the node must put back, too."""
    failed = millwright.apply(write(SSHD.replace("{line}", line)), timeout=300).expect(2)
    assert failed.states()[(NODE, "sshd")] in ("refused", "failed")
    if line == "Port none":  # sshd does not start, but the line that there was still holds
        millwright.run("rollback", "last", "-i", millwright.inventory, "-y").expect(0)
    assert lab.ssh(NODE, "ls /etc/ssh/sshd_config.d; systemctl is-active ssh").stdout == "lab.conf\nactive\n"


@pytest.mark.slow
def test_a_reboot(lab, millwright):
    done = millwright.apply("playbooks/core-reboot.yml").expect(0)
    assert {step: state for (_, step), state in done.states().items()} == \
        {"calm": "ok", "marker": "changed", "down": "changed"}
    assert done.of("step_finished", step="down")[0]["data"]["outputs"]["rebooted"] is True
    again = millwright.run("resume", "last", "-i", millwright.inventory, "--json").expect(0)
    assert again.states()[(NODE, "down")] == "ok", "a run that had rebooted does not do it again"
    millwright.run("rollback", "last", "-i", millwright.inventory, "-y", "--json").expect(5)  # a reboot stays
    assert lab.ssh(NODE, "ls /var/tmp/mw-marker", check=False).returncode == 2
