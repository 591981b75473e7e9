"""The loop of `kata watch`: events in, grading and texts out.

Which katas a watch is about, and which of them comes next.

Events in, work and words out: which kata is graded, and what is said of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from grader.exercise.cases import draw
from grader.exercise.catalog import (
    KATAS,
    SOLUTIONS,
    Kata,
    katas,
    named,
    unmatched,
)
from grader.exercise.key_tables import KeyProblem
from grader.exercise.regions import RegionError
from grader.record.ledger import read_ledger
from grader.record.status import (
    FileState,
    next_kata,
    status_of,
    unsolved_names,
)
from grader.report.failures import broken_kata_message, explanation
from grader.report.standings import same_failure, standings
from grader.sandbox.isolation import level
from grader.tools.editor import NoEditor
from grader.verdict import Case, Grade, State
from grader.watching.background_jobs import Confirming, Running, words
from grader.watching.watch_events import (
    Blind,
    CommandEnded,
    Event,
    Graded,
    GradingFailed,
    Pressed,
    Saved,
)
from grader.watching.watch_screen import Screen, Settings


class Watched:
    """The katas below `root` that `only` matches, as for pytest's -k, or all of them for "".

    Looked up afresh each time: an update may bring new ones. Raises ValueError where none matches.
    """

    def __init__(self, root: Path, only: str) -> None:
        self._root = root
        self._only = only
        self._added: set[str] = set()  # ids of others, which `following` has led to
        if not self.katas():
            raise ValueError(unmatched(self._every(), only))

    def _every(self) -> tuple[Kata, ...]:
        return katas(self._root, SOLUTIONS)  # also those whose file is gone

    def katas(self) -> tuple[Kata, ...]:
        """Those that are watched, in order."""
        every = self._every()
        if not self._only:
            return every
        ids = {kata.id for kata in named(every, self._only)} | self._added
        return tuple(kata for kata in every if kata.id in ids)

    def __contains__(self, kata: Kata) -> bool:
        return kata.id in {each.id for each in self.katas()}

    def first(self) -> Kata:
        """The first that is not solved; where all are, the first."""
        watched = self.katas()
        return self._unsolved(watched) or watched[0]

    def following(self, kata: Kata) -> Kata | None:
        """The one to do after `kata`: of the watched ones, else of all; then it is watched, too."""
        chosen = self._unsolved(_after(kata, self.katas()))
        chosen = chosen or self._unsolved(_after(kata, self._every()))
        if chosen:
            self._added.add(chosen.id)
        return chosen

    def _unsolved(self, among: Sequence[Kata]) -> Kata | None:
        ledger = read_ledger(self._root)
        every = {kata.id: status_of(kata, ledger) for kata in self._every()}
        told = any(status.last_pass for status in every.values())
        statuses = (every[kata.id] for kata in among if kata.id in every)
        chosen = next_kata(statuses, unsolved_names(every.values(), told))
        return chosen.kata if chosen else None

    def counts(self) -> tuple[int, int]:
        """How many are solved, and of how many."""
        ledger = read_ledger(self._root)
        found = [status_of(kata, ledger) for kata in self.katas()]
        return sum(each.file_state is FileState.SOLVED for each in found), len(found)


def _after(kata: Kata, every: Sequence[Kata]) -> tuple[Kata, ...]:
    """The katas behind this one, and then those before it."""
    ids = [each.id for each in every]
    place = ids.index(kata.id) if kata.id in ids else -1
    return (*every[place + 1 :], *every[: max(place, 0)])


class Grading(Protocol):
    """Grades in the background; what comes of it comes as events."""

    def grade(self, kata: Kata, cases: Sequence[Case], seconds: float | None) -> int: ...
    def prepare(self, kata: Kata, cases: Sequence[Case]) -> None: ...
    def drop(self) -> None: ...


@dataclass(slots=True)
class GradingRun:
    """One grading under way."""

    number: int
    kata: Kata
    content: bytes
    count: int
    since: float
    grades: list[Grade] = field(default_factory=list)


class Watch:
    """What `kata watch` does, without threads and without a terminal of its own."""

    def __init__(
        self,
        settings: Settings,
        grading: Grading,
        running: Running,
        recorder: Running,
        screen: Screen,
        open_at: Callable[[Path, int], str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._watched = Watched(settings.root, settings.only)
        self._grading = grading
        self._running = running
        self._confirming = Confirming(settings, recorder, screen)
        self._screen = screen
        self._open_at = open_at  # opens an editor, and returns its name; raises NoEditor
        self._clock = clock
        self._kata: Kata | None = None  # the one that keys are about
        self._case = 0  # its hidden case to look at: the first that failed, else the first
        self._run: GradingRun | None = None
        self._waiting: list[Kata] = []  # saved while another was graded
        self._asked = 0  # the command that a key has started

    def begin(self) -> None:
        """Grade the first kata that is to do."""
        self._screen.note(f"watching {KATAS}/: save a kata, and it is graded")
        if not (isolated := level()).isolated:
            self._screen.note(str(isolated), "yellow")
        self._grade(self._watched.first())

    def handle(self, event: Event) -> bool:
        """Deal with one event; False when it is time to go."""
        match event:
            case Saved(kata):
                self._saved(kata)
            case Graded(run, grade):
                self._graded(run, grade)
            case GradingFailed(run, why):
                self._not_graded(run, why)
            case CommandEnded():
                self._ended(event)
            case Blind(why):
                self._screen.note(why, "yellow")
            case Pressed(key):
                return self._pressed(key)
        return True

    # ---- grading ----

    def _saved(self, kata: Kata) -> None:
        if kata not in self._watched:
            return
        if self._run and self._run.kata.id == kata.id and _content(kata) == self._run.content:
            return  # editors write twice, and change dates
        if self._run and self._run.kata.id != kata.id:
            self._waiting = [one for one in self._waiting if one.id != kata.id]
            self._waiting.append(self._run.kata)
        self._running.drop()
        self._screen.clear()
        self._confirming.forget(kata)
        self._grade(kata)

    def _grade(self, kata: Kata) -> None:
        """Begin to grade a kata in place of whatever is graded."""
        self._grading.drop()
        kata = replace(kata)  # without the key that it may have read before
        self._run, self._kata, self._case = None, kata, 0
        self._asked = 0
        content = _content(kata)
        if not content and not kata.path.exists():
            self._screen.note(f"{kata.name} is gone; kata reset {kata.name} brings it back", "red")
            return self._next_in_line()
        try:
            todo = kata.untouched()
            cases = draw(kata.id, kata.key, self._settings.seed)
        except (KeyProblem, RegionError, ValueError) as error:
            self._screen.note(f"{kata.name}: {broken_kata_message(error)}", "red")
            return self._next_in_line()
        if todo:
            self._still_to_do(kata)
            self._grading.prepare(kata, cases)
            return self._next_in_line()
        number = self._grading.grade(kata, cases, kata.key.timeout or self._settings.seconds)
        self._run = GradingRun(number, kata, content, len(cases), self._clock())

    def _still_to_do(self, kata: Kata) -> None:
        file, line = kata.where()
        self._screen.note(f"{kata.name} is still to do: {kata.key.concept}", "yellow")
        self._screen.text(f"  open   {file}:{line}      stuck?  kata hint {kata.name}")

    def _graded(self, run: int, grade: Grade) -> None:
        if not self._run or self._run.number != run:
            return
        current = self._run
        if grade.finding and grade.state is State.FAILED:
            if not any(same_failure(earlier, grade) for earlier in current.grades):
                self._case = self._case if _failed(current.grades) else grade.case
                self._tell(current.kata, grade)
        elif grade.printed:
            self._screen.text(grade.printed)
        current.grades.append(grade)
        if len(current.grades) == current.count:
            self._run = None
            self._verdict(current)

    def _tell(self, kata: Kata, grade: Grade) -> None:
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
            self._confirming.add(run.kata, run.grades)
        if self._waiting:
            return self._next_in_line()
        self._bar()

    def _not_graded(self, run: int, why: str) -> None:
        if run and (not self._run or self._run.number != run):
            return
        if self._run:
            self._screen.note(f"{self._run.kata.name} could not be graded. {why}", "red")
            self._grading.drop()
            self._run = None
            return self._next_in_line()
        self._screen.note(why, "red")

    def _next_in_line(self) -> None:
        """Go on with what was saved before, or wait."""
        if self._waiting:
            self._grade(self._waiting.pop())
        else:
            self._bar()

    # ---- commands ----

    def _ended(self, event: CommandEnded) -> None:
        if self._confirming.ended(event):
            self._bar()
        elif event.command == self._asked:
            self._asked = 0
            self._screen.text(event.said)
            self._bar()

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
                self._ask("hint", kata.name)
            case "c":
                self._ask("cost", kata.name, *cases, *chip)
            case "v":
                self._ask("view", kata.name, *cases, *chip)
            case "r":
                self._again(kata)
            case "n":
                self._next(kata)
            case "o":
                self._open(kata)
        return True

    def _ask(self, *arguments: str) -> None:
        self._screen.note(words(arguments))
        self._asked = self._running.start("grader.cli", *arguments)

    def _again(self, kata: Kata) -> None:
        self._running.drop()
        self._screen.clear()
        self._grade(kata)

    def _next(self, kata: Kata) -> None:
        following = self._watched.following(kata)
        if following is None:
            self._screen.note("no other kata is left to do", "green")
            return
        self._again(following)

    def _open(self, kata: Kata) -> None:
        file, line = kata.where()
        try:
            name = self._open_at(kata.root / file, line)
        except NoEditor as error:
            self._screen.note(str(error), "yellow")
        else:
            self._screen.note(f"{name} opens {file}:{line}")
        self._bar()

    def _bar(self) -> None:
        solved, count = self._watched.counts()
        name = self._kata.name if self._kata else ""
        self._screen.bar(f"{name}, {solved} of {count} solved")


def _content(kata: Kata) -> bytes:
    try:
        return kata.path.read_bytes()
    except OSError:
        return b""


def _failed(grades: Sequence[Grade]) -> bool:
    return any(grade.state is State.FAILED for grade in grades)
