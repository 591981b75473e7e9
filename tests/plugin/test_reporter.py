"""What a session says at its end, whatever happened on the way."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from grader.plugin import items
from grader.sandbox.isolation import confine
from tests.support.repositories import Repository

SWALLOWS_EXCEPTIONS = """import pytest
@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    try:
        return (yield)
    except BaseException:
        return None
"""
REPORTS_A_PASS = """import pytest
@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    report = yield
    report.outcome, report.longrepr = "passed", None
    return report
"""
HIDES_THE_REPORT = """import pytest
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item):
    report = yield
    report.outcome, report.longrepr = "passed", None
    return report
"""


@pytest.mark.parametrize(
    "conftest",
    [SWALLOWS_EXCEPTIONS, REPORTS_A_PASS, HIDES_THE_REPORT],
    ids=["swallowed", "reported", "hidden"],
)
def test_the_exit_status_is_that_of_the_grades(repository: Repository, conftest: str) -> None:
    repository.solve(repository.add("wrong"), "o_ref[...] = x_ref[...] * 3")
    (repository.root / "katas" / "conftest.py").write_text(conftest)
    ran = repository.pytest()
    assert ran.state("wrong") == "failed"
    assert ran.code == 1
    if conftest != HIDES_THE_REPORT:
        assert "3 failed" in ran.out
        assert "off by the same factor" in ran.out


@pytest.mark.parametrize("when", ["case", "end"])
def test_a_file_that_is_deleted_midway_is_not_solved(repository: Repository, when: str) -> None:
    """By the first of its cases, or after the last."""
    kata = repository.add("leaves", number=2)
    remove = f"import pathlib\npathlib.Path({str(kata.path)!r}).unlink(missing_ok=True)\n"
    repository.solve(kata, (remove if when == "case" else "") + Repository.BODY)
    repository.solve(repository.add("stays", number=1))
    if when == "end":
        body = remove.replace("\n", "\n        ")
        text = f"def pytest_runtest_logfinish(nodeid):\n    if 'hidden2' in nodeid:\n        {body}"
        (repository.root / "katas" / "conftest.py").write_text(text)
    ran = repository.process("--kata-isolation", "off")
    assert ran.state("stays") == "passed"
    assert ran.state("leaves") == "failed"
    assert ran.phrase("leaves") == "its file is gone"
    assert "1 of 2 solved, 1 failed" in ran.out
    if when == "end":  # no report of pytest explains it
        assert "its file is gone" in ran.out.partition("= katas =")[2]
    assert "Traceback" not in ran.out
    assert "FileNotFoundError" not in ran.out
    assert ran.code == 1


def test_json_that_can_not_be_written_costs_no_map(repository: Repository) -> None:
    repository.solve(repository.add("double"))
    ran = repository.pytest(f"--kata-json={repository.root}")
    assert f"--kata-json was not written: {repository.root}: Is a directory" in ran.out
    assert "1/1 solved" in ran.out
    assert "Traceback" not in ran.out
    assert ran.code == 1


def test_a_few_hidden_cases_are_no_stars(repository: Repository) -> None:
    """As after Ctrl-C."""
    repository.solve(repository.add("double"))
    ran = repository.pytest("-k", "hidden0")
    assert "0/1 solved" in ran.out
    assert "~ 01 ☆☆☆ double  ★★★ so far: 1 of 3 hidden cases ran" in ran.out
    assert ran.code == 0


@pytest.mark.parametrize("words", [(), ("-q",), ("-qq",), ("--no-header",)], ids=" ".join)
@pytest.mark.parametrize("machine", ["linux", "darwin"])
def test_a_session_says_once_that_it_is_not_isolated(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], machine: str
) -> None:
    """Also where pytest prints no header."""
    repository.solve(repository.add("double"))
    able = confine.Level(7, True)
    unable = confine.Level(0, False, "only Linux has Landlock and seccomp")
    monkeypatch.setattr(items, "level", lambda _: able if machine == "linux" else unable)
    out = repository.pytest("-k", "hidden0", *words).out
    assert out.count("not isolated: only Linux") == (machine == "darwin")


def screen(root: Path, columns: int, environ: dict[str, str]) -> list[str]:
    """The rows that `pytest` fills in a terminal of 24 rows, without colours."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    removed = ("CI", "COLUMNS", "NO_COLOR", "FORCE_COLOR", "PYTEST_ADDOPTS")
    kept = {name: value for name, value in os.environ.items() if name not in removed}
    command = [sys.executable, "-m", "pytest", "-p", "grader.plugin", "-p", "no:cacheprovider"]
    with subprocess.Popen(
        command, cwd=root, stdout=theirs, stderr=theirs, env={**kept, "TERM": "xterm", **environ}
    ) as process:
        os.close(theirs)
        written = b""
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:  # Linux's sign that the other end is closed
                part = b""
            if not part:
                break
            written += part
        process.wait()
    os.close(ours)
    text = written.decode("utf-8" if environ.get("LC_ALL") != "C" else "ascii")
    assert ("\x1b[" in text) is not environ.get("NO_COLOR")
    text = re.sub(r"\x1b\[[\d;]*[mK]", "", text).replace("\r\n", "\n")
    lines = [line.rpartition("\r")[2].rstrip() for line in text.removesuffix("\n").split("\n")]
    return [line[i : i + columns] for line in lines for i in range(0, len(line) or 1, columns)]


@pytest.mark.parametrize(
    ("columns", "environ", "body", "reason"),
    [
        (80, {}, "o_ref[...] = y_ref[...] * 2", "NameError: name 'y_ref' is not defined"),
        (80, {}, "o_ref[...] = x_ref[...] * 3", "values: off by the same factor: 1.5"),
        (100, {"NO_COLOR": "1"}, "o_ref[...] = x_ref[...] + y", "NameError: name 'y'"),
        (160, {"LC_ALL": "C", "PYTHONUTF8": "0"}, "pass", "o_ref"),
    ],
    ids=["raises", "values", "no-colour", "ascii"],
)
def test_one_failed_exercise_fits_on_a_screen(
    repository: Repository, columns: int, environ: dict[str, str], body: str, reason: str
) -> None:
    (repository.root / "pytest.ini").write_text(
        "[pytest]\ntestpaths = katas\ntimeout = 60\naddopts = -p no:anyio -p no:jaxtyping\n"
    )
    repository.solve(repository.add("wrong"), body)
    rows = screen(repository.root, columns, environ)
    text = "\n".join(rows)
    assert reason in text
    assert len(rows) <= 32, text  # two of them are the link
    assert not any(row.startswith(("configfile:", "testpaths:")) for row in rows), "two rows more"
    assert text.index("katas =") < text.index(reason)
    assert rows[-2].startswith("fix   katas/1_first/kata_01_wrong.py:14   stuck?  kata hint")
