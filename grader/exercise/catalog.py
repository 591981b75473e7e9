"""Finds katas in katas/ and solutions/, and selects them like pytest's -k; limits a file's size.

katas/1_basics/kata_01_constant_add.py         the learner's file
solutions/1_basics/kata_01_constant_add.py     the same file with its regions filled in
solutions/1_basics/kata_01_constant_add.toml   the answer key

A folder that `kata init` has written has no solutions/: it uses those of `COURSE`.
"""

from __future__ import annotations

import functools
import hashlib
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader.exercise.answer_key import MAX_CASES, Key
from grader.exercise.key_reader import load
from grader.exercise.key_tables import KeyProblem
from pallascope.tools.regions import Region, RegionError, fill_dedented, regions
from pallascope.tools.text import did_you_mean

KATAS = "katas"
SOLUTIONS = "solutions"
_PACKAGED = Path(__file__).parents[1] / "course"
IN_CLONE = not _PACKAGED.is_dir()
#: The folder of the katas and solutions that came with this package: the clone, or in the wheel.
COURSE = Path(__file__).parents[2] if IN_CLONE else _PACKAGED
SETTINGS = "pyproject.toml"
#: The table of the settings of a folder that `kata init` has written.
TABLE = "pallas-katas"
TRACK = re.compile(r"(?P<number>\d+)_(?P<name>[a-z][a-z0-9_]*)")
#: A text that exceeds its stub by more characters isn't compiled in this process, because it may
#: crash Python's compiler or use gigabytes. Workers compile it when it is graded.
MAX_ADDED = 4096
#: Larger files of learners are not graded. The longest solution has 20 KiB.
MAX_GRADED_BYTES = 1 << 20
#: Larger files of learners are not even read.
MAX_READ = 16 << 20
FILE = re.compile(r"kata_(?P<number>\d+)_(?P<name>[a-z][a-z0-9_]*)\.py")


class FileTooLong(OSError):
    """A learner's file is too long to be read."""


@dataclass(frozen=True)
class Kata:
    """One kata of the repository at `root`."""

    root: Path
    track: str  # "1_basics"
    stem: str  # "kata_01_constant_add"

    @property
    def id(self) -> str:
        return f"{self.track}/{self.stem}"

    @property
    def name(self) -> str:
        """The name after the number, "constant_add", which is also the launch function's name."""
        return name_of(self.id)

    @property
    def number(self) -> str:
        return self.stem.split("_", 2)[1]

    @property
    def test(self) -> str:
        return f"test_{self.name}"

    @property
    def path(self) -> Path:
        return self.root / KATAS / self.track / f"{self.stem}.py"

    @property
    def solution(self) -> Path:
        return solutions_of(self.root) / self.track / f"{self.stem}.py"

    @property
    def solution_name(self) -> str:
        """The solution's path, relative to the folder that holds solutions/."""
        return self.solution.relative_to(solutions_of(self.root).parent).as_posix()

    @property
    def key_path(self) -> Path:
        return self.solution.with_suffix(".toml")

    @functools.cached_property
    def key(self) -> Key:
        """The answer key. Raises KeyProblem."""
        return load(self.key_path)

    def stub_text(self) -> str:
        """The text of the stub: the solution with its regions blanked.

        Raises RegionError if the solution's markers don't pair up, KeyProblem if the key doesn't
        have one text for each region.
        """
        text, fillings = self.solution.read_text(encoding="utf-8"), self.key.fillings
        try:
            count = len(regions(text))
        except RegionError as error:
            raise RegionError(error.line, error.reason, self.solution) from None
        if count != len(fillings):
            name = "stub" if self.key.debugging else "todo"
            counts = f"{len(fillings)} texts for {count} solution regions of {self.solution.name}"
            raise KeyProblem(self.key_path, name, f"has {counts}; needs one for each region")
        return fill_dedented(text, fillings)

    def content(self) -> bytes:
        """The bytes of the learner's file. Raises OSError, FileTooLong."""
        with open(self.path, "rb") as file:
            content = file.read(MAX_READ + 1)
        if len(content) > MAX_READ:
            raise FileTooLong(f"{self.path} has more than {MAX_READ:,} bytes")
        return content

    def text(self) -> str:
        """The learner's text, with "\\n" as line end. Raises OSError, UnicodeDecodeError."""
        return self.content().decode().replace("\r\n", "\n").replace("\r", "\n")

    def answer_digest(self) -> str:
        """A hash of the current solution and key on disk."""
        digest = hashlib.sha256()
        for file in (self.solution, self.key_path):
            content = file.read_bytes() if file.exists() else b""
            digest.update(hashlib.sha256(content).digest())
        return digest.hexdigest()

    def untouched(self) -> bool:
        """Whether the file is exactly the stub, so that there is nothing to grade yet.

        In a debugging kata, whose stub runs, only the regions must equal the stub's.
        """
        try:
            text, stub = self.text(), self.stub_text()
            if not self.key.debugging:
                return text == stub
            if len(text) > len(stub) + MAX_ADDED:
                return False
            compile(text, self.path, "exec")  # a file that doesn't parse is graded, and fails
            return [r.body for r in regions(text)] == [r.body for r in regions(stub)]
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            return False

    def regions_left(self) -> tuple[tuple[Region, ...], int]:
        """The regions that equal the stub's, and the number of all regions.

        Returns ((), 0) if the learner's file or the stub can't be read.
        """
        try:
            found, stub = regions(self.text()), regions(self.stub_text())
        except (OSError, ValueError):  # KeyProblem and RegionError are ValueErrors
            return (), 0
        shipped = {region.body for region in stub}
        return tuple(region for region in found if region.body in shipped), len(found)

    def location(self) -> tuple[str, int]:
        """The file, relative to the root, and the line to start typing at.

        That line is in the first region that equals the stub's, or else in the first region.
        """
        file = self.path.relative_to(self.root).as_posix()
        left, _ = self.regions_left()
        if left:
            return file, left[0].first
        try:
            found = regions(self.text())
        except (OSError, ValueError):
            return file, 1
        return file, found[0].first if found else 1


