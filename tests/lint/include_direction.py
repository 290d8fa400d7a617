#!/usr/bin/env python3
"""Checks that every include follows the arrows of docs/design.md, section 2.

The arrows are the dependency lists in the CMake files: a header that other folders include may need what is in its
folder's DEPS (and what those bring), every other file also what is PRIVATE. The lists themselves are held against the design's layers here, so
that an arrow cannot be turned round by editing a list. Also: only `cli` prints or ends the process.

usage: include_direction.py [ROOT]      exit 1 and one line a finding, as file:line: what
"""
import pathlib
import re
import sys

from sources import ROOT

# For each library: the libraries that it may name at all, whatever its CMake list says.
STEPS = {"step_contract", "base"}
LAYERS = {
    "base": set(),
    "step_contract": {"base"},
    "graph": {"base"},
    "journal": {"base"},
    "transport": {"base", "step_contract"},
    "playbook": {"base", "graph", "step_contract"},
    "inventory": {"base", "transport"},
    # Pure arithmetic that both the server step and the command line use.
    "planner": {"base"},
    # Likewise of log lines: the server step while a server starts, the smoke test afterwards.
    "log_signs": {"base"},
    "steps_server": STEPS | {"planner", "log_signs"},
    "steps_smoke": STEPS | {"log_signs"},
    "report": {"base", "journal"},
    "engine": {"base", "playbook", "graph", "transport", "journal", "inventory", "report", "step_contract"},
}
# Headers of other projects, by the target that has to be linked for them.
FOREIGN = {"libssh/": "PkgConfig::libssh", "sqlite3.h": "PkgConfig::sqlite3", "curl/": "CURL::libcurl",
           "yaml-cpp/": "PkgConfig::yaml_cpp", "openssl/": "OpenSSL::Crypto", "CLI/": "CLI11::CLI11",
           "spdlog/": "spdlog::spdlog"}
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')
PRINTS = re.compile(r"std::cout|std::cerr|\bstd::clog|(?<![\w.>])(?:std::)?(?:printf|puts|exit|quick_exit|abort)\s*\(|fmt::print\s*\(")


class Library:
    def __init__(self, name, folder, public, private):
        self.name, self.folder, self.public, self.private = name, folder, public, private


def libraries(root):
    """Library objects by folder, from the millwright_library calls."""
    found = {}
    for cmake in [path for depth in ("*", "*/*", "steps/*/*") for path in sorted(root.glob(depth + "/CMakeLists.txt"))]:
        for call in re.findall(r"^millwright_library\(([^)]*)\)", cmake.read_text(), re.M):
            words, lists, into = call.split(), {"DEPS": [], "PRIVATE": []}, None
            for word in words[1:]:
                if word in lists:
                    into = lists[word]
                else:
                    into.append(word)
            folder = str(cmake.parent.relative_to(root))
            found[folder] = Library(words[0], folder, lists["DEPS"], lists["PRIVATE"])
    return found


def reach(library, by_name, private):
    """All targets that a file of the library may use: what it names, and what those libraries' headers bring."""
    seen, todo = set(), list(library.public) + (list(library.private) if private else [])
    while todo:
        target = todo.pop()
        if target in seen:
            continue
        seen.add(target)
        if target.startswith("millwright::"):
            todo += by_name[target.removeprefix("millwright::")].public
    return seen


def check_lists(all_libraries):
    for library in all_libraries.values():
        allowed = LAYERS.get(library.name, STEPS if library.name.startswith("steps_") else None)
        if allowed is None:
            yield f"{library.folder}/CMakeLists.txt:1: library '{library.name}' is in no layer of the design"
            continue
        for target in library.public + library.private:
            name = target.removeprefix("millwright::")
            if name != target and name not in allowed:
                yield f"{library.folder}/CMakeLists.txt:1: {library.name} must not depend on {name}"


def shared_headers(root, all_libraries):
    """Headers that another folder includes: these may need no more than what their folder passes on."""
    shared = set()
    for library in all_libraries.values():
        for path in (root / library.folder).glob("*.[ch]pp"):
            names = (match.group(1) for match in map(INCLUDE.match, path.read_text().splitlines()) if match)
            shared |= {name for name in names if name and str(pathlib.PurePosixPath(name).parent) != library.folder}
    return shared


def check_file(path, root, library, all_libraries, by_name, shared):
    targets = reach(library, by_name, private=str(path.relative_to(root)) not in shared)
    for number, line in enumerate(path.read_text().splitlines(), 1):
        where = f"{path.relative_to(root)}:{number}"
        if PRINTS.search(line.split("//")[0]):
            yield f"{where}: only cli prints or ends the process"
        match = INCLUDE.match(line)
        if not match:
            continue
        name = match.group(1) or match.group(2)
        owner = all_libraries.get(str(pathlib.PurePosixPath(name).parent))
        if owner and owner is not library and f"millwright::{owner.name}" not in targets:
            yield f"{where}: {library.name} must not include {name} (the arrow points the other way)"
        elif not owner and name.startswith(("orchestrator/cli/", "tests/")):
            yield f"{where}: {library.name} must not include {name}"
        for prefix, target in FOREIGN.items():
            if name.startswith(prefix) and target not in targets:
                yield f"{where}: <{name}> needs {target}, which {library.name} does not list"


def findings(root):
    all_libraries = libraries(root)
    by_name = {library.name: library for library in all_libraries.values()}
    yield from check_lists(all_libraries)
    shared = shared_headers(root, all_libraries)
    for library in all_libraries.values():
        folder = root / library.folder
        for path in sorted(folder.glob("*.hpp")) + sorted(folder.glob("*.cpp")):
            yield from check_file(path, root, library, all_libraries, by_name, shared)


if __name__ == "__main__":
    bad = list(findings(pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT))
    print("\n".join(bad) if bad else "every include follows the arrows")
    sys.exit(1 if bad else 0)
