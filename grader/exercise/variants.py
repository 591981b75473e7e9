"""Right kernels in other styles, and each as a learner would have it.

A file has the variants of one kata, each after a line like "# ---- STYLE ----". A variant is
written in another style: its functions replace the solution's functions of the same name, and it
has everything else that they need. Its docstring describes the difference, and its last line has
the stars that it deserves: "Stars: 3".
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.exercise.catalog import COURSE, IN_CLONE, SOLUTIONS, Kata, katas
from pallascope.tools.regions import BEGIN, END

FOLDER = COURSE / "tests" / "variants" if IN_CLONE else COURSE / "variants"
_HEADING = re.compile(r"^# ---- (\w+) ----\n", re.MULTILINE)


class MalformedVariant(ValueError):
    """A file of variants names no stars, or belongs to no kata."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A right kernel in another style: its part of a file, and where that is.

    `stars` are those that it deserves at least; `depends`: one version of libtpu makes it as fast
    as par, another does not.
    """

    kata: Kata
    style: str
    path: Path
    source: str
    stars: int
    depends: bool = False

    @property
    def id(self) -> str:
        """The kata's name first: one worker gets all tests of one kata."""
        return f"{self.kata.name}-{self.style}"

    def text(self) -> str:
        """The learner's file: the solution with the variant's functions instead of its own."""
        return composed(self.kata.solution.read_text(encoding="utf-8"), self.source)

    def description(self) -> str:
        """The docstring without its last line."""
        return (ast.get_docstring(ast.parse(self.source)) or "").partition("\nStars:")[0].strip()

    def code(self) -> str:
        """The source after the docstring."""
        first = ast.parse(self.source).body[0]
        return "\n".join(self.source.splitlines()[first.end_lineno :]).strip("\n")


def variants() -> tuple[Variant, ...]:
    """All of them, in the order of the katas. Raises MalformedVariant."""
    every = katas(COURSE, SOLUTIONS)
    if stray := {*FOLDER.glob("*/*.py")} - {*map(_file, every)}:
        raise MalformedVariant(f"{min(stray)}: not called TRACK/NAME.py after a kata")
    return tuple(variant for kata in every for variant in variants_of(kata))


def variants_of(kata: Kata) -> tuple[Variant, ...]:
    """The variants of one kata, by style; none without a file. Raises MalformedVariant."""
    path = _file(kata)
    if not path.exists():
        return ()
    _, *parts = _HEADING.split(path.read_text(encoding="utf-8"))
    found = [
        Variant(kata, style, path, source, *_stars(path, style, source))
        for style, source in zip(parts[::2], parts[1::2], strict=True)
    ]
    return tuple(sorted(found, key=lambda variant: variant.style))


def _file(kata: Kata) -> Path:
    return FOLDER / kata.track / f"{kata.name}.py"


def _stars(path: Path, style: str, source: str) -> tuple[int, bool]:
    words = ast.get_docstring(ast.parse(source)) or ""
    said = re.search(r"^Stars: ([123])( or 3)?\b", words, re.MULTILINE)
    if not said:
        raise MalformedVariant(f"{path}: the docstring of {style} has no line like 'Stars: 3'")
    return int(said[1]), bool(said[2])


# ---- the learner's file ----


def composed(solution: str, variant: str) -> str:
    """The solution's text with the variant's functions instead of its own, between markers.

    Where the parameters have the same names, the solution's signature stays, with its annotations
    and defaults. What the solution does not have is added after the imports.
    """
    lines = [line for line in solution.splitlines() if line.strip() not in (BEGIN, END)]
    own, theirs = ast.parse("\n".join(lines)), ast.parse(variant)
    places = {node.name: node for node in own.body if isinstance(node, ast.FunctionDef)}
    imports, added, changed = [], [], []
    for node in theirs.body[1:]:
        text = _source(variant.splitlines(), node)
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports += [text]
        elif isinstance(node, ast.FunctionDef) and node.name in places:
            place = places[node.name]
            changed.append((place, _instead(lines, place, variant.splitlines(), node)))
        else:
            added += ["", *text.splitlines()]
    for place, text in sorted(changed, key=lambda pair: -pair[0].lineno):
        lines[_first(place) - 1 : place.end_lineno] = text
    last = max(node.end_lineno or 0 for node in own.body if isinstance(node, ast.ImportFrom))
    new = [line for line in imports if line not in lines]
    return "\n".join([*lines[:last], *new, *added, *lines[last:], ""])


def _instead(
    lines: Sequence[str], own: ast.FunctionDef, others: Sequence[str], theirs: ast.FunctionDef
) -> list[str]:
    """The function that replaces the solution's `own`."""
    same = _names(own.args) == _names(theirs.args)
    head = _head(lines, own) if same else _head(others, theirs)
    body = others[_first(_statements(theirs)[0]) - 1 : theirs.end_lineno]
    return [*head, f"    {BEGIN}", *body, f"    {END}"]


def _head(lines: Sequence[str], function: ast.FunctionDef) -> list[str]:
    """The lines of a function before its first statement; its docstring is one of them."""
    head = list(lines[_first(function) - 1 : _first(_statements(function)[0]) - 1])
    while not head[-1].strip() or head[-1].lstrip().startswith("#"):
        head.pop()
    return head


def _statements(function: ast.FunctionDef) -> list[ast.stmt]:
    return function.body[1:] if ast.get_docstring(function) is not None else function.body


def _names(arguments: ast.arguments) -> list[str]:
    every = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    return [argument.arg for argument in every]


def _first(node: ast.stmt) -> int:
    """The line where a statement begins: its first decorator's."""
    decorators = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _source(lines: Sequence[str], node: ast.stmt) -> str:
    return "\n".join(lines[_first(node) - 1 : node.end_lineno])
