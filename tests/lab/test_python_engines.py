"""SGLang and vLLM for real, on the processor: two versions of one, side by side, there and back, and gone without a trace.

Long (gigabytes of packages, a start takes a minute on two cores): whole in ./check --nightly.
"""
import datetime
import json
import time

import pytest
import yaml
from conftest import one_journal as millwright
from conftest import ROOT, run

NODE = "pyengines1"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def lab(make_lab):
    return make_lab("pyengines", 1)


def put_libcuda(lab, fetched_hf, into=""):
    """Puts libcuda on the node, or into a container there, as a machine with a driver has it."""
    archive = run("tar", "-C", fetched_hf["libcuda"], "-c", ".", text=False).stdout
    script = "mkdir -p /srv/libcuda; tar -C /srv/libcuda -x --no-same-owner; chmod -R a+rX /srv/libcuda"
    lab.ssh(NODE, f"lxc-attach -n {into} -- sh -c '{script}'" if into else script, input=archive, text=False)


@pytest.fixture(scope="module")
def files(lab, fetched_hf):
    """The models' folders here; libcuda is on the node."""
    put_libcuda(lab, fetched_hf)
    return fetched_hf["hf"]


def server(engine, version, model, port, level="quick", **more):
    """The steps that serve a model on the processor, and the test of it: a healthy server must pass."""
    env = {"LD_LIBRARY_PATH": "/srv/libcuda"} if engine == "sglang" else {"VLLM_CPU_KVCACHE_SPACE": "1"}
    flags = ["--mem-fraction-static", "0.1"] if engine == "sglang" else ["--enforce-eager"]
    smoke = {"endpoint": "{{ steps.server.endpoint }}", "level": level, **({"api_key": more["api_key"]} if "api_key" in more else {})}
    return [{"id": "weights", "uses": "model", "with": {"source": model}},
            {"id": "server", "uses": "server", "with": {
                "name": engine, "engine": engine, "version": version, "model": "{{ steps.weights.path }}",
                "model_sha256": "{{ steps.weights.sha256 }}", "served_name": "tiny", "context": 2048, "port": port, "device": "cpu",
                "env": env, "extra_flags": flags, **more}, "on_failure": [{"do": "rollback"}]},
            {"id": "smoke", "uses": "smoke", "with": smoke}]


def status(lab, port, *headers):
    """The status of /v1/models for a client that sends these."""
    script = ("import sys, urllib.error, urllib.request as u; r = u.Request(sys.argv[1], headers=dict(h.split(': ') for h in sys.argv[2:]))\n"
              "try: print(u.urlopen(r, timeout=60).status)\nexcept urllib.error.HTTPError as e: print(e.code)")
    words = " ".join(f"'{word}'" for word in (f"http://127.0.0.1:{port}/v1/models", *headers))
    return lab.ssh(NODE, f"python3 - {words}", input=script).stdout.strip()


def ask(lab, port, question, *headers):
    body = json.dumps({"model": "tiny", "messages": [{"role": "user", "content": question}], "max_tokens": 20, "temperature": 0})
    script = ("import json, sys, urllib.request as u; r = u.Request(sys.argv[1], sys.stdin.buffer.read(), "
              "{'Content-Type': 'application/json', **dict(h.split(': ') for h in sys.argv[2:])}); print(u.urlopen(r, timeout=300).read().decode())")
    words = " ".join(f"'{word}'" for word in (f"http://127.0.0.1:{port}/v1/chat/completions", *headers))
    out = lab.ssh(NODE, f"python3 -c \"{script}\" {words}", input=body).stdout
    return json.loads(out)["choices"][0]["message"]["content"].strip()


KEY = "key-for-clients-0123456789"
CAPITAL = "What is the capital of France? Answer with one word."


