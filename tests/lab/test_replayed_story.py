"""The founding story in seconds: everything is real but the engine, whose releases replay what SGLang logged and
answered. On real engines, with real memory to run out of: test_story.py.
"""
import hashlib
import io
import json
import tarfile

import pytest
from conftest import HERE, ROOT
from conftest import one_journal as millwright

NODE = "replayed1"
DATA = ROOT / "tests/data"
# Each release and the log of its start; no log of 0.5.23 is at hand, whose silence is all that the twin needs.
LOGS = {"0.5.9": "sglang-0.5.9-cpu-ok.log", "0.5.11": "sglang-0.5.11-cpu-ok.log", "0.5.23": "sglang-0.5.11-cpu-ok.log"}


@pytest.fixture(scope="module")
def lab(make_lab):
    lab = make_lab("replayed", 1)
    for model in ("mute", "silent"):
        lab.ssh(NODE, f"mkdir -p /srv/models/{model}; echo {{}} >/srv/models/{model}/config.json; chmod -R a+rX /srv/models")
    return lab


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Archives of the releases, as `sources` of the server step."""
    folder = tmp_path_factory.mktemp("engines")
    out = {}
    for version, log in LOGS.items():
        path = folder / f"sglang-{version}.tar"
        with tarfile.open(path, "w") as tar:
            tar.add(HERE / "engines/replayed_sglang.py", "bin/sglang-server")
            tar.add(DATA / "story/exchanges.ndjson", "bin/exchanges.ndjson")
            tar.add(DATA / "planner/logs" / log, "bin/start.log")
            release = tarfile.TarInfo("bin/release")
            release.size, release.mode = len(version), 0o644
            tar.addfile(release, io.BytesIO(version.encode()))
        out[version] = {"method": "archive", "path": str(path), "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    return out


def story(sources, model, version, **more):
    """The steps of playbooks/story.yml that this is about."""
    server = {"name": "llm", "engine": "sglang", "version": version, "sources": sources, "device": "cpu",
              "memory": "given", "model": f"/srv/models/{model}", "served_name": "tiny", "context": 2048, **more}
    return [{"id": "server", "uses": "server", "with": server,
             "on_failure": [{"do": "remedy", "attempts": 2}, {"do": "rollback"}]},
            {"id": "smoke", "uses": "smoke", "with": {"endpoint": "{{ steps.server.endpoint }}", "level": "quick"},
             "on_failure": [{"do": "remedy", "attempts": 2}, {"do": "rollback"}]}]


@pytest.fixture
def tell(millwright, write, sources):
    return lambda *words, **more: millwright.apply(write(*story(sources, *words, **more)), timeout=300)


def releases(lab):
    out = lab.ssh(NODE, "cd /var/lib/millwright/servers/llm && for n in releases/*/; do tr -d '\\n' <$n/release.json; echo; "
                        "done; readlink current").stdout.splitlines()
    return [(record["version"], " ".join(record["command"])) for record in map(json.loads, out[:-1])], out[-1]


ASK = """import urllib.request
body = b'{"messages": [{"role": "user", "content": "What is the capital of France? Answer with one word."}]}'
print(urllib.request.urlopen("http://127.0.0.1:30000/v1/chat/completions", body).read().decode())
"""


def answer(lab):
    return json.loads(lab.ssh(NODE, "python3 -", input=ASK).stdout)["choices"][0]["message"]


def test_from_nothing_to_an_answer(lab, tell):
    told = tell("mute", "0.5.9", reasoning_parser="qwen3").expect(0)
    assert told.verdicts() == [("fail", "immediate_eos_null"), ("fail", "answer_in_reasoning"), ("pass", "")]
    tried = [event["data"]["id"] for event in told.of("remedy")]
    assert tried == ["newer-version", "reasoning-parser-off"], "a newer release first, then a flag"
    assert [event["data"]["cured"] for event in told.of("remedy_result")] == [False, True]
    kept = [event["data"]["name"] for event in told.of("evidence_kept")]
    assert any("known_answers" in name for name in kept), "the raw bytes of the silence are kept"
    made, current = releases(lab)
    assert [version for version, _ in made] == ["0.5.9", "0.5.11", "0.5.11"] and current == "releases/3"
    assert ["--reasoning-parser" in command for _, command in made] == [True, True, False]
    assert answer(lab)["content"].strip() == "Paris"


def test_and_where_nothing_helps_the_old_release_serves_again_itself_tested(lab, tell):
    made, current = releases(lab)
    told = tell("silent", "0.5.11").expect(3)
    assert {verdict for verdict in told.verdicts()} == {("fail", "immediate_eos_null")}
    assert [event["data"]["id"] for event in told.of("remedy")] == ["newer-version", "older-version"]
    assert [event["data"]["cured"] for event in told.of("remedy_result")] == [False, False]
    assert told.of("verified_after_rollback"), "what serves again was itself tested"
    assert releases(lab)[1] == current
    assert answer(lab)["content"].strip() == "Paris"
