"""Grades a case of a session: todo, --kata-require, changed or oversized files.

Both pytest's items and `grader.api` use this module.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from grader.exercise.catalog import (
    MAX_GRADED_BYTES,
    MAX_READ,
    FileTooLong,
    Kata,
    is_course,
    matching_katas,
    no_match_message,
)
from grader.grading.grader import Grader
from grader.sandbox.launch_client import BrokenKata
from grader.tools.git import blob_id
from grader.verdict import Case, Grade, State
from pallascope.model import Check, Finding
from pallascope.tools.versions import PACKAGE

REQUIRED = Finding(Check.RUNS, "still to do", "Still to do, but --kata-require names this kata.")
GONE = Finding(
    Check.RUNS,
    "its file is gone",
    "The file existed when this session began, but something has removed it.",
)


@dataclass(frozen=True)
class Requirements:
    """The katas whose todo counts as a failure: those of `every` that match one of the names."""

    names: tuple[str, ...] = ()
    every: tuple[Kata, ...] = ()

    def __contains__(self, kata: Kata) -> bool:
        return kata.id in self._ids

    @cached_property
    def _ids(self) -> frozenset[str]:
        return frozenset(
            kata.id for name in self.names for kata in matching_katas(self.every, name)
        )

    def unknown(self) -> tuple[str, ...]:
        """The message for each name that matches no kata. Raises ValueError."""
        return tuple(
            no_match_message(self.every, name)
            for name in self.names
            if not matching_katas(self.every, name)
        )


@dataclass(frozen=True, slots=True)
class Counted:
    """One kata of a session.

    `answer` is the digest of solution and key when the session began. If they have changed since,
    nothing is graded.
    """

    kata: Kata
    answer: str
    requirements: Requirements = Requirements()

    def grade(
        self,
        grader: Callable[[], Grader],
        case: Case,
        seconds: float | None,
        following: tuple[Kata, Case] | None = None,
    ) -> Grade:
        """The grade of one hidden case. Work on the `following` case starts meanwhile.

        Calls `grader` only if there is something to grade. Raises KeyProblem, RegionError and
        BrokenKata if solution or key are at fault, SandboxError if no process starts.
        """
        content = self._content()
        try:
            self._demand_same_answer()
            grade = self._graded(grader, case, seconds, following)
            self._demand_same_answer()
        except FileTooLong:
            grade = self._failed(case, _too_long(MAX_READ + 1))
        except FileNotFoundError:
            if self._content() is not None:
                raise
            grade = self._failed(case, GONE)
        if content is not None and content == self._content():
            grade = dataclasses.replace(grade, blob=blob_id(content))
        if grade.state is State.TODO and self.kata in self.requirements:
            grade = dataclasses.replace(grade, state=State.FAILED, finding=REQUIRED)
        return grade

    def _graded(
        self,
        grader: Callable[[], Grader],
        case: Case,
        seconds: float | None,
        following: tuple[Kata, Case] | None,
    ) -> Grade:
        if self.kata.untouched():
            return Grade(self.kata.id, case.index, State.TODO, 0)
        if (size := len(self.kata.content())) > MAX_GRADED_BYTES:
            return self._failed(case, _too_long(size))
        if following and not following[0].untouched():
            grader().prepare(self.kata, case)
            grader().prepare(*following)
        return grader().grade(self.kata, case, seconds)

    def _failed(self, case: Case, finding: Finding) -> Grade:
        return Grade(self.kata.id, case.index, State.FAILED, 0, finding)

    def _content(self) -> bytes | None:
        try:
            return self.kata.content()
        except OSError:
            return None

    def _demand_same_answer(self) -> None:
        if self.kata.answer_digest() != self.answer:
            folder = self.kata.solution_name.rpartition("/")[0]
            restored_by = (
                f"pip install --force-reinstall {PACKAGE}"
                if is_course(self.kata.root)
                else f"git restore {folder}"
            )
            files = f"{self.kata.solution.name} or {self.kata.key_path.name}"
            raise BrokenKata(
                f"{files} in {folder} has changed since this session began, so nothing is graded "
                f"against it.\nRestore it ({restored_by}), or start the session again."
            )


def _too_long(size: int) -> Finding:
    """The finding for a file of `size` bytes. Sizes above MAX_READ are shown as "more than"."""
    has = f"{size:,} bytes" if size <= MAX_READ else f"more than {MAX_READ:,} bytes"
    said = f"The file has {has}. Files of more than {MAX_GRADED_BYTES:,} bytes are not graded."
    return Finding(Check.RUNS, f"too long ({has})", said)
