#!/usr/bin/env python3
"""Writes playbooks/knowledge/planner/engine_flags.yml anew: which flag each version of an engine knows, and the values that
a flag of CHOICES can have, read (never run) from the engines' own published packages.

usage: engine_flags.py [--wheels FOLDER] --llama-server PROGRAM

PROGRAM is a llama-server of the version under LLAMA_CPP; its --help is read. FOLDER holds what `pip download --no-deps sglang==VERSION` (or vllm) saved; what is missing is downloaded into it.
The versions that are looked at are those of VERSIONS below: add the newest one and run it.
"""
import argparse
import ast
import pathlib
import re
import subprocess
import sys
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
VERSIONS = {
    "sglang": ["0.5.6", "0.5.7", "0.5.9", "0.5.10", "0.5.11", "0.5.12", "0.5.15", "0.5.19", "0.5.23"],
    "vllm": ["0.8.5.post1", "0.11.0", "0.19.0", "0.20.0", "0.21.0", "0.25.0", "0.26.0", "0.28.0", "0.32.0"],
}
# Where an engine's arguments are defined.
SOURCES = {
    "sglang": ("sglang/srt/server_args.py", "sglang/srt/arg_groups/"),
    "vllm": ("vllm/engine/arg_utils.py", "vllm/entrypoints/openai/cli_args.py", "vllm/entrypoints/launchers/cli_args.py",
             "vllm/config.py", "vllm/config/"),
}
# Flags whose possible values the planner needs: those that its arithmetic reads.
CHOICES = {
    "sglang": ("kv-cache-dtype", "dtype", "quantization", "speculative-algorithm", "mamba-ssm-dtype", "mamba-scheduler-strategy",
               "mamba-radix-cache-strategy"),
    # vLLM's are Literals of its configuration, by these names.
    "vllm": {"kv-cache-dtype": "CacheDType", "dtype": "ModelDType", "mamba-cache-dtype": "MambaDType",
             "mamba-ssm-cache-dtype": "MambaDType", "mamba-cache-mode": "MambaCacheMode",
             "speculative-config": "SpeculativeMethod"},  # of its JSON: the key `method`
    "llama.cpp": ("cache-type-k", "cache-type-v", "split-mode"),
}
# llama.cpp has no package with its sources: `llama-server --help` of the version named. Here are the names by which the
# planner knows flags, and what the project's own history says about other versions.
LLAMA_CPP = {
    "checked": ["0.7.0"],
    "source": "llama-server --help of 0.7.0 (build 11669)",
    "flags": {
        "model": (["-m"], ">=0"), "ctx-size": (["-c"], ">=0"), "batch-size": (["-b"], ">=0"), "ubatch-size": (["-ub"], ">=0"),
        "parallel": (["-np"], ">=0"), "n-gpu-layers": (["-ngl", "gpu-layers"], ">=0"), "cache-type-k": (["-ctk"], ">=0"),
        "cache-type-v": (["-ctv"], ">=0"), "flash-attn": (["-fa"], ">=0"), "split-mode": (["-sm"], ">=0"),
        "tensor-split": (["-ts"], ">=0"), "main-gpu": (["-mg"], ">=0"), "n-cpu-moe": (["-ncmoe"], ">=0"), "cpu-moe": (["-cmoe"], ">=0"),
        "override-tensor": (["-ot"], ">=0"), "mmproj": (["-mm"], ">=0"), "no-mmap": ([], "<0.7.0"), "mlock": ([], "<0.7.0"),
        "load-mode": (["-lm"], ">=0.7.0"),
        "kv-unified": (["-kvu"], ">=0"), "swa-full": ([], ">=0"), "cache-ram": (["-cram"], ">=0"), "ctx-checkpoints": (["-ctxcp"], ">=0"),
        "fit": ([], ">=0"), "fit-target": (["-fitt"], ">=0"), "fit-ctx": (["-fitc"], ">=0"), "model-draft": (["-md"], ">=0"),
        "spec-type": ([], ">=0.7.0"), "spec-draft-n-max": ([], ">=0.7.0"), "spec-draft-n-min": ([], ">=0.7.0"),
        "draft": (["draft-n", "draft-max"], "<0.7.0"), "draft-min": ([], "<0.7.0"), "no-kv-offload": (["-nkvo"], ">=0"),
        "host": ([], ">=0"), "port": ([], ">=0"), "alias": (["-a"], ">=0"), "api-key-file": ([], ">=0"), "jinja": ([], ">=0"),
        "threads": (["-t"], ">=0"), "verbosity": (["-lv"], ">=0"), "rpc": ([], ">=0"), "device": (["-dev"], ">=0"),
    },
}


def literal(node):
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def texts(node, lists):
    """The texts of a list, of a name that stands for one, or of a Literal (which may hold others); None for anything else."""
    if isinstance(node, ast.Name):
        return lists.get(node.id)
    if isinstance(node, ast.Subscript) and getattr(node.value, "id", "") == "Literal":
        node = node.slice
        if literal(node):
            return [literal(node)]
    if isinstance(node, (ast.List, ast.Tuple)):
        found = [[literal(one)] if literal(one) else texts(one, lists) for one in node.elts]
        return sum(found, []) if found and all(found) else None
    return None


