"""The command line of the benches."""

import argparse
import dataclasses
import datetime
import os
import pathlib
import platform
import shutil
import signal
import subprocess
import sys
import tempfile

from benchlib import peers, scale, table
from benchlib.delay import DelayLink
from benchlib.hosts import Farm, need_root
from benchlib.measure import interleave
from benchlib.work import all_workloads, quick_workloads

ROOT = pathlib.Path(__file__).resolve().parents[3]
EXTRA = ("growth", "held")


@dataclasses.dataclass
class Programs:
    millwright: str
    bare: str
    peers: object


def say(text):
    print(text, file=sys.stderr, flush=True)


def options():
    parser = argparse.ArgumentParser(
        prog="tests/bench/run", description="Times millwright and its peers on the same work; docs/benchmarks.md.",
        epilog="example: tests/bench/run --only commands-1 --only commands-10")
    parser.add_argument("--only", action="append", metavar="NAME", help="only this workload; again for more")
    parser.add_argument("--list", action="store_true", help="name the workloads")
    parser.add_argument("--quick", action="store_true", help="a few seconds: millwright and ssh only")
    parser.add_argument("--no-peers", action="store_true", help="without Ansible and Mitogen")
    parser.add_argument("--repeats", type=int, help="runs of each tool (default: 5 or 7)")
    parser.add_argument("--patience", type=float, default=30, metavar="SECONDS",
                        help="no further run of a tool that took so long in one workload (default: %(default)g)")
    parser.add_argument("--out", type=pathlib.Path, help="folder for results.json and results.md (default: build/bench)")
    parser.add_argument("--millwright", default=os.environ.get("MILLWRIGHT"), help="the program to measure (default: "
                        "$MILLWRIGHT, else a release build made now)")
    return parser.parse_args()


def build(target, *settings):
    """The release build's program of this target."""
    say(f"building {target} (release)")
    subprocess.run(["cmake", "--preset", "release", *settings], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["ninja", "-C", "build/release", target], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return next(path for path in (ROOT / "build/release").rglob(target) if path.is_file() and os.access(path, os.X_OK))


def programs_for(chosen):
    millwright = chosen.millwright or build("millwright")
    if chosen.quick:
        return Programs(str(millwright), "", None)
    bare = build("bare_libssh", "-DMILLWRIGHT_BENCH=ON")
    return Programs(str(millwright), str(bare), None if chosen.no_peers else peers.install(say))


def run_workload(workload, programs, folder, repeats, patience):
    say(f"{workload.name}: {workload.title}")
    repeats = repeats or workload.repeats
    if not workload.round_trip:
        with Farm(folder / f"farm-{workload.name}", workload.hosts) as farm:
            contenders = workload.make(programs, farm, folder / workload.name)
            return interleave(contenders, repeats, patience, say)
    with DelayLink(workload.round_trip) as link:
        with Farm(folder / f"farm-{workload.name}", 1, [link.FAR], link.far) as farm:
            contenders = workload.make(programs, farm, folder / workload.name, link.near)
            return interleave(contenders, repeats, patience, say)


def machine():
    return {"cpus": os.cpu_count(), "kernel": platform.release(), "load": os.getloadavg()[0],
            "date": datetime.date.today().isoformat(), "python": platform.python_version(),
            "ssh": subprocess.run(["ssh", "-V"], capture_output=True, text=True).stderr.strip(),
            "ansible-core": peers.ANSIBLE, "mitogen": peers.MITOGEN}


def measure(chosen, programs, folder):
    workloads = quick_workloads() if chosen.quick else all_workloads(folder)
    wanted = set(chosen.only or [])
    known = [workload.name for workload in workloads] + ([] if chosen.quick else list(EXTRA))
    if unknown := wanted - set(known):
        raise SystemExit(f"no workload {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    if chosen.list:
        print("\n".join(known))
        return {}
    results = {"machine": machine(), "workloads": []}
    for workload in workloads:
        if not wanted or workload.name in wanted:
            series = run_workload(workload, programs, folder, chosen.repeats, chosen.patience)
            results["workloads"].append(table.rows_of(workload, series))
    if not chosen.quick and (not wanted or "growth" in wanted):
        say("growth: step instances linted and planned")
        results["growth"] = scale.growth(programs.millwright, folder)
    if not chosen.quick and (not wanted or "held" in wanted):
        say("held: 2,000 connections")
        with Farm(folder / "farm-held", 1) as farm:
            results["held"] = scale.held(programs.millwright, farm, folder / "held", 2000)
    return results


def main():
    chosen = options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that hosts and namespaces are taken down
    if not chosen.list:
        need_root()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="millwright-bench-"))
    try:
        programs = Programs("", "", None) if chosen.list else programs_for(chosen)
        results = measure(chosen, programs, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if not results:
        return 0
    out = chosen.out or ROOT / "build/bench"
    out.mkdir(parents=True, exist_ok=True)
    table.write(results, out)
    print(table.markdown(results), end="")
    failed = [f"{row['name']}: {tool['tool']}: {tool['failure']}" for row in results["workloads"]
              for tool in row["tools"] if tool["failure"]]
    for line in failed:
        say(line)
    return 1 if failed else 0
