"""Compares `millwright inventory` with the real ansible-inventory over generated inventories.

Hosts, groups, the variables of every host, and what host patterns match must be the same. Usage:
differential_inventory.py MILLWRIGHT [COUNT] [SEED]. Without ansible-inventory it says so and ends with 77 (skipped).
"""

import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

GROUPS = ["web", "db", "gpu", "site", "east", "west", "empty", "infra"]
HOSTS = ["alpha", "beta", "gamma.example.com", "10.0.0.7", "node-1", "delta_2", "web9"]
RANGES = ["web[1:3]", "db[01:03]", "n[a:c].lab", "gpu[1:5:2]", "x[0:1]-[a:b]", "s[08:11]", "k[9:11]"]
NAMES = ["v", "w", "color", "ansible_user", "ansible_port", "list", "nested", "flag", "port", "size"]
INI_VALUES = ["1", "-3", "0644", "1.5", "1e3", "True", "true", "None", "yes", "'quoted text'", '"double quoted"', "plain",
              "[1, 2, 'x']", "{'a': 1, 'b': [True, None]}", "(1, 2)", "a=b", "x#y", "0x1f", "1_000", "", "'it''s'",
              "{{ other }}", "/usr/bin/python3", "5 # five", "1.2.3", "[1,", "\\\\", "é", "-", "'a\\nb'", "00", "0o17"]
YAML_VALUES = ["1", "-3", "0644", "0o17", "1.5", "1e3", "1.0e+3", ".5", "yes", "No", "on", "OFF", "y", "true", "~", "null",
               "", '"yes"', "'1'", "plain text", "[1, two, 3.0]", "{a: 1, b: [x, y]}", "1_000", "0x1F", "12:30:45", "1:30",
               '"{{ other }}"', "1.2.3", "é", "0b101", "089", "+5", "1e-3", "6.02e+23", "'it''s'", "Yes ", "nO"]


def pick(rng, items, most):
    return rng.sample(items, rng.randint(0, min(most, len(items))))


def edges(rng, groups):
    """Children only later in GROUPS, so that there are no loops, also between two sources."""
    groups = sorted(groups, key=GROUPS.index)
    return {g: [c for c in groups[i + 1:] if rng.random() < 0.3] for i, g in enumerate(groups)}


def write_ini(rng, path):
    groups = pick(rng, GROUPS, 6)
    lines = ["; made by a generator", ""]
    entries = HOSTS + RANGES

    def host_line():
        name = rng.choice(entries)
        if rng.random() < 0.2 and "[" not in name:
            name += ":22" + str(rng.randint(10, 99))
        words = [name]
        for variable in pick(rng, NAMES, 3):
            value = rng.choice(INI_VALUES)
            quoted = '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' if " " in value or not value else value
            words.append(f"{variable}={quoted}")
        if rng.random() < 0.2:
            words.append("# comment")
        return " ".join(words)

    def host_lines(most):
        seen, out = set(), []
        for _ in range(rng.randint(0, most)):
            line = host_line()
            if line.split()[0].split(":")[0] not in seen or "[" in line.split()[0]:
                seen.add(line.split()[0].split(":")[0])
                out.append(line)
        return out

    lines += host_lines(3)
    below = edges(rng, groups)
    sections = []
    for group in groups:
        sections.append([f"[{group}]"] + host_lines(3))
        if below[group]:
            sections.append([f"[{group}:children]"] + below[group])
        if rng.random() < 0.6:
            variables = [f"{n} = {rng.choice(INI_VALUES)}" for n in pick(rng, NAMES, 3)]
            if rng.random() < 0.3:
                variables.append(f"ansible_group_priority={rng.randint(0, 20)}")
            sections.append([f"[{group}:vars]"] + variables)
    rng.shuffle(sections)
    if rng.random() < 0.4:
        sections.append(["[all:vars]"] + [f"{n}={rng.choice(INI_VALUES)}" for n in pick(rng, NAMES, 3)])
    for section in sections:
        lines += [""] + section
    path.write_text("\n".join(lines) + "\n")
    return groups


def yaml_vars(rng, indent, most=3):
    return [f"{indent}{name}: {rng.choice(YAML_VALUES)}" for name in pick(rng, NAMES, most)]


