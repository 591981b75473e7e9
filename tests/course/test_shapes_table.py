"""The table under `Shapes`: the same five columns in every kata, and names that the code knows."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

import pytest

from grader.exercise.catalog import Kata, katas
from tests.support.contract import demand
from tests.support.repositories import ROOT
from tests.support.targets import OPERANDS, SPACES, target_of

COLUMNS = ("name", "dtype[dims]", "memory space", "Ref's shape", "block")
RESULT = "result"  # of a kata without a kernel

each = pytest.mark.parametrize("exercise", katas(ROOT, "solutions"), ids=lambda kata: kata.name)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table; `names` are those of one or several Refs or arrays."""

    names: tuple[str, ...]
    array: str
    space: str
    ref: str
    block: str


def table(text: str) -> list[Row] | None:
    """The rows under `Shapes`, or None where the columns are not as they should be."""
    docstring = ast.get_docstring(ast.parse(text), clean=False) or ""
    lines = docstring.partition("\nShapes\n")[2].partition("\n\n")[0].splitlines()
    if not lines:
        return None
    starts = [lines[0].find(column) for column in COLUMNS]
    if tuple(re.split(r" {3,}", lines[0].strip())) != COLUMNS:
        return None
    rows = []
    for line in lines[1:]:
        ends = [*starts[1:], len(line)]
        cells = [line[a:b] for a, b in zip(starts, ends, strict=True)]
        if not all(cell.strip() and not cell.startswith(" ") for cell in cells):
            return None
        names, *others = (cell.strip() for cell in cells)
        rows.append(Row(tuple(names.split(", ")), *others))
    return rows


@each
def test_table_has_the_five_columns(exercise: Kata) -> None:
    rows = table(exercise.solution.read_text())
    demand(
        rows,
        exercise.solution,
        "the table under `Shapes` is not in the common form",
        f"Begin it with the columns {', '.join(COLUMNS)}, and fill each of them in every row",
    )
    assert rows
    spaces = SPACES[target_of(exercise)]
    unknown = {row.space for row in rows} - spaces
    demand(not unknown, exercise.solution, f"it names {unknown}", f"Memory is one of {spaces}")
    lists = [row.ref for row in rows if row.ref.startswith("[")]
    demand(not lists, exercise.solution, f"it has the shapes {lists}", "Write tuples, such as (1,)")


@each
def test_table_names_what_the_code_names(exercise: Kata) -> None:
    text = exercise.solution.read_text()
    tree, rows = ast.parse(text), table(text) or []
    listed = [name for row in rows for name in row.names]
    known = _parameters(tree) | {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    goal = (ast.get_docstring(tree) or "").partition("\nConcept\n")[0]
    results = set(re.findall(r"\w+", goal)) if not _has_refs(tree) else set[str]()
    strange = [name for name in listed if name not in {*known, *results, RESULT}]
    demand(
        not strange,
        exercise.solution,
        f"its table names {strange}, which its code does not",
        "Use the names of the kernel's and the launch's parameters, or of results under Goal",
    )
    left = [name for name in _to_list(tree, exercise.name) if name not in listed]
    demand(
        not left,
        exercise.solution,
        f"its table leaves out {left}",
        "Give each Ref of the kernel, or where there are several kernels each array, a row",
    )


@each
def test_table_agrees_with_annotations(exercise: Kata) -> None:
    """An operand that reaches its kernel as it is has the dims that the launch declares."""
    text = exercise.solution.read_text()
    declared = _dims(ast.parse(text), exercise.name)
    for row in table(text) or []:
        for name in row.names:
            dims = declared.get(re.sub(f"({'|'.join(OPERANDS)})$", "", name), ())
            said = re.sub(r".*\[(.*)\]", r"\1", row.array).replace(" ", "").split(",")
            if len(dims) == len(said):
                demand(
                    list(dims) == said,
                    exercise.solution,
                    f"its table says {row.array} of {name}, the launch declares {' '.join(dims)}",
                    "Use the letters of the annotation, and say below the table what they are",
                )


def test_a_table_in_another_form_is_found() -> None:
    head = "    name    dtype[dims]   memory space   Ref's shape   block\n"
    row = "    x_ref   f32[N]        VMEM           (bn,)         i\n"
    assert table(f'"""X\n\nShapes\n{head}{row}\n"""') == [
        Row(("x_ref",), "f32[N]", "VMEM", "(bn,)", "i")
    ]
    assert table(f'"""X\n\nShapes\n{head.replace("block", "")}{row}\n"""') is None
    assert table(f'"""X\n\nShapes\n{head}{row[:40]}\n\n"""') is None
    assert table('"""X\n"""') is None


def _functions(tree: ast.Module) -> list[ast.FunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def _parameters(tree: ast.Module) -> set[str]:
    """The names that any function of a file takes."""
    every = [function.args for function in _functions(tree)]
    return {one.arg for args in every for one in (*args.args, *args.kwonlyargs)}


def _to_list(tree: ast.Module, name: str) -> list[str]:
    """The Refs of the kata's kernel, or the arrays of a launch with other kernels or none."""
    for function in _functions(tree):
        if function.name == f"{name}_kernel" and function.args.args[0].arg.endswith(OPERANDS):
            return [one.arg for one in function.args.args]
    return [] if _has_refs(tree) else list(_dims(tree, name))


def _has_refs(tree: ast.Module) -> bool:
    """Whether some function takes Refs."""
    return any(one.endswith(OPERANDS) for one in _parameters(tree))


def _dims(tree: ast.Module, name: str) -> dict[str, tuple[str, ...]]:
    """By parameter of the launch, the dims that its annotation declares."""
    (launch,) = [f for f in tree.body if isinstance(f, ast.FunctionDef) and f.name == name]
    declared = {}
    for one in (*launch.args.args, *launch.args.kwonlyargs):
        for part in ast.walk(one.annotation) if one.annotation else ():
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                declared[one.arg] = tuple(part.value.split())
    return declared
