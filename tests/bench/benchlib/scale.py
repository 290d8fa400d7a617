"""What has no peer beside it: how planning grows with the number of steps, and memory for connections that are held."""

import os
import pathlib
import shutil
import subprocess
import time

from benchlib.measure import run_once

SIZES = (1_000, 10_000, 100_000)
STEPS_A_HOST = 100


def growth(millwright, folder, sizes=SIZES, repeats=5):
    """Step instances (a step on a host) linted and planned: seconds of the whole process, medians.

    `lint`: one playbook with that many steps. `plan`: 100 steps on as many hosts as it takes, all of them this
    machine without ssh, so that the time is the controller's own.
    """
    rows = []
    for size in sizes:
        book = folder / f"steps-{size}.yml"
        book.write_text("name: many\nhosts: all\nsteps:\n" + "".join(
            f"  - {{id: s{n}, uses: command, with: {{run: \"true {n}\"}}}}\n" for n in range(size)))
        row = {"instances": size, "lint": _median(repeats, lambda: run_once([millwright, "lint", book],
                                                                            folder / "lint.log"))}
        short, inventory = folder / "hundred.yml", folder / f"local-{size}.ini"
        short.write_text("name: many\nhosts: all\nsteps:\n" + "".join(
            f"  - {{id: s{n}, uses: command, with: {{run: \"true {n}\"}}}}\n" for n in range(STEPS_A_HOST)))
        inventory.write_text("".join(f"h{n} ansible_connection=local\n" for n in range(size // STEPS_A_HOST)))
        row["plan"] = _median(repeats if size < 100_000 else 1, lambda: _plan(millwright, short, inventory, folder))
        rows.append(row)
    return rows


def _median(repeats, measure):
    walls = sorted(measure().wall for _ in range(repeats))
    return round(walls[len(walls) // 2], 4)


def _plan(millwright, book, inventory, folder):
    state = folder / "plan-state"
    shutil.rmtree(state, ignore_errors=True)
    return run_once([millwright, "plan", book, "-i", inventory, "--state", state], folder / "plan.log")


def held(millwright, farm, folder, connections):
    """Memory for each of `connections` that are logged in and have a shell: growth of VmRSS over one connection.

    All go to one sshd; each is a host of its own to millwright, and waits there for a file.
    """
    folder.mkdir(exist_ok=True)
    host, go = farm.hosts[0], farm.hosts[0].root / "srv/bench/go"
    book = folder / "hold.yml"
    book.write_text("name: hold\nhosts: all\nsteps:\n"
                    "  - {id: hold, uses: wait, with: {path: /srv/bench/go, timeout: 20m, interval: 2s}}\n")
    result = {"connections": connections}
    for count in (1, connections):
        go.unlink(missing_ok=True)
        inventory = farm.inventory(folder / "hold.ini", 1)
        text = inventory.read_text().split("\n", 1)[1]
        inventory.write_text("".join(f"n{n} ansible_host={host.address}\n" for n in range(count)) + text)
        shutil.rmtree(folder / "state", ignore_errors=True)
        with open(folder / "hold.log", "wb") as log:
            process = subprocess.Popen([millwright, "apply", book, "-i", inventory, "--state", folder / "state",
                                        "-f", str(count), "--json"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            _wait_for_steps(process, folder / "hold.log", count)
            result["one_mib" if count == 1 else "all_mib"] = _resident(process.pid)
            if count > 1:
                result["threads"] = len(os.listdir(f"/proc/{process.pid}/task"))
            go.write_text("")
            if process.wait(timeout=300) != 0:
                raise RuntimeError(f"millwright failed: {(folder / 'hold.log').read_text()[-1000:]}")
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    result["mib_each"] = round((result["all_mib"] - result["one_mib"]) / (connections - 1), 4)
    return result


def _wait_for_steps(process, log, count):
    """Until every host waits in its step, and has looked at least once."""
    until = time.monotonic() + 900
    while time.monotonic() < until and process.poll() is None:
        said = pathlib.Path(log).read_text(errors="replace")
        if said.count('"step_started"') >= count:
            time.sleep(5)  # two looks of each
            return
        time.sleep(0.5)
    raise RuntimeError(f"not all connections were made: {pathlib.Path(log).read_text(errors='replace')[-1000:]}")


def _resident(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return round(int(line.split()[1]) / 1024, 1)
    raise RuntimeError("no VmRSS")
