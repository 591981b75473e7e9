"""The loop of `kata watch`: handles events, starts jobs, and shows their results."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from grader.exercise.cases import draw
from grader.exercise.catalog import KATAS, SOLUTIONS, Kata, katas, matching_katas, no_match_message
from grader.exercise.key_tables import KeyProblem
from grader.record.ledger import read_ledger
from grader.record.status import FileState, next_kata, status_of, unsolved_names
from grader.report.failures import broken_kata_message, explanation, reason
from grader.report.session_standings import standings
from grader.sandbox.isolation import level
from grader.tools.editor import NoEditor
from grader.verdict import Case, Grade, State
from grader.watching.background_jobs import CommandRunner, PassConfirmer, command_line
from grader.watching.watch_events import (
    CommandEnded,
    Event,
    FileSaved,
    Graded,
    GradingFailed,
    KeyPressed,
    WatchWarning,
)
from grader.watching.watch_screen import Screen, Settings
from pallascope.tools.regions import RegionError


class WatchedKatas:
    """The katas below `root` that `only` matches, as for pytest's -k; all katas for "".

    Each call reads the folder again, because an update may add katas. Raises ValueError if no kata
    matches.
    """

    def __init__(self, root: Path, only: str) -> None:
        self._root = root
        self._only = only
        self._added: set[str] = set()  # ids of other katas that `following` has returned
        if not self.katas():
            raise ValueError(no_match_message(self._every(), only))

    def _every(self) -> tuple[Kata, ...]:
        return katas(self._root, SOLUTIONS)  # including deleted files

    def katas(self) -> tuple[Kata, ...]:
        """The watched katas, in order."""
        all_katas = self._every()
        if not self._only:
            return all_katas
        ids = {kata.id for kata in matching_katas(all_katas, self._only)} | self._added
        return tuple(kata for kata in all_katas if kata.id in ids)

    def __contains__(self, kata: Kata) -> bool:
        return kata.id in {watched.id for watched in self.katas()}

    def first(self) -> Kata:
        """The first unsolved kata; if all are solved, the first."""
        watched = self.katas()
        return self._unsolved(watched) or watched[0]

    def following(self, kata: Kata) -> Kata | None:
        """The kata to do after `kata`. One that isn't watched yet is watched from then on."""
        chosen = self._unsolved(_katas_after(kata, self.katas()))
        chosen = chosen or self._unsolved(_katas_after(kata, self._every()))
        if chosen:
            self._added.add(chosen.id)
        return chosen

    def _unsolved(self, among: Sequence[Kata]) -> Kata | None:
        ledger = read_ledger(self._root)
        status_by_id = {kata.id: status_of(kata, ledger) for kata in self._every()}
        has_passes = any(status.last_pass for status in status_by_id.values())
        statuses = (status_by_id[kata.id] for kata in among if kata.id in status_by_id)
        chosen = next_kata(statuses, unsolved_names(status_by_id.values(), has_passes))
        return chosen.kata if chosen else None

    def counts(self) -> tuple[int, int]:
        """The number of solved katas, and of all watched katas."""
        ledger = read_ledger(self._root)
        statuses = [status_of(kata, ledger) for kata in self.katas()]
        return sum(status.file_state is FileState.SOLVED for status in statuses), len(statuses)


def _katas_after(kata: Kata, all_katas: Sequence[Kata]) -> tuple[Kata, ...]:
    """The katas after this one, then those before it."""
    ids = [other.id for other in all_katas]
    index = ids.index(kata.id) if kata.id in ids else -1
    return (*all_katas[index + 1 :], *all_katas[: max(index, 0)])


class BackgroundGrader(Protocol):
    """Grades in the background, and posts the results as events."""

    def grade(self, kata: Kata, cases: Sequence[Case], seconds: float | None) -> int: ...
    def prepare(self, kata: Kata, cases: Sequence[Case]) -> None: ...
    def cancel(self) -> None: ...


@dataclass(slots=True)
class GradingRun:
    """The current run: one kata that is being graded."""

    number: int
    kata: Kata
    content: bytes
    count: int
    since: float
    grades: list[Grade] = field(default_factory=list)