def write_yaml(rng, path):
    groups = pick(rng, GROUPS, 6)
    lines = []

    def hosts(indent):
        out = []
        for name in pick(rng, HOSTS + RANGES, 3):
            variables = yaml_vars(rng, indent + "  ")
            out += [f"{indent}{name}:"] + variables
        return out

    def body(indent, children):
        parts = []
        found = hosts(indent + "  ")
        if found:
            parts.append([f"{indent}hosts:"] + found)
        variables = yaml_vars(rng, indent + "  ")
        if variables:
            parts.append([f"{indent}vars:"] + variables)
        if children:
            nested = []
            for child in children:
                nested.append(f"{indent}  {child}:")
                if rng.random() < 0.4:
                    nested += body(indent + "    ", [])
            parts.append([f"{indent}children:"] + nested)
        rng.shuffle(parts)
        return [line for part in parts for line in part]

    below = edges(rng, groups)
    lines.append("all:")
    lines += body("  ", pick(rng, groups, 3)) or ["  hosts:"]
    for group in groups:
        lines.append(f"{group}:")
        lines += body("  ", below[group])
    path.write_text("\n".join(lines) + "\n")
    return groups


def write_vars_files(rng, folder, groups):
    for kind, names in (("group_vars", groups + ["all", "ungrouped"]), ("host_vars", HOSTS + ["web1", "db02", "na.lab"])):
        for name in pick(rng, names, 3):
            ending = rng.choice(["", ".yml", ".yaml", ".json"])
            text = json.dumps({rng.choice(NAMES): 7}) if ending == ".json" else "\n".join(yaml_vars(rng, "", 3)) + "\n"
            if rng.random() < 0.3:
                target = folder / kind / name / ("part" + ending)
                (folder / kind / name / ".hidden").parent.mkdir(parents=True, exist_ok=True)
            else:
                target = folder / kind / (name + ending)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)


def patterns(rng, groups, hosts):
    words = groups + hosts + ["all", "*", "web*", "db0?", "~(web|db)\\d", "ungrouped", "*.example.com", "web[13]*"]
    words += [f"{g}[{i}]" for g in groups[:2] for i in ("0", "-1", "0:1", "1:")]
    for _ in range(4):
        parts = [rng.choice(words)]
        for _ in range(rng.randint(0, 2)):
            parts.append(rng.choice(["", "", "&", "!"]) + rng.choice(words))
        yield rng.choice([":", ","]).join(parts)


def output_of(command, folder):
    environment = dict(os.environ, HOME=str(folder), LC_ALL="C.UTF-8")
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=120, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


# Ansible is asked in one process: starting it a thousand times would take an hour.
REFERENCE = r"""
import json, sys
from ansible.parsing.dataloader import DataLoader
from ansible.inventory.manager import InventoryManager
from ansible.vars.manager import VariableManager
from ansible.cli.inventory import INTERNAL_VARS
from ansible.parsing.ajson import AnsibleJSONEncoder
from ansible.plugins.vars import host_group_vars
from ansible.utils.display import Display
for line in sys.stdin:
    job = json.loads(line)
    host_group_vars.FOUND.clear()
    answer = {"hosts": {}, "groups": {}, "patterns": {}}
    try:
        loader = DataLoader()
        inventory = InventoryManager(loader=loader, sources=job["sources"])
        variables = VariableManager(loader=loader, inventory=inventory)
        for host in inventory.get_hosts("all"):
            mine = variables.get_vars(host=host, include_hostvars=False, stage="all")
            answer["hosts"][host.name] = {k: v for k, v in mine.items() if k not in INTERNAL_VARS}
        for name, group in inventory.groups.items():
            answer["groups"][name] = {"hosts": [h.name for h in group.hosts], "children": [g.name for g in group.child_groups]}
        for pattern in job["patterns"]:
            try:
                answer["patterns"][pattern] = sorted(h.name for h in inventory.get_hosts(pattern))
            except Exception as error:
                answer["patterns"][pattern] = []
    except Exception as error:
        answer = {"error": str(error)}
    print("ANSWER " + json.dumps(answer, cls=AnsibleJSONEncoder), flush=True)
"""


