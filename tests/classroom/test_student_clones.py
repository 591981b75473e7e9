"""A folder with a clone for each student, and what is read of a clone."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grader.classroom.students import (
    MAX_BYTES,
    Clone,
    NoClass,
    Unreadable,
    find_clones,
)

FILE = "katas/1_first/kata_01_double.py"


def clone(folder: Path, content: bytes = b"x") -> Clone:
    file = folder / FILE
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    return Clone(folder.name, folder)


def test_students_are_folders_at_any_of_three_levels(tmp_path: Path) -> None:
    clone(tmp_path / "ada")
    clone(tmp_path / "homework 1" / "bob")
    clone(tmp_path / "homework 1" / "group" / "cleo")
    clone(tmp_path / "a" / "b" / "c" / "too deep")
    clone(tmp_path / ".hidden" / "dave")
    (tmp_path / "notes").mkdir()
    (tmp_path / "list.txt").write_text("ada")
    found = find_clones(tmp_path)
    assert [one.student for one in found.clones] == [
        "ada",
        "homework 1/bob",
        "homework 1/group/cleo",
    ]
    assert found.others == ("a", "notes")


def test_no_name_of_a_folder_steers_a_terminal(tmp_path: Path) -> None:
    root = tmp_path / "a\x1b[2Jd\u202ea" / "k"
    clone(root)
    (tmp_path / "\x1b[2J").mkdir()
    found = find_clones(tmp_path)
    assert found.clones == (Clone(r"a\x1b[2Jd\u202ea/k", root),)
    assert found.others == (r"\x1b[2J",)


def test_a_link_to_a_clone_is_no_student(tmp_path: Path) -> None:
    clone(tmp_path / "ada")
    (tmp_path / "bob").symlink_to(tmp_path / "ada")
    (tmp_path / "round").symlink_to(tmp_path)
    assert [one.student for one in find_clones(tmp_path).clones] == ["ada"]


def test_folders_that_are_no_class(tmp_path: Path) -> None:
    with pytest.raises(NoClass, match="nowhere doesn't exist"):
        find_clones(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    with pytest.raises(NoClass, match="isn't a folder"):
        find_clones(tmp_path / "file")
    with pytest.raises(NoClass, match="none has katas/"):
        find_clones(tmp_path)
    clone(tmp_path / "ada")
    with pytest.raises(NoClass, match="is a clone of the course"):
        find_clones(tmp_path / "ada")


def test_what_a_file_holds(tmp_path: Path) -> None:
    ada = clone(tmp_path / "ada", b"\xff")
    assert ada.read(FILE) == b"\xff"
    assert ada.read("katas/none.py") is None
    assert ada.read(f"{FILE}/inside") is None


def test_what_is_not_read(tmp_path: Path) -> None:
    ada, bob = clone(tmp_path / "ada"), clone(tmp_path / "bob", b"secret")
    (ada.root / "link.py").symlink_to(bob.root / FILE)
    (ada.root / "folder").symlink_to(bob.root / "katas")
    os.mkfifo(ada.root / "pipe")
    with open(ada.root / "large", "wb") as large:
        large.truncate(MAX_BYTES + 1)
    for path, why in {
        "link.py": "link.py is a symbolic link",
        "folder/1_first/kata_01_double.py": "folder is a symbolic link",
        "pipe": "pipe isn't a regular file",
        "katas": "katas isn't a regular file",
        "large": "large has 8,388,609 bytes",
    }.items():
        with pytest.raises(Unreadable, match=why):
            ada.read(path)


def unreadable(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Refuse to list this folder, and to look at what is in it, also to root."""

    def refuse(path: object) -> None:
        if isinstance(path, (str, Path)) and folder in Path(path).parents:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))

    def checked(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(path: Any, *rest: Any, **options: Any) -> Any:
            refuse(path)
            return call(path, *rest, **options)

        return wrapped

    def listing(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(path: Any = ".") -> Any:
            refuse(Path(path) / "any")
            return call(path)

        return wrapped

    for name in ("lstat", "stat", "open"):
        monkeypatch.setattr(os, name, checked(getattr(os, name)))
    for name in ("listdir", "scandir"):
        monkeypatch.setattr(os, name, listing(getattr(os, name)))


def test_a_folder_that_cannot_be_read_counts_as_a_clone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ada", "bob", "week 1/cleo"):
        clone(tmp_path / name)
    unreadable(monkeypatch, tmp_path / "ada")
    found = find_clones(tmp_path)
    assert [one.student for one in found.clones] == ["ada", "bob", "week 1/cleo"]
    assert found.others == ()
    ada, bob, _ = found.clones
    with pytest.raises(Unreadable, match=r"^the folder can't be read: Permission"):
        ada.read(FILE)
    assert bob.read(FILE) == b"x"


def test_a_class_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clone(tmp_path / "class" / "ada")
    unreadable(monkeypatch, tmp_path / "class")
    with pytest.raises(PermissionError):
        find_clones(tmp_path / "class")
