"""The ledger of passes, and what a session adds to it.

The ledger: one line of text for each pass, in a file that is only ever appended to.
1_basics/kata_01_constant_add  <git's id of the content>  3  2026-11-20  grader=0.1.0 jax=0.10.2

Kata, content, stars, day, and what judged it. Git merges two ledgers by keeping the lines of both
(.gitattributes), so their order means nothing. Lines that start with # are comments.

What a session's grades add to the ledger. Nothing that goes wrong here costs a grade.
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
from grader.verdict import (
    MAX_STARS,
    Check,
    Conditions,
    Grade,
    State,
)
from pallascope.model import Mode
from pallascope.tools.versions import versions

LEDGER = f"{KATAS}/ledger.txt"
HEADER = """\
# Every pass that pytest has seen: kata, git's id of the file's content, stars, day, versions.
# Appended to by pytest, read by kata progress. Commit it: kata commit.
"""
_BLOB = re.compile(r"[0-9a-f]{40}")
_VERSION = re.compile(r"[a-z]+=\S+")
_CONFLICT = re.compile(r"<{7}|={7}|>{7}|\|{7}")


class Corrupt(ValueError):
    """A line that records no pass; the text says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Pass:
    """One content of a kata's file that passed every hidden case of a session.

    `versions` are pairs such as ("jax", "0.10.2"), "-" for what was not there.
    """

    kata: str  # "1_basics/kata_01_constant_add"
    blob: str  # git's id of the content: 40 hex digits
    stars: int
    date: datetime.date
    versions: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        """The line, without its end."""
        versions = " ".join(f"{name}={version}" for name, version in self.versions)
        return f"{self.kata}  {self.blob}  {self.stars}  {self.date}  {versions}".rstrip()


@dataclass(frozen=True, slots=True)
class Ledger:
    """The passes that a file records, and what is wrong with its other lines."""

    passes: tuple[Pass, ...] = ()
    warnings: tuple[str, ...] = ()

    def best(self, kata: str, blob: str) -> Pass | None:
        """The pass of exactly this content with the most stars, the earliest of several."""
        passes = (p for p in self.passes if (p.kata, p.blob) == (kata, blob))
        return min(passes, key=lambda p: (-p.stars, p.date), default=None)

    def last(self, kata: str) -> Pass | None:
        """The latest pass of a kata, of whatever content."""
        passes = [p for p in self.passes if p.kata == kata]
        return max(reversed(passes), key=lambda p: p.date, default=None)

    def lacks(self, new: Pass) -> bool:
        """Whether `new` says more than is known: another content, or more stars for the same."""
        known = self.best(new.kata, new.blob)
        return known is None or known.stars < new.stars


def pass_in(line: str) -> Pass | None:
    """The pass that a line records, None for a comment or an empty line. Raises Corrupt."""
    if line.startswith("#") or not line.strip():
        return None
    if _CONFLICT.match(line):
        raise Corrupt("a conflict marker of git's: delete such lines, and keep the others")
    fields = line.split()
    if len(fields) < 4:
        raise Corrupt(f"{len(fields)} of the 4 fields that a pass needs")
    kata, blob, stars, date, *versions = fields
    track, _, stem = kata.partition("/")
    if not TRACK.fullmatch(track) or not FILE.fullmatch(f"{stem}.py"):
        raise Corrupt(f"{kata!r} is not a kata")
    if not _BLOB.fullmatch(blob):
        raise Corrupt(f"{blob!r} is not a content's id (40 hex digits)")
    if stars not in map(str, range(1, MAX_STARS + 1)):
        raise Corrupt(f"{stars!r} stars, not 1 to {MAX_STARS}")
    if odd := [version for version in versions if not _VERSION.fullmatch(version)]:
        raise Corrupt(f"{odd[0]!r} is not NAME=VERSION")
    pairs = (version.split("=", 1) for version in versions)
    return Pass(kata, blob, int(stars), _day(date), tuple((name, of) for name, of in pairs))


def _day(text: str) -> datetime.date:
    try:
        return datetime.datetime.strptime(text, "%Y-%m-%d").date()
    except ValueError:
        raise Corrupt(f"{text!r} is not a day such as 2026-11-20") from None


def pass_or_none(line: str) -> Pass | None:
    """The pass that a line records, None for any other line."""
    try:
        return pass_in(line)
    except Corrupt:
        return None


def parsed_ledger(text: str) -> Ledger:
    """The ledger in a text; a line that cannot be read is skipped, with a warning."""
    passes, warnings = [], []
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
        try:
            if recorded := pass_in(line):
                passes.append(recorded)
        except Corrupt as error:
            warnings.append(f"{LEDGER}:{number}: {error}. Skipped.")
    return Ledger(tuple(passes), tuple(warnings))


def read_ledger(root: Path) -> Ledger:
    """The repository's ledger; empty where there is none or it cannot be read."""
    try:
        return parsed_ledger((root / LEDGER).read_bytes().decode("utf-8", "replace"))
    except FileNotFoundError:
        return Ledger()
    except OSError as error:
        return Ledger((), (f"{LEDGER} cannot be read: {error.strerror}",))


