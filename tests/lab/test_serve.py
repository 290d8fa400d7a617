"""The main job on real parts: a real engine, a real small model, and real garbage that ends rolled back."""
import json
import os
import pathlib

import pytest
import yaml
from conftest import ROOT, Millwright

PLAYBOOK = ROOT / "playbooks/serve-model.yml"
NODE = "serve1"


@pytest.fixture(scope="module")
def lab(make_lab):
    return make_lab("serve", 1)


@pytest.fixture(scope="module")
def millwright(lab, tmp_path_factory):
    return Millwright(lab, tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="module")
def inputs(fetched):
    """inputs(model, version) -> -e for the playbook; all three engine versions can be installed."""
    engine = fetched["engine"]
    sources = {engine["version"]: {"method": "archive", "path": engine["path"], "sha256": engine["sha256"]}}
    for version, wheel in fetched["wheels"].items():
        sources[version] = {"method": "wheel", "wheelhouse": wheel["folder"], "launcher": "llama.cpp-xllamacpp.py",
                            "packages": [{"name": wheel["package"], "version": version, "sha256": [wheel["sha256"]]}]}

    def make(model="good", version=engine["version"], **more):
        file = fetched["models"][model]
        known = sources if version != engine["version"] else {engine["version"]: sources[engine["version"]]}
        return ["-e", json.dumps({"model": file["path"], "model_sha256": file["sha256"], "served_name": model,
                                  "context": 2048, "version": version, "sources": known, **more})]

    return make


def inside(lab, script):
    return lab.ssh(NODE, f"lxc-attach -n llm -- sh -c '{script}' </dev/null").stdout


def ask(lab, question):
    body = json.dumps({"messages": [{"role": "user", "content": question}], "max_tokens": 60, "temperature": 0})
    answer = lab.ssh(NODE, "lxc-attach -n llm -- curl -sS -H content-type:application/json -d @- "
                           "http://127.0.0.1:8080/v1/chat/completions", input=body)
    return json.loads(answer.stdout)["choices"][0]["message"]["content"].strip()


def served(lab):
    return json.loads(inside(lab, "curl -sS http://127.0.0.1:8080/v1/models"))["data"][0]["id"]


@pytest.fixture(scope="module")
def good(lab, millwright, inputs):
    return millwright.apply(PLAYBOOK, *inputs(), timeout=900)


def test_a_good_deployment(lab, good):
    good.expect(0)
    assert good.verdicts()[-1][0] == "pass"
    assert ask(lab, "What is the capital of France? Answer with one word.") == "Paris"


def test_the_same_again_changes_nothing(millwright, inputs, good):
    again = millwright.apply(PLAYBOOK, *inputs(), timeout=300).expect(0)
    assert again.of("action_started") == []
    assert {state for (_, step), state in again.states().items()} == {"ok"}


REPEATS = int(os.environ.get("MILLWRIGHT_HEALTHY_REPEATS", "5"))


