"""The founding story's memory: Qwen3.6-27B in bfloat16 with drafts on two cards of 48 GB, which SGLang 0.5.9 cannot start.

No machine here has the cards: sglang_stand_in.py shares their memory out as SGLang does, and nvidia-smi is one of A6000s.
"""
import hashlib
import io
import json
import pathlib
import tarfile

import pytest
import yaml
from conftest import HERE, ROOT

NODE = "planned1"
# `nvidia-smi --query-gpu=name,memory.total,memory.free,compute_cap` of an idle A6000.
SMI = """#!/bin/sh
case "$*" in
*--query-gpu=name,memory.total,memory.free,compute_cap*) for i in 0 1; do echo 'NVIDIA RTX A6000, 49140, 48676, 8.6'; done ;;
esac
"""
STORY = {"max_requests": 48, "extra_flags": ["--mem-fraction-static", "0.85", "--mamba-full-memory-ratio", "0.9"],
         "speculative": {"algorithm": "NEXTN", "num-draft-tokens": 4}}


@pytest.fixture(scope="module")
def lab(make_lab):
    lab = make_lab("planned", 1)
    lab.ssh(NODE, "cat >/usr/local/bin/nvidia-smi; chmod 755 /usr/local/bin/nvidia-smi; mkdir -p /srv/model; echo 0 >/srv/others\n"
                  "for d in nvidiactl nvidia-uvm nvidia0 nvidia1; do ln -sf null /dev/$d; done", input=SMI)
    shapes = yaml.safe_load((ROOT / "playbooks/knowledge/planner/model_shapes.yml").read_text())
    row = next(row for row in shapes["models"] if "Qwen/Qwen3.6-27B" in row["names"])
    config = {"architectures": ["Qwen3_5ForConditionalGeneration"], **row["config"]}
    index = {"metadata": {"total_size": round(next(c["gib"] for c in row["checkpoints"] if c["format"] == "bf16") * 2**30)},
             "weight_map": {"model.language_model.embed_tokens.weight": "model-00001.safetensors"}}
    for name, body in (("config.json", config), ("model.safetensors.index.json", index)):
        lab.ssh(NODE, f"cat >/srv/model/{name}", input=json.dumps(body))
    return lab


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    """The stand-in, as an archive that a server is installed from."""
    path = tmp_path_factory.mktemp("engine") / "sglang-0.5.9.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        text = (HERE / "engines/sglang_stand_in.py").read_bytes()
        row = tarfile.TarInfo("bin/sglang-server")
        row.mode, row.size = 0o755, len(text)
        tar.addfile(row, io.BytesIO(text))
    return path


@pytest.fixture
def serve(millwright, write, engine):
    """serve(**inputs) -> Run of a playbook with that server, and what its record says of the attempts."""
    def make(**inputs):
        step = {"id": "server", "uses": "server", "with": {
            "name": "story", "engine": "sglang", "version": "0.5.9", "model": "/srv/model", "served_name": "story", "device": "cuda",
            "tensor_parallel": 2, "env": {"OTHERS": "/srv/others"}, "sources": {"0.5.9": {"method": "archive", "path": str(engine), "sha256": hashlib.sha256(engine.read_bytes()).hexdigest()}}, **inputs},
                "on_failure": [{"do": "rollback"}]}
        return millwright.apply(write(step), timeout=300)

    return make


def evidence(millwright, run, what):
    """The newest file that a run kept under this name."""
    names = [event["data"]["name"] for event in run.of("evidence_kept") if what in event["data"]["name"]]
    return next(pathlib.Path(millwright.env["MILLWRIGHT_STATE"]).rglob(names[-1] + "*")) if names else None


def flag_of(lab, name):
    words = json.loads(lab.ssh(NODE, "cat /var/lib/millwright/servers/story/current/release.json").stdout)["command"]
    return words[len(words) - words[::-1].index(name)]  # the last counts


def test_its_own_log_names_a_configuration_that_fits_at_the_first_try(lab, millwright, serve):
    failed = serve(memory="given", **STORY).expect(3)
    error = failed.of("step_finished", step="server")[-1]["data"]["error"]
    assert error["class"] == "memory_pool_too_small", error
    log = evidence(millwright, failed, "start.log")
    asked = millwright.run("fit", "Qwen3.6-27B", "--gpus", "2xA6000", "--engine", "sglang@0.5.9", "--from-log", log, "--json")
    flags = json.loads(asked.out)["replan"]["next"][0]["flags"]
    assert 1 <= len(flags) <= 2, flags
    assert flags[0]["name"] == "max-running-requests" and int(flags[0]["value"]) < 48, flags
    again = [word for flag in flags for word in ("--" + flag["name"], flag["value"])]
    started = serve(memory="given", **{**STORY, "max_requests": None, "extra_flags": [*STORY["extra_flags"], *again]}).expect(0)
    assert started.of("step_finished", step="server")[-1]["data"]["outputs"]["facts"]["max_running_requests"] == flags[0]["value"]
    millwright.run("rollback", "-y", started.events[0]["run"], timeout=300).expect(0)


def test_what_can_be_known_is_changed_before_it_starts(lab, millwright, serve):
    started = serve(**STORY).expect(0)
    assert evidence(millwright, started, "memory-") is None, "no start failed"
    assert int(flag_of(lab, "--max-running-requests")) < 48
    assert serve(**STORY).expect(0).of("action_started") == []
    millwright.run("rollback", "-y", started.events[0]["run"], timeout=300).expect(0)


def test_what_another_process_took_since_is_read_from_the_log(lab, millwright, serve):
    lab.ssh(NODE, "echo 5.5 >/srv/others")
    started = serve(**STORY).expect(0)
    plans = [event["data"]["name"] for event in started.of("evidence_kept") if "memory-" in event["data"]["name"]]
    assert plans == ["server-story-memory-1.txt"], plans
    millwright.run("rollback", "-y", started.events[0]["run"], timeout=300).expect(0)
    assert lab.ssh(NODE, "ls -A /opt/millwright /etc/systemd/system/millwright-* 2>/dev/null; true").stdout == ""
