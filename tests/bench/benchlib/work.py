"""The workloads: what is done, by whom, how it is checked, and what millwright is meant to reach."""

import dataclasses
import os
import shutil

from benchlib.tools import Tools

LOG = "srv/bench/log"
FILES = "srv/bench/files"
BIG = "srv/bench/big"


@dataclasses.dataclass
class Target:
    """millwright is at least `factor` times as fast as `tool` (or, with `at_most`, takes at most `factor` times as long)."""
    tool: str
    factor: float
    at_most: bool = False
    field: str = "wall"

    def measured(self, series):
        own, other = series.get("millwright"), series.get(self.tool)
        if own is None or other is None or not own.samples or not other.samples:
            return None
        ratio = other.median(self.field) / own.median(self.field)
        return 1 / ratio if self.at_most else ratio

    def met(self, value):
        return value <= self.factor if self.at_most else value >= self.factor


@dataclasses.dataclass
class Workload:
    name: str
    title: str
    hosts: int
    contenders: object  # called with Tools, gives a list of Contender
    reset: object       # called with the hosts before each run
    check: object       # called with the hosts after each run; raises when the work was not done
    targets: tuple = ()
    round_trip: float = 0  # seconds, for those over a slow link
    repeats: int = 7

    def make(self, programs, farm, folder, inside=()):
        hosts = farm.hosts[:self.hosts]
        tools = Tools(programs, farm, self.hosts, folder, lambda: self.reset(hosts), lambda: self.check(hosts), inside)
        return self.contenders(tools)


def expect(good, what):
    if not good:
        raise RuntimeError(what)


# --- commands -------------------------------------------------------------------------------------------------------

def forget_log(hosts):
    for host in hosts:
        (host.root / LOG).unlink(missing_ok=True)


def commands(count):
    """Each leaves a line, so that it shows whether all ran, once, and in order."""
    lines = [f"echo {n} >>/{LOG}" for n in range(count)]

    def check(hosts):
        wanted = "".join(f"{n}\n" for n in range(count))
        for host in hosts:
            log = host.root / LOG
            expect(log.exists() and log.read_text() == wanted, f"the commands did not run once each on {host.name}")

    def contenders(tools):
        # A shell on either side; no quotes are needed in these lines.
        ours = [f"{{id: c{n}, uses: command, with: {{run: \"{line}\"}}}}" for n, line in enumerate(lines)]
        theirs = [f"{{ansible.builtin.shell: {{cmd: \"{line}\"}}}}" for line in lines]
        found = [tools.millwright(ours)]
        if tools.programs.bare:
            found += [tools.bare(mode, lines) for mode in ("channels", "shell", "batch")]
        found.append(tools.control_master(lines))
        if tools.programs.peers:
            found += [tools.ansible(theirs), tools.mitogen(theirs)]
        return found

    return contenders, check


def command_workload(name, count, hosts, targets, round_trip=0, repeats=7):
    contenders, check = commands(count)
    title = f"{count} commands, {hosts} host{'s' if hosts > 1 else ''}"
    if round_trip:
        title += f", {round(round_trip * 1000)} ms"
    return Workload(name, title, hosts, contenders, forget_log, check, targets, round_trip, repeats)


def true_workload(hosts):
    line = f"true >>/{LOG}"

    def contenders(tools):
        found = [tools.millwright([f"{{id: t, uses: command, with: {{run: \"{line}\"}}}}"])]
        if tools.programs.bare:
            found.append(tools.bare("channels", [line]))
        if tools.programs.peers:
            theirs = [f"{{ansible.builtin.shell: {{cmd: \"{line}\"}}}}"]
            found += [tools.ansible(theirs), tools.mitogen(theirs)]
        return found

    def check(all_hosts):
        for host in all_hosts:
            expect((host.root / LOG).exists(), f"the command did not run on {host.name}")

    return Workload("true-200", f"`true` on {hosts} hosts", hosts, contenders, forget_log, check,
                    (Target("libssh channels", 1.1, at_most=True), Target("ansible", 50, field="cpu")), repeats=5)


# --- files ----------------------------------------------------------------------------------------------------------

class Files:
    """`count` small files on the controller, wanted on a host."""

    def __init__(self, folder, count=100):
        self.folder, self.names = folder, [f"f{n:03}" for n in range(count)]
        folder.mkdir(exist_ok=True)
        self.list = folder.with_suffix(".list")
        for name in self.names:
            (folder / name).write_text(f"{name}\n" + f"a line of the file {name}\n" * 40)
            os.chmod(folder / name, 0o644)
        text = "".join(f"/{FILES}/{name}\n" for name in self.names)
        self.list.write_text(text)

    def remove(self, hosts):
        for host in hosts:
            shutil.rmtree(host.root / FILES, ignore_errors=True)
            (host.root / FILES).mkdir()

    def place(self, hosts):
        for host in hosts:
            shutil.rmtree(host.root / FILES, ignore_errors=True)
            shutil.copytree(self.folder, host.root / FILES)

    def check(self, hosts):
        for host in hosts:
            for name in self.names:
                there = host.root / FILES / name
                expect(there.exists() and there.read_bytes() == (self.folder / name).read_bytes(),
                       f"{name} is not on {host.name} as it should be")

    def ours(self):
        return [f"{{id: {name}, uses: file, with: {{path: /{FILES}/{name}, source: {self.folder}/{name}, "
                "mode: \"0644\"}}" for name in self.names]

    def theirs(self):
        return [f"{{ansible.builtin.copy: {{src: {self.folder}/{name}, dest: /{FILES}/{name}, mode: \"0644\"}}}}"
                for name in self.names]

    def peers(self, tools):
        return [tools.ansible(self.theirs()), tools.mitogen(self.theirs())] if tools.programs.peers else []

    def rsync(self, tools):
        return tools.per_host("rsync", lambda ssh, host: f"rsync -a -e '{ssh}' {self.folder}/ {host.name}:/{FILES}/")


