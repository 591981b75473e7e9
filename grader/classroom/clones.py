"""A folder with a clone for each student, and what the files of a clone hold.

Of a clone, only the katas and the ledger are read, as bytes: none of its code is imported or run,
and no git is started in it, since a clone's settings may name programs.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from grader.exercise.catalog import KATAS, TRACK

#: How far below the class's folder a clone may lie: FOLDER/assignment/student.
DEEPEST = 3
#: Bytes of the largest file that is read. A submission may have 1 MiB.
LARGEST = 8 << 20


class NoClass(ValueError):
    """A folder holds no clones; the text says what it is instead."""


class Unreadable(ValueError):
    """A file of a clone that is there and isn't read; the text says why."""


@dataclass(frozen=True, slots=True)
class Clone:
    """One student's clone. The student is called by the folder's name, from the class's on."""

    student: str
    root: Path

    def read(self, path: str) -> bytes | None:
        """What a file holds, by its path within the clone; None where there is none.

        Raises Unreadable for a link (it may lead to another student's work), for what is no file,
        and for what is too large.
        """
        try:
            self._demand_no_links(path)
            file = os.open(self.root / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise Unreadable(f"{path} can't be read: {error.strerror}") from None
        try:
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode):
                raise Unreadable(f"{path} is no file")
            if found.st_size > LARGEST:
                raise Unreadable(f"{path} has {found.st_size:,} bytes: too many to be read")
            with open(file, "rb", closefd=False) as opened:
                return opened.read(LARGEST)
        finally:
            os.close(file)

    def _demand_no_links(self, path: str) -> None:
        place = self.root
        for part in Path(path).parts:
            place = place / part
            if place.is_symlink():
                raise Unreadable(f"{place.relative_to(self.root)} is a symbolic link, not read")


@dataclass(frozen=True, slots=True)
class Class:
    """The clones in a folder, by student, and the names of its folders that hold none."""

    clones: tuple[Clone, ...]
    others: tuple[str, ...]


def class_in(folder: Path) -> Class:
    """All clones below a folder. Raises NoClass where there is none, or the folder is a clone."""
    if not folder.is_dir():
        raise NoClass(f"{folder} is no folder" if folder.exists() else f"there is no {folder}")
    if _is_clone(folder):
        raise NoClass(
            f"{folder} is a clone of the course: give the folder that holds a clone for each "
            "student"
        )
    found: list[Clone] = []
    others: list[str] = []
    for inside in _folders(folder):
        roots = list(_clones_in(inside, DEEPEST - 1))
        found += [Clone(root.relative_to(folder).as_posix(), root) for root in roots]
        others += [] if roots else [inside.name]
    if not found:
        raise NoClass(f"no folder in {folder} is a clone of the course: none holds {KATAS}/")
    return Class(tuple(found), tuple(others))


def _clones_in(folder: Path, deeper: int) -> Iterator[Path]:
    if _is_clone(folder):
        yield folder
    elif deeper:
        for inside in _folders(folder):
            yield from _clones_in(inside, deeper - 1)


def _folders(folder: Path) -> list[Path]:
    """The folders in one, by name, without hidden ones and links."""
    try:
        inside = sorted(folder.iterdir(), key=lambda path: path.name)
    except OSError:
        return []
    return [
        path
        for path in inside
        if path.is_dir() and not path.is_symlink() and not path.name.startswith(".")
    ]


def _is_clone(folder: Path) -> bool:
    katas = folder / KATAS
    return katas.is_dir() and any(TRACK.fullmatch(inside.name) for inside in _folders(katas))
