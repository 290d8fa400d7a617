"""The core step kinds that change the machine, by the step contract, on a real node."""
import os
import pathlib
import subprocess

import pytest
from conftest import LAB

BUILD = pathlib.Path(os.environ.get("MILLWRIGHT", "build/dev/orchestrator/cli/millwright")).resolve().parents[2]
PROGRAM = BUILD / "tests/unit/unit_steps_core"


@pytest.fixture(scope="module")
def node(make_lab):
    return make_lab("core", 1).nodes[0]


@pytest.mark.parametrize("tests", ["PackagesOnANode", "ServicesOnANode"])
def test_contract(node, tests):
    environment = dict(os.environ, MW_TEST_NODE=f"{LAB} ssh {node}")
    done = subprocess.run([PROGRAM, f"--gtest_filter={tests}.*"], env=environment, text=True, capture_output=True,
                          timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SKIPPED" not in done.stdout and "OK" in done.stdout, done.stdout
