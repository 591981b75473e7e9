"""The folder of one worker."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from grader.sandbox import worker_environment
from grader.sandbox.worker_environment import WorkerFiles

MOVES_IN = """
import os, pathlib, sys, tempfile
from grader.sandbox.worker_environment import WorkerFiles
WorkerFiles(pathlib.Path(sys.argv[1])).move_in()
print("printed", os.getcwd(), tempfile.gettempdir(), os.environ["TMPDIR"])
print("complained", sys.stdin.read(), file=sys.stderr)
"""


@pytest.fixture
def files(tmp_path: Path) -> WorkerFiles:
    files = WorkerFiles(tmp_path / "1")
    files.make()
    return files


def test_a_process_moves_in(files: WorkerFiles) -> None:
    command = [sys.executable, "-c", MOVES_IN, str(files.folder)]
    ran = subprocess.run(command, input="nobody reads this", capture_output=True, text=True)
    assert ran.stdout == ran.stderr == ""
    assert files.printed() == f"printed {files.scratch} {files.scratch} {files.scratch}"
    assert files.complained() == "complained"
    files.remove()
    assert not files.folder.exists()
    assert files.printed() == ""


@pytest.mark.parametrize("instead", ["link", "pipe", "folder"])
def test_what_is_no_file_is_not_read(files: WorkerFiles, tmp_path: Path, instead: str) -> None:
    (tmp_path / "solution").write_text("answer = 42")
    match instead:
        case "link":
            files.out.symlink_to(tmp_path / "solution")
        case "pipe":
            os.mkfifo(files.out)
        case _:
            files.out.mkdir()
    assert files.printed() == ""


def test_of_much_text_the_beginning_is_read(
    files: WorkerFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_environment, "READ_MOST", 3)
    files.out.write_text("abcdefg")
    assert files.printed() == "abc\n… 4 bytes more"


def test_of_much_stderr_the_end_is_read(
    files: WorkerFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_environment, "COMPLAINT_MOST", 3)
    files.err.write_text("abcdefg")
    assert files.complained() == "efg"


def test_a_folder_of_any_depth_is_removed(files: WorkerFiles) -> None:
    here = os.getcwd()
    try:
        os.chdir(files.scratch)
        for _ in range(1500):
            os.mkdir("d")
            os.chdir("d")
    finally:
        os.chdir(here)
    files.remove()
    assert not files.folder.exists()
