"""The history of passes as text (`kata progress --log`), and a badge as SVG (`--svg`).

The same progress gives the same bytes of SVG.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from rich.console import Group, RenderableType
from rich.text import Text

from grader.exercise.catalog import name_of
from grader.record.history import EventKind, History, KataEvent
from grader.record.status import FileState, KataStatus
from grader.report import maps
from grader.report.maps import status_text
from grader.verdict import MAX_STARS

_COMMIT_DIGITS = 8
_MAX_BARS = 14
_BAR_WIDTH = 24

#: The first of these that gives at most _MAX_BARS bars is used.
_PERIODS: tuple[tuple[str, Callable[[datetime.date], str]], ...] = (
    ("day", str),
    ("week", lambda day: f"{day.isocalendar().year}-W{day.isocalendar().week:02}"),
    ("month", lambda day: f"{day:%Y-%m}"),
    ("year", lambda day: f"{day:%Y}"),
)


def history_text(
    history: History, today: datetime.date, notes: tuple[str, ...] = ()
) -> RenderableType:
    """The events of each day, the newest last; the streaks; stars by day, week, month or year.

    `notes` say which parts of the history are missing.
    """
    if not history.events:
        message = "No kata has been passed yet. pytest -k NAME grades one."
        return Group(Text(message), *_notes(notes))
    parts: list[RenderableType] = []
    width = max(len(name_of(event.kata)) for event in history.events)
    for day, events in itertools.groupby(history.events, key=lambda event: event.day):
        parts.append(Text(str(day), "bold"))
        parts += [_line(event, width) for event in events]
    return Group(*parts, *_streaks(history, today), *_bars(history), *_notes(notes))


def _line(event: KataEvent, width: int) -> Text:
    changed = event.kind is EventKind.CHANGED
    sign, colour = ("~", "yellow") if changed else ("✔", "green")
    line = Text("  ", no_wrap=True, overflow="ellipsis")
    stars = maps.star_signs(0 if changed else event.stars)
    line.append(sign, colour).append(" ").append_text(stars)
    line.append(f" {name_of(event.kata):<{width}}  ")
    commit = "not committed" if event.commit is None else event.commit[:_COMMIT_DIGITS]
    return line.append(commit, "dim").append(f"  {_description(event)}")


def _description(event: KataEvent) -> str:
    match event.kind:
        case EventKind.CHANGED:
            return f"changed since {maps.star_signs(event.stars).plain}"
        case EventKind.AGAIN:
            return "changed back"
        case EventKind.REVIEWED:
            return "written again"
        case EventKind.SOLVED if event.gained == event.stars:
            return ""
        case EventKind.SOLVED:
            gains = {0: "in another way", 1: "one more star"}
            return gains.get(event.gained, f"{event.gained} more stars")


def _streaks(history: History, today: datetime.date) -> Iterator[Text]:
    current, longest = history.streaks(today)
    yield Text.assemble(("streak  ", "bold"), f"{_days(current)} (longest: {_days(longest)})")


def _days(count: int) -> str:
    return "1 day" if count == 1 else f"{count} days"


def _bars(history: History) -> Iterator[Text]:
    """For each period in which a star was gained, a bar of the stars at its end."""
    name, period = next(
        ((name, of) for name, of in _PERIODS if len(set(map(of, history.days))) <= _MAX_BARS),
        _PERIODS[-1],
    )
    stars_at_end: dict[str, int] = {}
    stars = 0
    for event in history.events:
        stars += event.gained
        if event.gained:
            stars_at_end[period(event.day)] = stars
    yield Text(f"stars by {name}", "bold")
    for label, total_stars in stars_at_end.items():
        length = max(1, round(_BAR_WIDTH * total_stars / stars))
        yield Text.assemble((f"  {label}  ", "dim"), ("█" * length, "green"), f" {total_stars}")


def _notes(notes: tuple[str, ...]) -> Iterator[Text]:
    yield from (Text(note, "yellow") for note in notes)


# ---- the badge ----

BADGE_HEADER = "<!-- Drawn by kata progress"  # marks files that may be replaced
WIDTH = 480
_EDGE, _LABEL, _CELL, _GAP = 16, 148, 16, 3
_TOP, _ROW = 60, 26  # y of the first track, and height of each
_FOOTER = 34

#: CSS class -> coloured property, light, dark. Stars differ in lightness, not only in hue.
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


class NotABadge(ValueError):
    """The file exists, and `kata progress --svg` did not write it."""


def write_badge(file: Path, statuses: Sequence[KataStatus]) -> None:
    """Write the badge. Raises OSError, or NotABadge if the file exists and isn't a badge."""
    if file.exists() and BADGE_HEADER.encode() not in file.read_bytes()[:1000]:
        raise NotABadge(f"{file} exists, and kata progress did not draw it: give another name")
    file.write_text(badge(statuses), encoding="utf-8")


