"""Writes kata files: stubs, resets, saved attempts, new katas.

Writing kata files: stubs from solutions, a stub over a saved attempt, the files of a new kata.
Nothing here ever overwrites what a learner has written without keeping it first.

Saved attempts: what a kata's file held before a reset, a restore or an update wrote over it.
They lie in .kata/attempts/TRACK/KATA/TIME_STUB.py; `repository.keep` writes them.
"""

from __future__ import annotations

import ast
import datetime
import enum
import keyword
import re
from dataclasses import dataclass
from pathlib import Path

from grader.exercise import templates
from grader.exercise.catalog import (
    FILE,
    KATAS,
    MOST_ADDED,
    SOLUTIONS,
    TRACK,
    Kata,
    kata_at,
    katas,
    named,
    unmatched,
)
from grader.exercise.key_tables import KataKind
from grader.exercise.regions import RegionError, fill, regions, written
from grader.tools.git import blob_id

STATE = ".kata"  # this clone's own folder; git ignores it
ATTEMPTS = "attempts"
#: An attempt's file name: when it was saved, and the first digits of the stub's id at that time.
TIME = "%Y-%m-%d_%H-%M-%S_%f"
STUB = 10


class RepositoryError(ValueError):
    """What was asked for cannot be done to these files."""


def find_root(start: Path) -> Path:
    """The nearest folder from `start` upwards that holds katas/ and solutions/.

    Raises RepositoryError.
    """
    for folder in (start, *start.parents):
        if _is_root(folder):
            return folder
    clone = Path(__file__).parents[2]  # that this package was installed from, if it was one
    there = _is_root(clone)
    where = f"cd {clone}" if there else f"cd into your clone, which holds {KATAS}/ and {SOLUTIONS}/"
    raise RepositoryError(f"there are no katas in {start}: {where}")


def _is_root(folder: Path) -> bool:
    return (folder / KATAS).is_dir() and (folder / SOLUTIONS).is_dir()


def matching(root: Path, name: str) -> tuple[Kata, ...]:
    """The katas that match; all of them for "". Raises RepositoryError for none."""
    every = katas(root, SOLUTIONS)
    chosen = named(every, name) if name else every
    if not chosen:
        raise RepositoryError(unmatched(every, name))
    return chosen


def one(root: Path, name: str) -> Kata:
    """The only kata that matches. Raises RepositoryError for none or several."""
    kata, *others = matching(root, name)
    if others:
        names = ", ".join(each.name for each in (kata, *others))
        raise RepositoryError(f"{name!r} matches {1 + len(others)} katas: {names}")
    return kata


# ---- sync ----


class Synced(enum.Enum):
    """What `sync` did to a kata's file, or found."""

    SAME = "same"
    WRITTEN = "written"
    DIFFERS = "differs from its blanked solution"
    HELD = "holds an attempt: left as it is"


@dataclass(frozen=True, slots=True)
class SyncResult:
    """One kata and what became of it."""

    kata: Kata
    outcome: Synced


def sync(root: Path, check: bool) -> tuple[SyncResult, ...]:
    """Generate every kata from its solution by blanking the regions; with `check`, only compare.

    A file with a region that is no stub is left alone. Raises keys.KeyProblem or RegionError.
    """
    return tuple(SyncResult(kata, synced(kata, check)) for kata in katas(root, SOLUTIONS))


def synced(kata: Kata, check: bool) -> Synced:
    """Generate one kata, as `sync` does for all."""
    shipped = kata.shipped()
    present = kata.path.read_bytes() if kata.path.exists() else None
    if present == shipped.encode():
        return Synced.SAME
    if present is not None and not is_stub(present, kata):
        return Synced.HELD
    if check:
        return Synced.DIFFERS
    _write(kata, shipped, datetime.datetime.now())
    return Synced.WRITTEN


def is_stub(content: bytes, kata: Kata) -> bool:
    """Whether every region holds what a stub holds: the key's text, or a lone raise.

    So it is also of a stub of another version of the course.
    """
    try:
        bodies = [region.body for region in regions(content.decode())]
    except (RegionError, UnicodeDecodeError):
        return False
    given = set(kata.key.fillings)
    return bool(bodies) and all(body in given or _lone_raise(body) for body in bodies)


def _lone_raise(body: str) -> bool:
    if len(body) > MOST_ADDED:  # no stub, and perhaps what crashes Python's compiler
        return False
    try:
        statements = ast.parse(body).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    if any(line.lstrip().startswith("#") for line in body.splitlines()):
        return False  # a note, perhaps an attempt that was put aside
    return (
        len(statements) == 1
        and isinstance(statements[0], ast.Raise)
        and isinstance(statements[0].exc, ast.Call)
        and ast.unparse(statements[0].exc.func) == "NotImplementedError"
    )


# ---- reset ----


def reset(kata: Kata, now: datetime.datetime) -> Path | None:
    """Put the stub back; the attempt is saved first. Returns where, None if there was none."""
    return _write(kata, kata.shipped(), now)


def keep(kata: Kata, now: datetime.datetime) -> Path | None:
    """Save the file among the attempts. Returns where; None for a stub, or where there is no file.

    Each content is kept once, under the time at which it was last saved.
    """
    try:
        shipped = kata.shipped().encode()
    except (OSError, ValueError):  # its key or solution is broken: no reason to lose anything
        shipped = b""
    if not kata.path.exists() or (present := kata.path.read_bytes()) == shipped:
        return None
    folder = attempts_of(kata)
    folder.mkdir(parents=True, exist_ok=True)
    saved = folder / f"{now:{TIME}}_{blob_id(shipped)[:STUB]}.py"
    same = [file for file in folder.glob("*.py") if file.read_bytes() == present]
    saved.write_bytes(present)
    for file in same:
        if file != saved:
            file.unlink()
    return saved


