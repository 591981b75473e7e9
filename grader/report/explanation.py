"""What a learner reads about a failed hidden case: the finding, and how to see it again."""

from __future__ import annotations

from grader.exercise.catalog import Kata
from grader.model import Check, Grade


def explanation(kata: Kata, grade: Grade, node: str, seed: int) -> str:
    """The finding in words, the case in full, and the command that repeats exactly this case.

    `node` is pytest's id of the case, `seed` the session's.
    """
    finding = grade.finding
    assert finding is not None
    file, line = kata.where()
    view = f"  view   kata view {kata.name} --seed {seed} --case {grade.case}"
    shown = finding.check is Check.VALUES and kata.key.kernel
    phrase = "" if finding.message.startswith(finding.phrase) else f"{finding.phrase}\n"
    return "\n".join(
        [
            f"{finding.check.title}: {phrase}{finding.message}",
            "",
            f"  case   {grade.drawn}",
            f'  again  pytest "{node}" --kata-seed {seed}',
            *([view] if shown else []),
            f"  open   {file}:{line}      stuck?  kata hint {kata.name}",
        ]
    )


def kata_is_broken(error: object) -> str:
    """What a learner reads about a kata whose solution or key cannot be used."""
    return f"This kata is broken, not your kernel.\n{error}"
