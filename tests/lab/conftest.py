"""Fixtures of the lab tests: nodes, engines, and the real binary."""
import pathlib
import subprocess

import pytest

HERE = pathlib.Path(__file__).resolve().parent
LAB = HERE / "lab"


def run(*words, timeout=600, check=True, **more):
    """Runs a command of this machine; its output is in the failure's text."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=timeout, **more)
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
