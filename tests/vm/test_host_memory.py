"""A host that runs out of memory while a server starts: a machine of its own, since a container's kernel is everybody's."""
import json

import pytest
from conftest import HERE, VM, run

FETCH = HERE.parent / "lab/engines/fetch.sh"
CONTEXT = 262144  # its cells alone take 783 MiB
LEFT = 700  # MiB that the neighbour leaves


@pytest.fixture(scope="module")
def engine():
    return json.loads(run(FETCH).stdout)


@pytest.fixture(scope="module")
def neighbour(machine):
    """Somebody else's memory, which the kernel cannot take back; returns the file that it is in."""
    # An emulated machine would read its programs again and again for minutes before the kernel gives up: it is told to
    # keep what was used within the last second (Documentation/admin-guide/mm/multigen_lru.rst).
    machine.ssh("echo y >/sys/kernel/mm/lru_gen/enabled; echo 1000 >/sys/kernel/mm/lru_gen/min_ttl_ms")
    machine.ssh("mount -o remount,size=100% /dev/shm; free=$(awk '/MemAvailable/ {print int($2 / 1024)}' /proc/meminfo); "
                f"head -c $((free - {LEFT}))M /dev/zero >/dev/shm/neighbour")
    return "/dev/shm/neighbour"


def server(engine):
    archive = {key: engine["engine"][key] for key in ("path", "sha256")}
    version = engine["engine"]["version"]
    return {"id": "server", "uses": "server", "with": {
        "name": "llm", "engine": "llama.cpp", "version": version, "model": "/root/good.gguf", "context": CONTEXT, "max_requests": 1,
        "device": "cpu", "extra_flags": ["--load-mode", "none"], "sources": {version: {"method": "archive", **archive}}},
        "on_failure": [{"do": "rollback"}]}


def test_a_host_without_memory_is_told_from_a_limit_and_nothing_stays(machine, millwright, engine, neighbour):
    run(VM, "copy", machine.name, engine["models"]["good"]["path"])
    machine.ssh("chmod 755 /root; chmod 644 /root/good.gguf")
    failed = millwright.apply(server(engine))
    assert failed.code == 3, failed.text
    error = next(event["data"]["error"] for event in failed.events if event["type"] == "step_finished" and event["data"].get("error"))
    assert error["class"] == "oom_killed" and "the host ran out of memory" in error["message"], error
    killed = machine.ssh("journalctl -k -q -o cat | grep oom-kill: | tail -n 1")
    assert "global_oom" in killed and "millwright-llm.service" in killed, "it was the kernel, for the whole machine"
    assert machine.ssh(f"ls {neighbour}; ls -A /opt/millwright /etc/systemd/system/millwright-* 2>/dev/null; true").split() == [neighbour]