def named_lists(tree):
    """NAME = ["a", "b"] and NAME = Literal["a", "b"] at the top of a file."""
    out = {}
    for node in tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target if isinstance(node, ast.AnnAssign) else None
        if isinstance(target, ast.Name) and node.value is not None and texts(node.value, out):
            out[target.id] = texts(node.value, out)
    return out


def choices_of(tree, lists):
    """flag -> values, of add_argument(..., choices=...), of Arg(choices=...) and of "Builtins: A, B." in a field's help."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
            names = [text for text in map(literal, node.args) if text and text.startswith("--")]
            for word in node.keywords:
                if names and word.arg == "choices" and texts(word.value, lists):
                    yield names[0][2:], texts(word.value, lists)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and isinstance(node.annotation, ast.Subscript):
            name = node.target.id.replace("_", "-")
            for part in ast.walk(node.annotation):
                if isinstance(part, ast.keyword) and part.arg == "choices" and texts(part.value, lists):
                    yield name, texts(part.value, lists)
                if literal(part) and "Builtins: " in part.value:
                    yield name, re.search(r"Builtins: ([A-Z0-9, ]+)\.", part.value).group(1).split(", ")


def of_calls(tree):
    """add_argument("--name", "--alias", ...): one list of names a call."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
            names = [text for text in map(literal, node.args) if text and text.startswith("-")]
            if names:
                yield names


def of_fields(tree):
    """SGLang since 0.5.2x: `name: A[type, Arg(cli_name=..., aliases=[...])]` or `A[type, "help"]` in a dataclass."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        note = node.annotation
        if not isinstance(note, ast.Subscript) or getattr(note.value, "id", "") not in ("A", "Annotated"):
            continue
        names = ["--" + node.target.id.replace("_", "-")]
        hidden = False
        for call in ast.walk(note):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Arg":
                for word in call.keywords:
                    if word.arg == "cli_name" and literal(word.value):
                        names[0] = literal(word.value)
                    if word.arg == "aliases" and isinstance(word.value, (ast.List, ast.Tuple)):
                        names += [text for text in map(literal, word.value.elts) if text]
                    if word.arg == "no_cli" and isinstance(word.value, ast.Constant):
                        hidden = bool(word.value.value)
        if not hidden:
            yield names


def of_front_end(tree):
    """vLLM since 0.11: the server's own arguments are the fields of FrontendArgs and of what it is derived from."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name.endswith("FrontendArgs"):
            for field in node.body:
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                    yield ["--" + field.target.id.replace("_", "-")]


def choices_of_help(text):
    """llama.cpp: "allowed values: a, b" below a flag, or {a,b} behind it."""
    name = None
    for line in text.splitlines():
        if line.startswith("-"):
            long = re.findall(r"--([A-Za-z][A-Za-z0-9-]*)", re.split(r"  +(?=[a-z(\[])", line)[0])
            name = long[0] if long else None
            inline = re.search(r"\{([a-z,]+)\}", line)
            if name and inline:
                yield name, inline.group(1).split(",")
        allowed = re.search(r"allowed values: (.+)", line)
        if name and allowed:
            yield name, allowed.group(1).strip().split(", ")


def of_help(text):
    """llama.cpp: "-c,    --ctx-size N    ..." at the beginning of a line; the first long name is the flag's."""
    for line in text.splitlines():
        names = re.findall(r"(?:^|, *)(--?[A-Za-z][A-Za-z0-9-]*)(?=[ ,=]|$)", re.split(r"  +(?=[a-z(\[])", line)[0]) if line.startswith("-") else []
        long = [name[2:] for name in names if name.startswith("--")]
        if long:
            yield long[0], long[1:] + [name for name in names if not name.startswith("--")]


def flags_of(wheel, engine):
    """The flags of one version with their other names (a short one keeps its dash), and the values of those of CHOICES."""
    found, trees, lists, choices = {}, {}, {}, {}
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.endswith(".py") and any(name == s or (s.endswith("/") and name.startswith(s)) for s in SOURCES[engine]):
                trees[name] = ast.parse(archive.read(name).decode())
                lists.update(named_lists(trees[name]))
    for name, tree in trees.items():
        if engine == "sglang" or "config" not in name.split("/")[1]:
            choices.update({flag: values for flag, values in choices_of(tree, lists) if flag in CHOICES[engine]})
            fields = list(of_fields(tree)) if "arg_groups" in name or "server_args" in name else list(of_front_end(tree))
            for names in list(of_calls(tree)) + fields:
                long = [n[2:] for n in names if n.startswith("--")]
                short = [n for n in names if not n.startswith("--")]
                if long:
                    found.setdefault(long[0], set()).update(long[1:] + short)
    if engine == "vllm":
        choices.update({flag: lists[name] for flag, name in CHOICES[engine].items() if flag in found and name in lists})
    return found, choices