def name_of(id: str) -> str:
    """The name in a kata's id, after track and number."""
    return id.rpartition("/")[2].split("_", 2)[2]


def kata_with_id(root: Path, id: str) -> Kata:
    """The kata with this id, even if its files don't exist."""
    track, _, stem = id.rpartition("/")
    return Kata(root, track, stem)


def kata_at(root: Path, path: Path) -> Kata | None:
    """The kata whose learner's file is `path`, or None."""
    if path.suffix != ".py" or not path.name.startswith("kata_"):
        return None
    try:
        parts = path.relative_to(root / KATAS).parts
    except ValueError:
        return None
    if len(parts) != 2 or not TRACK.fullmatch(parts[0]) or not FILE.fullmatch(parts[1]):
        return None
    return Kata(root, parts[0], path.stem)


def katas(root: Path, folder: str = KATAS) -> tuple[Kata, ...]:
    """Every kata under `folder` of the repository, by track number and kata number.

    With SOLUTIONS, where `kata init` has written only some katas, these. Raises ValueError if the
    settings can't be read.
    """
    place = solutions_of(root) if folder == SOLUTIONS else root / folder
    found = [
        Kata(root, file.parent.name, file.stem)
        for file in place.glob("*/kata_*.py")
        if TRACK.fullmatch(file.parent.name) and FILE.fullmatch(file.name)
    ]
    if folder == SOLUTIONS and is_course(root):
        only = settings(root).only
        found = [kata for kata in found if is_chosen(kata, only) or kata.path.exists()]
    return in_order(found)


def has_solutions(root: Path) -> bool:
    """Whether this folder has solutions, like a clone."""
    return (root / SOLUTIONS).is_dir()


def is_course(root: Path) -> bool:
    """Whether this folder has katas and no solutions, like those that `kata init` writes."""
    return (root / KATAS).is_dir() and not has_solutions(root)


def solutions_of(root: Path) -> Path:
    """The folder of the solutions: the repository's own, or for a course those of COURSE."""
    return COURSE / SOLUTIONS if is_course(root) else root / SOLUTIONS


@dataclass(frozen=True, slots=True)
class CourseSettings:
    """The settings of a folder that `kata init` has written.

    `only` has the names of the chosen tracks and katas, None for all; `solutions` is False where
    `kata show` shows none.
    """

    only: tuple[str, ...] | None = None
    solutions: bool = True


