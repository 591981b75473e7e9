"""The text of a failed hidden case, for a learner and for pytest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from grader.exercise.catalog import Kata
from grader.verdict import Check, Grade


def explanation(kata: Kata, grade: Grade, node: str, seed: int) -> str:
    """The finding, the whole case, and the command that repeats exactly this case.

    `node` is pytest's id of the case, `seed` the session's seed.
    """
    finding = grade.finding
    assert finding is not None
    file, line = kata.location()
    view = f"  view   kata view {kata.name} --seed {seed} --case {grade.case}"
    can_be_viewed = (
        finding.check is Check.VALUES and kata.key.kernel and kata.key.target.uses_libtpu
    )
    phrase = "" if finding.message.startswith(finding.phrase) else f"{finding.phrase}\n"
    return "\n".join(
        [
            f"{finding.check.title}: {phrase}{finding.message}",
            "",
            *([f"  case   {grade.drawn}"] if grade.drawn else []),
            f'  again  pytest "{node}" --kata-seed {seed}',
            *([view] if can_be_viewed else []),
            f"  open   {file}:{line}      stuck?  kata hint {kata.name}",
        ]
    )


def broken_kata_message(error: object) -> str:
    """The message for a kata whose solution or key can't be used."""
    return f"This kata is broken, not your kernel.\n{error}"


def repeated_failure(grade: Grade, earlier: Grade, node: str, seed: int) -> str:
    """A short text for a later case that fails the same check."""
    assert grade.finding
    return (
        f"{grade.finding.check.title}: {grade.finding.phrase}   "
        f"(the same check as in hidden{earlier.case})\n"
        f'  again  pytest "{node}" --kata-seed {seed}'
    )


FAILED = "FAILED"


def summary_word(headline: str, node: str, columns: int) -> str:
    """The start of a failed case's line in pytest's summary: "FAILED values: … -" or "FAILED".

    pytest puts the headline after the id. The id alone nearly fills 80 columns, so pytest would cut
    the headline. Unless both fit, the headline comes first here. With colours, pytest counts the id
    as having no width and always appends the headline, so it must get none then.
    """
    if len(f"{FAILED} {node} - {headline}") <= columns:
        return FAILED
    width = max(columns - len(f"{FAILED}  -"), len(FAILED))
    shortened = headline if len(headline) <= width else f"{headline[: width - 1].rstrip()}…"
    return f"{FAILED} {shortened} -"


@dataclass(frozen=True, slots=True)
class Headline:
    """The message of a failure in pytest's summary, `--tb=line` and JUnit XML."""

    message: str

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True, slots=True)
class FailureText:
    """A failure's text, with the methods that pytest needs of a representation.

    If the summary line already shows the headline (`headline_shown`), pytest doesn't append it.
    """

    text: str
    headline_shown: bool = False

    @property
    def headline(self) -> str:
        return self.text.partition("\n")[0]

    @property
    def reprcrash(self) -> Headline | None:
        return None if self.headline_shown else Headline(self.headline)

    def toterminal(self, tw: Any) -> None:
        tw.line(self.text)

    def __str__(self) -> str:
        return self.text
