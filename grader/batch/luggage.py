"""What is sent to the nodes of a cluster: the grader that runs here, and the answers."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from grader.exercise.catalog import SOLUTIONS
from grader.tools.versions import PACKAGE, versions

LEFT_OUT = ("__pycache__", "*.pyc", ".*")
COUNT = "files.txt"  # how many files there are beside it
SECONDS, PAUSE = 20.0, 0.2


def pack(root: Path, folder: Path) -> None:
    """Copy to `folder` what a node needs of the repository at `root`, some 4 MB.

    So a node grades with the driver's code against the driver's answers, whatever version of this
    package it has installed, or none. It has to have the packages that this one depends on.
    """
    own = Path(__file__).resolve().parents[1]
    for source, name in ((own, own.name), (root / SOLUTIONS, SOLUTIONS)):
        shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns(*LEFT_OUT))
    if version := versions()[PACKAGE]:
        told = folder / f"{PACKAGE.replace('-', '_')}-{version}.dist-info" / "METADATA"
        told.parent.mkdir()
        told.write_text(f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: {version}\n")
    (folder / COUNT).write_text(str(_count(folder)))


def unpack(sent: Path, folder: Path) -> None:
    """Make `folder` a copy of what a node was sent. Raises OSError where that isn't whole.

    Ray may write it anew at any moment: where two nodes share a machine, for the other's sake.
    """
    until = time.monotonic() + SECONDS
    while not _copied(sent, folder):
        if time.monotonic() > until:
            raise OSError(f"what was sent to this node is not whole: {sent}")
        time.sleep(PAUSE)


def is_whole(folder: Path) -> bool:
    """Whether all that was packed is there."""
    try:
        return _count(folder) == int((folder / COUNT).read_text())
    except (OSError, ValueError):
        return False


def _copied(sent: Path, folder: Path) -> bool:
    shutil.rmtree(folder, ignore_errors=True)
    try:
        shutil.copytree(sent, folder, ignore=shutil.ignore_patterns(*LEFT_OUT))
    except OSError:  # as shutil.Error is
        return False
    return is_whole(folder)


def _count(folder: Path) -> int:
    """How many files it has, without what Python writes there."""
    return sum(
        name != COUNT
        for place, _, names in os.walk(folder)
        if Path(place).name != "__pycache__"
        for name in names
    )
