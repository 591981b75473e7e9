"""A picture of what is solved, for a README: a badge, and a row of cells for each track.

The same progress gives the same bytes. The viewer's own settings choose light or dark.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from grader.model import MOST_STARS
from grader.record.status import FileState, KataStatus
from grader.report.progress_map import standing

OURS = "<!-- Drawn by kata progress"  # how a picture of ours begins
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
    """There is such a file already, and `kata progress --svg` did not write it."""


def write_badge(file: Path, statuses: Sequence[KataStatus]) -> None:
    """Draw into a file. Raises NotOurs rather than replace anything but such a picture; OSError."""
    if file.exists() and OURS.encode() not in file.read_bytes()[:1000]:
        raise NotOurs(f"{file} exists, and kata progress did not draw it: give another name")
    file.write_text(badge(statuses), encoding="utf-8")


def badge(statuses: Sequence[KataStatus]) -> str:
    """The SVG, sizes in its own 480-wide view box."""
    tracks = [
        (name, list(members))
        for name, members in itertools.groupby(statuses, key=lambda status: status.kata.track)
    ]
    height = _TOP + _ROW * len(tracks) + _FEET
    solved, stars = sum(map(_is_solved, statuses)), sum(status.stars for status in statuses)
    title = (
        f"{solved} of {len(statuses)} katas solved, {stars} of {MOST_STARS * len(statuses)} stars"
    )
    counts = (f"{name}: {sum(map(_is_solved, of))} of {len(of)} solved" for name, of in tracks)
    return "\n".join(
        [
            f"{OURS}, which replaces it each time. -->",
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
            f'width="{WIDTH}" height="{height}" role="img" aria-labelledby="title desc">',
            f'<title id="title">{title}</title>',
            f'<desc id="desc">{"; ".join(counts)}</desc>',
            f"<style>\n{_STYLE}\n{_colours(1)}",
            f"@media (prefers-color-scheme: dark) {{\n{_colours(2)}\n}}\n</style>",
            f'<rect width="{WIDTH}" height="{height}" rx="8" class="page"/>',
            *_badge(f"{solved} of {len(statuses)} solved", f"{stars} ★"),
            *itertools.chain.from_iterable(
                _track(name, of, _TOP + _ROW * row) for row, (name, of) in enumerate(tracks)
            ),
            *_legend(height - 14),
            "</svg>\n",
        ]
    )


def _is_solved(status: KataStatus) -> bool:
    return status.file_state is FileState.SOLVED


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


def _track(name: str, members: Sequence[KataStatus], y: float) -> Iterator[str]:
    yield _text(_EDGE, y + 13, name, "ink")
    pitch = min(_CELL + _GAP, (WIDTH - _EDGE - _LABEL - _EDGE) / len(members))
    for place, status in enumerate(members):
        tip = f"{status.kata.number} {status.kata.name}: {_tip(status)}"
        yield _box(_EDGE + _LABEL + pitch * place, y, pitch - _GAP, _CELL, _look(status), tip)


def _tip(status: KataStatus) -> str:
    return f"{'★' * status.stars}, {standing(status)}" if _is_solved(status) else standing(status)


def _look(status: KataStatus) -> str:
    if _is_solved(status):
        return f"stars{status.stars}"
    return "none changed" if status.file_state is FileState.CHANGED else "none"


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
