"""The history of passes as text, for `kata progress --log`."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable, Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from grader.exercise.catalog import name_of
from grader.record.history import EventKind, History, KataEvent
from grader.report import maps

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
