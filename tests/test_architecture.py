"""The grader's modules import in one direction, and pytest's own process stays without jax."""

from __future__ import annotations

import ast
import collections
import graphlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import known_results
from tests.support.repositories import ROOT

#: From the ground up, as drawn in CONTRIBUTING.md. A module imports from rows below its own only; a
#: package is one entry, inside which modules may import each other without going in circles.
ROWS = (
    ("pallascope.model",),
    ("pallascope.tools",),
    ("pallascope.kernels",),
    ("pallascope.tpu",),
    ("pallascope.gpu",),
    ("pallascope.checks", "pallascope.runs"),
    ("pallascope.testing",),
    ("grader.verdict", "grader.tools"),
    ("grader.exercise",),
    ("grader.checks", "grader.sandbox", "grader.record"),
    ("grader.grading", "grader.report", "grader.updates"),
    ("grader.api", "grader.view", "grader.watching"),
    ("grader.batch",),
    ("grader.classroom",),
    ("grader.plugin", "grader.commands"),
    ("grader.cli",),
)
ROW = {name: number for number, row in enumerate(ROWS) for name in row}

#: `pallascope` knows nothing of katas, and `grader` imports it.
PACKAGES = ("pallascope", "grader")
FILES = {
    ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file
    for package in PACKAGES
    for file in sorted((ROOT / package).rglob("*.py"))
}


def test_pallascope_speaks_of_no_learner() -> None:
    """It serves everyone who writes kernels; only files with regions have learners."""
    told = {module for module, file in FILES.items() if "learner" in file.read_text("utf-8")}
    ours = {module for module in told if module.startswith("pallascope")}
    assert ours == {"pallascope.tools", "pallascope.tools.regions"}


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
    """The name of a module in ROWS: its first two names."""
    return ".".join(module.split(".")[:2])


def test_every_module_has_its_row() -> None:
    assert {room(module) for module in FILES if module not in PACKAGES} == set(ROW)
    assert sum(map(len, ROWS)) == len(ROW)


@pytest.mark.parametrize("module", FILES)
def test_a_module_imports_from_below(module: str) -> None:
    ours = [(name, line) for name, line in imports(module) if name.split(".")[0] in PACKAGES]
    if module in PACKAGES:  # names its own modules, for type checkers
        assert {name.split(".")[0] for name, _ in ours} <= {module}
        return
    for name, line in ours:
        assert name in FILES, f"{module}:{line}: no module {name}"
        inside = room(name) == room(module)
        assert inside or ROW[room(name)] < ROW[room(module)], f"{module}:{line} imports {name}"


def test_verdicts_depend_on_the_files_that_they_can_import() -> None:
    """On the layers below grading: a verdict that CI knows is not graded again."""
    below = [name for row in ROWS[: ROW["grader.grading"]] for name in row if "grader" in name]
    modules = {name.removesuffix(".py").replace("/", ".") for name in known_results.VERDICT_FILES}
    ours = {name for name in modules if name.partition(".")[0] in PACKAGES}
    assert ours == {"pallascope", *below, "grader.grading"}


def test_no_imports_go_in_circles() -> None:
    graph = {module: {name for name, _ in imports(module) if name in FILES} for module in FILES}
    assert len(list(graphlib.TopologicalSorter(graph).static_order())) == len(FILES)


def test_grading_knows_no_exercise() -> None:
    """Nothing of ours imports from katas/, solutions/ or the tests."""
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
    assert found == {"pallascope.kernels.jax_internals"}


#: The modules of a single target. Others look its name up in a table: see `exercise/targets.py`.
OF_TARGETS = re.compile(r"grader\.(exercise\.targets|sandbox\.gpu_runs|checks\.(evidence|gpu_\w+))")
ASKS_FOR_TARGET = re.compile(
    r"key\.gpu\b|target\.name\s*[!=]=|\b(Tpu|Gpu)Target\b|isinstance\([^()]*\.target\b"
)


def test_nothing_else_asks_which_target_an_exercise_is_for() -> None:
    texts = {module: file.read_text(encoding="utf-8") for module, file in FILES.items()}
    asking = {module for module, text in texts.items() if ASKS_FOR_TARGET.search(text)}
    assert [module for module in asking if not OF_TARGETS.fullmatch(module)] == []


#: The reader, the evaluator, and a walk from the end of a trace to its beginning: whether an
#: equation is needed depends on the equations after it.
EQUATION_LOOPS = {
    "pallascope.kernels.jaxprs",
    "pallascope.kernels.evaluator",
    "pallascope.kernels.liveness",
}


def loops_over_equations(module: str) -> bool:
    """Whether a `for` of a module, or a comprehension, goes over `.eqns` of a jaxpr."""
    nodes = ast.walk(ast.parse(FILES[module].read_text(encoding="utf-8")))
    iterables = (node.iter for node in nodes if isinstance(node, (ast.For, ast.comprehension)))
    parts = (part for iterable in iterables for part in ast.walk(iterable))
    return any(isinstance(part, ast.Attribute) and part.attr == "eqns" for part in parts)


def test_equations_are_looped_over_in_few_modules() -> None:
    """All others use `sites`, `equations` or an `Evaluator`: they know the same calls and loops."""
    assert set(filter(loops_over_equations, FILES)) == EQUATION_LOOPS


def test_the_root_conftest_only_names_the_plugin() -> None:
    text = Path(ROOT / "conftest.py").read_text(encoding="utf-8")
    assert text.strip() == 'pytest_plugins = ["grader.plugin"]'


#: The rule for the size of files: a file of fewer lines than SMALL is worth opening only if two
#: rooms import it, and one of more lines than LARGE holds more than one feature. Nobody imports a
#: command: `kata` loads it by name.
SMALL, LARGE = 80, 700
#: The most files of a folder, and of both packages.
MANY, IN_ALL = 35, 250
SCRIPTS = ("__init__", "__main__")
#: Imported before anything that the Python of pytest may lack.
ALONE = ("grader.plugin.dependencies",)


def test_a_file_is_worth_opening() -> None:
    importers: dict[str, set[str]] = {}
    for module in FILES:
        for name, _ in imports(module):
            importers.setdefault(name, set()).add(room(module))
    for module, file in FILES.items():
        if file.stem not in SCRIPTS and module not in ALONE and room(module) != "grader.commands":
            lines = len(file.read_text(encoding="utf-8").splitlines())
            assert lines >= SMALL or len(importers.get(module, ())) > 1, f"{file}: {lines} lines"
            assert lines <= LARGE, f"{file}: {lines} lines"


def test_a_folder_is_not_crowded() -> None:
    files = collections.Counter(file.parent for file in FILES.values())
    assert {folder: count for folder, count in files.items() if count > MANY} == {}
    assert len(FILES) <= IN_ALL, "before adding a file, look for the one where the feature lives"


def test_no_two_files_have_the_same_name() -> None:
    names = collections.Counter(file.stem for file in FILES.values() if file.stem not in SCRIPTS)
    assert [name for name, count in names.items() if count > 1] == []


def test_no_two_public_classes_have_the_same_name() -> None:
    names = collections.Counter(
        node.name
        for file in FILES.values()
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in names.items() if count > 1] == []
