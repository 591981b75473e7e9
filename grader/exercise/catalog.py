"""katas/ and solutions/ on disk: the katas and their files.

katas/ and solutions/ on disk: which katas there are and where their three files lie.
katas/1_basics/kata_01_constant_add.py         what the learner edits
solutions/1_basics/kata_01_constant_add.py     the same file with its regions filled in
solutions/1_basics/kata_01_constant_add.toml   the answer key

A learner's file as text that somebody hands in, without a file.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader.exercise.answer_key import Key
from grader.exercise.key_reader import MOST_CASES, load
from grader.exercise.key_tables import KeyProblem
from grader.exercise.regions import RegionError, blank, regions
from pallascope.tools.text import did_you_mean

KATAS = "katas"
SOLUTIONS = "solutions"
TRACK = re.compile(r"(?P<number>\d+)_(?P<name>[a-z][a-z0-9_]*)")
#: Characters that a stub is looked at with: of longer texts, some take Python's compiler gigabytes
#: or crash it, and who asks is not confined. They are graded, where that ends a worker.
MOST_ADDED = 4096
#: Bytes of a learner's file that are read. Of what is graded, `grading.counted` allows far less.
MOST_READ = 16 << 20
FILE = re.compile(r"kata_(?P<number>\d+)_(?P<name>[a-z][a-z0-9_]*)\.py")


class FileTooLong(OSError):
    """A learner's file is longer than what is read."""


@dataclass(frozen=True)
class Kata:
    """One kata of the repository at `root`, found by its place under katas/."""

    root: Path
    track: str  # "1_basics"
    stem: str  # "kata_01_constant_add"

    @property
    def id(self) -> str:
        return f"{self.track}/{self.stem}"

    @property
    def name(self) -> str:
        """What follows the number: "constant_add". Also the launch function's name."""
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
        return self.root / SOLUTIONS / self.track / f"{self.stem}.py"

    @property
    def key_path(self) -> Path:
        return self.solution.with_suffix(".toml")

    @functools.cached_property
    def key(self) -> Key:
        """The answer key. Raises keys.KeyProblem."""
        return load(self.key_path)

    def shipped(self) -> str:
        """The text of the stub: the solution with its regions blanked.

        Raises regions.RegionError where the solution's markers do not pair up, keys.KeyProblem
        where the key has no text for each of its regions.
        """
        text, fillings = self.solution.read_text(encoding="utf-8"), self.key.fillings
        try:
            places = len(regions(text))
        except RegionError as error:
            raise RegionError(error.line, error.reason, self.solution) from None
        if places != len(fillings):
            name = "stub" if self.key.debugging else "todo"
            what = f"holds {len(fillings)} texts, {self.solution.name} {places} solution regions"
            raise KeyProblem(self.key_path, name, f"{what}: needs one text for each region")
        return blank(text, fillings)

    def content(self) -> bytes:
        """What the learner has written, the whole file.

        Raises OSError where it is gone, FileTooLong where it is longer than any kata.
        """
        with open(self.path, "rb") as file:
            content = file.read(MOST_READ + 1)
        if len(content) > MOST_READ:
            raise FileTooLong(f"{self.path} has more than {MOST_READ:,} bytes")
        return content

    def text(self) -> str:
        """The same as text, lines ending in "\\n". Raises OSError, UnicodeDecodeError."""
        return self.content().decode().replace("\r\n", "\n").replace("\r", "\n")

    def answer_digest(self) -> str:
        """A hash of what is graded against, the solution and its key, as they are on disk now."""
        found = hashlib.sha256()
        for file in (self.solution, self.key_path):
            content = file.read_bytes() if file.exists() else b""
            found.update(hashlib.sha256(content).digest())
        return found.hexdigest()

    def untouched(self) -> bool:
        """Whether there is nothing to grade yet: the file, letter for letter, is the stub.

        In a debugging kata, whose stub runs, it is enough that the regions still equal the stub's.
        """
        try:
            text, shipped = self.text(), self.shipped()
            if not self.key.debugging:
                return text == shipped
            if len(text) > len(shipped) + MOST_ADDED:
                return False
            compile(text, self.path, "exec")  # what can't be read is graded, and fails
            return [r.body for r in regions(text)] == [r.body for r in regions(shipped)]
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            return False

    def where(self) -> tuple[str, int]:
        """The file, relative to the root, and the line to start typing at."""
        file = self.path.relative_to(self.root).as_posix()
        try:
            found = regions(self.text())
        except (OSError, ValueError):
            return file, 1
        return file, found[0].first if found else 1


