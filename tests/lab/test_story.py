"""The founding story, unattended, on real engines: does not fit -> planned anew from the log -> starts -> answers null ->
a newer engine -> answers where nobody looks -> without the parser -> passes. And its twin, where nothing helps.

Long (two SGLang environments, five starts): whole in ./check --nightly.
"""
import json
import os
import shutil

import pytest
import yaml
from conftest import HERE
from conftest import one_journal as millwright

NODE = "story1"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def lab(make_lab):
    return make_lab("story", 1)


@pytest.fixture(scope="module")
def tell(millwright, fetched_hf):
    """tell(model, **inputs) -> Run of the story's playbook."""
    def make(model, **inputs):
        given = {"model": fetched_hf["hf"][model], "libcuda": fetched_hf["libcuda"] + "/libcuda.so.1", **inputs}
        return millwright.apply(HERE / "playbooks/story.yml", "-e", json.dumps(given), timeout=3600)

    return make


def releases(lab):
    out = lab.ssh(NODE, "cd /var/lib/lxc/llm/rootfs/var/lib/millwright/servers/llm && for n in releases/*/; do "
                        "tr -d '\\n' <$n/release.json; echo; done; readlink current").stdout.splitlines()
    return [(record["version"], " ".join(record["command"])) for record in map(json.loads, out[:-1])], out[-1]


def test_from_too_little_memory_to_an_answer(lab, tell):
    told = tell("mute").expect(0)
    # Once planned anew from its own log, it fits.
    kept = [event["data"]["name"] for event in told.of("evidence_kept")]
    assert [name for name in kept if "memory-1" in name] and not [name for name in kept if "memory-2" in name]
    assert [kind for kind, _ in told.verdicts()] == ["fail", "fail", "pass"]
    assert [symptom for _, symptom in told.verdicts()][:2] == ["immediate_eos_null", "answer_in_reasoning"]
    cures = [event["data"] for event in told.of("remedy_result")]
    assert [cure["cured"] for cure in cures] == [False, True], cures
    made, current = releases(lab)
    versions = [version for version, _ in made]
    assert versions[0] == "0.5.9" and versions[-1] == "0.5.11" and current == f"releases/{len(made)}"
    assert "--mem-fraction-static 0.005" in made[0][1] and "--mem-fraction-static 0.005" not in made[-1][1]
    assert "--reasoning-parser" in made[0][1] and "--reasoning-parser" not in made[-1][1]


def test_and_where_nothing_helps_the_old_release_serves_again_itself_tested(lab, millwright, fetched_hf, tmp_path):
    _, current = releases(lab)
    silent = tmp_path / "silent"  # its template ends every answer before it begins, on any engine
    shutil.copytree(fetched_hf["hf"]["good"], silent, copy_function=os.link)
    template = silent / "chat_template.jinja"
    text = template.read_text()
    template.unlink()
    template.write_text(text + " That is all.")
    play = yaml.safe_load((HERE / "playbooks/story.yml").read_text())
    for step in play["steps"]:
        if "on_failure" in step:
            step["on_failure"] = [{"do": "rollback"}]
    path = tmp_path / "twin.yml"
    path.write_text(yaml.safe_dump(play, sort_keys=False))
    given = {"model": str(silent), "libcuda": fetched_hf["libcuda"] + "/libcuda.so.1", "version": "0.5.11", "fraction": "0.1",
             "reasoning_parser": ""}
    told = millwright.apply(path, "-e", json.dumps(given), timeout=3600).expect(3)
    assert told.verdicts()[0][0] == "fail"
    assert told.of("verified_after_rollback"), "what serves again was itself tested"
    assert releases(lab)[1] == current