def test_sglang_there_and_back(lab, millwright, files, write):
    old = write(*server("sglang", "0.5.9", files["good"], 30000), name="old")
    new = write(*server("sglang", "0.5.11", files["good"], 30000, api_key=KEY), name="new")
    first = millwright.apply(old, timeout=1800).expect(0)
    assert ask(lab, 30000, CAPITAL) == "Paris"
    assert first.verdicts()[-1][0] == "pass"
    again = millwright.apply(old, timeout=900).expect(0)
    assert again.of("action_started") == []
    assert status(lab, 30000) == "200"
    second = millwright.apply(new, timeout=1800).expect(0)
    assert status(lab, 30000) == status(lab, 30000, "Authorization: Bearer another") == "401"
    assert status(lab, 30000, f"Authorization: Bearer {KEY}") == "200"
    assert ask(lab, 30000, CAPITAL, f"Authorization: Bearer {KEY}") == "Paris"
    seen = lab.ssh(NODE, "cat /proc/[0-9]*/cmdline /etc/systemd/system/millwright-sglang.service | tr '\\0' ' '; "
                         "journalctl -q -o cat -u millwright-sglang; find /var/lib/millwright/servers -perm -o=r -type f -exec cat {} +").stdout
    assert KEY not in seen and KEY not in second.out
    assert lab.ssh(NODE, "ls /opt/millwright/engines").stdout.split() == ["sglang-0.5.11", "sglang-0.5.9"]
    # Back, and then away.
    millwright.run("rollback", "-y", second.events[0]["run"], timeout=900).expect(0)
    assert ask(lab, 30000, CAPITAL) == "Paris"
    assert lab.ssh(NODE, "ls /opt/millwright/engines").stdout.split() == ["sglang-0.5.9"]
    millwright.run("rollback", "-y", first.events[0]["run"], timeout=900).expect(0)
    assert lab.ssh(NODE, "ls -A /opt/millwright /var/lib/millwright/servers /etc/systemd/system/millwright-* 2>/dev/null; "
                         "getent passwd mw-sglang; ss -ltnH 'sport = :30000'; true").stdout == ""


LOCK = ROOT / "playbooks/knowledge/locks/vllm-0.32.0+cpu/x86_64-py3.11.txt"
UV = yaml.safe_load((ROOT / "playbooks/knowledge/engines.yml").read_text())["engines"]["vllm"]["methods"]["uv"]["uv"]["version"]


@pytest.fixture(scope="module")
def wheelhouse(lab):
    """All wheels of vLLM's lock on the node, and uv in /srv/uv: what bare uv and millwright install from."""
    lab.ssh(NODE, "mkdir -p /srv/wheels; cat >/srv/lock.txt", input=LOCK.read_text())
    lab.ssh(NODE, f"""set -e; apt-get update -qq; apt-get install -qqy python3-venv >/dev/null
python3 -m venv /srv/uv; /srv/uv/bin/pip install -q --no-deps uv=={UV}
grep -v '^#' /srv/lock.txt >/srv/plain.txt
/srv/uv/bin/pip download -q --no-deps --require-hashes --only-binary :all: -r /srv/plain.txt -d /srv/wheels
/srv/uv/bin/pip download -q --no-deps uv=={UV} -d /srv/wheels""", timeout=3600)
    return "/srv/wheels"


def bare_uv(lab):
    """Seconds that uv takes by itself: no cache, an environment, all of the lock."""
    script = ("set -e; rm -rf /srv/bare; mkdir /srv/bare; export UV_CACHE_DIR=/srv/bare/cache UV_NO_PROGRESS=1 UV_LINK_MODE=hardlink\n"
              "/srv/uv/bin/uv venv -q /srv/bare/env\n/srv/uv/bin/uv pip install -q --python /srv/bare/env/bin/python --no-deps --require-hashes "
              "--no-build --offline --no-index --find-links /srv/wheels -r /srv/lock.txt\n")
    began = time.monotonic()
    lab.ssh(NODE, script, timeout=1800)
    took = time.monotonic() - began
    lab.ssh(NODE, "rm -rf /srv/bare")
    return took


def seconds_between(first, last):
    stamp = [datetime.datetime.fromisoformat(event["time"].replace("Z", "+00:00")) for event in (first, last)]
    return (stamp[1] - stamp[0]).total_seconds()


