"""What the pages show is true: every playbook and inventory in them is without mistakes, and the step reference is that
of the program. MILLWRIGHT_ACCEPT=1 writes the step reference anew.

usage: docs.py MILLWRIGHT
"""
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The design shows the whole plan, steps that are not built yet included.
PAGES = [ROOT / "README.md", *sorted(page for page in (ROOT / "docs").glob("*.md") if page.name != "design.md")]
# What a fragment may lean on without showing it.
AROUND = {
    "box": "{id: box, uses: container, with: {name: llm}}",
    "weights": "{id: weights, uses: model, in: box, with: {source: 'node:/m.gguf'}}",
    "server": "{id: server, uses: server, in: box, with: {engine: llama.cpp, model: \"{{ steps.weights.path }}\"}}",
}


class Loader(yaml.SafeLoader):
    """Tags such as !secret are millwright's own."""


Loader.add_multi_constructor("!", lambda loader, suffix, node: None)


def blocks(page):
    for match in re.finditer(r"^```yaml\n(.*?)^```$", page.read_text(), re.M | re.S):
        yield page.read_text()[:match.start()].count("\n") + 2, match.group(1)


def whole(text):
    """A playbook of a list of steps: with the inputs that they read, and the steps that they lean on."""
    own = {step.get("id") for step in yaml.load(text, Loader)}
    inputs = "".join(f"  {name}: {{type: any, required: true}}\n" for name in sorted(set(re.findall(r"inputs\.(\w+)", text))))
    leaned_on, wanted = set(), text
    for name in reversed(AROUND):
        if name not in own and re.search(rf"\b(in: |steps\.){name}\b|needs: .*\b{name}\b", wanted):
            leaned_on.add(name)
            wanted += AROUND[name]
    needed = [step for name, step in AROUND.items() if name in leaned_on]
    return (f"hosts: all\ninputs:{' {}' if not inputs else ''}\n{inputs}steps:\n"
            + "".join(f"  - {step}\n" for step in needed) + "".join(f"  {line}\n" if line else "\n" for line in text.splitlines()))


def lint(program, text, folder):
    data = yaml.load(text, Loader)
    if isinstance(data, list):
        text = whole(text)
    for name in re.findall(r"\b(?:source|include): ([\w./-]+/[\w.-]+)", text):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("steps: []\n" if file.suffix == ".yml" else "")
    file = folder / "shown.yml"
    file.write_text(text)
    if isinstance(data, dict) and "steps" not in data:
        words = [program, "lint", "-i", file]
    else:
        words = [program, "lint", file]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=folder,
                          env={**os.environ, "GPU2_SUDO": "x"})
    return "" if done.returncode == 0 else done.stdout + done.stderr


def stale_pictures(page, program):
    """Lines of a shown `millwright fit` that it does not print; `...` stands for anything. Logs are those of the tests."""
    text = page.read_text()
    logs = {"sglang.log": ROOT / "tests/data/planner/logs/composed-sglang-0.5.9-story.log"}
    for match in re.finditer(r"^```\n\$ (millwright fit .*?[^\\])\n(.*?)^```$", text, re.M | re.S):
        words = shlex.split(match.group(1).replace("\\\n", " "))[1:]
        words = [str(logs.get(word, word)) for word in words]
        done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
        printed = " ".join(done.stdout.split())
        for line in match.group(2).splitlines():
            for part in (" ".join(part.split()) for part in line.split("...")):
                if part and part not in printed:
                    yield f"{page.relative_to(ROOT)}:{text[:match.start()].count(chr(10)) + 1}: not printed by that command: {part}"


def main():
    program, failed, shown = os.path.abspath(sys.argv[1]), 0, 0
    reference = ROOT / "docs/steps.md"
    printed = subprocess.run([program, "steps", "--markdown"], capture_output=True, text=True, check=True).stdout
    if os.environ.get("MILLWRIGHT_ACCEPT") == "1":
        reference.write_text(printed)
    if reference.read_text() != printed:
        print("docs/steps.md is not what `millwright steps --markdown` prints; MILLWRIGHT_ACCEPT=1 writes it anew")
        failed += 1
    for page in PAGES:
        for line, text in blocks(page):
            shown += 1
            with tempfile.TemporaryDirectory() as folder:
                said = lint(program, text, pathlib.Path(folder))
            if said:
                failed += 1
                print(f"{page.relative_to(ROOT)}:{line}: what is shown here has mistakes\n{said}")
        for said in stale_pictures(page, program):
            failed += 1
            print(said)
        for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
            if not (page.parent / link).exists():
                failed += 1
                print(f"{page.relative_to(ROOT)}: links to {link}, which is not there")
    if shown < 10:
        failed += 1
        print(f"only {shown} examples found: is the pattern wrong?")
    print(f"{shown} examples, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
