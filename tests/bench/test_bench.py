"""The bench itself: do numbers come out, and was the work really done on the hosts? Never a time."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from benchlib import table, work  # noqa: E402
from benchlib.measure import Sample, Series, interleave  # noqa: E402


class FakeHost:
    def __init__(self, root):
        self.name, self.root = "h", root


@pytest.mark.skipif(os.geteuid() != 0, reason="hosts are made in mount namespaces: needs root")
def test_quick_run_measures_both_tools(tmp_path):
    command = [HERE / "run", "--quick", "--out", tmp_path, "--millwright", os.environ["MILLWRIGHT"]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "results.json").read_text())
    tools = {tool["tool"]: tool for tool in results["workloads"][0]["tools"]}
    assert set(tools) == {"millwright", "ssh ControlMaster"}
    for tool in tools.values():
        assert tool["runs"] == 2 and not tool["failure"]
        assert min(tool["wall"]) > 0 and tool["cpu_median"] > 0 and tool["peak_mib_median"] > 0
    assert results["workloads"][0]["targets"][0]["measured"] > 0
    assert (tmp_path / "results.md").read_text() == done.stdout


def test_work_that_was_not_done_is_noticed(tmp_path):
    host = FakeHost(tmp_path)
    log = tmp_path / work.LOG
    log.parent.mkdir(parents=True)
    _, check = work.commands(3)
    for wrong in (None, "0\n1\n", "1\n0\n2\n", "0\n1\n2\n2\n"):
        if wrong is not None:
            log.write_text(wrong)
        with pytest.raises(RuntimeError):
            check([host])
    log.write_text("0\n1\n2\n")
    check([host])


def test_files_that_differ_are_noticed(tmp_path):
    (tmp_path / "srv/bench").mkdir(parents=True)
    host = FakeHost(tmp_path)
    files = work.Files(tmp_path / "wanted", 3)
    files.remove([host])
    with pytest.raises(RuntimeError):
        files.check([host])
    files.place([host])
    files.check([host])
    (tmp_path / work.FILES / "f001").write_text("something else")
    with pytest.raises(RuntimeError):
        files.check([host])


class FakeTool:
    def __init__(self, name, wall, fails=False):
        self.name, self.wall, self.fails, self.order = name, wall, fails, []

    def prepare(self):
        self.order.append("prepare")

    def run(self):
        return Sample(self.wall, 0.5, 1)

    def check(self):
        if self.fails:
            raise RuntimeError("not done")


def test_runs_take_turns_and_slow_or_failing_tools_stop():
    told = []
    fast, slow, broken = FakeTool("fast", 1), FakeTool("slow", 40), FakeTool("broken", 1, fails=True)
    by_name = {one.tool: one for one in interleave([fast, slow, broken], 4, 30, told.append)}
    assert len(by_name["fast"].samples) == 4
    assert len(by_name["slow"].samples) == 1
    assert by_name["broken"].failure == "not done" and len(broken.order) == 1
    assert [line.split(":")[0].strip() for line in told[:3]] == ["fast", "slow", "broken"]


def test_ratios_and_targets():
    own, other = Series("millwright", [Sample(2, 1, 1)]), Series("scp", [Sample(5, 4, 1)])
    row = table.rows_of(work.Workload("w", "W", 1, None, None, None,
                                      (work.Target("scp", 3), work.Target("scp", 0.5, at_most=True),
                                       work.Target("scp", 4, field="cpu"))), [own, other])
    assert [target["measured"] for target in row["targets"]] == [2.5, 0.4, 4]
    assert [target["met"] for target in row["targets"]] == [False, True, True]
    assert "scp 5.00 (2.5x)" in table.markdown({"workloads": [row]})
