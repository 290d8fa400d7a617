"""Runs the real program and compares what it prints with golden files.

tests/data/cli/NAME.cmd holds shell lines; beside it NAME.expected holds their output, both streams together, and the
exit status of each. `millwright` is the program under test, the folder is tests/data/cli, HOME is empty.
MILLWRIGHT_ACCEPT=1 takes what is printed as the new expectation.
"""

import difflib
import os
import pathlib
import subprocess
import sys
import tempfile


def run(command: pathlib.Path, program: pathlib.Path, home: str) -> str:
    environment = {
        "PATH": f"{home}/bin:/usr/bin:/bin",
        "HOME": home,
        "LC_ALL": "C.UTF-8",
        "TERM": "dumb",
        "MILLWRIGHT_SHARE": os.environ.get("MILLWRIGHT_SHARE", ""),
    }
    printed = []
    for line in command.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        done = subprocess.run(["sh", "-c", line], cwd=command.parent, env=environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False)
        printed.append(f"$ {line}\n{done.stdout.decode()}[{done.returncode}]\n")
    text = "\n".join(printed)
    return text.replace(home, "HOME").replace(str(program.parent), "BIN").replace(str(command.parent), "DATA")


def main() -> int:
    program, folder = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    commands = sorted(folder.glob("*.cmd"))
    if not commands:
        print(f"no *.cmd in {folder}")
        return 1
    failed = 0
    for command in commands:
        with tempfile.TemporaryDirectory() as home:
            os.mkdir(f"{home}/bin")
            os.symlink(program, f"{home}/bin/millwright")
            printed = run(command, program, home)
        expected = command.with_suffix(".expected")
        if os.environ.get("MILLWRIGHT_ACCEPT") == "1":
            expected.write_text(printed)
            continue
        wanted = expected.read_text() if expected.exists() else ""
        too_wide = [line for line in printed.splitlines() if len(line) > 80 and "help" in command.name]
        failed += printed != wanted or bool(too_wide)
        if printed != wanted:
            print(f"{command.name}: not as expected; MILLWRIGHT_ACCEPT=1 takes the new text")
            sys.stdout.writelines(difflib.unified_diff(wanted.splitlines(True), printed.splitlines(True), "expected", "printed"))
        if too_wide:
            print(f"{command.name}: wider than 80 columns: {too_wide[0]}")
    print(f"{len(commands) - failed} of {len(commands)} as expected")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