def attempts_of(kata: Kata) -> Path:
    """The folder of a kata's saved attempts, there or not."""
    return kata.root / STATE / ATTEMPTS / kata.id


def _write(kata: Kata, shipped: str, now: datetime.datetime) -> Path | None:
    """Write the stub; what stood there and differs is kept. Returns where, None if nothing."""
    saved = keep(kata, now)
    kata.path.parent.mkdir(parents=True, exist_ok=True)
    kata.path.write_bytes(shipped.encode())
    return saved


# ---- new ----


def new(root: Path, place: str, kind: KataKind = KataKind.KERNEL) -> Kata:
    """Write the three files of a kata "TRACK/NAME", numbered after the track's last.

    Raises RepositoryError for a malformed place or a name that is taken.
    """
    track, _, name = place.partition("/")
    named = FILE.fullmatch(f"kata_00_{name}.py") and not keyword.iskeyword(name)
    if not TRACK.fullmatch(track) or not named:
        raise RepositoryError(f"{place!r}: needs TRACK/NAME, such as 2_fusion/row_softmax")
    every = katas(root, SOLUTIONS)
    if taken := [kata for kata in every if kata.name == name]:
        raise RepositoryError(f"{name} is taken: {taken[0].id}")
    last = max((int(kata.number) for kata in every if kata.track == track), default=0)
    kata = Kata(root, track, f"kata_{last + 1:02}_{name}")
    kata.solution.parent.mkdir(parents=True, exist_ok=True)
    kata.solution.write_text(templates.solution(name, kind), encoding="utf-8")
    kata.key_path.write_text(templates.key(name, kind), encoding="utf-8")
    synced(kata, check=False)
    return kata


_NAME = re.compile(r"(?P<time>[\d-]+_[\d-]+_\d+)(?:_(?P<stub>[0-9a-f]+))?\.py")


@dataclass(frozen=True, slots=True)
class Attempt:
    """One saved file. `number` counts a kata's attempts from 1, the oldest."""

    kata: Kata
    number: int
    file: Path
    saved: datetime.datetime
    stub: str  # the first digits of the id of the stub as it was then; "" where that is not known

    @property
    def when(self) -> str:
        return f"{self.saved:%Y-%m-%d %H:%M}"

    def text(self) -> str:
        """What was saved, with "?" for what is no UTF-8."""
        return self.file.read_text(encoding="utf-8", errors="replace")

    def body(self) -> list[str]:
        """The lines of its regions that are not blank; of the whole file if it has none."""
        try:
            regions = written(self.text())
        except RegionError:
            regions = ()
        lines = [line for region in regions for line in region] or self.text().split("\n")
        return [line.strip() for line in lines if line.strip()]


def attempts(kata: Kata) -> tuple[Attempt, ...]:
    """The attempts of one kata, oldest first. Files of other names count for nothing."""
    found = []
    for file in sorted(attempts_of(kata).glob("*.py")):
        if (name := _NAME.fullmatch(file.name)) and (saved := _time(name["time"])):
            found.append(Attempt(kata, len(found) + 1, file, saved, name["stub"] or ""))
    return tuple(found)


def _time(text: str) -> datetime.datetime | None:
    try:
        return datetime.datetime.strptime(text, TIME)
    except ValueError:
        return None


def all_attempts(root: Path) -> tuple[Attempt, ...]:
    """Every attempt of the clone, by kata, also of katas that are no more."""
    folders = (root / STATE / ATTEMPTS).glob("*/*")
    places = (f.relative_to(root / STATE / ATTEMPTS) for f in folders)
    files = (root / "katas" / place.parent / f"{place.name}.py" for place in places)
    found = {kata for file in files if (kata := kata_at(root, file))}
    known = [kata for kata in katas(root) if kata in found]
    rest = sorted(found.difference(known), key=lambda kata: kata.id)
    return tuple(attempt for kata in (*known, *rest) for attempt in attempts(kata))


def chosen(kata: Kata, number: int | None) -> Attempt:
    """The attempt of that number, the newest for None. Raises RepositoryError."""
    found = attempts(kata)
    if not found:
        raise RepositoryError(f"no attempt at {kata.name} is saved; kata reset saves one")
    if number is None:
        return found[-1]
    if not 1 <= number <= len(found):
        there = f"{len(found)} are" if len(found) > 1 else "1 is"
        raise RepositoryError(f"{kata.name} has no attempt {number}: {there} saved, kata restore")
    return found[number - 1]


def restored(attempt: Attempt, whole: bool) -> tuple[bytes, bool]:
    """What bringing an attempt back writes, and whether that is the file as it was saved.

    It is, with `whole`, and where the stub is still the one that the attempt was made from.
    Otherwise upstream may have changed the kata: then what was written in the regions comes back,
    in the kata as it is shipped now. Raises RepositoryError where its regions are others.
    """
    data = attempt.file.read_bytes()
    if whole:
        return data, True
    shipped = attempt.kata.shipped()
    if attempt.stub == blob_id(shipped.encode())[:STUB]:
        return data, True
    try:
        text = fill(shipped, written(data.decode().replace("\r\n", "\n")))
    except ValueError as error:
        raise RepositoryError(
            f"attempt {attempt.number} has not the regions of {attempt.kata.name} as it is shipped "
            f"now ({error}): kata restore {attempt.kata.name} {attempt.number} --whole brings "
            "the file back as it was"
        ) from None
    return text.encode(), text.encode() == data
