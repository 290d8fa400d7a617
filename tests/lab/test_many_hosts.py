"""A host that cannot be reached does not hold up the others; another login and sudo with a password work."""
import pytest
from conftest import Millwright


@pytest.fixture(scope="module")
def lab(make_lab):
    return make_lab("many", 3, "--user", "mw")


def test_an_unreachable_host_among_three(lab, tmp_path):
    millwright = Millwright(lab, tmp_path)
    lab.verb("stop", "many2")
    done = millwright.apply("playbooks/slow.yml", timeout=120).expect(4)
    assert done.states()[("many1", "third")] == done.states()[("many3", "third")] == "changed"
    assert [event["host"] for event in done.of("host_unreachable")] == ["many2"]
    for node in ("many1", "many3"):
        assert lab.ssh(node, "cat /var/tmp/slow.log").stdout == "first\nsecond\nthird\n"
    lab.verb("start", "many2")
    healed = millwright.apply("playbooks/slow.yml", timeout=120).expect(0)
    assert healed.states()[("many1", "first")] == "ok" and healed.states()[("many2", "first")] == "changed"


def test_a_changed_host_key_is_refused(lab, tmp_path):
    millwright = Millwright(lab, tmp_path)
    lab.ssh("many3", "cd /etc/ssh && rm ssh_host_ed25519_key* && ssh-keygen -q -t ed25519 -N '' -f ssh_host_ed25519_key "
                     "&& systemctl restart ssh")
    done = millwright.apply("playbooks/slow.yml", "-l", "many3", timeout=120).expect(4)
    assert "key" in done.of("host_unreachable")[0]["data"]["error"]["message"]
