"""The text that is shown when a kata is solved."""

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

MAX_TEXTS = 3  # if a session solves more katas, it names the command instead of showing the texts
WIDTH = 100
_INDENT = 2


def solved_text(kata: Kata, comparison: str = "") -> RenderableType | None:
    """The kata's name, its `after` text and `comparison`; None if the key has no such text.

    Paragraphs are wrapped. Indented lines, which are commands, stay as they are.
    """
    try:
        text = kata.key.after
    except KeyProblem:
        return None
    if not text:
        return None
    title = Text.assemble(("solved    ", "bold green"), kata.name, (f"  {kata.key.concept}", "dim"))
    text_with_comparison = f"{text}\n\n{comparison}" if comparison else text
    return Group(title, *_lines(text_with_comparison))


def newly_solved(
    katas: Sequence[Kata], grades: Sequence[Grade], quiet: bool
) -> Iterator[RenderableType]:
    """For katas that were solved for the first time, their texts or the command that shows them."""
    with_text = [kata for kata in katas if _has_text(kata)]
    if quiet or not with_text:
        return
    if len(with_text) > MAX_TEXTS:
        yield Text(f"about each kata that you solved: kata after {with_text[0].name}, …", "dim")
        return
    for kata in with_text:
        if text := solved_text(kata, compare_grades([g for g in grades if g.kata == kata.id])):
            yield Group(Text(), text)


def compare_grades(grades: Sequence[Grade]) -> str:
    """Compares the cost of a kata's last hidden case with par's; "" if no cost is known."""
    last = max(grades, key=lambda grade: grade.case, default=None)
    if last is None or last.cost is None:
        return ""
    cost = last.cost
    return cost_comparison((cost.bytes, cost.par_bytes), (cost.cycles, cost.par_cycles))


def cost_comparison(
    byte_counts: tuple[float | None, float | None],
    times: tuple[float | None, float | None],
    subject: str = "Yours",
) -> str:
    """A sentence about bytes and time, each as (yours, solution's); "" if neither is known."""
    bytes_ratio, time_ratio = _ratio(*byte_counts), _ratio(*times)
    if bytes_ratio is None and time_ratio is None:
        return ""
    if time_ratio is None:
        return f"{subject} moves {bytes_ratio} times the bytes of the reference solution."
    if bytes_ratio is None:
        return f"{subject} is predicted at {time_ratio} times the reference solution's time."
    if bytes_ratio == time_ratio == "1.00":
        return (
            f"{subject} moves the same bytes as the reference solution, in the same predicted time."
        )
    return (
        f"{subject} moves {bytes_ratio} times the bytes of the reference solution and is predicted "
        f"at {time_ratio} of its time."
    )


def _ratio(own: float | None, par: float | None) -> str | None:
    return f"{own / par:.2f}" if own is not None and par else None


def _has_text(kata: Kata) -> bool:
    try:
        return bool(kata.key.after)
    except KeyProblem:
        return False


def _lines(text: str) -> Iterator[RenderableType]:
    """Wrapped paragraphs, and preformatted lines between them."""
    for preformatted, lines in itertools.groupby(text.splitlines(), _is_preformatted):
        if preformatted:
            indented = (f"{' ' * _INDENT}{line}".rstrip() for line in lines)
            yield from (Text(line, "cyan", no_wrap=True, overflow="ignore") for line in indented)
        else:
            yield Padding(Constrain(Text(" ".join(lines)), WIDTH), (0, 0, 0, _INDENT))


def _is_preformatted(line: str) -> bool:
    """Whether a line isn't part of a paragraph, because it is indented or empty."""
    return not line or line.startswith(" ")