class Watch:
    """Handles the events of `kata watch`. It has no threads and no terminal."""

    def __init__(
        self,
        settings: Settings,
        grading: BackgroundGrader,
        runner: CommandRunner,
        recorder: CommandRunner,
        screen: Screen,
        open_at: Callable[[Path, int], str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._watched = WatchedKatas(settings.root, settings.only)
        self._grading = grading
        self._runner = runner
        self._confirmer = PassConfirmer(settings, recorder, screen)
        self._screen = screen
        self._open_at = open_at  # opens an editor, and returns its name; raises NoEditor
        self._clock = clock
        self._kata: Kata | None = None  # the kata that keys apply to
        self._case = 0  # the hidden case that keys apply to: the first that failed, else 0
        self._run: GradingRun | None = None
        self._waiting: list[Kata] = []  # katas whose grading was interrupted by another save
        self._command = 0  # the number of the command that a key has started

    def begin(self) -> None:
        """Grade the first unsolved kata."""
        self._screen.note(f"watching {KATAS}/: save a kata, and it is graded")
        if not (isolated := level()).isolated:
            self._screen.note(str(isolated), "yellow")
        self._grade(self._watched.first())

    def handle(self, event: Event) -> bool:
        """Handle one event. Returns False to quit."""
        match event:
            case FileSaved(kata):
                self._saved(kata)
            case Graded(run, grade):
                self._graded(run, grade)
            case GradingFailed(run, why):
                self._grading_failed(run, why)
            case CommandEnded():
                self._command_ended(event)
            case WatchWarning(why):
                self._screen.note(why, "yellow")
            case KeyPressed(key):
                return self._pressed(key)
        return True

    # ---- grading ----

    def _saved(self, kata: Kata) -> None:
        if kata not in self._watched:
            return
        if self._run and self._run.kata.id == kata.id and _file_content(kata) == self._run.content:
            return  # editors may write twice, or only change the date
        if self._run and self._run.kata.id != kata.id:
            self._waiting = [one for one in self._waiting if one.id != kata.id]
            self._waiting.append(self._run.kata)
        self._runner.cancel()
        self._screen.clear()
        self._confirmer.forget(kata)
        self._grade(kata)

    def _grade(self, kata: Kata) -> None:
        """Cancel the current run, and start to grade a kata."""
        self._grading.cancel()
        kata = replace(kata)  # drops the cached key
        self._run, self._kata, self._case = None, kata, 0
        self._command = 0
        content = _file_content(kata)
        if not content and not kata.path.exists():
            self._screen.note(f"{kata.name} is gone; kata reset {kata.name} restores it", "red")
            return self._grade_waiting()
        try:
            todo = kata.untouched()
            cases = draw(kata.id, kata.key, self._settings.seed)
        except (KeyProblem, RegionError, ValueError) as error:
            self._screen.note(f"{kata.name}: {broken_kata_message(error)}", "red")
            return self._grade_waiting()
        if todo:
            self._still_to_do(kata)
            self._grading.prepare(kata, cases)
            return self._grade_waiting()
        number = self._grading.grade(kata, cases, kata.key.timeout or self._settings.seconds)
        self._run = GradingRun(number, kata, content, len(cases), self._clock())

    def _still_to_do(self, kata: Kata) -> None:
        file, line = kata.location()
        self._screen.note(f"{kata.name} is still to do: {kata.key.concept}", "yellow")
        self._screen.text(f"  open   {file}:{line}      stuck?  kata hint {kata.name}")

    def _graded(self, run: int, grade: Grade) -> None:
        if not self._run or self._run.number != run:
            return
        current = self._run
        if grade.finding and grade.state is State.FAILED:
            if reason(grade) not in map(reason, current.grades):
                self._case = self._case if _any_failed(current.grades) else grade.case
                self._show_failure(current.kata, grade)
        elif grade.printed:
            self._screen.text(grade.printed)
        current.grades.append(grade)
        if len(current.grades) == current.count:
            self._run = None
            self._verdict(current)

    def _show_failure(self, kata: Kata, grade: Grade) -> None:
        node = f"{KATAS}/{kata.id}.py::{kata.test}[hidden{grade.case}]"
        self._screen.text(grade.printed)
        self._screen.text(explanation(kata, grade, node, self._settings.seed) + "\n")

    def _verdict(self, run: GradingRun) -> None:
        (standing,) = (s for s in standings([run.kata], run.grades).all)
        self._screen.verdict(standing, self._clock() - run.since)
        if standing.state is State.TODO:
            self._still_to_do(run.kata)
        self._case = standing.case
        if standing.solved:
            self._confirmer.add(run.kata, run.grades)
        if self._waiting:
            return self._grade_waiting()
        self._show_bar()

    def _grading_failed(self, run: int, why: str) -> None:
        if run and (not self._run or self._run.number != run):
            return
        if self._run:
            self._screen.note(f"{self._run.kata.name} could not be graded. {why}", "red")
            self._grading.cancel()
            self._run = None
            return self._grade_waiting()
        self._screen.note(why, "red")

    def _grade_waiting(self) -> None:
        """Grade the next waiting kata, or show the bar."""
        if self._waiting:
            self._grade(self._waiting.pop())
        else:
            self._show_bar()

    # ---- commands ----

    def _command_ended(self, event: CommandEnded) -> None:
        if self._confirmer.ended(event):
            self._show_bar()
        elif event.command == self._command:
            self._command = 0
            self._screen.text(event.output)
            self._show_bar()

    # ---- keys ----

    def _pressed(self, key: str) -> bool:
        kata = self._kata
        if key == "q":
            return False
        if kata is None:
            return True
        cases = ("--seed", str(self._settings.seed), "--case", str(self._case))
        chip = ("--chip", self._settings.chip)
        match key:
            case "h":
                self._run_command("hint", kata.name)
            case "c":
                self._run_command("cost", kata.name, *cases, *chip)
            case "v":
                self._run_command("view", kata.name, *cases, *chip)
            case "r":
                self._again(kata)
            case "n":
                self._next(kata)
            case "o":
                self._open(kata)
        return True

    def _run_command(self, *arguments: str) -> None:
        self._screen.note(command_line(arguments))
        self._command = self._runner.start("grader.cli", *arguments)

    def _again(self, kata: Kata) -> None:
        self._runner.cancel()
        self._screen.clear()
        self._grade(kata)

    def _next(self, kata: Kata) -> None:
        following = self._watched.following(kata)
        if following is None:
            self._screen.note("no other kata is left to do", "green")
            return
        self._again(following)

    def _open(self, kata: Kata) -> None:
        file, line = kata.location()
        try:
            name = self._open_at(kata.root / file, line)
        except NoEditor as error:
            self._screen.note(str(error), "yellow")
        else:
            self._screen.note(f"{name} opens {file}:{line}")
        self._show_bar()

    def _show_bar(self) -> None:
        solved, count = self._watched.counts()
        name = self._kata.name if self._kata else ""
        self._screen.bar(f"{name}, {solved} of {count} solved")


def _file_content(kata: Kata) -> bytes:
    try:
        return kata.path.read_bytes()
    except OSError:
        return b""


def _any_failed(grades: Sequence[Grade]) -> bool:
    return any(grade.state is State.FAILED for grade in grades)