def badge(statuses: Sequence[KataStatus]) -> str:
    """The SVG, with sizes in a view box of width WIDTH."""
    tracks = [
        (name, list(members))
        for name, members in itertools.groupby(statuses, key=lambda status: status.kata.track)
    ]
    height = _TOP + _ROW * len(tracks) + _FOOTER
    solved, stars = sum(map(_is_solved, statuses)), sum(status.stars for status in statuses)
    title = (
        f"{solved} of {len(statuses)} katas solved, {stars} of {MAX_STARS * len(statuses)} stars"
    )
    counts = (f"{name}: {sum(map(_is_solved, of))} of {len(of)} solved" for name, of in tracks)
    return "\n".join(
        [
            f"{BADGE_HEADER}, which replaces it each time. -->",
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
    return "\n".join(
        f".{name} {{ {values[0]}: {values[mode]}; }}" for name, values in _COLOURS.items()
    )


def _svg_text(x: float, y: float, text: str, css: str, anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" class="{css}">{escape(text)}</text>'


def _svg_box(x: float, y: float, w: float, h: float, css_class: str, tooltip: str = "") -> str:
    title = f"<title>{escape(tooltip)}</title>" if tooltip else ""
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="3" class="{css_class}">'
        f"{title}</rect>"
    )


def _badge(*counts: str) -> Iterator[str]:
    """A name and its counts in a row. The widths leave room for any system's font."""
    x = _EDGE
    for text, css_class in (("Pallas Katas", "name"), *((count, "count") for count in counts)):
        width = 8 * len(text) + 16
        yield _svg_box(x, 16, width, 26, css_class)
        yield _svg_text(x + width / 2, 33.5, text, "on bold", "middle")
        x += width + 2


def _track(name: str, members: Sequence[KataStatus], y: float) -> Iterator[str]:
    yield _svg_text(_EDGE, y + 13, name, "ink")
    pitch = min(_CELL + _GAP, (WIDTH - _EDGE - _LABEL - _EDGE) / len(members))
    for index, status in enumerate(members):
        tooltip = f"{status.kata.number} {status.kata.name}: {_tooltip(status)}"
        yield _svg_box(
            _EDGE + _LABEL + pitch * index, y, pitch - _GAP, _CELL, _css_class(status), tooltip
        )


def _tooltip(status: KataStatus) -> str:
    text = status_text(status)
    return f"{'★' * status.stars}, {text}" if _is_solved(status) else text


def _css_class(status: KataStatus) -> str:
    if _is_solved(status):
        return f"stars{status.stars}"
    return "none changed" if status.file_state is FileState.CHANGED else "none"


def _legend(y: float) -> Iterator[str]:
    x = _EDGE + _LABEL
    for css_class, text in (
        ("none", "to do"),
        ("none changed", "changed since"),
        ("stars2", "★★"),
        ("stars3", "★★★"),
    ):
        yield _svg_box(x, y - 9, 10, 10, css_class)
        yield _svg_text(x + 15, y, text, "soft small")
        x += 30 + 7 * len(text)
