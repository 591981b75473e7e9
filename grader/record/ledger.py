"""The ledger: a file with one line for each pass. A session appends its passes.

    1_basics/kata_01_constant_add  <git's id of the content>  3  2026-11-20  grader=0.1.0 jax=0.10.2

The fields are kata, content, stars, date and versions. Git merges two ledgers by keeping the lines
of both (.gitattributes), so their order has no meaning. Lines that start with # are comments. An
error here never changes a grade.
"""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.exercise.catalog import FILE, KATAS, TRACK, Kata
from grader.exercise.catalog import katas as all_katas
from grader.exercise.key_tables import KeyProblem
from grader.verdict import MAX_STARS, Conditions, Grade, State
from pallascope.model import Check, Mode
from pallascope.tools.versions import versions

LEDGER = f"{KATAS}/ledger.txt"
HEADER = """\
# Every pass that pytest has seen: kata, git's id of the file's content, stars, day, versions.
# Appended to by pytest, read by kata progress. Commit it: kata commit.
"""
#: Marks the pass of a review. Its value is the number of days since the first pass.
REVIEW = "review"
_BLOB = re.compile(r"[0-9a-f]{40}")
_VERSION = re.compile(r"[a-z]+=\S+")
_CONFLICT = re.compile(r"<{7}|={7}|>{7}|\|{7}")


class InvalidLedgerLine(ValueError):
    """A line that isn't a valid pass. The text says why."""


@dataclass(frozen=True, slots=True)
class Pass:
    """One content of a kata's file that passed every hidden case of a session.

    `versions` are pairs such as ("jax", "0.10.2"), with "-" for a missing package.
    """

    kata: str  # "1_basics/kata_01_constant_add"
    blob: str  # git's id of the content: 40 hex digits
    stars: int
    date: datetime.date
    versions: tuple[tuple[str, str], ...] = ()

    @property
    def is_review(self) -> bool:
        """Whether the kata was written again for a review, in a copy of its stub."""
        return any(name == REVIEW for name, _ in self.versions)

    def __str__(self) -> str:
        """The line, without its end."""
        versions = " ".join(f"{name}={version}" for name, version in self.versions)
        return f"{self.kata}  {self.blob}  {self.stars}  {self.date}  {versions}".rstrip()


@dataclass(frozen=True, slots=True)
class Ledger:
    """The passes in a file, and warnings about invalid lines."""

    passes: tuple[Pass, ...] = ()
    warnings: tuple[str, ...] = ()

    def best(self, kata: str, blob: str) -> Pass | None:
        """The pass of this content with the most stars; of several, the earliest."""
        passes = (p for p in self.passes if (p.kata, p.blob) == (kata, blob))
        return min(passes, key=lambda p: (-p.stars, p.date), default=None)

    def last(self, kata: str) -> Pass | None:
        """The latest pass of a kata, with any content."""
        passes = [p for p in self.passes if p.kata == kata]
        return max(reversed(passes), key=lambda p: p.date, default=None)

    def is_new(self, new: Pass) -> bool:
        """Whether a pass has a new content, or more stars for a known content."""
        known = self.best(new.kata, new.blob)
        return known is None or known.stars < new.stars


def parse_pass(line: str) -> Pass | None:
    """The pass in a line; None for a comment or an empty line. Raises InvalidLedgerLine."""
    if line.startswith("#") or not line.strip():
        return None
    if _CONFLICT.match(line):
        raise InvalidLedgerLine("a git conflict marker: delete such lines, and keep the others")
    fields = line.split()
    if len(fields) < 4:
        raise InvalidLedgerLine(f"{len(fields)} of the 4 fields that a pass needs")
    kata, blob, stars, date, *versions = fields
    track, _, stem = kata.partition("/")
    if not TRACK.fullmatch(track) or not FILE.fullmatch(f"{stem}.py"):
        raise InvalidLedgerLine(f"{kata!r} is not a kata")
    if not _BLOB.fullmatch(blob):
        raise InvalidLedgerLine(f"{blob!r} is not a content's id (40 hex digits)")
    if stars not in map(str, range(1, MAX_STARS + 1)):
        raise InvalidLedgerLine(f"{stars!r} stars, not 1 to {MAX_STARS}")
    if malformed := [version for version in versions if not _VERSION.fullmatch(version)]:
        raise InvalidLedgerLine(f"{malformed[0]!r} is not NAME=VERSION")
    pairs = (version.split("=", 1) for version in versions)
    return Pass(kata, blob, int(stars), _parse_date(date), tuple((name, of) for name, of in pairs))


def _parse_date(text: str) -> datetime.date:
    try:
        return datetime.datetime.strptime(text, "%Y-%m-%d").date()
    except ValueError:
        raise InvalidLedgerLine(f"{text!r} is not a day such as 2026-11-20") from None


def pass_or_none(line: str) -> Pass | None:
    """The pass in a line; None for any other line."""
    try:
        return parse_pass(line)
    except InvalidLedgerLine:
        return None


def parse_ledger(text: str) -> Ledger:
    """Parse a ledger's text. Invalid lines are skipped with a warning."""
    passes, warnings = [], []
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
        try:
            if recorded := parse_pass(line):
                passes.append(recorded)
        except InvalidLedgerLine as error:
            warnings.append(f"{LEDGER}:{number}: {error}. Skipped.")
    return Ledger(tuple(passes), tuple(warnings))