def wheel_of(folder, engine, version):
    for attempt in (1, 2):
        found = sorted(folder.glob(f"{engine}-{version}-*.whl"))
        if found:
            return found[0]
        if attempt == 1:
            subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", f"{engine}=={version}", "-d", folder], check=True)
    raise SystemExit(f"no wheel of {engine} {version} in {folder}")


def merged(per_version):
    """name -> (aliases, versions that know it); a name that was an alias elsewhere is the same flag."""
    out, called = {}, {}
    for version, flags in per_version.items():
        for name, aliases in flags.items():
            first = next((called[n] for n in [name, *sorted(aliases)] if n in called), name)
            called.update({n: first for n in [name, *aliases]})
            entry = out.setdefault(first, (set(), []))
            entry[0].update({name, *aliases} - {first})
            if version not in entry[1]:
                entry[1].append(version)
    return out


def ranges(known, checked):
    """A specifier that says which versions know it. Between two that were looked at, the earlier one decides."""
    parts, start = [], None
    for version in checked + [None]:
        if version in known and start is None:
            start = version
        elif version not in known and start is not None:
            low = "" if start == checked[0] else f">={start}"
            high = "" if version is None else f"<{version}"
            parts.append(",".join(p for p in (low, high) if p))
            start = None
    return parts


def choice_rows(per_version, checked, name):
    """One entry for each list of values, with the versions that have it."""
    out = []
    for version in checked:
        values = per_version.get(version, {}).get(name)
        if values and (not out or out[-1][1] != values or out[-1][0][-1] != checked[checked.index(version) - 1]):
            out.append(([version], values))
        elif values:
            out[-1][0].append(version)
    entries = []
    for versions, values in out:
        span = ranges(versions, checked)[0]
        head = f'versions: "{span}", ' if span else ""
        entries.append("{" + head + "values: [" + ", ".join(f'"{v}"' for v in values) + "]}")
    return entries


def rows(table, checked, choices):
    for name in sorted(table):
        aliases, known = table[name]
        row = [f"name: {name}"]
        also = sorted(a for a in aliases if a != name)
        if also:
            row.append("also: [" + ", ".join(f'"{a}"' for a in also) + "]")
        spans = known if isinstance(known, str) else ranges(known, checked)
        if isinstance(spans, str):
            if spans != ">=0":
                row.append(f'versions: ["{spans}"]')
        elif spans != [""]:
            row.append("versions: [" + ", ".join(f'"{s}"' for s in spans) + "]")
        values = choice_rows(choices, checked, name)
        if values:
            row.append("choices: [" + ", ".join(values) + "]")
        yield "      - {" + ", ".join(row) + "}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wheels", default="engine-wheels", type=pathlib.Path)
    parser.add_argument("--llama-server", required=True)
    given = parser.parse_args()
    folder = given.wheels
    shown = subprocess.run([given.llama_server, "--help"], capture_output=True, text=True, check=True)
    llama_cpp = dict(LLAMA_CPP["flags"])
    helped = list(of_help(shown.stdout + shown.stderr))
    there = {word for name, also in helped for word in [name, *also]}
    if gone := [name for name, (_, span) in llama_cpp.items() if not span.startswith("<") and name not in there]:
        sys.exit(f"{given.llama_server} --help has no {', '.join(gone)}: say in LLAMA_CPP until which version they were there")
    for name, also in helped:
        first = next((n for n in [name, *also] if n in llama_cpp), name)
        llama_cpp[first] = ({name, *also} - {first}, llama_cpp.get(first, ((), ">=0"))[1])
    values = {name: list_ for name, list_ in choices_of_help(shown.stdout + shown.stderr) if name in CHOICES["llama.cpp"]}
    folder.mkdir(parents=True, exist_ok=True)
    lines = ["# Which flag each version of an engine knows. Written by regenerate/engine_flags.py; do not edit by hand.",
             "#   versions  every range that knows it; absent: all that were looked at (and later ones, until somebody looks)",
             "#   also      its other names, a short one with its dash",
             "#   choices   the values that it can have, of flags that the planner's arithmetic reads; speculative-config: of its `method`",
             "engines:"]
    for engine, versions in VERSIONS.items():
        read = {version: flags_of(wheel_of(folder, engine, version), engine) for version in versions}
        lines += [f"  {engine}:", "    checked: [" + ", ".join(f'"{v}"' for v in versions) + "]",
                  f'    source: "{" and ".join(SOURCES[engine])} in the wheels of these versions"', "    flags:"]
        lines += rows(merged({version: flags for version, (flags, _) in read.items()}), versions,
                      {version: choices for version, (_, choices) in read.items()})
    lines += ["  llama.cpp:", "    checked: [" + ", ".join(f'"{v}"' for v in LLAMA_CPP["checked"]) + "]",
              f'    source: "{LLAMA_CPP["source"]}"', "    flags:"]
    lines += rows({n: (set(a), v) for n, (a, v) in llama_cpp.items()}, LLAMA_CPP["checked"], {v: values for v in LLAMA_CPP["checked"]})
    (HERE.parent / "engine_flags.yml").write_text("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
