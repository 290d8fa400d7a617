"""Environments of engines made by uv, on a real node: whole or absent, to the letter of the lock, and gone without trace.

The engine here is llama.cpp as a wheel, which is small; SGLang and vLLM are in test_python_engines.py.
"""
import hashlib
import json
import pathlib
import shutil
import subprocess

import pytest
import yaml
from conftest import ROOT, wait_until
from own_index import own_index

NODE = "engines1"
UV = yaml.safe_load((ROOT / "playbooks/knowledge/engines.yml").read_text())["engines"]["sglang"]["methods"]["uv"]["uv"]
VERSION = "2026.10.11549"
HOME = f"/opt/millwright/engines/llama.cpp-{VERSION}"


@pytest.fixture(scope="module")
def lab(make_lab):
    return make_lab("engines", 1)


@pytest.fixture(scope="module")
def model(lab, fetched):
    """The model's path on the node, readable by servers."""
    lab.ssh(NODE, "groupadd -f --system millwright; mkdir -p /srv/models; cat >/srv/models/good.gguf; chmod 644 /srv/models/good.gguf",
            stdin=open(fetched["models"]["good"]["path"], "rb"))
    return "/srv/models/good.gguf"


@pytest.fixture
def lock(tmp_path, fetched):
    """A lock of one package, as playbooks/knowledge/locks/regenerate writes them."""
    wheel = fetched["wheels"][VERSION]
    path = tmp_path / "lock.txt"
    path.write_text(f"# xllamacpp=={VERSION}, for Python 3.11 on x86_64.\n# download_mib: 34\n# glibc: 2.28\n"
                    f"xllamacpp=={VERSION} --hash=sha256:{wheel['sha256']}\n")
    return path


@pytest.fixture
def server(write, model, lock):
    """server(**more of the source) -> a playbook that serves the model with the engine from that source."""
    return lambda **source: write(step(model, lock, source))


def step(model, lock, source=None, **more):
    return {"id": more.get("name", "server"), "uses": "server", "with": {
        "name": "llm", "engine": "llama.cpp", "version": VERSION, "model": model, "context": 2048, "port": 8080,
        "sources": {VERSION: {"method": "uv", "lock": str(lock), "launcher": "llama.cpp-xllamacpp.py",
                              "apt": ["libgomp1"], "uv": UV, **(source or {})}}, **more}, "on_failure": [{"do": "rollback"}]}


def traces(lab):
    """What an installation leaves on a node."""
    return lab.ssh(NODE, "ls -A /opt/millwright /var/lib/millwright/servers /etc/systemd/system/millwright-* "
                         "/var/lib/millwright/cache 2>/dev/null; getent passwd mw-llm; pgrep -u mw-llm; ss -ltnH 'sport = :8080'; "
                         "dpkg -l libgomp1 python3-venv 2>/dev/null | grep ^ii; true").stdout


def test_a_byte_changed_in_a_download_is_refused_by_name(lab, millwright, server, lock):
    before = traces(lab)
    lock.write_text(lock.read_text().replace("sha256:", "sha256:0", 1)[:-2] + "\n")
    run = millwright.apply(server()).expect(3)
    assert "xllamacpp" in run.out and "hash" in run.out.lower()
    assert traces(lab) == before


def test_a_full_disk_leaves_nothing(lab, millwright, server):
    before = traces(lab)
    lab.ssh(NODE, "mkdir -p /opt/millwright; mount -t tmpfs -o size=90m tmpfs /opt/millwright")
    try:
        run = millwright.apply(server()).expect(3)
        assert "No space left" in run.out
        assert lab.ssh(NODE, "find /opt/millwright -type f | wc -l").stdout.strip() == "0"
    finally:
        lab.ssh(NODE, "umount /opt/millwright; rmdir /opt/millwright")
    assert traces(lab) == before


def test_too_little_space_is_said_before_anything_is_done(lab, millwright, server, lock):
    lock.write_text(lock.read_text().replace("download_mib: 34", "download_mib: 34000000"))
    run = millwright.apply(server()).expect(3)
    assert "needs at least" in run.out and "free some space" in run.out
    assert run.of("action_started") == []


def test_no_lock_for_the_nodes_python(lab, millwright, server, lock):
    lock.write_text(lock.read_text().replace("Python 3.11", "Python 3.7"))
    run = millwright.apply(server()).expect(3)
    assert "runs on Python 3.7; the node has 3.11" in run.out


