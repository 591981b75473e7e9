"""The text that a solved kata shows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.constrain import Constrain
from rich.padding import Padding
from rich.text import Text

from grader.exercise.catalog import Kata
from grader.exercise.key_tables import KeyProblem
from grader.verdict import Grade

MOST = 3  # katas whose texts one session shows; of more it only names the commands
WIDTH = 100
_INDENT = 2


def solved_text(kata: Kata, compared: str = "") -> RenderableType | None:
    """The kata's `after` under its name, `compared` below it; None where there is no text.

    Paragraphs flow into the width that there is. Indented lines stay as they are: commands.
    """
    try:
        text = kata.key.after
    except KeyProblem:
        return None
    if not text:
        return None
    title = Text.assemble(("solved    ", "bold green"), kata.name, (f"  {kata.key.concept}", "dim"))
    whole = f"{text}\n\n{compared}" if compared else text
    return Group(title, *_lines(whole))


def newly_solved(
    katas: Sequence[Kata], grades: Sequence[Grade], quiet: bool
) -> Iterator[RenderableType]:
    """Of the katas that were solved for the first time: the text of each, or how to see it."""
    told = [kata for kata in katas if _has_text(kata)]
    if quiet or not told:
        return
    if len(told) > MOST:
        yield Text(f"about each kata that you solved: kata after {told[0].name}, …", "dim")
        return
    for kata in told:
        if text := solved_text(kata, compared_in([g for g in grades if g.kata == kata.id])):
            yield Group(Text(), text)


def compared_in(grades: Sequence[Grade]) -> str:
    """How the cost of a kata's last hidden case compares with par's; "" where nothing is known."""
    last = max(grades, key=lambda grade: grade.case, default=None)
    if last is None or last.cost is None:
        return ""
    cost = last.cost
    return compared((cost.bytes, cost.par_bytes), (cost.cycles, cost.par_cycles))


def compared(
    moved: tuple[float | None, float | None], takes: tuple[float | None, float | None]
) -> str:
    """A sentence about bytes and time, each yours and the solution's; "" where neither is known."""
    bytes_ratio, time_ratio = _ratio(*moved), _ratio(*takes)
    if bytes_ratio is None and time_ratio is None:
        return ""
    if time_ratio is None:
        return f"Yours moves {bytes_ratio} times the bytes of the reference solution."
    if bytes_ratio is None:
        return f"Yours is predicted at {time_ratio} times the reference solution's time."
    if bytes_ratio == time_ratio == "1.00":
        return "Yours moves the same bytes as the reference solution, in the same predicted time."
    return (
        f"Yours moves {bytes_ratio} times the bytes of the reference solution and is predicted at "
        f"{time_ratio} of its time."
    )


def _ratio(own: float | None, par: float | None) -> str | None:
    return f"{own / par:.2f}" if own is not None and par else None


def _has_text(kata: Kata) -> bool:
    try:
        return bool(kata.key.after)
    except KeyProblem:
        return False


def _lines(text: str) -> Iterator[RenderableType]:
    """Paragraphs that flow, and between them lines as they are."""
    for as_it_is, lines in itertools.groupby(text.splitlines(), _stays):
        if as_it_is:
            whole = (f"{' ' * _INDENT}{line}".rstrip() for line in lines)
            yield from (Text(line, "cyan", no_wrap=True, overflow="ignore") for line in whole)
        else:
            yield Padding(Constrain(Text(" ".join(lines)), WIDTH), (0, 0, 0, _INDENT))


def _stays(line: str) -> bool:
    """Whether a line is no part of a paragraph: it is indented, or empty."""
    return not line or line.startswith(" ")
