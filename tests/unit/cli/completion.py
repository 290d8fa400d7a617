"""The completion scripts in the real shells: they load without a word, and complete verbs, options and nothing else.

usage: completion.py MILLWRIGHT
A shell that is not installed is left out; with none of them the test is skipped (77).
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

# What the cursor stands behind, and what must be offered, or must not.
CASES = [
    ("millwright sm", {"smoke"}, {"apply"}),
    ("millwright r", {"resume", "rollback", "runs"}, {"apply"}),
    ("millwright apply --lock", {"--lock-wait"}, {"--limit"}),
    ("millwright d", {"drift"}, {"apply"}),
    ("millwright ver", {"verify", "version"}, set()),
    ("millwright lo", {"lock"}, {"unlock"}),
    ("millwright plan --ou", {"--out"}, set()),
    ("millwright drift --ru", {"--run"}, set()),
    ("millwright completion ", {"bash", "zsh", "fish"}, set()),
]

BASH = """
source {script} || exit 1
COMP_WORDS=({words}); COMP_CWORD={last}
[ {blank} = 0 ] || COMP_WORDS+=("")
_millwright && printf '%s\\n' "${{COMPREPLY[@]}}"
"""

# zsh completes in its line editor only; these stand for it and say what they were given.
ZSH = """
compdef() {{ :; }}
compadd() {{ shift; print -l -- ${{(M)@:#$PREFIX*}}; }}
_describe() {{ local name; for name in ${{(P)2}}; do [[ ${{name%%:*}} == $PREFIX* ]] && print -r -- ${{name%%:*}}; done; true; }}
_files() {{ :; }}
source {script} || exit 1
words=({words}); CURRENT={count}; PREFIX={prefix}
_millwright
"""

FISH = """
source {script}; or exit 1
complete -C {line} | string split -f1 \\t; true
"""


def offered(shell, script, line):
    words = line.split()
    blank = line.endswith(" ")
    last = len(words) - (0 if blank else 1)
    text = {"bash": BASH, "zsh": ZSH, "fish": FISH}[shell].format(
        script=script, words=" ".join(words), last=last, blank=int(blank), count=last + 1,
        prefix="''" if blank else words[-1], line=f"'{line}'")
    options = {"bash": ["--norc"], "zsh": ["-f"], "fish": ["--no-config"]}[shell]
    done = subprocess.run([shell, *options, "-c", text], capture_output=True, text=True, timeout=30, check=False,
                          env={**os.environ, "HOME": str(script.parent), "XDG_CONFIG_HOME": str(script.parent)})
    if done.returncode != 0 or done.stderr:
        return None, done.stderr
    return set(done.stdout.split()), ""


def main():
    program, failed, tried = sys.argv[1], 0, []
    for shell in ("bash", "zsh", "fish"):
        if shutil.which(shell) is None:
            continue
        tried.append(shell)
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder) / f"millwright.{shell}"
            script.write_text(subprocess.run([program, "completion", shell], capture_output=True, text=True, check=True).stdout)
            for line, wanted, unwanted in CASES:
                got, error = offered(shell, script, line)
                if got is None or not wanted <= got or got & unwanted:
                    failed += 1
                    print(f"{shell}: '{line}' offers {sorted(got or [])}, wanted {sorted(wanted)}\n{error}")
    print(f"{', '.join(tried)}: {len(CASES) * len(tried) - failed} of {len(CASES) * len(tried)} as wanted")
    return 77 if not tried else 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
