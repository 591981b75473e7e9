"""pytest's hooks. Each calls a function that can be tested without pytest."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from grader.exercise import catalog
from grader.plugin.items import (
    GRADE,
    NEXT,
    SECONDS,
    SEED,
    SESSION,
    KataCase,
    KataFile,
    has_links,
)
from grader.plugin.reporter import ATTRIBUTE
from grader.report.failures import explanation
from grader.report.report_files import properties
from grader.sandbox import devices
from grader.verdict import Grade, State
from pallascope.model import Check, Finding
from pallascope.tools import codec
from pallascope.tools.versions import extras_available, install_hint, untested_jax
from pallascope.tpu import libtpu

NO_DEBUGGER_MESSAGE = (
    "--pdb opens no debugger for a kata, whose kernel runs in another process; print, "
    "pl.debug_print and kata view NAME show its steps"
)


def pytest_unconfigure(config: pytest.Config) -> None:
    if session := config.stash.get(SESSION, None):
        session.close()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give every xdist worker the controller's seed."""
    node.workerinput[SEED] = node.config.stash[SESSION].seed


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path, parent: pytest.Collector
) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Only this plugin collects kata files, even if python_files or the command line names them."""
    collectors = yield
    kata = catalog.kata_at(parent.config.rootpath, file_path)
    return [KataFile.of(kata, parent)] if kata else collectors


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    item.stash[NEXT] = nextitem


@pytest.hookimpl(optionalhook=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> bool | None:
    """pytest-timeout determines the time limit; the pool enforces it."""
    if not isinstance(item, KataCase):
        return None
    item.stash[SECONDS] = settings.timeout
    return True


@pytest.hookimpl(optionalhook=True)
def pytest_timeout_cancel_timer(item: pytest.Item) -> bool | None:
    return True if isinstance(item, KataCase) else None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attach the grade for the controller and JUnit XML.

    A failed grade is reported as failed, even if a conftest.py has caught the exception.
    """
    report = yield
    if call.when == "call" and isinstance(item, KataCase):
        grade = item.stash.get(GRADE, None) or _grade_of_error(item, report)
        if grade.state is State.FAILED and not report.failed:
            seed = item.session_of_katas.seed
            links = has_links(item.config)
            text = explanation(item.kata, grade, item.nodeid, seed, links=links)
            report.outcome, report.longrepr = "failed", text
        setattr(report, ATTRIBUTE, codec.to_builtins(grade))
        item.user_properties += properties(grade)  # JUnit XML takes them at teardown
    return report


def _grade_of_error(item: KataCase, report: pytest.TestReport) -> Grade:
    """The grade of a case that could not be graded: key, solution or grader is broken."""
    text = report.longreprtext
    lines = text.splitlines() or ["not graded"]
    phrase = " ".join(dict.fromkeys([lines[0], lines[-1]]))
    finding = Finding(Check.RUNS, phrase, text)
    index = item.case.index if item.case else 0
    return Grade(item.kata.id, index, State.FAILED, 0, finding)


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, Any] | None:
    grade = getattr(report, ATTRIBUTE, None)
    if grade and report.skipped and grade["state"] == State.TODO.value:
        return "todo", "t", ("TODO", {"yellow": True})
    return None


@pytest.hookimpl(wrapper=True)
def pytest_report_header(config: pytest.Config) -> Generator[None, list[Any], list[Any]]:
    """Two lines about the session, and more lines only for unusual settings.

    They replace the three lines in which pytest-timeout repeats its settings, and the session's
    files share a line: header, map and one explanation should fit on one screen.
    """
    others = yield
    session = config.stash[SESSION]
    if not catalog.katas(session.root):
        return others
    others = [_on_one_line(of) for of in others if not "".join(of).startswith("timeout:")]
    settings = [f"TPU {', '.join(session.chips)}", f"--kata-seed {session.seed}"]
    if session.isolated.isolated:
        settings.insert(1, str(session.isolated))
    unusual = [
        "" if session.isolated.isolated else str(session.isolated),
        _compiler_note(),
        untested_jax(),
        NO_DEBUGGER_MESSAGE if config.getoption("usepdb") else "",
    ]
    lines = [devices.in_words(session.device), ", ".join(settings), *filter(None, unusual)]
    return [*others, [f"katas: {line}" for line in lines]]


_FILES = ("rootdir:", "configfile:", "testpaths:")


def _on_one_line(lines: str | list[str]) -> str | list[str]:
    """pytest's own header, with the folder and the files of the session on one line."""
    if isinstance(lines, str):
        return lines
    files = [line for line in lines if line.startswith(_FILES)]
    rest = [line for line in lines if line not in files]
    return [", ".join(files), *rest] if files else rest


def _compiler_note() -> str:
    if reason := libtpu.unavailable_reason():
        advice = "" if extras_available() else f" ({install_hint('tpu')})"
        return f"not compiled: {reason}{advice}"
    return libtpu.version_mismatch() or ""