def file_workloads(folder):
    files = Files(folder / "small-files")

    def in_place(tools):
        sums = folder / "sums"
        return [tools.millwright(files.ours()),
                tools.per_host("ssh sha256sum",
                               lambda ssh, host: f"{ssh} {host.name} 'xargs sha256sum' <{files.list} >{sums}"),
                files.rsync(tools), *files.peers(tools)]

    def placed(tools):
        return [tools.millwright(files.ours()),
                tools.per_host("tar | ssh", lambda ssh, host: f"tar -C {files.folder} -cf - . | "
                                                              f"{ssh} {host.name} tar -C /{FILES} -xf -"),
                files.rsync(tools), *files.peers(tools)]

    return [Workload("files-in-place", "100 files already in place", 1, in_place, files.place, files.check,
                     (Target("ansible", 175),)),
            Workload("files-placed", "100 small files placed", 1, placed, files.remove, files.check,
                     (Target("tar | ssh", 1),))]


def big_workload(folder, hosts, mib=64):
    source = folder / f"big-{mib}"
    if not source.exists():
        source.write_bytes(os.urandom(mib << 20))

    def reset(all_hosts):
        for host in all_hosts:
            (host.root / BIG).unlink(missing_ok=True)

    def check(all_hosts):
        for host in all_hosts:
            expect((host.root / BIG).exists() and (host.root / BIG).read_bytes() == source.read_bytes(),
                   f"the file did not arrive whole on {host.name}")

    def contenders(tools):
        config = tools.farm.folder / "ssh_config"
        found = [tools.millwright([f"{{id: big, uses: file, with: {{path: /{BIG}, source: {source}, mode: \"0644\"}}}}"]),
                 tools.per_host("scp", lambda ssh, host: f"scp -q -F {config} {source} {host.name}:/{BIG}"),
                 tools.per_host("rsync", lambda ssh, host: f"rsync -a -e '{ssh}' {source} {host.name}:/{BIG}")]
        if tools.programs.bare:
            found.append(tools.bare_put(source, f"/{BIG}"))
        if tools.programs.peers:
            theirs = [f"{{ansible.builtin.copy: {{src: {source}, dest: /{BIG}, mode: \"0644\"}}}}"]
            found += [tools.ansible(theirs), tools.mitogen(theirs)]
        return found

    return Workload(f"big-{hosts}", f"{mib} MiB to {hosts} host{'s' if hosts > 1 else ''}", hosts, contenders, reset,
                    check, (Target("scp", 1), Target("rsync", 1)))


def fresh_workload(folder, round_trip):
    """A fresh converge of 30 steps that do not use each other's output."""
    files = Files(folder / "thirty-files", 30)
    milliseconds = round(round_trip * 1000)

    def contenders(tools):
        return [tools.millwright(files.ours()), files.rsync(tools), *files.peers(tools)]

    return Workload(f"fresh-{milliseconds}ms", f"30 files placed, {milliseconds} ms", 1, contenders, files.remove,
                    files.check, (), round_trip, repeats=5)


# --- all ------------------------------------------------------------------------------------------------------------

def all_workloads(folder):
    floor = Target("libssh shell", 1.4, at_most=True)
    batch = Target("libssh batch", 1.5, at_most=True)
    return [
        command_workload("commands-1", 30, 1,
                         (Target("ansible", 34), Target("mitogen", 25), Target("ssh ControlMaster", 3))),
        command_workload("commands-10", 30, 10, (Target("ansible", 58), floor)),
        command_workload("commands-50", 30, 50, (Target("ansible", 75), floor)),
        true_workload(200),
        *file_workloads(folder),
        big_workload(folder, 1),
        big_workload(folder, 10),
        command_workload("commands-20ms", 30, 1, (batch,), 0.020, repeats=5),
        command_workload("commands-100ms", 30, 1, (batch,), 0.100, repeats=5),
        fresh_workload(folder, 0.020),
        fresh_workload(folder, 0.100),
    ]


def quick_workloads():
    """A few seconds, and only what every machine has: does the bench itself work?"""
    return [command_workload("commands-quick", 3, 2, (Target("ssh ControlMaster", 1),), repeats=2)]
