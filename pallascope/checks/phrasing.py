"""Small pieces of prose that several checks share."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from pallascope.model import SourceLine

WIDTH = 79  # columns: a line fits into a terminal of 80
PIECE = 4000  # characters that are wrapped at once


def listed(items: Iterable[object], most: int = 4) -> str:
    """Items in a sentence: "a, b and c", or "a, b, c, d and 5 more"."""
    texts = [str(item) for item in items]
    if len(texts) > most:
        texts = [*texts[:most], f"{len(texts) - most} more"]
    if len(texts) < 2:
        return "".join(texts)
    return f"{', '.join(texts[:-1])} and {texts[-1]}"


def times(shape: Sequence[int]) -> str:
    """A grid's shape: "2×3"."""
    return "×".join(map(str, shape)) or "1"


def ordinal(number: int) -> str:
    """ "1st", "22nd", "13th"."""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if 10 < number % 100 < 14 else ending}"


def number(value: float) -> str:
    """A value with up to six digits: "0.333333", "12"."""
    return f"{value:.6g}"


def paragraph(label: str, text: str) -> str:
    """A labelled paragraph, wrapped under its label; indented lines stay as they are."""
    indent = " " * 9
    lines: list[str] = []
    for line in text.splitlines() or [""]:
        if line.startswith(" "):
            lines.append(indent + line)
        else:
            lines += _wrapped(line, indent) or [""]
    return f"  {label:<6} " + "\n".join(lines).removeprefix(indent)


def _wrapped(line: str, indent: str) -> list[str]:
    """textwrap.wrap in pieces: its time is quadratic for a word that fills many lines."""
    found: list[str] = []
    while line:
        end = len(line) if len(line) <= PIECE else line.rfind(" ", 1, PIECE) + 1 or PIECE
        piece, line = line[:end], line[end:]
        found += textwrap.wrap(piece, WIDTH, initial_indent=indent, subsequent_indent=indent)
    return found


def at(file: str, place: SourceLine | None) -> str:
    """A place, clickable in most terminals, with the line's text below. `file` is the judged."""
    if place is None:
        return ""
    return f"{place.file or file}:{place.line}\n    {place.text}"


def line(place: SourceLine) -> str:
    """ "line 12", or "line 12 of helpers.py" if that isn't the judged file."""
    return f"line {place.line}" + (f" of {place.file}" if place.file else "")


def count(quantity: int, noun: str) -> str:
    """ "1 block", "3 blocks"."""
    return f"{quantity} {noun}" if quantity == 1 else f"{quantity} {noun}s"


def multiple(ratio: float) -> str:
    """ "1.7×", "12×"."""
    return f"{ratio:.1f}×" if ratio < 10 else f"{ratio:.0f}×"


def allowed(ratio: float, slack: float) -> str:
    """A ratio to par, and the ratio that the slack, a fraction, allows."""
    return f"{ratio:.2f}×, up to {1 + slack:.2f}× passes"


#: The names that jax.lax has for collectives, by those of their primitives.
SPELLINGS = {
    "psum_invariant": "psum",
    "all_gather_invariant": "all_gather",
    "reduce_scatter": "psum_scatter",
}