def name_of(id: str) -> str:
    """What follows track and number in a kata's id."""
    return id.rpartition("/")[2].split("_", 2)[2]


def with_id(root: Path, id: str) -> Kata:
    """The kata of this id, whether or not its files are there."""
    track, _, stem = id.rpartition("/")
    return Kata(root, track, stem)


def kata_at(root: Path, path: Path) -> Kata | None:
    """The kata whose learner's file is `path`, or None if `path` is no such file."""
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
    """Every kata under `folder` of the repository, by track number and kata number."""
    found = [
        Kata(root, file.parent.name, file.stem)
        for file in (root / folder).glob("*/kata_*.py")
        if TRACK.fullmatch(file.parent.name) and FILE.fullmatch(file.name)
    ]
    return in_order(found)


def in_order(found: Iterable[Kata]) -> tuple[Kata, ...]:
    """Katas by track number and kata number."""
    return tuple(sorted(found, key=_order))


def _order(kata: Kata) -> tuple[int, str, int, str]:
    return int(kata.track.split("_", 1)[0]), kata.track, int(kata.number), kata.stem


def named(all_katas: Iterable[Kata], expression: str) -> tuple[Kata, ...]:
    """The katas that `pytest -k EXPRESSION` would select; a kata's exact name selects it alone.

    Raises ValueError where the expression is malformed.
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

    return tuple(kata for kata in pool if _evaluated(compiled, _text(kata)))


def selects(expression: str, kata: Kata) -> bool:
    """Whether `pytest -k EXPRESSION` would take some hidden case of a kata.

    True as well for what is no expression: pytest complains of that.
    """
    from _pytest.mark.expression import Expression

    try:
        compiled = Expression.compile(expression)
    except SyntaxError:
        return True
    text = f"{_text(kata)}[hidden"
    return any(_evaluated(compiled, f"{text}{n}] timeout") for n in range(MOST_CASES))


def unmatched(all_katas: Iterable[Kata], expression: str) -> str:
    """What to say of an expression that no kata matches: which names it may have meant."""
    pool = tuple(all_katas)
    words = [word for word in _WORD.findall(expression) if word not in _OPERATORS]
    unknown = [word for word in words if not any(_contains(kata, word) for kata in pool)]
    tracks = dict.fromkeys(kata.track for kata in pool)
    names = [kata.name for kata in pool] + [track.partition("_")[2] for track in tracks]
    parts = [part for name in names for part in name.split("_") if len(part) > 3]
    meant = next(filter(None, (did_you_mean(word, names + parts) for word in unknown)), "")
    return f"no kata matches {expression!r}; {meant or 'kata list shows them all'}"


_WORD = re.compile(r"[\w./-]+")
_OPERATORS = ("and", "or", "not")


def _is_word(expression: str) -> bool:
    return bool(_WORD.fullmatch(expression)) and expression not in _OPERATORS


def _contains(kata: Kata, word: str) -> bool:
    return word.lower() in _text(kata)


def _text(kata: Kata) -> str:
    """What pytest's -k looks for words in, in lower case."""
    return f"{KATAS}/{kata.id}.py {kata.test}".lower()


def _evaluated(compiled: Any, text: str) -> bool:
    """A compiled expression of -k, its words looked for in `text`."""
    return compiled.evaluate(lambda word, /, **_: word.lower() in text)


@dataclass(frozen=True)
class Submission(Kata):
    """A kata with what somebody wrote in the place of its file, which is neither read nor needed.

    Messages call the text by the name that the file would have. Text that no UTF-8 file can hold
    (half a surrogate pair) stays what Python can't read.
    """

    written: str

    @classmethod
    def of(cls, kata: Kata, written: str) -> Submission:
        return cls(kata.root, kata.track, kata.stem, written)

    def content(self) -> bytes:
        return self.written.encode("utf-8", "surrogatepass")
