"""What verbs make of a journal that is as no run of a moment ago leaves it: locks of processes that live, are dead or
cannot be seen (`unlock` frees those of dead ones only, unless it is told to), and a run that was cut off.

usage: journal_verbs.py MILLWRIGHT
"""
import json
import os
import pathlib
import socket
import sqlite3
import subprocess
import sys
import tempfile


def start_of(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]


def hold(database, machine, pid, start):
    """As the journal keeps it: journal/sqlite_journal.cpp."""
    with sqlite3.connect(database) as journal:
        journal.execute("DELETE FROM locks")
        journal.execute("INSERT INTO locks(name, holder, why, since, machine, boot, pid_namespace, pid, start) "
                        "VALUES('node:gpu1', 'root@here pid 1', 'apply x.yml', 0, ?, ?, ?, ?, ?)",
                        (machine, pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
                         os.readlink("/proc/self/ns/pid"), pid, start))


def cut_off(database):
    """A run without an end: journal/schema.cpp."""
    started = {"playbook": "p", "hosts": ["h"], "steps": [], "verb": "apply", "inventory": ["prod/hosts.yml", "my hosts"],
               "inputs": {}}
    with sqlite3.connect(database) as journal:
        journal.execute("INSERT INTO runs(id, verb, playbook_path, playbook_text, parameters, started) "
                        "VALUES('20261130-1412-k3f', 'apply', 'p.yml', '', '{}', 0)")
        journal.execute("INSERT INTO events(run, seq, time, type, host, step, data) "
                        "VALUES('20261130-1412-k3f', 1, 0, 'run_started', '', '', ?)", (json.dumps(started),))


def main():
    program = sys.argv[1]
    wrong = []
    with tempfile.TemporaryDirectory() as home:
        environment = {"PATH": os.environ["PATH"], "HOME": home, "LC_ALL": "C.UTF-8"}

        def run(*words):
            done = subprocess.run([program, *words], env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                                  text=True, timeout=60, check=False)
            return done.returncode, done.stdout + done.stderr

        def expect(words, code, *texts):
            got, said = run(*words)
            if got != code or any(text not in said for text in texts):
                wrong.append(f"{' '.join(words)}: exit {got}, wanted {code} with {texts}\n{said}")

        run("runs")
        database = f"{home}/.local/state/millwright/journal.db"
        here = socket.gethostname()
        living = subprocess.Popen(["sleep", "300"])
        try:
            hold(database, here, living.pid, start_of(living.pid))
            expect(["unlock"], 0, "root@here pid 1", "which is running")
            expect(["unlock", "gpu1", "-y"], 7, "node:gpu1 is held by root@here pid 1 (apply x.yml), which is running",
                   "--force")
            expect(["unlock"], 0, "node:gpu1")  # and it is still there
            expect(["unlock", "gpu1", "--force", "-y"], 0, "node:gpu1 is free")
            expect(["unlock"], 0, "nothing is locked")
            hold(database, "another-machine", living.pid, start_of(living.pid))
            expect(["unlock", "gpu1", "-y"], 7, "cannot be seen from here", "--force")
            hold(database, here, living.pid, start_of(living.pid))
        finally:
            living.kill()
            living.wait()
        expect(["unlock", "--json"], 0, '"process": "dead"')
        expect(["unlock", "gpu1"], 1, "-y")  # nobody can be asked here
        expect(["unlock", "gpu1", "-y"], 0, "node:gpu1 is free")
        cut_off(database)
        expect(["show"], 0, "millwright resume 20261130-1412-k3f -i prod/hosts.yml -i 'my hosts'",
               "millwright rollback 20261130-1412-k3f -i prod/hosts.yml -i 'my hosts'")
    print("\n".join(wrong) or "as expected")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
