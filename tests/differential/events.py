#!/usr/bin/python3
"""Holds what runs say against the schema of events and against docs/events.md: events.py MILLWRIGHT UNIT_ENGINE

Every event of the engine's own tests is valid under `millwright schema events`, read by a real validator, with no key
that the schema does not know; every type and every key of the schema is explained on the page.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import jsonschema

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/events.md"
# Runs that are killed over and over say nothing that others do not, and take long.
TESTS = "-Killed.*:ActionScriptTest.*:AnswerCache.*:Turns.*"
# Only real steps say these: the lab's runs are held against the schema too (tests/lab/conftest.py).
ELSEWHERE = {"probe_finished"}


def closed(schema):
    """The schema with every object limited to the keys that it names."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    out = {key: closed(part) for key, part in schema.items()}
    if schema.get("type") == "object" and isinstance(schema.get("properties"), dict):
        out.setdefault("additionalProperties", False)
    return out


def emitted(program):
    """The lines of all runs of the engine's tests."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "events"
        done = subprocess.run([program, f"--gtest_filter={TESTS}"], env={**os.environ, "MILLWRIGHT_EVENTS_TO": str(file)},
                              capture_output=True, text=True, timeout=600, check=False)
        if done.returncode != 0:
            sys.exit(f"the engine's tests fail:\n{done.stdout[-3000:]}")
        return file.read_text().splitlines()


def wrong_events(schema, lines):
    validator = jsonschema.Draft202012Validator(schema)
    wrong, seen = [], set()
    for line in lines:
        event = json.loads(line)
        seen.add(event.get("type"))
        wrong += [f"{error.message}\n  at {list(error.absolute_path)} of {line[:300]}" for error in validator.iter_errors(event)]
    missing = set(schema["properties"]["type"]["enum"]) - seen - ELSEWHERE
    return wrong + [f"no test emits {name}" for name in sorted(missing)]


def wrong_page(schema, text):
    wrong = []
    for name in schema["properties"]["type"]["enum"]:
        if f"**`{name}`**" not in text:
            wrong.append(f"{PAGE.name} does not explain {name}")
    for name, part in schema["$defs"].items():
        if part.get("type") == "object":
            wrong += [f"{PAGE.name} does not explain {key} of {name}" for key in part["properties"] if f"`{key}`" not in text]
    known = set(schema["properties"]) | {key for part in schema["$defs"].values() for key in part.get("properties", ())}
    wrong += [f"{PAGE.name} explains {key}, which is not there" for key in re.findall(r"^\| `(\w+)` \|", text, re.M) if key not in known]
    return wrong


def main():
    millwright, unit_engine = sys.argv[1:3]
    printed = subprocess.run([millwright, "schema", "events"], check=True, capture_output=True, text=True, timeout=60).stdout
    schema = json.loads(printed)
    jsonschema.Draft202012Validator.check_schema(schema)
    strict = closed(schema)
    spoilt = json.dumps({"schema_version": 1, "seq": 1, "time": "2026-11-30T14:12:03Z", "run": "r", "type": "warning",
                         "host": "", "step": "", "data": {"txet": "x"}})
    lines = emitted(unit_engine)
    wrong = wrong_events(strict, lines) + wrong_page(schema, PAGE.read_text())
    if not any("txet" in said for said in wrong_events(strict, [spoilt])):
        wrong.append("a misspelt key passes: the check checks nothing")
    print("\n".join(wrong[:20]) or f"{len(lines)} events are as the schema and {PAGE.name} say")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
