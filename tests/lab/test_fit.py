"""`millwright fit --gpus host:NAME`: a node is asked for its GPUs over SSH."""
import json

import pytest

# As printed by nvidia-smi 590.48.01 for name, memory.total, memory.free, driver_version, compute_cap ("Embeddenator GPU
# Benchmark Report", 2026-01-29): "NVIDIA GeForce RTX 5080, 16303 MiB, 10379 MiB, 590.48.01, 12.0". Here without the
# driver and the units, which are not asked for.
RTX_5080 = "NVIDIA GeForce RTX 5080, 16303, 10379, 12.0"
# A GB10 has no memory of its own: "NVIDIA GB10, [N/A], [N/A]".
GB10 = "NVIDIA GB10, [N/A], [N/A], 12.1"
ASK = ("google/gemma-3-270m", "--engine", "vllm@0.19.0", "--set", "max-model-len=4096")


@pytest.fixture(scope="module")
def lab(make_lab):
    return make_lab("fit", 1)


def ask(millwright, *words, host="fit1"):
    return millwright.run("fit", *ASK, "--gpus", f"host:{host}", "-i", millwright.inventory, *words)


def pretend(lab, script):
    """A program of the driver's name on the node, which checks that it is asked as the driver would be."""
    lab.ssh("fit1", "cat >/usr/local/bin/nvidia-smi <<'END'\n#!/bin/sh\n"
            'case "$*" in *--query-gpu=name,memory.total,memory.free,compute_cap*--format=csv,noheader,nounits*) ;;\n'
            f"*) echo \"asked for $*\" >&2; exit 3 ;; esac\n{script}\nEND\nchmod 755 /usr/local/bin/nvidia-smi")


def test_a_node_without_gpus_says_so(lab, millwright):
    lab.ssh("fit1", "rm -f /usr/local/bin/nvidia-smi")
    none = ask(millwright).expect(1)
    assert "fit1 cannot say which GPUs it has" in none.err and "nvidia-smi" in none.err
    assert "--gpus 2xA6000" in none.err, "what to do instead"
    assert none.out == ""
    pretend(lab, "echo 'No devices were found'; exit 6")
    assert "No devices were found" in ask(millwright).expect(1).err
    pretend(lab, "exit 0")
    assert "no GPU" in ask(millwright).expect(1).err


def test_what_is_free_there_counts(lab, millwright):
    pretend(lab, f"echo '{RTX_5080}'; echo '{RTX_5080}'")
    busy = json.loads(ask(millwright, "--json").expect(2).out)
    assert [rank["gpu"] for rank in busy["ranks"]] == ["NVIDIA GeForce RTX 5080"] * 2
    assert busy["tensor_parallel"] == 2
    assert "Free memory on device" in busy["engine_says"], "another process has a third of it"
    assert any(flag["name"] == "gpu-memory-utilization" for step in busy["ladder"] for flag in step["flags"])
    pretend(lab, f"echo '{RTX_5080}' | sed 's/10379/15800/'")
    idle = json.loads(ask(millwright, "--json").expect(0).out)
    assert idle["decision"] in ("fits", "try") and idle["kv_tokens"]["mid"] > 4096
    assert "host:" not in idle["launch"]


def test_memory_that_is_the_host_s(lab, millwright):
    pretend(lab, f"echo '{GB10}'")
    spark = json.loads(ask(millwright, "--json").expect(0).out)
    assert spark["ranks"][0]["total_gib"] > 100


def test_a_host_that_is_not_there(lab, millwright):
    assert "nobody" in ask(millwright, host="nobody").expect(1).err
    lab.verb("stop", "fit1")  # the last test: the lab is taken down after it
    assert "fit1" in ask(millwright).expect(4).err