def test_vllm_installs_nearly_as_fast_as_bare_uv_and_serves(lab, millwright, files, write, wheelhouse):
    source = {"0.32.0+cpu": {"method": "uv", "lock": str(LOCK), "wheelhouse": f"node:{wheelhouse}", "provides": {"vllm": "0.32.0+cpu"}}}
    play = write(*server("vllm", "0.32.0+cpu", files["good"], 8000, level="standard", sources=source), name="vllm")
    before = bare_uv(lab)
    first = millwright.apply(play, timeout=1800).expect(0)
    # The looks at the node and the environment; uv itself and the compilers are no part of bare uv's work.
    looks = seconds_between(first.of("step_started", step="server")[0], first.of("action_started", step="server")[0])
    built = [event["data"]["milliseconds"] / 1000 for event in first.of("action_finished", step="server")
             if event["data"]["title"].startswith("install vllm")]
    ours = looks + sum(built)
    assert len(built) == 1, first.of("action_finished", step="server")
    after = bare_uv(lab)
    bare = (before + after) / 2
    print(f"\nvLLM 0.32.0+cpu from a wheelhouse: bare uv {before:.1f} s and {after:.1f} s, millwright {ours:.1f} s, ratio {ours / bare:.2f}")
    assert ours <= 1.3 * bare
    assert first.verdicts()[-1][0] == "pass"
    assert ask(lab, 8000, CAPITAL) == "Paris"
    assert millwright.apply(play, timeout=900).expect(0).of("action_started") == []
    millwright.run("rollback", "-y", first.events[0]["run"], timeout=900).expect(0)
    assert lab.ssh(NODE, "ls -A /opt/millwright 2>/dev/null; true").stdout == ""


def inside(lab, script, input=None):
    return lab.ssh(NODE, f"lxc-attach -n llm -- {script}", input=input).stdout


STATUS = ("import sys, urllib.error, urllib.request as u\nfor key in sys.argv[2:]:\n"
          "  r = u.Request('http://127.0.0.1:' + sys.argv[1] + '/v1/models', headers={'Authorization': 'Bearer ' + key})\n"
          "  try: print(u.urlopen(r, timeout=60).status)\n  except urllib.error.HTTPError as e: print(e.code)\n")


def test_serve_model_with_sglang(lab, millwright, files, fetched_hf, write):
    """By inputs alone; only the library of a driver, which no machine without a GPU has, is put into the container."""
    before = lab.ssh(NODE, "ls /var/lib/lxc 2>/dev/null; true").stdout
    box = millwright.apply(write({"uses": "container", "with": {"name": "llm"}}, name="box"), timeout=1800).expect(0)
    put_libcuda(lab, fetched_hf, into="llm")
    inputs = {"engine": "sglang", "version": "0.5.11", "device": "cpu", "model": files["good"], "served_name": "tiny", "context": 2048,
              "api_key": KEY, "env": {"LD_LIBRARY_PATH": "/srv/libcuda"}, "extra_flags": ["--mem-fraction-static", "0.1"]}
    words = (ROOT / "playbooks/serve-model.yml", "-e", json.dumps(inputs))
    run = millwright.apply(*words, timeout=3600).expect(0)
    assert run.verdicts()[-1][0] == "pass"
    assert inside(lab, f"python3 - 30000 another {KEY}", STATUS).split() == ["401", "200"]
    assert millwright.apply(*words, timeout=900).expect(0).of("action_started") == []
    for undone in (run, box):
        millwright.run("rollback", "-y", undone.events[0]["run"], timeout=900).expect(0)
    assert lab.ssh(NODE, "ls /var/lib/lxc 2>/dev/null; true").stdout == before


def test_serve_model_by_its_inputs_alone_and_planned_anew_from_its_log(lab, millwright, files):
    """A share of the host's memory in which vLLM itself has no room: its own message says how much it takes."""
    before = lab.ssh(NODE, "ls /var/lib/lxc 2>/dev/null; true").stdout
    inputs = {"engine": "vllm", "version": "0.32.0+cpu", "device": "cpu", "model": files["good"], "served_name": "tiny", "context": 2048,
              "api_key": KEY, "extra_flags": ["--enforce-eager", "--gpu-memory-utilization", "0.02"]}
    words = (ROOT / "playbooks/serve-model.yml", "-e", json.dumps(inputs))
    run = millwright.apply(*words, timeout=3600).expect(0)
    plans = [event["data"]["name"] for event in run.of("evidence_kept") if "memory-" in event["data"]["name"]]
    assert plans == ["server-llm-memory-1.txt"], plans
    assert run.verdicts()[-1][0] == "pass"
    command = json.loads(inside(lab, "cat /var/lib/millwright/servers/llm/current/release.json"))["command"]
    share = float(command[command.index("--gpu-memory-utilization") + 1])
    assert 0.02 < share < 0.5, command
    assert inside(lab, f"python3 - 8000 another {KEY}", STATUS).split() == ["401", "200"]
    assert millwright.apply(*words, timeout=900).expect(0).of("action_started") == []
    millwright.run("rollback", "-y", run.events[0]["run"], timeout=900).expect(0)
    assert lab.ssh(NODE, "ls /var/lib/lxc 2>/dev/null; true").stdout == before
