#!/usr/bin/python3
"""Holds the playbook schema against a real validator: schema.py DRIVER

The schema is valid under the metaschema of its draft; good playbooks are valid, bad ones are not, and of the broken
playbooks of tests/data those whose mistakes are of shape are refused.
"""
import json
import pathlib
import subprocess
import sys

import jsonschema
import yaml

GOOD = [
    """
name: Serve a model
hosts: [inference, "!gpu9"]
inputs: {model: {type: string, required: true}, engine: {default: a, one_of: [a, b]}, token: {secret: true}}
vars: {dir: "/srv/{{ inputs.model }}", port: 30000}
strategy: {canary: 1, batch: 25%, max_failures: 2}
steps:
  - {id: gpus, uses: gpu.bind, with: {select: all, persist: "{{ vars.persist }}"}, tags: [gpu]}
  - {uses: gpu.bind}
  - {id: box, uses: container, with: {name: llm}, retry: {times: 3, delay: 10s, backoff: 2}, needs: gpus}
  - include: more/steps.yml
  - {uses: command, with: echo hello, in: box, timeout: 90, when: vars.port > 1}
  - {uses: package, with: {name: [a, b], update: yes, wait: 5m}, needs: [gpus, {step: box, on: all}], retry: 2}
  - {uses: file, with: {path: /x, mode: "0644", owner: {user: root}}, foreach: "{{ [1, 2] }}", register: files}
  - {uses: smoke, with: {level: quick}, on_failure: [{do: remedy, attempts: 4, within: 1h}, {do: rollback}]}
""",
    "{hosts: all, steps: []}",
    "{hosts: all, strategy: {batch: [1, 5, 25%], order: reverse_sorted}, steps: [{uses: command, with: x, lock: {name: m, count: 2, on: all}}]}",
    "{hosts: all, vars: , inputs: , steps: []}",
]
BAD = [
    "{steps: []}",
    "{hosts: all}",
    "{hosts: all, steps: [], tasks: []}",
    "[{hosts: all, steps: []}]",
    "{hosts: all, steps: [{uses: comand, with: x}]}",
    "{hosts: all, steps: [{with: x}]}",
    "{hosts: all, steps: [{uses: command}]}",
    "{hosts: all, steps: [{uses: file, with: {path: /x, dirver: y}}]}",
    "{hosts: all, steps: [{uses: file, with: {mode: '0644'}}]}",
    "{hosts: all, steps: [{uses: file, with: {path: /x, mode: u=rw}}]}",
    "{hosts: all, steps: [{uses: file, with: {path: /x, state: flie}}]}",
    "{hosts: all, steps: [{uses: file, with: {path: /x, owner: {grp: x}}}]}",
    "{hosts: all, steps: [{uses: package, with: {name: x, retries: many}}]}",
    "{hosts: all, steps: [{uses: command, with: x, wiht: y}]}",
    "{hosts: all, steps: [{uses: command, with: x, on_failure: [{do: rollback, attempts: 2}]}]}",
    "{hosts: all, steps: [{uses: command, with: x, when: [a, b]}]}",
    "{hosts: all, steps: [{include: x.yml, when: y}]}",
    "{hosts: all, steps: [{uses: command, with: x, id: 1st}]}",
    "{hosts: all, strategy: {batch: 200%}, steps: []}",
    "{hosts: all, strategy: {batch: []}, steps: []}",
    "{hosts: all, strategy: {order: random}, steps: []}",
    "{hosts: all, steps: [{uses: command, with: x, lock: {count: 2}}]}",
    "{hosts: all, steps: [{uses: command, with: x, lock: {name: m, on: host}}]}",
    "{hosts: all, inputs: {a: {typ: string}}, steps: []}",
    "{hosts: all, inputs: {a: {type: strnig}}, steps: []}",
]
BROKEN_SHAPES = ["handlers", "list-of-plays", "no-hosts-no-steps", "unknown-keys", "unknown-kind", "wrong-types",
                 "missing-inputs", "ux-sample", "nothing"]


class Yaml12(yaml.SafeLoader):
    """PyYAML reads YAML 1.1, where `on` is a boolean; editors and millwright read 1.2."""


Yaml12.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:bool" or first in "tTfF"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def load(text):
    return yaml.load(text, Yaml12)


def main():
    schema = json.loads(subprocess.run([sys.argv[1]], check=True, capture_output=True, text=True, timeout=60).stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    wrong = []
    for text in GOOD:
        wrong += [f"good, but refused: {error.message}\n  at {list(error.path)}"
                  for error in validator.iter_errors(load(text))]
    wrong += [f"bad, but valid: {text}" for text in BAD if validator.is_valid(load(text))]
    folder = pathlib.Path(__file__).resolve().parent.parent / "data/playbooks/broken"
    for name in BROKEN_SHAPES:
        if validator.is_valid(load((folder / f"{name}.yml").read_text())):
            wrong.append(f"broken, but valid: {name}.yml")
    print("\n".join(wrong) or f"{len(GOOD)} good and {len(BAD) + len(BROKEN_SHAPES)} bad playbooks told apart")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