def test_served_from_it_then_nothing_to_do_then_gone_without_a_trace(lab, millwright, server, lock):
    before = traces(lab)
    first = millwright.apply(server(), timeout=900).expect(0)
    marker = lab.ssh(NODE, f"cat {HOME}/.millwright-environment; stat -c %Y {HOME}").stdout
    assert marker.startswith("uv sha256:")
    assert lab.ssh(NODE, f"cat {HOME}/lock.txt").stdout == lock.read_text()
    # Of the environment's files those of packages are links to the cache: they take disk once.
    assert int(lab.ssh(NODE, f"stat -c %h {HOME}/lib/python3.11/site-packages/xllamacpp/*.so | head -n 1").stdout) == 2
    again = millwright.apply(server()).expect(0)
    assert again.of("action_started") == []
    assert lab.ssh(NODE, f"cat {HOME}/.millwright-environment; stat -c %Y {HOME}").stdout == marker
    millwright.run("rollback", "-y", first.events[0]["run"], timeout=300).expect(0)
    assert traces(lab) == before


def test_killed_in_the_middle_and_applied_again(lab, millwright, server):
    before = traces(lab)
    process = millwright.start("apply", server(), "-i", millwright.inventory)
    lab.ssh(NODE, f"until [ -e {HOME}.partial ]; do sleep 0.1; done")
    process.kill()
    process.wait()
    lab.ssh(NODE, f"[ ! -e {HOME} ] || [ -s {HOME}/.millwright-environment ]")
    millwright.run("resume", "--json", timeout=900).expect(0)
    assert lab.ssh(NODE, f"cat {HOME}/.millwright-environment").stdout.startswith("uv sha256:")
    millwright.run("rollback", "-y", timeout=300).expect(0)
    assert traces(lab) == before


@pytest.fixture(scope="module")
def house(fetched, tmp_path_factory):
    """A folder with the engine's wheel and uv's."""
    house = tmp_path_factory.mktemp("wheels")
    shutil.copy(fetched["wheels"][VERSION]["path"], house)
    subprocess.run(["/usr/bin/python3", "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d", house, f"uv=={UV['version']}"],
                   check=True)
    return house


def test_from_an_index_of_ones_own_behind_a_proxy_with_a_private_ca(lab, millwright, server, house, tmp_path):
    before = traces(lab)
    gateway = lab.ssh(NODE, "ip route show default | cut -d ' ' -f 3").stdout.strip()
    with own_index(tmp_path / "index", house.iterdir(), gateway) as (index, proxy, authority, asked):
        distrusted = millwright.apply(server(index=index, proxy=proxy), timeout=900).expect(3)
        assert "certificate" in distrusted.out.lower() and asked
        assert traces(lab) == before
        lab.ssh(NODE, "cat >/etc/own-ca.pem", input=authority.read_text())
        asked.clear()
        run = millwright.apply(server(index=index, proxy=proxy, ca_bundle="node:/etc/own-ca.pem"), timeout=900).expect(0)
        assert len(asked) > 1 and {name.split(":")[0] for name in asked} == {"index.lab"}
    millwright.run("rollback", "-y", run.events[0]["run"], timeout=300).expect(0)
    lab.ssh(NODE, "rm /etc/own-ca.pem")
    assert traces(lab) == before


def test_without_network_from_a_wheelhouse(lab, millwright, server, house):
    assert hashlib.sha256(next(house.glob("uv-*")).read_bytes()).hexdigest() in UV["sha256"]
    lab.ssh(NODE, "set -e; apt-get update -qq; apt-get install -qqy python3-venv libgomp1 >/dev/null; ip route save default >/tmp/route; ip route del default")
    try:
        run = millwright.apply(server(wheelhouse=str(house)), timeout=900).expect(0)
        millwright.run("rollback", "-y", run.events[0]["run"], timeout=300).expect(0)
    finally:
        lab.ssh(NODE, "ip route restore </tmp/route; apt-get purge -qqy python3-venv libgomp1 >/dev/null; apt-get autopurge -qqy >/dev/null")


