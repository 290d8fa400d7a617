"""SGLang and vLLM for real, on the processor: two versions of one, side by side, there and back, and gone without a trace.

Long (gigabytes of packages, a start takes a minute on two cores): whole in ./check --nightly.
"""
import json

import pytest
from conftest import Millwright, run

NODE = "pyengines1"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def lab(make_lab):
    return make_lab("pyengines", 1)


@pytest.fixture(scope="module")
def millwright(lab, tmp_path_factory):
    return Millwright(lab, tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="module")
def files(lab, fetched_hf):
    """Puts libcuda on the node, as a machine with a driver has it; the models' folders here."""
    archive = run("tar", "-C", fetched_hf["libcuda"], "-c", ".", text=False).stdout
    lab.ssh(NODE, "mkdir -p /srv/libcuda; tar -C /srv/libcuda -x --no-same-owner; chmod -R a+rX /srv/libcuda", input=archive, text=False)
    return fetched_hf["hf"]


def server(engine, version, model, port, **more):
    """The steps that serve a model on the processor, and the test of it: a healthy server must pass."""
    env = {"LD_LIBRARY_PATH": "/srv/libcuda"} if engine == "sglang" else {"VLLM_CPU_KVCACHE_SPACE": "1"}
    flags = ["--mem-fraction-static", "0.1"] if engine == "sglang" else ["--enforce-eager"]
    return [{"id": "weights", "uses": "model", "with": {"source": model}},
            {"id": "server", "uses": "server", "with": {
                "name": engine, "engine": engine, "version": version, "model": "{{ steps.weights.path }}",
                "model_sha256": "{{ steps.weights.sha256 }}", "served_name": "tiny", "context": 2048, "port": port, "device": "cpu",
                "env": env, "extra_flags": flags, **more}, "on_failure": [{"do": "rollback"}]},
            {"id": "smoke", "uses": "smoke", "with": {"endpoint": "{{ steps.server.endpoint }}", "level": "quick"}}]


def ask(lab, port, question):
    body = json.dumps({"model": "tiny", "messages": [{"role": "user", "content": question}], "max_tokens": 20, "temperature": 0})
    script = ("import json, sys, urllib.request as u; r = u.Request(sys.argv[1], sys.stdin.buffer.read(), "
              "{'Content-Type': 'application/json'}); print(u.urlopen(r, timeout=300).read().decode())")
    out = lab.ssh(NODE, f"python3 -c \"{script}\" http://127.0.0.1:{port}/v1/chat/completions", input=body).stdout
    return json.loads(out)["choices"][0]["message"]["content"].strip()


CAPITAL = "What is the capital of France? Answer with one word."


def test_sglang_there_and_back(lab, millwright, files, write):
    old = write(*server("sglang", "0.5.9", files["good"], 30000), name="old")
    new = write(*server("sglang", "0.5.11", files["good"], 30000), name="new")
    first = millwright.apply(old, timeout=1800).expect(0)
    assert ask(lab, 30000, CAPITAL) == "Paris"
    assert first.verdicts()[-1][0] == "pass"
    again = millwright.apply(old, timeout=900).expect(0)
    assert again.of("action_started") == []
    second = millwright.apply(new, timeout=1800).expect(0)
    assert ask(lab, 30000, CAPITAL) == "Paris"
    assert lab.ssh(NODE, "ls /opt/millwright/engines").stdout.split() == ["sglang-0.5.11", "sglang-0.5.9"]
    # Back, and then away.
    millwright.run("rollback", "-y", second.events[0]["run"], timeout=900).expect(0)
    assert ask(lab, 30000, CAPITAL) == "Paris"
    assert lab.ssh(NODE, "ls /opt/millwright/engines").stdout.split() == ["sglang-0.5.9"]
    millwright.run("rollback", "-y", first.events[0]["run"], timeout=900).expect(0)
    assert lab.ssh(NODE, "ls -A /opt/millwright /var/lib/millwright/servers /etc/systemd/system/millwright-* 2>/dev/null; "
                         "getent passwd mw-sglang; ss -ltnH 'sport = :30000'; true").stdout == ""


def test_vllm(lab, millwright, files, write):
    play = write(*server("vllm", "0.32.0+cpu", files["good"], 8000), name="vllm")
    first = millwright.apply(play, timeout=1800).expect(0)
    assert first.verdicts()[-1][0] == "pass"
    assert ask(lab, 8000, CAPITAL) == "Paris"
    assert millwright.apply(play, timeout=900).expect(0).of("action_started") == []
    millwright.run("rollback", "-y", first.events[0]["run"], timeout=900).expect(0)
    assert lab.ssh(NODE, "ls -A /opt/millwright 2>/dev/null; true").stdout == ""
