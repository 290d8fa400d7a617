"""Runs commands as whole processes and says what each took, from wait4: their own clock and CPU, not ours."""

import dataclasses
import os
import statistics
import subprocess
import time


@dataclasses.dataclass
class Sample:
    wall: float  # seconds
    cpu: float   # user + system of the process and what it waited for
    peak_mib: float  # largest single process


def run_once(command, log, environment=None, cwd=None):
    """Runs to the end. What it prints goes to `log`; an exit status other than 0 raises with its end."""
    with open(log, "wb") as out:
        start = time.monotonic()
        process = subprocess.Popen([os.fspath(word) for word in command], stdin=subprocess.DEVNULL, stdout=out,
                                   stderr=subprocess.STDOUT, env=environment, cwd=cwd)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.monotonic() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        with open(log, errors="replace") as said:
            raise RuntimeError(f"exit status {process.returncode} of {command[0]}: ...{said.read()[-1500:]}")
    return Sample(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


@dataclasses.dataclass
class Series:
    """All runs of one tool in one workload."""
    tool: str
    samples: list = dataclasses.field(default_factory=list)
    failure: str = ""

    def median(self, field="wall"):
        return statistics.median(getattr(sample, field) for sample in self.samples)

    def as_json(self):
        if not self.samples:
            return {"tool": self.tool, "failure": self.failure}
        return {"tool": self.tool, "runs": len(self.samples),
                "wall": [round(sample.wall, 4) for sample in self.samples],
                "wall_median": round(self.median(), 4), "cpu_median": round(self.median("cpu"), 4),
                "peak_mib_median": round(self.median("peak_mib"), 1), "failure": self.failure}


def interleave(contenders, repeats, patience, say):
    """A, B, C, A, B, C, ...: so that a machine that gets slower gets slower for all.

    `contenders`: objects with name, prepare(), run() -> Sample, check(). Slow ones are run less often: none beyond
    `patience` seconds in all, except once. The order turns, so that nobody always comes after the same neighbour.
    """
    series = {one.name: Series(one.name) for one in contenders}
    for turn in range(repeats):
        for at in range(len(contenders)):
            one = contenders[(at + turn) % len(contenders)]
            own = series[one.name]
            if own.failure or sum(sample.wall for sample in own.samples) > patience:
                continue
            try:
                one.prepare()
                sample = one.run()
                one.check()
            except Exception as problem:  # a tool that fails is shown as that, and the others go on
                own.failure = str(problem)
                say(f"  {one.name}: failed: {problem}")
                continue
            own.samples.append(sample)
            say(f"  {one.name}: {sample.wall:.3f} s, CPU {sample.cpu:.3f} s")
    return list(series.values())