def ask(lab, port, key=""):
    """The status of /v1/models, or why there is none."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    script = (f"import urllib.request as u\nr = u.Request('http://127.0.0.1:{port}/v1/models', headers={headers})\n"
              "try: print(u.urlopen(r, timeout=20).status)\nexcept OSError as e: print(e)\n")
    return lab.ssh(NODE, "python3 -", input=script).stdout.strip()


@pytest.fixture
def two(lab, millwright, write, model, lock):
    """Two servers on one node that share an engine; taken back at the end."""
    play = write(step(model, lock, name="one", port=8081), step(model, lock, name="two", port=8082))
    run = millwright.apply(play, timeout=900).expect(0)
    yield play
    millwright.run("rollback", "-y", run.events[0]["run"], timeout=600).expect(0)


def test_two_servers_on_one_node_and_one_that_died_is_found(lab, millwright, two):
    assert ask(lab, 8081) == ask(lab, 8082) == "200"
    assert millwright.apply(two).expect(0).of("action_started") == []
    millwright.run("verify", "-i", millwright.inventory, two, timeout=300).expect(0)
    lab.ssh(NODE, "systemctl stop millwright-two")
    found = millwright.run("verify", "-i", millwright.inventory, two, timeout=300)
    assert found.code == 2 and "does not run" in found.out and "1 step on 1 host is not as the playbook says" in found.out, found.out
    assert ask(lab, 8081) == "200", "the neighbour was left alone"
    again = millwright.apply(two, timeout=600).expect(0)
    assert {step for (_, step), state in again.states().items() if state == "changed"} == {"two"}
    assert ask(lab, 8082) == "200"


def test_a_port_that_is_taken_is_said_with_who_has_it(lab, millwright, server):
    before = traces(lab)
    lab.ssh(NODE, "systemd-run -q --unit=squatter python3 -m http.server 8080 --bind 127.0.0.1; "
                  "until ss -ltnH 'sport = :8080' | grep -q LISTEN; do sleep 0.1; done")
    try:
        run = millwright.apply(server(), timeout=300).expect(3)
        failed = run.of("step_finished", step="server")[0]["data"]["error"]
        assert failed["class"] == "port_taken" and "python3" in failed["message"] and "squatter" in failed["message"], failed
        assert run.of("action_started") == []
    finally:
        lab.ssh(NODE, "systemctl stop squatter")
    assert traces(lab) == before


def test_a_start_that_hangs_is_ended_and_taken_back(lab, millwright, write, model, lock):
    before = traces(lab)
    hangs = step(model, lock, {"launcher": "", "entry": ["-c", "import time; print('here', flush=True); time.sleep(100000)"]},
                 stall_timeout="15s")
    run = millwright.apply(write(hangs), timeout=600).expect(3)
    failed = run.of("step_finished", step="server")[0]["data"]["error"]
    assert failed["class"] == "start_timeout" and "nothing moved for 15" in failed["message"], failed
    assert traces(lab) == before


def failure(run):
    """How the server step ended last."""
    return run.of("step_finished", step="server")[-1]["data"]["error"]


def test_a_library_that_is_missing_is_named(lab, millwright, server):
    before = traces(lab)
    failed = failure(millwright.apply(server(apt=[]), timeout=600).expect(3))
    assert failed["class"] == "missing_library" and "libgomp.so.1" in failed["message"], failed
    assert traces(lab) == before


def test_what_is_changed_by_hand_is_found_and_put_right(lab, millwright, server):
    before, play, runs = traces(lab), server(), []
    unit, current = "millwright-llm.service", "/var/lib/millwright/servers/llm/current"

    def apply():
        runs.append(millwright.apply(play, timeout=600).expect(0))
        return [event["data"]["title"] for event in runs[-1].of("action_started")]

    def found(script, what, code=2):
        lab.ssh(NODE, script)
        verified = millwright.run("verify", "-i", millwright.inventory, play, timeout=300)
        assert verified.code == code and what in verified.out, verified.out

    apply()
    found("true", "everything", code=0)
    found(f"systemctl disable -q {unit}", "does not start with the machine")
    assert apply() == [f"have {unit} start with the machine"]
    found(f"chmod 666 {current}/env", "others may read or write its file env")
    apply()
    found(f"echo FOO=bar >{current}/env", "its file env was changed by hand")
    apply()
    found(f"mkdir -p /etc/systemd/system/{unit}.d; printf '[Service]\\nNice=5\\n' >/etc/systemd/system/{unit}.d/x.conf", "drop-in")
    found(f"rm -r /etc/systemd/system/{unit}.d", "everything", code=0)
    # Of the engine's files: the server runs on from memory, and could never start again.
    found(f"find {HOME} -name '*.so' -delete", "files are gone")
    assert any("install again" in title for title in apply())
    found("true", "everything", code=0)
    for run in reversed(runs):
        millwright.run("rollback", "-y", run.events[0]["run"], timeout=300).expect(0)
    assert traces(lab) == before


def flag_of(lab, name):
    """Its value in the command line of the server; None without it."""
    words = json.loads(lab.ssh(NODE, "cat /var/lib/millwright/servers/llm/current/release.json").stdout)["command"]
    return words[len(words) - words[::-1].index(name)] if name in words else None


def test_what_the_kernel_ended_at_the_units_limit_is_planned_anew_and_fits_at_once(lab, millwright, write, model, lock):
    before = traces(lab)
    # 262,144 cells take 783 MiB, and the model was made for 32,768 tokens a request.
    large = write(step(model, lock, context=262144, max_requests=1, memory_max="700MiB"))
    run = millwright.apply(large, timeout=900).expect(0)
    kept = {event["data"]["name"]: event["data"] for event in run.of("evidence_kept")}
    plans = [name for name in kept if "memory-" in name]
    assert plans == ["server-llm-memory-1.txt"], kept
    why = next(pathlib.Path(millwright.env["MILLWRIGHT_STATE"]).rglob(plans[0] + "*")).read_text()
    assert "its own limit (memory_max)" in why and "limit of 700 MiB" in why and "next: --ctx-size 32768" in why, why
    assert flag_of(lab, "--ctx-size") == "32768" and ask(lab, 8080) == "200"
    assert 0 < int(flag_of(lab, "--cache-ram")) < 200, "what is kept of prompts may not grow into the limit"
    assert millwright.apply(large).expect(0).of("action_started") == [], "what was learned is kept with the release"
    # With room for it, it is started as asked; back in the old limit it is known at once what fits.
    roomy = millwright.apply(write(step(model, lock, context=262144, max_requests=1, memory_max="1500MiB"), name="roomy"), timeout=600).expect(0)
    assert flag_of(lab, "--ctx-size") == "262144"
    again = millwright.apply(large, timeout=600).expect(0)
    assert [event for event in again.of("evidence_kept") if "memory-" in event["data"]["name"]] == []
    assert flag_of(lab, "--ctx-size") == "32768"
    for each in (again, roomy, run):
        millwright.run("rollback", "-y", each.events[0]["run"], timeout=300).expect(0)
    assert traces(lab) == before


@pytest.mark.slow
def test_a_limit_that_nothing_fits_into_is_said_with_one_that_would_do(lab, millwright, write, model, lock):
    before = traces(lab)
    failed = failure(millwright.apply(write(step(model, lock, memory_max="96MiB")), timeout=600).expect(3))
    assert failed["class"] == "oom_killed" and "does not fit into 96 MiB" in failed["message"], failed
    assert "memory_max: " in failed["hint"], failed
    assert traces(lab) == before


@pytest.mark.slow
def test_the_gpu_s_memory_is_waited_for_after_a_stop(lab, millwright, two, write, model, lock):
    """A stand-in for nvidia-smi, which names the server's process twice more after it has ended."""
    pid = lab.ssh(NODE, "systemctl show -P MainPID millwright-two").stdout.strip()
    lab.ssh(NODE, "cat >/usr/local/bin/nvidia-smi; chmod 755 /usr/local/bin/nvidia-smi", input=f"""#!/bin/sh
echo "$*" >>/run/nvidia-asked
echo '1, 500'
[ $(grep -c query-compute-apps /run/nvidia-asked) -gt 2 ] || echo '{pid}, 20480'
""")
    try:
        moved = write(step(model, lock, name="two", port=8083), name="moved")
        run = millwright.apply(moved, timeout=600).expect(0)
        asked = lab.ssh(NODE, "cat /run/nvidia-asked").stdout.splitlines()
        assert asked == ["--query-compute-apps=pid,used_memory --format=csv,noheader,nounits"] * 3, asked
        assert ask(lab, 8083) == "200"
        # One that never gets its memory back: the next is not started on top of it, and the old one is there again.
        pid = lab.ssh(NODE, "systemctl show -P MainPID millwright-two").stdout.strip()
        lab.ssh(NODE, f"printf '#!/bin/sh\\necho {pid}, 20480\\n' >/usr/local/bin/nvidia-smi")
        stuck = millwright.apply(write(step(model, lock, name="two", port=8084), name="stuck"), timeout=600).expect(3)
        assert f"the GPU driver still keeps memory of processes that have ended: process {pid}: 20480 MiB" in stuck.out
        assert ask(lab, 8083) == "200"
        millwright.run("rollback", "-y", run.events[0]["run"], timeout=300).expect(0)
    finally:
        lab.ssh(NODE, "rm -f /usr/local/bin/nvidia-smi /run/nvidia-asked")


