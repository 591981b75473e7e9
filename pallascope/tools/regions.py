"""Solution regions: the lines of a kata file that a learner writes.

A region stands between two marker lines, alone on their lines and indented alike:

    # BEGIN SOLUTION
    o_ref[...] = x_ref[...] + 10
    # END SOLUTION

All other text is the same in kata and solution.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

BEGIN = "# BEGIN SOLUTION"
END = "# END SOLUTION"


class RegionError(ValueError):
    """The markers of a file do not pair up. `line` is 1-based; `file` may be unknown."""

    def __init__(self, line: int, reason: str, file: Path | None = None) -> None:
        super().__init__(f"{file}: line {line}: {reason}" if file else f"line {line}: {reason}")
        self.line, self.reason = line, reason


@dataclass(frozen=True, slots=True)
class Region:
    """Lines `begin` to `end` of a file (1-based, the two marker lines included)."""

    begin: int
    end: int
    indent: str
    body: str

    @property
    def first(self) -> int:
        """The first line that the learner writes, for an editor to open at."""
        return self.begin + 1

    def __contains__(self, line: int) -> bool:
        return self.begin < line < self.end


def regions(text: str) -> tuple[Region, ...]:
    """The regions of a file, in order. Raises RegionError if markers don't pair up."""
    found: list[Region] = []
    lines = text.split("\n")  # splitlines would also split at form feeds, unlike editors
    begin = 0
    for number, line in enumerate(lines, start=1):
        marker = line.strip()
        if marker == BEGIN:
            if begin:
                raise RegionError(number, f"{BEGIN!r} inside the region that starts at {begin}")
            begin = number
        elif marker == END:
            if not begin:
                raise RegionError(number, f"{END!r} without a {BEGIN!r} above it")
            opening = lines[begin - 1]
            indent = opening[: len(opening) - len(opening.lstrip())]
            if line[: len(line) - len(line.lstrip())] != indent:
                raise RegionError(number, f"{END!r} is not indented like its {BEGIN!r}")
            body = textwrap.dedent("\n".join(lines[begin : number - 1])).strip("\n")
            found.append(Region(begin, number, indent, body))
            begin = 0
    if begin:
        raise RegionError(begin, f"{BEGIN!r} without an {END!r} below it")
    return tuple(found)


def fill_dedented(text: str, fillings: Sequence[str]) -> str:
    """Replace each region's body by one of `fillings`, indented like the region.

    Raises RegionError if their numbers differ.
    """
    found = regions(text)
    if len(found) != len(fillings):
        raise RegionError(1, f"{len(found)} regions, but {len(fillings)} texts to fill them with")
    return fill_regions(
        text,
        [
            textwrap.indent(filling.strip("\n"), region.indent).split("\n")
            for region, filling in zip(found, fillings, strict=True)
        ],
    )


def region_lines(text: str) -> tuple[tuple[str, ...], ...]:
    """The unchanged lines of each region. Raises RegionError if markers don't pair up."""
    lines = text.split("\n")
    return tuple(tuple(lines[region.begin : region.end - 1]) for region in regions(text))


def fill_regions(text: str, bodies: Sequence[Sequence[str]]) -> str:
    """Replace each region's lines by one of `bodies`, unchanged: the inverse of `region_lines`.

    Raises RegionError if their numbers differ.
    """
    found = regions(text)
    if len(found) != len(bodies):
        raise RegionError(1, f"{len(found)} regions, but {len(bodies)} bodies to fill them with")
    lines = text.split("\n")
    for region, body in reversed(list(zip(found, bodies, strict=True))):
        lines[region.begin : region.end - 1] = body
    return "\n".join(lines)
