"""The converging kinds on a real node: once changed, then as wanted; and all of it taken back."""
import pytest


@pytest.fixture(scope="module")
def lab(make_lab):
    return make_lab("core", 1)


def test_apply_twice_then_roll_back(lab, millwright):
    first = millwright.apply("playbooks/core.yml").expect(0)
    for step in ("package", "folder", "page", "unit", "service", "once"):
        assert first.states()[("core1", step)] == "changed", step
    assert lab.ssh("core1", "systemctl is-active lab-web; hello >/dev/null && cat /srv/lab/index.txt").stdout == \
        "active\nserved by core1\n"

    again = millwright.apply("playbooks/core.yml").expect(0)
    touched = [event["step"] for event in again.of("action_started")]
    assert touched == ["checked"]  # a command without a guard always runs; nothing else does
    assert again.states()[("core1", "service")] == "ok"

    run_id = first.of("run_started")[0]["run"]
    millwright.run("rollback", run_id, "-i", millwright.inventory, "-y", "--json").expect(0)
    gone = lab.ssh("core1", "ls -d /srv/lab /etc/systemd/system/lab-web.service /usr/bin/hello 2>/dev/null | wc -l")
    assert gone.stdout.strip() == "0"
    assert lab.ssh("core1", "systemctl is-active lab-web", check=False).stdout.strip() == "inactive"


def test_plan_only_looks(lab, millwright):
    plan = millwright.run("plan", "playbooks/core.yml", "-i", millwright.inventory).expect(0)
    assert "make folder /srv/lab" in plan.out and "+ExecStart=/bin/sleep infinity" in plan.out
    # What the plan's own earlier steps will make is no reason to refuse the later ones.
    assert "known when it runs  now: the folder /srv/lab does not exist" in plan.out
    assert "refused" not in plan.out
    assert lab.ssh("core1", "test -e /srv/lab", check=False).returncode == 1


def test_a_failure_takes_back_what_was_done(lab, millwright):
    lab.ssh("core1", "echo old > /srv/before; chmod 640 /srv/before")
    failed = millwright.apply("playbooks/fails-late.yml").expect(3)
    assert failed.states()[("core1", "breaks")] == "failed"
    assert lab.ssh("core1", "cat /srv/before; stat -c %a /srv/before; ls -d /srv/made 2>/dev/null | wc -l").stdout == \
        "old\n640\n0\n"


def test_undo_scripts_are_for_root_only(lab, millwright):
    millwright.apply("playbooks/slow.yml").expect(0)
    folders = lab.ssh("core1", "find /var/lib/millwright/runs -maxdepth 2 -type d -printf '%m\\n' | sort -u").stdout
    assert folders == "700\n"
    # A server's user has to pass through to its release; it may not look around.
    assert lab.ssh("core1", "stat -c %a /var/lib/millwright").stdout == "711\n"
    # What actions save keeps its own modes, so that it can be put back; the folders above it let nobody in.
    marks = lab.ssh("core1", "find /var/lib/millwright -mindepth 4 -maxdepth 4 -type f -printf '%m\\n' | sort -u").stdout
    assert marks == "600\n"
    other = lab.ssh("core1", "su -s /bin/sh nobody -c 'ls /var/lib/millwright'", check=False)
    assert other.returncode != 0 and other.stdout == ""


def test_a_service_runs_with_its_old_unit_file_after_a_rollback(lab, millwright):
    lab.ssh("core1", "printf '[Service]\\nExecStart=/bin/sleep 1111\\n' >/etc/systemd/system/lab-old.service; "
                     "systemctl daemon-reload; systemctl start lab-old")
    failed = millwright.apply("playbooks/new-unit.yml").expect(3)
    assert failed.states()[("core1", "service")] == "changed"
    ran = lab.ssh("core1", "tr '\\0' ' ' </proc/$(systemctl show -p MainPID --value lab-old)/cmdline; "
                           "systemctl show -p NeedDaemonReload --value lab-old").stdout
    assert ran == "/bin/sleep 1111 no\n"