# A standard test takes ten times as long as a quick one.
@pytest.mark.parametrize("level, times", [("quick", REPEATS),
                                          pytest.param("standard", max(REPEATS // 4, 5), marks=pytest.mark.slow)])
def test_a_healthy_server_is_never_accused(millwright, good, write, level, times):
    steps = [{"id": "box", "uses": "container", "with": {"name": "llm"}}]
    for number in range(times):
        steps.append({"id": f"smoke{number}", "uses": "smoke", "in": "box", "needs": [steps[-1]["id"]],
                      "with": {"endpoint": "http://127.0.0.1:8080/v1", "level": level}})
    tested = millwright.apply(write(*steps), timeout=10000).expect(0)
    assert tested.verdicts() == [("pass", "")] * times


# What a test may say of each: the bits spend every token without a text, the swap repeats itself, the NaN is salad.
CLASSES = {
    "bits": {"null_content", "immediate_eos_null", "newline_only", "length_truncated_reasoning", "quant_corruption"},
    "swap": {"single_token_loop", "phrase_loop", "gibberish", "quant_corruption"},
    "nan": {"gibberish", "wrong_language", "quant_corruption", "detokenizer_corruption"},
}


@pytest.fixture(scope="module")
def no_remedies(tmp_path_factory):
    """The playbook without its remedies, which take minutes to come to nothing."""
    play = yaml.safe_load(PLAYBOOK.read_text())
    for step in play["steps"]:
        if "on_failure" in step:
            step["on_failure"] = [row for row in step["on_failure"] if row["do"] != "remedy"]
    path = tmp_path_factory.mktemp("play") / "no-remedies.yml"
    path.write_text(yaml.safe_dump(play, sort_keys=False))
    return path


# One climbs all of its ladder in every check, the others at night.
@pytest.mark.parametrize("model, ladder", [("bits", True), ("swap", False), ("nan", False),
                                           pytest.param("swap", True, marks=pytest.mark.slow),
                                           pytest.param("nan", True, marks=pytest.mark.slow)])
def test_a_broken_model_ends_rolled_back_to_the_release_before(lab, millwright, inputs, good, no_remedies, model, ladder):
    broken = millwright.apply(PLAYBOOK if ladder else no_remedies, *inputs(model), timeout=1800).expect(3)
    assert (len(broken.of("remedy")) > 0) is ladder
    verdict = broken.verdicts()[0]
    assert verdict[0] == "fail" and verdict[1] in CLASSES[model], verdict
    assert broken.of("evidence_kept"), "the raw answers are kept"
    assert broken.of("verified_after_rollback"), "what serves again was itself tested"
    assert served(lab) == "good"
    assert ask(lab, "What is the capital of France? Answer with one word.") == "Paris"


def test_an_engine_too_old_is_cured_by_an_upgrade(lab, millwright, inputs, good):
    cured = millwright.apply(PLAYBOOK, *inputs(version="0.1.10", name="old", port=8081), timeout=900).expect(0)
    failed = [event for event in cured.of("step_finished", step="server") if event["data"]["state"] == "failed"]
    assert failed and failed[0]["data"]["error"]["class"] == "model_arch_unsupported"
    assert "gemma3" in failed[0]["data"]["error"]["message"], "the log's own line is named"
    assert [event["data"]["cured"] for event in cured.of("remedy_result")][-1] is True
    assert cured.verdicts()[-1][0] == "pass"
    # Both versions are there, side by side; the one that failed can be gone back to.
    assert {"llama.cpp-0.1.10", "llama.cpp-0.7.0"} <= set(inside(lab, "ls /opt/millwright/engines").split())
    assert inside(lab, "ls /var/lib/millwright/servers/old/releases").split() == ["1", "2"]


def releases(millwright, *words):
    """{server: {number: release}} of the container, and its environments."""
    shown = json.loads(millwright.run("releases", NODE, "-i", millwright.inventory, "--json", *words).expect(0).out)
    box = next(place for place in shown if place["node"] == f"{NODE}/llm")
    return {server["name"]: {release["number"]: release for release in server["releases"]}
            for server in box["servers"]}, [pathlib.Path(row["folder"]).name for row in box["environments"]]


def test_releases_are_listed_gone_back_to_and_pruned(lab, millwright, inputs, good):
    servers, environments = releases(millwright)
    assert servers["llm"][1]["verified"] == "pass" and servers["llm"][1]["current"]
    assert servers["old"][1]["verified"] is None, "it never started"
    assert servers["llm"][1]["port"] == 8080 and servers["old"][1]["port"] == 8081
    assert "--model" not in servers["llm"][1]["flags"] and "--model" in servers["llm"][1]["command"]
    millwright.apply(PLAYBOOK, *inputs(version="2026.10.11549", name="old", port=8081), timeout=900).expect(0)
    servers, _ = releases(millwright)
    newest = max(servers["old"])
    assert servers["old"][newest]["current"] and servers["old"][newest]["version"] == "2026.10.11549"
    back = millwright.run("releases", f"{NODE}/llm/old", "-i", millwright.inventory, "--to", "2", "-y", "--json",
                          timeout=600).expect(0)
    assert back.verdicts()[-1][0] == "pass"
    servers, _ = releases(millwright)
    assert servers["old"][2]["current"] and servers["old"][2]["verified_at"] > servers["old"][newest]["verified_at"]
    # Nothing goes without being asked for.
    assert millwright.run("releases", NODE, "-i", millwright.inventory, "--prune").code == 1
    assert releases(millwright)[0] == servers
    millwright.run("releases", NODE, "-i", millwright.inventory, "--prune", "-y").expect(0)
    servers, environments = releases(millwright)
    assert list(servers["old"]) == [2] and list(servers["llm"]) == [1]
    assert "llama.cpp-0.1.10" not in environments
    assert served(lab) == "good"


def test_a_port_that_is_taken_is_refused_by_name(lab, millwright, inputs, good):
    taken = millwright.apply(PLAYBOOK, *inputs(name="second"), timeout=300)
    assert taken.code in (2, 3), taken.out
    error = [event for event in taken.of("step_finished", step="server")][-1]["data"]["error"]
    assert error["class"] == "port_taken" and "millwright-llm.service" in error["message"], error


def test_whose_memory_ran_out_is_named(lab, millwright, inputs, good):
    small = millwright.apply(PLAYBOOK, *inputs(name="small", port=8083, memory_max="64MiB"), timeout=600)
    error = [event for event in small.of("step_finished", step="server")][-1]["data"]["error"]
    assert error["class"] == "oom_killed", error
    assert "ls: " in lab.ssh(NODE, "lxc-attach -n llm -- ls /var/lib/millwright/servers/small 2>&1 || :").stdout


def test_a_first_deployment_that_is_broken_leaves_nothing(lab, millwright, inputs, good, no_remedies):
    before = lab.ssh(NODE, "ls /var/lib/lxc").stdout.split()
    first = millwright.apply(no_remedies, *inputs("nan", container="first"), timeout=1200).expect(3)
    assert first.of("rollback_finished")[0]["data"]["remaining"] == []
    assert first.of("warning") == []
    assert first.of("verified_after_rollback") == [], "nothing served before"
    assert lab.ssh(NODE, "ls /var/lib/lxc").stdout.split() == before
    assert served(lab) == "good", "the neighbour was left alone"