@pytest.mark.slow
def test_one_that_dies_again_and_again_is_not_hidden_by_its_restarts(lab, millwright, two):
    unit = "millwright-two"
    for restarts in (1, 2):
        lab.ssh(NODE, f"systemctl kill -s KILL {unit}")
        wait_until(lambda: lab.ssh(NODE, f"systemctl show -P NRestarts {unit}; systemctl is-active {unit} || :").stdout.split()
                   == [str(restarts), "active"], 90, f"restart {restarts}")
    wait_until(lambda: ask(lab, 8082) == "200", 60, "an answer")
    found = millwright.run("verify", "-i", millwright.inventory, two, timeout=300)
    assert found.code == 2 and "dies again and again (2 restarts)" in found.out, found.out
    looped = millwright.apply(two, timeout=300)
    error = looped.of("step_finished", step="two")[-1]["data"]["error"]
    assert looped.code == 3 and error["class"] == "crash_loop" and "systemctl restart" in error["hint"], error
    # The third death within the quarter of an hour is the last: systemd gives up, and a new run starts it again.
    lab.ssh(NODE, f"systemctl kill -s KILL {unit}")
    wait_until(lambda: lab.ssh(NODE, f"systemctl is-active {unit} || :").stdout.strip() == "failed", 90, "systemd to give up")
    assert "does not run (failed)" in millwright.run("verify", "-i", millwright.inventory, two, timeout=300).out
    millwright.apply(two, timeout=600).expect(0)
    assert ask(lab, 8082) == "200"


