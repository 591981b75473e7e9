"""What a kata builds on, and where to read on: two lines at the end of its docstring.

    Needs     tiled_matmul, row_sum
    Read on   Grids and BlockSpecs, https://docs.jax.dev/en/latest/pallas/grid_blockspec.html

`Needs` names katas in order of understanding, which all come earlier on the map, or says "nothing".
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from grader.exercise.catalog import Kata, in_order

NOTHING = "nothing"
_DOCSTRING = re.compile(r'\A\s*r?"""(?P<text>.*?)"""', re.DOTALL)
#: A label at the beginning of a line, and all that goes on below its text.
_LABELLED = r"^{label} +(?P<text>\S.*(?:\n {{10}}\S.*)*)$"


def needs(kata: Kata) -> tuple[str, ...]:
    """The names of the katas that this one builds on, as its solution's docstring gives them.

    Empty where it says so, and where there is no such line. Raises OSError.
    """
    names = (name.strip() for name in needs_line(kata).split(","))
    return tuple(name for name in names if name and name != NOTHING)


def needs_line(kata: Kata) -> str:
    """What the docstring says that a kata needs, as one line; "" where it doesn't say."""
    return labelled(_docstring(kata), "Needs").replace("\n", " ")


def labelled(docstring: str, label: str) -> str:
    """What stands behind a label such as "Needs", line by line; "" where there is none."""
    found = re.search(_LABELLED.format(label=re.escape(label)), docstring, re.MULTILINE)
    return "\n".join(line.strip() for line in found["text"].splitlines()) if found else ""


def way_to(kata: Kata, every: Iterable[Kata]) -> tuple[Kata, ...]:
    """The fewest katas that lead to this one: what it needs, what those need, itself; in order.

    A name that no kata has is passed over.
    """
    by_name = {one.name: one for one in every}
    found: dict[str, Kata] = {}
    waiting = [kata]
    while waiting:
        one = waiting.pop()
        if one.name not in found:
            found[one.name] = one
            waiting += [by_name[name] for name in needs(one) if name in by_name]
    return in_order(found.values())


def _docstring(kata: Kata) -> str:
    found = _DOCSTRING.match(kata.solution.read_text(encoding="utf-8"))
    return found["text"] if found else ""
