"""Which katas a watch is about, and which of them comes next."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from grader.exercise.catalog import SOLUTIONS, Kata, katas, named, unmatched
from grader.record.ledger import read_ledger
from grader.record.status import FileState, next_kata, open_names, status_of


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
        chosen = next_kata(statuses, open_names(every.values(), told))
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