@pytest.mark.slow
def test_a_limit_of_the_container_around_it_is_planned_for_as_well(lab, millwright, write, fetched):
    engine, file = fetched["engine"], fetched["models"]["good"]
    play = write(
        {"id": "box", "uses": "container", "with": {"name": "tight", "memory": "700MiB"}},
        {"id": "weights", "uses": "model", "in": "box", "with": {"source": file["path"], "sha256": file["sha256"]}},
        {"id": "server", "uses": "server", "in": "box", "with": {
            "engine": "llama.cpp", "version": engine["version"], "context": 262144, "max_requests": 1, "model": "{{ steps.weights.path }}",
            "sources": {engine["version"]: {"method": "archive", "path": engine["path"], "sha256": engine["sha256"]}}}})
    run = millwright.apply(play, timeout=900)
    try:
        run.expect(0)
        plans = [event["data"]["name"] for event in run.of("evidence_kept") if "memory-" in event["data"]["name"]]
        assert plans == ["server-llm-memory-1.txt"], plans
        why = next(pathlib.Path(millwright.env["MILLWRIGHT_STATE"]).rglob(plans[0] + "*")).read_text()
        assert "(the container's memory)" in why and "next: --ctx-size 32768" in why, why
        assert millwright.apply(play, timeout=300).expect(0).of("action_started") == []
    finally:
        millwright.run("rollback", "-y", run.events[0]["run"], timeout=600).expect(0)


def test_a_key_is_asked_for_and_to_be_seen_nowhere(lab, millwright, write, model, lock):
    key = "key-for-clients-0123456789"
    smoke = {"endpoint": "{{ steps.server.endpoint }}", "level": "quick", "api_key": key}
    run = millwright.apply(write(step(model, lock, api_key=key, max_requests=1), {"id": "smoke", "uses": "smoke", "with": smoke}),
                           timeout=900).expect(0)
    assert run.verdicts()[-1][0] == "pass"
    assert "401" in ask(lab, 8080) and "401" in ask(lab, 8080, "another") and ask(lab, 8080, key) == "200"
    seen = lab.ssh(NODE, "cat /proc/[0-9]*/cmdline /etc/systemd/system/millwright-llm.service | tr '\\0' ' '; "
                         "journalctl -q -o cat -u millwright-llm; find /var/lib/millwright/servers -perm -o=r -type f -exec cat {} +").stdout
    assert "--api-key-file" in seen and key not in seen and key not in run.out
    millwright.run("rollback", "-y", run.events[0]["run"], timeout=300).expect(0)
