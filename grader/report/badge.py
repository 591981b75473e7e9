"""A picture of what is solved, for a README: a badge, and a row of cells for each track.

The same progress gives the same bytes. Light or dark is chosen by whoever looks at it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from grader.model import MOST_STARS
from grader.record.status import Known, Present
from grader.report.progress_map import standing

OURS = "<!-- Drawn by kata progress, which may draw it anew. -->"
WIDTH = 480
_EDGE, _LABEL, _CELL, _GAP = 16, 148, 16, 3
_TOP, _ROW = 60, 26  # where the first track starts, and how high each is
_FEET = 34

#: Class -> the property that is coloured, light, dark. Stars differ in lightness, not in hue alone.
_COLOURS = {
    "page": ("fill", "#ffffff", "#0d1117"),
    "ink": ("fill", "#1f2328", "#e6edf3"),
    "soft": ("fill", "#57606a", "#9aa4af"),
    "name": ("fill", "#57606a", "#30363d"),
    "count": ("fill", "#1a7f37", "#1f7a35"),
    "on": ("fill", "#ffffff", "#ffffff"),
    "none": ("fill", "#e4e8ec", "#262c36"),
    "stars1": ("fill", "#d2f0d6", "#143d21"),
    "stars2": ("fill", "#86d694", "#1f7a35"),
    "stars3": ("fill", "#1a7f37", "#56d364"),
    "changed": ("stroke", "#bf8700", "#d29922"),
}
_STYLE = """\
text { font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; }
.bold { font-weight: 600; }
.small { font-size: 11px; }
.changed { stroke-width: 2; stroke-dasharray: 3 2; }"""


class NotOurs(ValueError):
    """A file is in the way that no `kata progress --svg` wrote."""


def write(file: Path, found: Sequence[Present]) -> None:
    """Draw into a file. Raises NotOurs rather than replace anything but such a picture; OSError."""
    if file.exists() and OURS.encode() not in file.read_bytes()[:1000]:
        raise NotOurs(f"{file} is there, and is none of kata's pictures: give another name")
    file.write_text(drawn(found), encoding="utf-8")


def drawn(found: Sequence[Present]) -> str:
    """The SVG, sizes in its own 480-wide view box."""
    tracks = [
        (name, list(members))
        for name, members in itertools.groupby(found, key=lambda one: one.kata.track)
    ]
    height = _TOP + _ROW * len(tracks) + _FEET
    solved, stars = sum(map(_is_solved, found)), sum(one.stars for one in found)
    title = f"{solved} of {len(found)} katas solved, {stars} of {MOST_STARS * len(found)} stars"
    counts = (f"{name}: {sum(map(_is_solved, of))} of {len(of)} solved" for name, of in tracks)
    return "\n".join(
        [
            OURS,
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
            f'width="{WIDTH}" height="{height}" role="img" aria-labelledby="title desc">',
            f'<title id="title">{title}</title>',
            f'<desc id="desc">{"; ".join(counts)}</desc>',
            f"<style>\n{_STYLE}\n{_colours(1)}",
            f"@media (prefers-color-scheme: dark) {{\n{_colours(2)}\n}}\n</style>",
            f'<rect width="{WIDTH}" height="{height}" rx="8" class="page"/>',
            *_badge(f"{solved} of {len(found)} solved", f"{stars} ★"),
            *itertools.chain.from_iterable(
                _track(name, of, _TOP + _ROW * row) for row, (name, of) in enumerate(tracks)
            ),
            *_legend(height - 14),
            "</svg>\n",
        ]
    )


def _is_solved(one: Present) -> bool:
    return one.known is Known.SOLVED


def _colours(mode: int) -> str:
    return "\n".join(f".{name} {{ {of[0]}: {of[mode]}; }}" for name, of in _COLOURS.items())


def _text(x: float, y: float, words: str, look: str, at: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{at}" class="{look}">{escape(words)}</text>'


def _box(x: float, y: float, w: float, h: float, look: str, tip: str = "") -> str:
    inside = f"<title>{escape(tip)}</title>" if tip else ""
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="3" class="{look}">'
        f"{inside}</rect>"
    )


def _badge(*counts: str) -> Iterator[str]:
    """A name and its counts, side by side. Widths leave room for any system's letters."""
    x = _EDGE
    for words, look in (("Pallas Katas", "name"), *((count, "count") for count in counts)):
        width = 8 * len(words) + 16
        yield _box(x, 16, width, 26, look)
        yield _text(x + width / 2, 33.5, words, "on bold", "middle")
        x += width + 2


def _track(name: str, members: Sequence[Present], y: float) -> Iterator[str]:
    yield _text(_EDGE, y + 13, name, "ink")
    pitch = min(_CELL + _GAP, (WIDTH - _EDGE - _LABEL - _EDGE) / len(members))
    for place, one in enumerate(members):
        tip = f"{one.kata.number} {one.kata.name}: {_told(one)}"
        yield _box(_EDGE + _LABEL + pitch * place, y, pitch - _GAP, _CELL, _look(one), tip)


def _told(one: Present) -> str:
    return f"{'★' * one.stars}, {standing(one)}" if _is_solved(one) else standing(one)


def _look(one: Present) -> str:
    if _is_solved(one):
        return f"stars{one.stars}"
    return "none changed" if one.known is Known.CHANGED else "none"


def _legend(y: float) -> Iterator[str]:
    x = _EDGE + _LABEL
    for look, words in (
        ("none", "to do"),
        ("none changed", "changed since"),
        ("stars2", "★★"),
        ("stars3", "★★★"),
    ):
        yield _box(x, y - 9, 10, 10, look)
        yield _text(x + 15, y, words, "soft small")
        x += 30 + 7 * len(words)
