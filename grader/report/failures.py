"""The text of a failed hidden case, for a learner and for pytest."""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass
from typing import Any

import pytest

from grader.exercise.catalog import Kata
from grader.verdict import Grade
from pallascope.model import Check
from pallascope.tools.text import encodable

_WORD = re.compile(r"[^\W\d]+")


def explanation(kata: Kata, grade: Grade, node: str, seed: int, *, opens: bool = True) -> str:
    """The finding, the whole case, and the command that repeats exactly this case.

    `node` is pytest's id of the case, `seed` the session's seed. `opens`: the first line is enough
    for a summary, and the last says where to fix it.
    """
    finding = grade.finding
    assert finding is not None
    view = f"  view   kata view {kata.name} --seed {seed} --case {grade.case}"
    can_be_viewed = (
        finding.check is Check.VALUES and kata.key.kernel and kata.key.target.uses_libtpu
    )
    # The paragraph `error` has an exception's whole text.
    repeated = finding.check is Check.RUNS and not opens
    phrase = finding.phrase
    if finding.message.startswith(phrase) or (
        repeated and _one_line(phrase) in _one_line(finding.message)
    ):
        phrase = ""
    lines = [
        f"{finding.check.title}: {phrase}\n{finding.message}"
        if phrase
        else f"{finding.check.title}: {finding.message}",
        *([f"  case   {grade.drawn}"] if grade.drawn else []),
        f'  again  pytest "{node}" --kata-seed {seed}',
        *([view] if can_be_viewed else []),
    ]
    if opens:
        file, line = kata.location()
        lines.append(f"  open   {file}:{line}      stuck?  kata hint {kata.name}")
    return "\n".join(lines)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def broken_kata_message(error: object) -> str:
    """The message for a kata whose solution or key can't be used."""
    return f"This kata is broken, not your kernel.\n{error}"


def reason(grade: Grade) -> tuple[str, ...]:
    """The same for all cases that fail for one reason: kata, check, and the phrase's words.

    "block (0, 1) is wrong" and "blocks (0, 1) and (2, 1) are wrong" count as the same reason.
    """
    if grade.finding is None:
        return (grade.kata,)
    words = _WORD.findall(grade.finding.phrase)
    singular = [word.rstrip("s") for word in words if word not in ("and", "is", "are", "more")]
    return grade.kata, grade.finding.check.value, *singular


@dataclass(frozen=True, slots=True)
class Headline:
    """The message of a failure in pytest's summary, `--tb=line` and JUnit XML."""

    message: str

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True, slots=True)
class FailureText:
    """A failure's text, with the methods that pytest needs of a representation."""

    text: str

    @property
    def reprcrash(self) -> Headline:
        return Headline(self.text.partition("\n")[0])

    def toterminal(self, tw: Any) -> None:
        # pytest would escape the line ends, too, of a text that the terminal can't encode.
        encoding = getattr(getattr(tw, "_file", None), "encoding", None) or "ascii"
        tw.line(encodable(self.text, encoding))

    def __str__(self) -> str:
        return self.text


def joint_report(report: pytest.TestReport, title: str, text: str) -> pytest.TestReport:
    """A copy of a case's report that stands for all cases with its reason in the terminal."""
    joint = copy.copy(report)
    file, line, _ = joint.location
    joint.location = (file, line, title)  # pytest prints its last part above the text
    joint.longrepr = FailureText(text)  # type: ignore[assignment]
    return joint
