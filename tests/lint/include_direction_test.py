"""The include check must fail on what it is there for."""
import pathlib
import shutil

import include_direction as lint
import pytest


@pytest.fixture
def tree(tmp_path):
    """A copy of the real folders, to plant mistakes in."""
    for top in ("orchestrator", "steps", "inventory"):
        shutil.copytree(lint.ROOT / top, tmp_path / top)
    return tmp_path


def plant(tree: pathlib.Path, path, text):
    (tree / path).write_text(text)
    return list(lint.findings(tree))


def test_the_tree_is_clean(tree):
    assert list(lint.findings(tree)) == []


@pytest.mark.parametrize("path, text, said", [
    ("steps/core/planted.cpp", '#include "orchestrator/engine/engine.hpp"\n', "must not include orchestrator/engine/engine.hpp"),
    ("orchestrator/base/planted.hpp", '\n#include "steps/contract/step.hpp"\n', "planted.hpp:2: base must not include"),
    ("orchestrator/graph/planted.cpp", '#include "orchestrator/journal/journal.hpp"\n', "graph must not include"),
    ("orchestrator/engine/planted.cpp", '#include "orchestrator/cli/verbs.hpp"\n', "engine must not include"),
    ("orchestrator/graph/planted.cpp", "#include <sqlite3.h>\n", "needs PkgConfig::sqlite3"),
    ("orchestrator/transport/connection.hpp", "#include <libssh/libssh.h>\n", "needs PkgConfig::libssh"),  # others include it
    ("steps/core/planted.cpp", 'void f() { std::cout << "hi"; }\n', "only cli prints"),
    ("orchestrator/base/planted.cpp", "void f() { std::exit(3); }\n", "only cli prints"),
])
def test_a_planted_mistake_is_found(tree, path, text, said):
    found = plant(tree, path, text)
    assert len(found) == 1 and said in found[0]


def test_a_private_dependency_is_fine_in_a_source_file(tree):
    assert plant(tree, "orchestrator/transport/planted.cpp", "#include <libssh/libssh.h>\n") == []


def test_an_arrow_cannot_be_turned_round_in_a_list(tree):
    found = plant(tree, "steps/core/CMakeLists.txt", "millwright_library(steps_core DEPS millwright::engine)\n")
    assert any("steps_core must not depend on engine" in line for line in found)
