"""Saved plans, drift, verify, locks by hand, the audit log, and a sudo that is refused, on real nodes."""
import json

import pytest
from conftest import Millwright

BOOK = "playbooks/look.yml"
SECRET = "sesame-open-4711"


@pytest.fixture(scope="module")
def lab(make_lab):
    return make_lab("look", 2, "--user", "mw")


@pytest.fixture
def millwright(lab, tmp_path):
    tool = Millwright(lab, tmp_path / "state")
    tool.env["LOOK_KEY"] = SECRET
    return tool


def with_inventory(millwright, verb, *words, **options):
    return millwright.run(verb, *words, "-i", millwright.inventory, **options)


def clean(lab):
    """The nodes as the first test finds them."""
    for node in ("look1", "look2"):
        lab.ssh(node, "rm -rf /srv/look /var/tmp/look.log")


def test_a_saved_plan_is_done_exactly_or_refused(lab, millwright, tmp_path):
    plan = tmp_path / "plan.json"
    planned = with_inventory(millwright, "plan", BOOK, "--out", plan).expect(0)
    assert "known when it runs" in planned.out
    assert oct(plan.stat().st_mode & 0o777) == "0o600"
    text = plan.read_text()
    assert SECRET not in text
    kept = json.loads(text)
    assert kept["schema_version"] == 1
    states = {(step["host"], step["step"]): step["state"] for step in kept["steps"]}
    assert states[("look1", "page")] == states[("look2", "page")] == "change"
    assert states[("look1", "answers")] == "unknown"
    # Somebody comes in between.
    lab.ssh("look2", "mkdir -p /srv/look; echo other >/srv/look/page")
    stale = millwright.run("apply", plan).expect(8)
    assert "look2, step page: the answer to" in stale.err and "look1" not in stale.err
    assert lab.ssh("look1", "ls /srv/look", check=False).returncode != 0, "nothing was touched"
    said = json.loads(millwright.run("apply", plan, "--json").expect(8).out.splitlines()[-1])
    assert {(entry["host"], entry["step"]) for entry in said["stale"]} == {("look2", "page")}
    lab.ssh("look2", "rm -rf /srv/look")
    millwright.run("apply", plan, "--check").expect(0)
    done = millwright.run("apply", plan, "--json").expect(0)
    assert done.states()[("look1", "page")] == done.states()[("look2", "page")] == "changed"
    assert lab.ssh("look2", "cat /srv/look/page").stdout == f"{SECRET} says hello\n"
    # Done is done: the plan no longer holds.
    millwright.run("apply", plan).expect(8)
    # The node knows what was done, and not the secret.
    audit = lab.ssh("look1", "cat /var/lib/millwright/audit.log").stdout
    lines = [json.loads(line) for line in audit.splitlines()]
    assert [line["outcome"] for line in lines if line["step"] == "page"] == ["started", "done"] * 2
    assert SECRET not in audit
    assert lab.ssh("look1", "stat -c '%a %U' /var/lib/millwright/audit.log").stdout == "600 root\n"
    clean(lab)


def test_drift_and_verify(lab, millwright):
    millwright.apply(BOOK).expect(0)
    none = with_inventory(millwright, "drift", BOOK).expect(0)
    assert "everything is as the playbook says" in none.out
    lab.ssh("look1", "echo spoilt >/srv/look/page")
    found = with_inventory(millwright, "drift", BOOK).expect(2)
    assert "look1" in found.out and "differs" in found.out and "look2" not in found.out
    assert SECRET not in found.out
    by_run = millwright.run("drift", "--json", "-i", millwright.inventory).expect(2)
    changed = [event["host"] for event in by_run.of("step_planned") if event["data"]["state"] == "change"]
    assert changed == ["look1"]
    assert lab.ssh("look1", "cat /srv/look/page").stdout == "spoilt\n", "nothing is changed"
    lab.ssh("look2", "rm /srv/look/page")
    verified = millwright.run("verify", "--json", "-i", millwright.inventory).expect(2)
    assert verified.states()[("look1", "answers")] == "ok"
    assert verified.states()[("look2", "answers")] == "failed"
    lab.verb("stop", "look2")
    millwright.run("drift", "-l", "look2", BOOK, "-i", millwright.inventory).expect(4)
    lab.verb("start", "look2")
    clean(lab)


def test_a_node_held_by_hand(lab, millwright, tmp_path):
    with_inventory(millwright, "lock", "look1", "--why", "new power supply").expect(0)
    held = millwright.apply(BOOK, "-l", "look1").expect(7)
    assert "new power supply" in held.err
    # Another controller meets it on the node.
    other = Millwright(lab, tmp_path / "other")
    other.env["LOOK_KEY"] = SECRET
    met = other.apply(BOOK, "-l", "look1").expect(7)
    assert "new power supply" in met.out
    with_inventory(other, "lock", "look1", "--why", "mine").expect(7)
    with_inventory(millwright, "drift", BOOK, "-l", "look1").expect(2)
    assert "look1" in millwright.run("unlock").out
    with_inventory(millwright, "unlock", "look1", "-y").expect(0)
    other.apply(BOOK, "-l", "look1").expect(0)
    clean(lab)


def test_a_refused_sudo_is_a_host_out_of_reach(lab, millwright, tmp_path):
    (tmp_path / "password").write_text("not-the-password\n")
    wrong = tmp_path / "hosts.yml"
    own = lab.inventory.parent / "sudo_password"
    wrong.write_text(lab.inventory.read_text().replace(str(own), str(tmp_path / "password")))
    millwright.inventory = str(wrong)
    done = millwright.apply(BOOK, "-l", "look1").expect(4)
    assert "sudo" in done.of("run_finished")[0]["data"]["sentence"]
    assert done.states()[("look1", "page")] == "unreachable"