def read_ledger(root: Path) -> Ledger:
    """The repository's ledger; empty if there is none, or it can't be read."""
    try:
        return parse_ledger((root / LEDGER).read_bytes().decode("utf-8", "replace"))
    except FileNotFoundError:
        return Ledger()
    except OSError as error:
        return Ledger((), (f"{LEDGER} cannot be read: {error.strerror}",))


def append_passes(root: Path, passes: Iterable[Pass]) -> None:
    """Append a line for each pass, or none of them. Raises OSError.

    The first pass creates the file. If the last line has no line end, it gets one.
    """
    file = os.open(root / LEDGER, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        size = os.fstat(file).st_size
        line_end = "\n" if size and os.pread(file, 1, size - 1) != b"\n" else ""
        text = (line_end if size else HEADER) + "".join(f"{line}\n" for line in passes)
        _write(file, text.encode(), size)
    finally:
        os.close(file)


def _write(file: int, text: bytes, size: int) -> None:
    """Append the whole text to a file of `size` bytes, or nothing."""
    written = 0
    try:
        while written < len(text):
            # When a disk fills up, the first write is only partial, without an error.
            written += os.write(file, text[written:])
    except OSError:
        if os.fstat(file).st_size == size + written:  # else another process has appended
            os.ftruncate(file, size)
        raise


@dataclass(frozen=True, slots=True)
class NewPasses:
    """A session's new passes. `trouble` says why they could not be recorded, "" if they were.

    `warnings` are about lines of the ledger. `first` are the ids of katas that were passed for the
    first time.
    """

    passes: tuple[Pass, ...] = ()
    trouble: str = ""
    warnings: tuple[str, ...] = ()
    first: tuple[str, ...] = ()


#: Names of versions in the ledger, and their packages.
_PACKAGES = {"grader": "pallas-katas", "jax": "jax", "libtpu": "libtpu"}


def record_session(root: Path, grades: Sequence[Grade], conditions: Conditions) -> NewPasses:
    """Record the passes of a whole session."""
    if not any(grade.state is State.PASSED for grade in grades):
        return NewPasses()
    installed = versions()
    judge_versions = {name: installed[package] for name, package in _PACKAGES.items()}
    today = datetime.date.today()
    solved = solved_passes(all_katas(root), grades, today, judge_versions, conditions)
    graded = {grade.kata for grade in grades}  # the keys of other katas aren't read
    mode = conditions.device.mode
    strict = {k.id for k in all_katas(root) if k.id in graded and _run_strictly(k, mode)}
    return record_passes(root, solved, mode, strict)


def solved_passes(
    katas: Iterable[Kata],
    grades: Sequence[Grade],
    date: datetime.date,
    judge_versions: Mapping[str, str | None],
    conditions: Conditions,
) -> tuple[Pass, ...]:
    """The passes of katas whose hidden cases all ran and passed with one content and no accident.

    `judge_versions` has the version of each package in the ledger. A pass also names the chip on
    which its cost is judged, or its GPU. libtpu counts as missing if it was not used. `unjudged`
    names the first rung that could not be judged.
    """
    recorded = []
    for kata in katas:
        kata_grades = [grade for grade in grades if grade.kata == kata.id]
        if not kata_grades or not _is_solved(kata, kata_grades):
            continue
        target = kata.key.target
        chips = target.chips(kata.key.cores, conditions.chips, conditions.gpu)
        used_versions = {**judge_versions, "chip": chips[0]}
        if not target.uses_libtpu:
            used_versions["libtpu"] = None
        if rungs := {grade.not_judged.check for grade in kata_grades if grade.not_judged}:
            first = min(rungs, key=list(Check).index)
            used_versions["libtpu"] = None if Check.COMPILES in rungs else used_versions["libtpu"]
            used_versions["unjudged"] = first.value
        pairs = tuple((name, version or "-") for name, version in used_versions.items())
        stars = min(grade.stars for grade in kata_grades)
        recorded.append(Pass(kata.id, kata_grades[0].blob, stars, date, pairs))
    return tuple(recorded)


def _run_strictly(kata: Kata, mode: Mode) -> bool:
    """Whether the kata is run in strict mode in a session with this mode."""
    try:
        return kata.key.target.mode(mode) is Mode.STRICT
    except KeyProblem:
        return False


def _is_solved(kata: Kata, grades: Sequence[Grade]) -> bool:
    try:
        all_cases = set(range(kata.key.total))
    except KeyProblem:
        return False
    blobs = {grade.blob for grade in grades}
    passed = all(grade.state is State.PASSED for grade in grades)
    if any(grade.accident for grade in grades):
        return False  # another run may give more stars
    if any(grade.not_judged and not grade.stars for grade in grades):
        return False  # nothing was judged, and nothing is known
    return (
        passed and {grade.case for grade in grades} == all_cases and len(blobs) == 1 and all(blobs)
    )


def record_passes(
    root: Path, solved: Iterable[Pass], mode: Mode, mode_independent: Collection[str] = ()
) -> NewPasses:
    """Append the new passes. `mode_independent` are ids of katas that run alike in every mode."""
    known = read_ledger(root)
    new = tuple(passed for passed in solved if known.is_new(passed))
    if not new:
        return NewPasses()
    if mode is not Mode.STRICT:
        if not (recordable := tuple(passed for passed in new if passed.kata in mode_independent)):
            return NewPasses(new, f"--kata-mode {mode.value} is too lenient to record; use strict")
        new = recordable
    try:
        append_passes(root, new)
    except OSError as error:
        return NewPasses(new, f"{LEDGER} is not writable ({error.strerror})")
    first = tuple(passed.kata for passed in new if known.last(passed.kata) is None)
    return NewPasses(new, "", known.warnings, first)
