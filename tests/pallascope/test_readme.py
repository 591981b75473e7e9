"""pallascope/README.md is true, also where grader can't be imported."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import pallascope
from pallascope.tpu import compiler

FOLDER = Path(pallascope.__file__).parent
TEXT = (FOLDER / "README.md").read_text(encoding="utf-8")
FILES = re.findall(r"^```python file=(\S+)\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
EXAMPLES = re.findall(
    r"^### (.+?)$.*?^```python\n(.*?)^```\n+```text\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE
)
COMMANDS = re.findall(r"^```sh\n(.*?)\n```$", TEXT, re.DOTALL | re.MULTILINE)

WITHOUT_GRADER = """
import sys

class Closed:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "grader":
            raise ModuleNotFoundError(f"no {name} here", name=name)

sys.meta_path.insert(0, Closed())
"""


@pytest.fixture
def kernels(tmp_path: Path) -> Path:
    """A folder with the README's files, in which no Python can import grader."""
    for name, text in FILES:
        (tmp_path / name).write_text(text)
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_GRADER)
    return tmp_path


def ran(folder: Path, *arguments: str) -> str:
    paths = [str(folder), str(FOLDER.parent)]
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_examples_are_five() -> None:
    assert len(FILES) == 1
    assert len(EXAMPLES) + len(COMMANDS) == 5


@pytest.mark.parametrize(
    ("code", "output"), [one[1:] for one in EXAMPLES], ids=[one[0] for one in EXAMPLES]
)
def test_an_example_prints_what_the_page_says(code: str, output: str, kernels: Path) -> None:
    if "predictions" in code and (reason := compiler.unavailable_reason()):
        pytest.skip(reason)
    assert ran(kernels, "-c", code) == output


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_runs(command: str, kernels: Path) -> None:
    if reason := compiler.unavailable_reason():
        pytest.skip(reason)
    python, *arguments = shlex.split(command)
    assert python == "python"
    assert "double_kernel, grid (8,)" in ran(kernels, *arguments)


def test_the_page_describes_every_public_name() -> None:
    table = TEXT.partition("## Public names")[2].partition("## Examples")[0]
    assert [name for name in pallascope.__all__ if name not in table] == []
    assert set(pallascope.__all__) == set(pallascope._HOMES)
    for name in pallascope.__all__:
        assert getattr(pallascope, name)


def test_the_import_loads_nothing_else(kernels: Path) -> None:
    code = (
        "import sys, pallascope\n"
        "print([name for name in sys.modules if name.startswith('pallascope.')])\n"
        "print('jax' in sys.modules, 'numpy' in sys.modules)\n"
    )
    assert ran(kernels, "-c", code) == "[]\nFalse False\n"


@pytest.mark.parametrize("room", ["gpu", "kernels", "model", "tools", "tpu"])
def test_every_module_can_be_imported_without_the_grader(room: str, kernels: Path) -> None:
    files = [*(FOLDER / room).rglob("*.py")]
    modules = {
        ".".join(file.relative_to(FOLDER.parent).with_suffix("").parts).removesuffix(".__init__")
        for file in files
        if file.stem != "__main__"
    }
    assert modules
    ran(
        kernels,
        "-c",
        f"import importlib\nfor name in {sorted(modules)}: importlib.import_module(name)",
    )


def test_these_tests_import_nothing_of_the_grader() -> None:
    for file in Path(__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            outside = [name for name in names if name.startswith(("grader", "tests."))]
            assert all(name.startswith("tests.pallascope") for name in outside), file
