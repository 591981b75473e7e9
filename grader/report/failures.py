"""The text of a failed hidden case, for a learner and for pytest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from grader.exercise.catalog import Kata
from grader.verdict import Check, Grade


def explanation(kata: Kata, grade: Grade, node: str, seed: int) -> str:
    """The finding in words, the case in full, and the command that repeats exactly this case.

    `node` is pytest's id of the case, `seed` the session's.
    """
    finding = grade.finding
    assert finding is not None
    file, line = kata.where()
    view = f"  view   kata view {kata.name} --seed {seed} --case {grade.case}"
    drawn = kata.key.kernel and kata.key.target.uses_libtpu
    shown = finding.check is Check.VALUES and drawn
    phrase = "" if finding.message.startswith(finding.phrase) else f"{finding.phrase}\n"
    return "\n".join(
        [
            f"{finding.check.title}: {phrase}{finding.message}",
            "",
            *([f"  case   {grade.drawn}"] if grade.drawn else []),
            f'  again  pytest "{node}" --kata-seed {seed}',
            *([view] if shown else []),
            f"  open   {file}:{line}      stuck?  kata hint {kata.name}",
        ]
    )


def kata_is_broken(error: object) -> str:
    """What a learner reads about a kata whose solution or key cannot be used."""
    return f"This kata is broken, not your kernel.\n{error}"


def repeated(grade: Grade, earlier: Grade, node: str, seed: int) -> str:
    """Two lines about a later case that fails the same check."""
    assert grade.finding
    return (
        f"{grade.finding.check.title}: {grade.finding.phrase}   "
        f"(the same check as in hidden{earlier.case})\n"
        f'  again  pytest "{node}" --kata-seed {seed}'
    )


FAILED = "FAILED"


def summary_word(headline: str, node: str, columns: int) -> str:
    """What pytest's summary puts before the id of a failed case: "FAILED values: … -", or "FAILED".

    pytest puts the headline behind the id, which is nearly as long as a line of 80 columns, and
    cuts it. It comes first here, unless both fit. In colour, pytest takes the id to have no width,
    and appends the headline in any case: then it has to be given none.
    """
    if len(f"{FAILED} {node} - {headline}") <= columns:
        return FAILED
    room = max(columns - len(f"{FAILED}  -"), len(FAILED))
    cut = headline if len(headline) <= room else f"{headline[: room - 1].rstrip()}…"
    return f"{FAILED} {cut} -"


@dataclass(frozen=True, slots=True)
class Headline:
    """What pytest's summary, `--tb=line` and JUnit XML show of a failure."""

    message: str

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True, slots=True)
class FailureText:
    """A failure as the learner reads it, in the form that pytest asks of a representation.

    Once its summary line begins with the `headline`, pytest has none to append.
    """

    text: str
    headline_told: bool = False

    @property
    def headline(self) -> str:
        return self.text.partition("\n")[0]

    @property
    def reprcrash(self) -> Headline | None:
        return None if self.headline_told else Headline(self.headline)

    def toterminal(self, tw: Any) -> None:
        tw.line(self.text)

    def __str__(self) -> str:
        return self.text
