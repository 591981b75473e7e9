"""The grader's modules import in one direction, and pytest's own process stays without jax."""

from __future__ import annotations

import ast
import graphlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.repositories import ROOT

#: From the ground up, as drawn in CONTRIBUTING.md. A module imports from rows below its own only; a
#: package is one entry, inside which modules may import each other without going in circles.
ROWS = (
    ("model",),
    ("tools",),
    ("kernels",),
    ("exercise", "tpu"),
    ("gpu",),
    ("checks", "sandbox", "record"),
    ("grading", "report", "updates"),
    ("api", "view", "watching"),
    ("batch",),
    ("classroom",),
    ("plugin", "commands"),
    ("cli",),
)
ROW = {name: number for number, row in enumerate(ROWS) for name in row}

FILES = {
    ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file
    for file in sorted((ROOT / "grader").rglob("*.py"))
}


def imports(module: str) -> Iterator[tuple[str, int]]:
    """Every module that `module` imports, also inside functions, with the line."""
    for node in ast.walk(ast.parse(FILES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno}: a relative import"
            assert node.module
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield (inner if inner in FILES else node.module), node.lineno


def room(module: str) -> str:
    """What a module is called in ROWS: its first name below grader."""
    return module.split(".")[1]


def test_every_module_has_its_row() -> None:
    assert {room(module) for module in FILES if module != "grader"} == set(ROW)
    assert sum(map(len, ROWS)) == len(ROW)


@pytest.mark.parametrize("module", FILES)
def test_a_module_imports_from_below(module: str) -> None:
    ours = [(name, line) for name, line in imports(module) if name.split(".")[0] == "grader"]
    if module == "grader":
        assert not ours
        return
    for name, line in ours:
        assert name in FILES, f"{module}:{line}: no module {name}"
        inside = room(name) == room(module)
        assert inside or ROW[room(name)] < ROW[room(module)], f"{module}:{line} imports {name}"


def test_no_imports_go_in_circles() -> None:
    graph = {module: {name for name, _ in imports(module) if name in FILES} for module in FILES}
    assert len(list(graphlib.TopologicalSorter(graph).static_order())) == len(FILES)


def test_grading_knows_no_exercise() -> None:
    """Nothing under grader/ imports from katas/, solutions/ or the tests."""
    strange = {"katas", "solutions", "tests", "conftest"}
    for module in FILES:
        assert not strange & {name.split(".")[0] for name, _ in imports(module)}, module


def test_integrations_come_in_through_one_door() -> None:
    """What other programs load of ours is what is made for them."""
    for file in sorted((ROOT / "integrations").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("grader"):
                assert node.module in ("grader.api", "grader.batch.evaluation"), file


def test_pytests_own_process_imports_no_jax() -> None:
    """A kernel's jax lives in the sandbox; pytest --collect-only has to be quick."""
    code = (
        "import sys, grader.plugin, grader.cli\n"
        "print(sorted(name for name in ('jax', 'jaxlib', 'jaxtyping') if name in sys.modules))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert ran.stdout == "[]\n"


#: How JAX's internals are named: `jax._src`, the modules that it has made private by deprecating
#: them, and the inside of Mosaic GPU.
INTERNALS = re.compile(r"jax\._src|jax\.interpreters|jax import interpreters|mosaic\.gpu\.")


def test_only_one_module_names_what_jax_keeps_to_itself() -> None:
    texts = {module: file.read_text(encoding="utf-8") for module, file in FILES.items()}
    found = {module for module, text in texts.items() if INTERNALS.search(text)}
    assert found == {"grader.kernels.jax_internals"}


def test_the_root_conftest_only_names_the_plugin() -> None:
    text = Path(ROOT / "conftest.py").read_text(encoding="utf-8")
    assert text.strip() == 'pytest_plugins = ["grader.plugin"]'
