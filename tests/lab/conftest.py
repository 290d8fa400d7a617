"""Fixtures of the lab tests: nodes, engines, and the real binary."""
import functools
import json
import os
import pathlib
import subprocess
import time

import jsonschema
import pytest
import yaml

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LAB = HERE / "lab"


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: not in ./check, only where every lab test runs")


def run(*words, timeout=600, check=True, **more):
    """Runs a command of this machine; its output is in the failure's text."""
    done = subprocess.run([str(word) for word in words], capture_output=True, timeout=timeout, **{"text": True, **more})
    if check and done.returncode != 0:
        pytest.fail(f"{' '.join(map(str, words))}: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


class Lab:
    """A lab of its own by name; removed when the tests that share it are over."""

    def __init__(self, name, count, *options):
        self.name = name
        run(LAB, "up", count, "--name", name, *options)
        self.inventory = pathlib.Path(run(LAB, "inventory", "--name", name).stdout.strip())
        self.nodes = [line.split()[0] for line in run(LAB, "status", "--name", name).stdout.splitlines()]

    def ssh(self, node, script, **options):
        return run(LAB, "ssh", node, script, **options)

    def verb(self, verb, node):
        run(LAB, verb, node)

    def down(self):
        run(LAB, "down", "--name", self.name)


@pytest.fixture(scope="session")
def make_lab():
    """make_lab(name, count, *options) -> Lab. All of them are taken down at the end, whatever happened."""
    made = []

    def make(name, count, *options):
        lab = Lab(name, count, *options)
        made.append(lab)
        return lab

    yield make
    for lab in made:
        lab.down()


@functools.cache
def event_schema():
    """What a line of --json may hold, as the program itself says."""
    schema = json.loads(run(Millwright.binary, "schema", "events").stdout)
    return jsonschema.Draft202012Validator(schema)


class Run:
    """What one call of the binary did: exit code, output, and with --json the events of the run."""

    def __init__(self, done):
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    @property
    def events(self):
        events = [json.loads(line) for line in self.out.splitlines() if line.startswith("{")]
        for event in events:
            event_schema().validate(event)
        return events

    def of(self, kind, **where):
        """Events of one type, by host and step if said."""
        return [event for event in self.events
                if event["type"] == kind and all(event[key] == value for key, value in where.items())]

    def states(self):
        """{(host, step): how it ended at last}"""
        return {(event["host"], event["step"]): event["data"]["state"] for event in self.of("step_finished")}

    def verdicts(self):
        """(verdict, class) of every finished test of answers, in order."""
        return [(event["data"]["verdict"]["kind"], event["data"]["verdict"].get("class", "")) for event in
                self.of("step_finished") if event["data"].get("verdict")]

    def expect(self, code):
        if self.code != code:
            pytest.fail(f"exit {self.code}, wanted {code}\n{self.out[-6000:]}\n{self.err[-3000:]}")
        return self


class Millwright:
    """The real binary, with a journal of its own."""

    binary = os.environ.get("MILLWRIGHT", str(ROOT / "build/dev/orchestrator/cli/millwright"))

    def __init__(self, lab, folder):
        self.inventory = str(lab.inventory)
        self.env = {**os.environ, "MILLWRIGHT_STATE": str(folder), "NO_COLOR": "1"}

    def command(self, verb, *words):
        return [self.binary, verb, *map(str, words)]

    def run(self, verb, *words, timeout=600):
        return Run(subprocess.run(self.command(verb, *words), capture_output=True, text=True, timeout=timeout,
                                  env=self.env, cwd=HERE))

    def apply(self, playbook, *words, **options):
        return self.run("apply", playbook, "-i", self.inventory, "--json", *words, **options)

    def start(self, verb, *words):
        """Runs in the background; its output goes to files, so that nothing blocks."""
        return subprocess.Popen(self.command(verb, *words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                env=self.env, cwd=HERE)


@pytest.fixture
def millwright(lab, tmp_path):
    """The binary on the nodes of the module's `lab`."""
    return Millwright(lab, tmp_path / "state")


@pytest.fixture(scope="module")
def one_journal(lab, tmp_path_factory):
    """The same with one journal for all tests of a file; imported there as `millwright`."""
    return Millwright(lab, tmp_path_factory.mktemp("state"))


@pytest.fixture
def write(tmp_path):
    """write(*steps, name=...) -> path of a playbook for all hosts. Steps are mappings, or one text of YAML."""
    def make(*steps, name="play"):
        path = tmp_path / f"{name}.yml"
        listed = yaml.safe_load(steps[0]) if isinstance(steps[0], str) else list(steps)
        path.write_text(yaml.safe_dump({"name": "Lab", "hosts": "all", "steps": listed}))
        return path

    return make


@pytest.fixture
def play(millwright, write):
    """play(*steps, **options) -> Run: applies a playbook of these steps."""
    return lambda *steps, **options: millwright.apply(write(*steps), **options)


def wait_until(condition, seconds, what):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            pytest.fail(f"not within {seconds} s: {what}")
        time.sleep(0.1)


@pytest.fixture(scope="session")
def fetched():
    """The manifest of tests/lab/engines/fetch.sh."""
    return json.loads(run(HERE / "engines/fetch.sh", timeout=1200).stdout)


@pytest.fixture(scope="session")
def fetched_hf():
    """The model in Hugging Face form, and libcuda: for SGLang and vLLM."""
    return json.loads(run(HERE / "engines/fetch.sh", "hf", "libcuda", timeout=3600).stdout)


INIT = "#!/bin/sh\ntrap 'exit 0' 30 37 15\nwhile :; do sleep 1 & wait $!; done\n"
SYSTEMCTL = "#!/bin/sh\necho running\n"  # all that `container` asks of the systemd inside: whether it has booted


def busybox_rootfs(folder):
    """A tar file that boots as a container within a second: busybox with what it is linked to."""
    root = folder / "root"
    for name in ("bin", "sbin", "etc", "root", "tmp", "proc", "sys", "dev", "lib64", "usr/bin", "var/lib"):
        (root / name).mkdir(parents=True)
    busybox = run("sh", "-c", "command -v busybox").stdout.strip()
    run("cp", "-L", busybox, root / "bin/busybox")
    for word in run("ldd", busybox).stdout.split():
        if word.startswith("/"):
            target = root / word.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            run("cp", "-L", word, target)
    for applet in run(busybox, "--list").stdout.split():
        if applet not in ("busybox", "init"):
            (root / "bin" / applet).symlink_to("busybox")
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\n")
    for path, text in (("sbin/init", INIT), ("bin/systemctl", SYSTEMCTL)):
        (root / path).write_text(text)
        (root / path).chmod(0o755)
    tar = folder / "root.tar"
    run("tar", "-C", root, "--owner=0", "--group=0", "-cf", tar, ".")
    return tar
