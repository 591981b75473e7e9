"""Commands in a clone that can't be written to: those that only show something work."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pallascope.tools.files import describe_os_error
from tests.support.repositories import ROOT, Clone

#: Root is subject to permissions only without these capabilities.
_AS_ANYBODY = ("setpriv", "--inh-caps=-all", "--bounding-set=-dac_override,-dac_read_search")
ROOTS = hasattr(os, "geteuid") and os.geteuid() == 0
NEEDS = "This needs a clone that you may change"


@pytest.fixture
def read_only(clone: Clone) -> Iterator[Clone]:
    """Two katas solved, one of them saved among the attempts; then nothing may be written."""
    if ROOTS and not shutil.which(_AS_ANYBODY[0]):
        pytest.skip("root writes anywhere")
    clone.passed(clone.shop.double)
    clone.shop.run("reset", "double")
    clone.passed(clone.shop.double, "value = x_ref[...]\no_ref[...] = value * 2")
    everything = [clone.root, *clone.root.rglob("*")]
    for path in everything:
        path.chmod(path.stat().st_mode & ~0o222)
    yield clone
    for path in everything:
        path.chmod(path.stat().st_mode | 0o200)


def kata(clone: Clone, *arguments: str) -> tuple[int, str]:
    ran = subprocess.run(
        [*(_AS_ANYBODY if ROOTS else ()), sys.executable, "-m", "grader.cli", *arguments],
        cwd=clone.root,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    return ran.returncode, ran.stdout + ran.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("reset", "double"),
        ("restore", "double"),
        ("new", "1_first/more"),
        ("progress", "--svg", "map.svg"),
        ("tasks", "--out", "tasks.jsonl"),
        ("baseline", "--out", "samples.jsonl"),
    ],
    ids=" ".join,
)
def test_what_has_to_write_says_what_it_needs(read_only: Clone, command: tuple[str, ...]) -> None:
    before = read_only.shop.double.path.read_bytes()
    code, said = kata(read_only, *command)
    assert (code, said.count(f"Permission denied. {NEEDS}\n")) == (2, 1), said
    assert "Errno" not in said
    assert read_only.shop.double.path.read_bytes() == before


@pytest.mark.parametrize("command", ["commit", "update"])
def test_what_has_git_write_does_so_too(read_only: Clone, command: str) -> None:
    code, said = kata(read_only, command)
    assert code == 2
    assert f"{read_only.root}/.git can't be written to: this needs a clone that you may" in said


@pytest.mark.parametrize("command", ["progress", "list", "next", "after double --yes", "restore"])
def test_what_only_shows_works(read_only: Clone, command: str) -> None:
    code, said = kata(read_only, *command.split())
    assert (code, "double" in said or "row_sum" in said) == (1 if "after" in command else 0, True)


def test_a_picture_is_written_elsewhere(read_only: Clone) -> None:
    code, said = kata(read_only, "view", "double", "--no-open")
    assert code == 0, said
    file = Path(said.split("wrote ")[1].partition(": ")[0])
    assert not file.is_relative_to(read_only.root)
    assert "double" in file.read_text()
    shutil.rmtree(file.parent)


def test_an_error_is_told_without_its_number(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nowhere") as raised:
        (tmp_path / "nowhere").read_text()
    assert describe_os_error(raised.value) == f"{tmp_path}/nowhere: No such file or directory"
    assert describe_os_error(OSError("a reason")) == "a reason"
    assert describe_os_error(OSError(errno.ENOSPC, "No space left")) == "No space left"
