"""What a shell completes, asked for as argcomplete's shell function asks: in a new process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from grader.cli import COMMANDS
from tests.support.repositories import Shop

SEPARATOR = "\v"


def completions(folder: Path, line: str) -> set[str]:
    """What may stand at the end of a command line, typed in this folder."""
    out = folder / "completions.txt"
    asked = {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": SEPARATOR,
        "_ARGCOMPLETE_COMP_WORDBREAKS": " \t\n\"'@><=;|&(:",  # as bash has them
        "_ARGCOMPLETE_STDOUT_FILENAME": str(out),
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "COMP_TYPE": "9",
    }
    ran = subprocess.run(
        [sys.executable, "-m", "grader.cli"],
        cwd=folder,
        env={**os.environ, **asked},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    text = out.read_text()
    out.unlink()
    return {word.strip() for word in text.split(SEPARATOR) if word}


@pytest.mark.parametrize(
    ("line", "expected"),
    {
        "kata ": {*COMMANDS},
        "kata pro": {"progress"},
        "kata --": {"--help", "--version"},
        "kata hint ": {"double", "row_sum", "row_max", "1_first", "2_second"},
        "kata hint row": {"row_sum", "row_max"},
        "kata after d": {"double"},
        "kata list --path row": {"row_sum", "row_max"},
        "kata reset 2_": {"2_second"},
        "kata commit double row_s": {"row_sum"},
        "kata hint double ": {"1", "2", "3"},
        "kata next --o": {"--open"},
        "kata cost --chip v5": {"v5e", "v5p"},
        "kata cost double ": {"bm=", "M=", "N=", "dtype="},
        "kata view double N": {"N="},
        "kata cost double N=128 b": {"bm="},
        "kata cost double --sweep N": {"N="},
        "kata cost nosuch ": set(),
    }.items(),
)
def test_what_may_be_typed_is_offered(shop: Shop, line: str, expected: set[str]) -> None:
    assert completions(shop.root, line) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [("kata cost double bm=", {"8", "16"}), ("kata cost double dtype=fl", {"float32", "float16"})],
)
def test_a_value_is_offered_behind_its_name(shop: Shop, line: str, expected: set[str]) -> None:
    """The shell has split the word at the equals sign, and asks for what is behind it."""
    assert completions(shop.root, line) == expected


def test_nothing_is_offered_where_there_are_no_exercises(tmp_path: Path) -> None:
    assert completions(tmp_path, "kata hint ") == set()
    assert completions(tmp_path, "kata cost double b") == set()