def settings(root: Path) -> CourseSettings:
    """The table [tool.pallas-katas] of pyproject.toml. Raises ValueError if it is malformed."""
    try:
        text = (root / SETTINGS).read_text(encoding="utf-8")
        tools = tomllib.loads(text).get("tool", {})
    except OSError:
        return CourseSettings()
    except ValueError as error:
        raise ValueError(f"{SETTINGS}: {error}") from None
    table = tools.get(TABLE, {}) if isinstance(tools, dict) else None
    if not isinstance(table, dict):
        raise ValueError(f"{SETTINGS}: tool.{TABLE} needs to be a table")
    only, solutions = table.get("only"), table.get("solutions", True)
    if only is not None and not _is_list_of_names(only):
        raise ValueError(f'{SETTINGS}: tool.{TABLE}.only needs a list such as ["1_basics"]')
    if not isinstance(solutions, bool):
        raise ValueError(f"{SETTINGS}: tool.{TABLE}.solutions needs true or false")
    if unknown := sorted(table.keys() - {"only", "solutions"}):
        raise ValueError(f"{SETTINGS}: tool.{TABLE} has no setting {unknown[0]!r}")
    return CourseSettings(None if only is None else tuple(only), solutions)


def _is_list_of_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def is_chosen(kata: Kata, only: Iterable[str] | None) -> bool:
    """Whether the names of tracks and katas in `only` select this kata; None selects all."""
    return only is None or bool({kata.track, kata.name}.intersection(only))


def in_order(katas: Iterable[Kata]) -> tuple[Kata, ...]:
    """Katas by track number and kata number."""
    return tuple(sorted(katas, key=_sort_key))


def _sort_key(kata: Kata) -> tuple[int, str, int, str]:
    return int(kata.track.split("_", 1)[0]), kata.track, int(kata.number), kata.stem


def matching_katas(all_katas: Iterable[Kata], expression: str) -> tuple[Kata, ...]:
    """The katas that `pytest -k EXPRESSION` would select; an exact name selects only that kata.

    Raises ValueError if the expression is malformed.
    """
    pool = tuple(all_katas)
    exact = tuple(kata for kata in pool if expression in (kata.name, kata.stem))
    if exact:
        return exact
    if _is_word(expression):  # nearly always, and then there is no need to import pytest
        return tuple(kata for kata in pool if _contains(kata, expression))
    from _pytest.mark.expression import Expression

    try:
        compiled = Expression.compile(expression)
    except SyntaxError as error:
        raise ValueError(f"{expression!r} is not an expression that -k takes: {error}") from None

    return tuple(kata for kata in pool if _matches(compiled, _searched_text(kata)))


def selects(expression: str, kata: Kata) -> bool:
    """Whether `pytest -k EXPRESSION` would select a hidden case of a kata.

    Also true for malformed expressions, which pytest reports.
    """
    from _pytest.mark.expression import Expression

    try:
        compiled = Expression.compile(expression)
    except SyntaxError:
        return True
    text = f"{_searched_text(kata)}[hidden"
    return any(_matches(compiled, f"{text}{n}] timeout") for n in range(MAX_CASES))


def no_match_message(all_katas: Iterable[Kata], expression: str) -> str:
    """The message for an expression that no kata matches, with a similar name."""
    pool = tuple(all_katas)
    words = [word for word in _WORD.findall(expression) if word not in _OPERATORS]
    unknown = [word for word in words if not any(_contains(kata, word) for kata in pool)]
    tracks = dict.fromkeys(kata.track for kata in pool)
    names = [kata.name for kata in pool] + [track.partition("_")[2] for track in tracks]
    parts = [part for name in names for part in name.split("_") if len(part) > 3]
    suggestion = next(filter(None, (did_you_mean(word, names + parts) for word in unknown)), "")
    return f"no kata matches {expression!r}; {suggestion or 'kata list shows them all'}"


_WORD = re.compile(r"[\w./-]+")
_OPERATORS = ("and", "or", "not")


def _is_word(expression: str) -> bool:
    return bool(_WORD.fullmatch(expression)) and expression not in _OPERATORS


def _contains(kata: Kata, word: str) -> bool:
    return word.lower() in _searched_text(kata)


def _searched_text(kata: Kata) -> str:
    """The text in which pytest's -k searches, in lower case."""
    return f"{KATAS}/{kata.id}.py {kata.test}".lower()


def _matches(compiled: Any, text: str) -> bool:
    """Whether a compiled expression of -k matches `text`."""
    return compiled.evaluate(lambda word, /, **_: word.lower() in text)


@dataclass(frozen=True)
class Submission(Kata):
    """A kata whose learner's file is replaced by a text. The file is neither read nor needed.

    Messages use the file's name. Text that isn't valid UTF-8 (half a surrogate pair) is kept.
    """

    written: str

    @classmethod
    def of(cls, kata: Kata, written: str) -> Submission:
        return cls(kata.root, kata.track, kata.stem, written)

    def content(self) -> bytes:
        return self.written.encode("utf-8", "surrogatepass")
