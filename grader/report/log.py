"""The history of passes, in words: days, streaks, and stars over time."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable, Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from grader.exercise.catalog import name_of
from grader.record.history import Event, History, What
from grader.report import marks

_ID = 8  # hex digits of a commit that are shown
_BARS = 14  # at most so many
_WIDTH = 24

#: How finely stars over time are shown: the first with few enough bars.
_PERIODS: tuple[tuple[str, Callable[[datetime.date], str]], ...] = (
    ("day", str),
    ("week", lambda day: f"{day.isocalendar().year}-W{day.isocalendar().week:02}"),
    ("month", lambda day: f"{day:%Y-%m}"),
    ("year", lambda day: f"{day:%Y}"),
)


def log_of(found: History, today: datetime.date, notes: tuple[str, ...] = ()) -> RenderableType:
    """What happened on each day, the newest last; the streaks; stars by day, week or month.

    `notes` are what is missing.
    """
    if not found.events:
        return Group(Text("No pass is recorded yet: pytest -k NAME grades a kata."), *_notes(notes))
    parts: list[RenderableType] = []
    width = max(len(name_of(event.kata)) for event in found.events)
    for day, events in itertools.groupby(found.events, key=lambda event: event.day):
        parts.append(Text(str(day), "bold"))
        parts += [_line(event, width) for event in events]
    return Group(*parts, *_streaks(found, today), *_bars(found), *_notes(notes))


def _line(event: Event, width: int) -> Text:
    changed = event.what is What.CHANGED
    sign, colour = ("~", "yellow") if changed else ("✔", "green")
    line = Text("  ", no_wrap=True, overflow="ellipsis")
    line.append(sign, colour).append(" ").append_text(marks.stars(0 if changed else event.stars))
    line.append(f" {name_of(event.kata):<{width}}  ")
    commit = "not committed" if event.commit is None else event.commit[:_ID]
    return line.append(commit, "dim").append(f"  {_why(event)}")


def _why(event: Event) -> str:
    match event.what:
        case What.CHANGED:
            return f"changed since {marks.stars(event.stars).plain}"
        case What.AGAIN:
            return "back as it was"
        case What.SOLVED if event.gained == event.stars:
            return ""
        case What.SOLVED:
            more = {0: "in another way", 1: "one star more"}
            return more.get(event.gained, f"{event.gained} stars more")


def _streaks(found: History, today: datetime.date) -> Iterator[Text]:
    current, longest = found.streaks(today)
    yield Text.assemble(("streak  ", "bold"), f"{_days(current)}, the longest {_days(longest)}")


def _days(count: int) -> str:
    return "1 day" if count == 1 else f"{count} days"


def _bars(found: History) -> Iterator[Text]:
    """A bar for each period in which a star was gained: how many there were at its end."""
    name, period = next(
        (one for one in _PERIODS if len(set(map(one[1], found.days))) <= _BARS), _PERIODS[-1]
    )
    ends: dict[str, int] = {}
    stars = 0
    for event in found.events:
        stars += event.gained
        if event.gained:
            ends[period(event.day)] = stars
    yield Text(f"stars by {name}", "bold")
    for label, reached in ends.items():
        length = max(1, round(_WIDTH * reached / stars))
        yield Text.assemble((f"  {label}  ", "dim"), ("█" * length, "green"), f" {reached}")


def _notes(notes: tuple[str, ...]) -> Iterator[Text]:
    yield from (Text(note, "yellow") for note in notes)
