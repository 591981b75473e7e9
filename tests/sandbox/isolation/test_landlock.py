"""Which files a confined process may read."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest

from grader.sandbox.isolation import landlock as module
from grader.sandbox.isolation.landlock import listable, readable
from tests.support.repositories import ROOT


def covers(paths: tuple[Path, ...], path: Path) -> bool:
    return any(path.resolve().is_relative_to(open_) for open_ in paths)


def test_the_interpreter_is_there_and_the_repository_is_not() -> None:
    paths = readable(never=[ROOT])
    for name in ("numpy", "pytest", "json"):
        file = sys.modules.get(name) or __import__(name)
        assert covers(paths, Path(str(file.__file__))), name
    for name in ("solutions", "katas", "grader", ".git", "pyproject.toml"):
        assert not covers(paths, ROOT / name), name


def test_no_path_lies_below_another() -> None:
    paths = readable()
    assert not [(a, b) for a in paths for b in paths if a != b and a.is_relative_to(b)]


def test_what_is_asked_for_is_there(tmp_path: Path) -> None:
    inside = tmp_path / "repository" / "public"
    inside.mkdir(parents=True)
    paths = readable([inside], never=[tmp_path / "repository"])
    assert covers(paths, inside)
    assert not covers(paths, tmp_path)


def test_a_repository_among_the_interpreters_files_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As /usr/local/lib/course in an image."""
    (tmp_path / "lib/python3/site-packages/jax").mkdir(parents=True)
    (tmp_path / "lib/course/solutions").mkdir(parents=True)
    monkeypatch.setattr(module, "_interpreter", lambda: iter([tmp_path / "lib"]))
    paths = readable(never=[tmp_path / "lib/course"])
    assert covers(paths, tmp_path / "lib/python3/site-packages/jax")
    assert not covers(paths, tmp_path / "lib/course")


def test_the_folders_around_what_is_left_out_can_be_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As solutions in an installed package: Python lists site-packages when it imports."""
    packages = tmp_path / "lib/python3/site-packages"
    for name in ("jax", "grader/course/solutions", "grader/course/katas"):
        (packages / name).mkdir(parents=True)
    monkeypatch.setattr(module, "_interpreter", lambda: iter([tmp_path / "lib"]))
    never = [packages / "grader/course/solutions"]
    assert listable(never) == (tmp_path / "lib",)
    paths = readable(never=never)
    assert covers(paths, packages / "jax")
    assert covers(paths, packages / "grader/course/katas")
    assert not covers(paths, never[0])
    assert listable([tmp_path / "elsewhere"]) == ()


def test_packages_installed_as_links_are_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages, store = tmp_path / "lib/python3.11/site-packages", tmp_path / "store/jax"
    packages.mkdir(parents=True)
    store.mkdir(parents=True)
    (packages / "jax").symlink_to(store)
    monkeypatch.setattr(module, "_interpreter", lambda: iter([tmp_path / "lib"]))
    assert covers(readable(), store)
    assert not covers(readable(never=[tmp_path / "store"]), store)


def test_an_imported_package_is_there_where_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As from a clone; of a single file it is that file alone."""
    (tmp_path / "package").mkdir()
    for file in ("package/__init__.py", "single.py", "other.py"):
        (tmp_path / file).touch()
    package, single = types.ModuleType("package"), types.ModuleType("single")
    package.__file__, package.__path__ = str(tmp_path / "package/__init__.py"), []
    single.__file__ = str(tmp_path / "single.py")
    monkeypatch.setitem(sys.modules, "package", package)
    monkeypatch.setitem(sys.modules, "single", single)
    paths = readable()
    assert covers(paths, tmp_path / "package")
    assert covers(paths, tmp_path / "single.py")
    assert not covers(paths, tmp_path / "other.py")
