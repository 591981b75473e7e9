"""What is sent to the nodes of a cluster: the grader that runs here, and the answers."""

from __future__ import annotations

import shutil
from pathlib import Path

from grader.exercise.catalog import SOLUTIONS
from grader.tools.versions import PACKAGE, versions

LEFT_OUT = ("__pycache__", "*.pyc", ".*")


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
