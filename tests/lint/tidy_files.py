#!/usr/bin/env python3
"""Checks what a compiler does not: file sizes, names of places that must not be written down, leftovers.

usage: tidy_files.py      exit 1 and one line a finding, as file:line: what
"""
import re
import sys

from sources import ROOT, text_of, tracked

MAX_LINES = 500   # of a source file; longer ones are split by idea
MAX_BYTES = 1 << 20  # of anything: larger data is made or fetched, not kept
CODE = (".cpp", ".hpp", ".py", ".sh")
# Mirrors and registries come from the machine's own configuration.
HOSTS = re.compile(r"\b(?:deb|security|snapshot|archive|ports)\.(?:debian|ubuntu)\.\w|\bpypi\.o\w|\bpythonhosted\.o\w|\bcrates\.i\w"
                   r"|\bregistry\.npmj\w|\bproxy\.golan\w|\bmaven\.or\w|\bpypi-mirror\b")
# Where this very checkout lies is nobody else's business; a short path such as /src means too many other things.
PLACES = re.compile(re.escape(str(ROOT)) + r"\b" if len(ROOT.parts) > 2 else r"(?!)")
LEFTOVERS = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b|^(?:<{7}|>{7}) ")
EXEMPT = {"tests/lint/tidy_files.py"}  # says what to look for


def findings():
    for name in tracked():
        text = text_of(name)
        if text is None:
            continue
        if len(text.encode()) > MAX_BYTES:
            yield f"{name}:1: {len(text) >> 10} KiB; the limit is {MAX_BYTES >> 10}"
        lines = text.splitlines()
        if name.endswith(CODE) and len(lines) > MAX_LINES:
            yield f"{name}:{len(lines)}: more than {MAX_LINES} lines; split it by idea"
        if name in EXEMPT or name.startswith("tests/data/"):
            rules = ()
        else:
            rules = ((HOSTS, "a registry's host name"), (PLACES, "a path of one machine"), (LEFTOVERS, "a leftover"))
        for number, line in enumerate(lines, 1):
            for pattern, what in rules:
                if pattern.search(line):
                    yield f"{name}:{number}: {what}: {line.strip()[:100]}"


if __name__ == "__main__":
    bad = list(findings())
    print("\n".join(bad) if bad else "all files are tidy")
    sys.exit(1 if bad else 0)