def append_passes(root: Path, passes: Iterable[Pass]) -> None:
    """Add a line for each pass, or none of them. Raises OSError.

    The first pass makes the file; a last line without a line end, as an editor may leave it, gets
    one.
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
    """Write all of a text at the end of a file of that size, or nothing."""
    written = 0
    try:
        while written < len(text):
            # A disk that fills up takes a part first, without an error.
            written += os.write(file, text[written:])
    except OSError:
        if os.fstat(file).st_size == size + written:  # else somebody else has appended
            os.ftruncate(file, size)
        raise


@dataclass(frozen=True, slots=True)
class NewPasses:
    """The passes that were new to the ledger; `trouble` says why they are not in it now.

    `warnings` are those of the ledger's own lines. `first` are the ids of the katas that it knew no
    pass of.
    """

    passes: tuple[Pass, ...] = ()
    trouble: str = ""
    warnings: tuple[str, ...] = ()
    first: tuple[str, ...] = ()


#: What judged, as the ledger names it, and the package that it is.
_JUDGES = {"grader": "pallas-katas", "jax": "jax", "libtpu": "libtpu"}


def record_session(root: Path, grades: Sequence[Grade], conditions: Conditions) -> NewPasses:
    """Record the passes among a whole session's grades."""
    if not any(grade.state is State.PASSED for grade in grades):
        return NewPasses()
    installed = versions()
    judges = {name: installed[package] for name, package in _JUDGES.items()}
    today = datetime.date.today()
    solved = solved_passes(all_katas(root), grades, today, judges, conditions)
    graded = {grade.kata for grade in grades}  # of others the keys need not be read
    in_any_mode = {kata.id for kata in all_katas(root) if kata.id in graded and _for_gpus(kata)}
    return record_passes(root, solved, conditions.device.mode, in_any_mode)


def solved_passes(
    katas: Iterable[Kata],
    grades: Sequence[Grade],
    day: datetime.date,
    judges: Mapping[str, str | None],
    conditions: Conditions,
) -> tuple[Pass, ...]:
    """One for each kata of which every hidden case ran and passed, all on the same content, and
    none with an accident.

    `judges` are what judged, by name, each with its version. Of the chips of the session, the one
    on which the kata's cost is judged counts, and of a kata for GPUs the GPU that it is for. libtpu
    counts as missing where it was not asked; `unjudged` names the first rung that could not be.
    """
    recorded = []
    for kata in katas:
        of_kata = [grade for grade in grades if grade.kata == kata.id]
        if not of_kata or not _solved(kata, of_kata):
            continue
        used = {**judges, "chip": _chip(kata, conditions)}
        if kata.key.gpu:
            used["libtpu"] = None
        if rungs := {grade.not_judged.check for grade in of_kata if grade.not_judged}:
            first = min(rungs, key=list(Check).index)
            used["libtpu"] = None if Check.COMPILES in rungs else used["libtpu"]
            used["unjudged"] = first.value
        named = tuple((name, version or "-") for name, version in used.items())
        stars = min(grade.stars for grade in of_kata)
        recorded.append(Pass(kata.id, of_kata[0].blob, stars, day, named))
    return tuple(recorded)


def _chip(kata: Kata, conditions: Conditions) -> str:
    if kata.key.gpu:
        return kata.key.gpu.only_on or conditions.gpu
    from pallascope.tpu.chips import with_cores  # most commands can do without

    return with_cores(kata.key.cores, conditions.chips)[0]


def _for_gpus(kata: Kata) -> bool:
    try:
        return kata.key.gpu is not None
    except KeyProblem:
        return False


def _solved(kata: Kata, grades: Sequence[Grade]) -> bool:
    try:
        every = set(range(kata.key.total))
    except KeyProblem:
        return False
    blobs = {grade.blob for grade in grades}
    passed = all(grade.state is State.PASSED for grade in grades)
    if any(grade.accident for grade in grades):
        return False  # another run may give more stars
    if any(grade.not_judged and not grade.stars for grade in grades):
        return False  # nothing was judged, and nothing is known
    return passed and {grade.case for grade in grades} == every and len(blobs) == 1 and all(blobs)


def record_passes(
    root: Path, solved: Iterable[Pass], mode: Mode, in_any_mode: Collection[str] = ()
) -> NewPasses:
    """Append the passes that the ledger does not have yet.

    `in_any_mode` are the ids of katas that are run in the same way whatever the session's mode is.
    """
    known = read_ledger(root)
    new = tuple(passed for passed in solved if known.lacks(passed))
    if not new:
        return NewPasses()
    if mode is not Mode.STRICT:
        if not (kept := tuple(passed for passed in new if passed.kata in in_any_mode)):
            return NewPasses(new, f"--kata-mode {mode.value} forgives too much; strict records")
        new = kept
    try:
        append_passes(root, new)
    except OSError as error:
        return NewPasses(new, f"{LEDGER} is not writable ({error.strerror})")
    first = tuple(passed.kata for passed in new if known.last(passed.kata) is None)
    return NewPasses(new, "", known.warnings, first)