class Reference:
    def __init__(self, python):
        self.config = tempfile.NamedTemporaryFile(suffix=".cfg")
        self.process = subprocess.Popen([python, "-c", REFERENCE], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True,
                                        env=dict(os.environ, ANSIBLE_CONFIG=self.config.name, LC_ALL="C.UTF-8",
                                                 ANSIBLE_INVENTORY_UNPARSED_WARNING="0"))

    def ask(self, sources, wanted):
        self.process.stdin.write(json.dumps({"sources": sources, "patterns": wanted}) + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("ANSWER "):
                return json.loads(line[7:])
        raise RuntimeError("the reference ended")

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=30)


def ours(program, sources, wanted, folder):
    given = [word for source in sources for word in ("-i", source)]
    code, out, err = output_of([program, "inventory", *given, "--list"], folder)
    if code != 0:
        return {"error": err}
    listed = json.loads(out)
    answer = {"hosts": listed.pop("_meta")["hostvars"], "groups": listed, "patterns": {}}
    for pattern in wanted:
        code, out, _ = output_of([program, "inventory", *given, "-l", pattern], folder)
        answer["patterns"][pattern] = sorted(out.split()) if code == 0 else []
    return answer


def compare(theirs, mine):
    problems = []
    if "error" in mine:
        return [f"millwright refuses it:\n{mine['error']}"]
    for host, variables in theirs["hosts"].items():
        got = mine["hosts"].get(host, {})
        for name in sorted(set(variables) | set(got)):
            a, b = variables.get(name, "(absent)"), got.get(name, "(absent)")
            if a != b or (isinstance(a, bool) != isinstance(b, bool)):
                problems.append(f"{host}.{name}: ansible {a!r}, millwright {b!r}")
    for host in mine["hosts"]:
        if host not in theirs["hosts"]:
            problems.append(f"host {host} is not in ansible's")
    for name, group in theirs["groups"].items():
        got = mine["groups"].get(name, {})
        if name != "all" and group["hosts"] != got.get("hosts", []):
            problems.append(f"group {name}: hosts {group['hosts']} / {got.get('hosts', [])}")
        if group["children"] != got.get("children", []):
            problems.append(f"group {name}: children {group['children']} / {got.get('children', [])}")
    for pattern, hosts in theirs["patterns"].items():
        if hosts != mine["patterns"][pattern]:
            problems.append(f"pattern {pattern}: {hosts} / {mine['patterns'][pattern]}")
    return problems


def main():
    program = str(pathlib.Path(sys.argv[1]).resolve())
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    found = shutil.which("ansible-inventory")
    if not found:
        print("skipped: ansible-inventory is not here; apt-get install ansible-core")
        return 77
    first = pathlib.Path(found).read_text(errors="replace").splitlines()[0]
    python = first[2:].split()[0] if first.startswith("#!") else sys.executable
    reference, bad, refused = Reference(python), 0, 0
    for number in range(count):
        rng = random.Random(f"{seed}.{number}")
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            sources, groups = [], []
            for i in range(1 if rng.random() < 0.8 else 2):
                ini = rng.random() < 0.5
                path = folder / (f"hosts{i}.ini" if ini else f"hosts{i}.yml")
                groups += write_ini(rng, path) if ini else write_yaml(rng, path)
                sources.append(str(path))
            if rng.random() < 0.5:
                write_vars_files(rng, folder, sorted(set(groups)))
            # Names that nobody knows are errors here and warnings there, so patterns are made of those that exist.
            known = ours(program, sources, [], folder)
            hosts = sorted(known.get("hosts", {})) or ["localhost"]
            wanted = sorted(set(patterns(rng, sorted(set(groups)) or ["all"], hosts)))
            theirs = reference.ask(sources, wanted)
            if "error" in theirs:
                refused += 1
                continue
            problems = compare(theirs, ours(program, sources, wanted, folder))
            if problems:
                bad += 1
                print(f"== inventory {seed}.{number}")
                for source in sources:
                    print(f"-- {pathlib.Path(source).name}\n{pathlib.Path(source).read_text()}")
                print("\n".join(problems[:12]))
    reference.close()
    print(f"{count} inventories, {bad} differ, {refused} refused by ansible itself")
    return 1 if bad or refused > count // 4 else 0


if __name__ == "__main__":
    sys.exit(main())
