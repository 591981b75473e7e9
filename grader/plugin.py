"""The pytest plugin: each hook calls something that can be tested without pytest."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from grader import catalog, codec, devices
from grader.cases import random_seed
from grader.items import GRADE, NEXT, SECONDS, KataCase, KataFile
from grader.model import Check, Finding, Grade, State
from grader.record.recording import Recorded
from grader.rendering import rendered
from grader.report import jsonfile, markdown, recorded, terminal
from grader.report.failure import Told
from grader.report.standings import Standings, same_failure, standings
from grader.session import ALL, SESSION, Session, chips
from grader.tpu import compiler
from grader.tpu.chips import CHIPS, DEFAULT

ATTRIBUTE = "kata_grade"  # on a report: the grade, as builtins, for it to cross to the controller
SEED = "kata_seed"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("katas", "Pallas katas")
    group.addoption(
        "--kata-seed",
        type=int,
        metavar="N",
        help="draw the same hidden cases as the session that printed this seed (default: random)",
    )
    group.addoption(
        "--kata-mode",
        choices=devices.MODES,
        default=devices.AUTO,
        help="strict: the TPU interpreter (auto on a CPU); interpret: the plain, forgiving one "
        "(auto on a GPU); compiled: as it is (auto on a TPU)",
    )
    group.addoption(
        "--kata-chip",
        choices=[*CHIPS, ALL],
        default=DEFAULT,
        help="the TPU to compile for, and to predict costs on (default: %(default)s); all: compile "
        f"for each, costs on {DEFAULT}",
    )
    group.addoption(
        "--kata-require",
        action="append",
        default=[],
        metavar="TRACK_OR_KATA",
        help="a todo is a failure there; matches like -k; may be given more than once",
    )
    group.addoption(
        "--kata-json",
        type=Path,
        metavar="FILE",
        help="write every grade with its findings (schema: CONTRIBUTING.md)",
    )
    group.addoption(
        "--kata-summary",
        type=Path,
        metavar="FILE",
        help='append the map as Markdown, for a workflow\'s "$GITHUB_STEP_SUMMARY"',
    )


def pytest_configure(config: pytest.Config) -> None:
    worker_input: dict[str, Any] = getattr(config, "workerinput", {})
    options = config.option
    seed = worker_input.get(SEED, options.kata_seed)
    try:
        device = devices.choose(options.kata_mode, devices.probe(os.environ))
        session = Session(
            config.rootpath,
            random_seed() if seed is None else seed,
            device,
            tuple(options.kata_require),
            chips(options.kata_chip),
        )
        unknown = session.unknown_requirements()
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None
    if unknown:
        raise pytest.UsageError(f"--kata-require {unknown[0]}: no kata or track matches that")
    config.stash[SESSION] = session
    if not worker_input:
        config.pluginmanager.register(Reporter(config), "kata-reporter")


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
    """Kata files are ours alone, also where python_files or the command line names them."""
    collectors = yield
    kata = catalog.kata_at(parent.config.rootpath, file_path)
    return [KataFile.of(kata, parent)] if kata else collectors


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    item.stash[NEXT] = nextitem


@pytest.hookimpl(optionalhook=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> bool | None:
    """pytest-timeout says how long; the bench, which can stop anything, does the stopping."""
    if not isinstance(item, KataCase):
        return None
    item.stash[SECONDS] = settings.timeout
    return True


@pytest.hookimpl(optionalhook=True)
def pytest_timeout_cancel_timer(item: pytest.Item) -> bool | None:
    return True if isinstance(item, KataCase) else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attach the grade, where the controller and JUnit XML find it."""
    report = yield
    if call.when == "call" and isinstance(item, KataCase):
        grade = item.stash.get(GRADE, None) or _broken(item, report)
        setattr(report, ATTRIBUTE, codec.to_builtins(grade))
        item.user_properties += jsonfile.properties(grade)  # JUnit XML takes them at teardown
    return report


def _broken(item: KataCase, report: pytest.TestReport) -> Grade:
    """The grade of a case that could not be graded: its key or solution is broken, or we are."""
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


def pytest_report_header(config: pytest.Config) -> list[str]:
    session = config.stash[SESSION]
    if not catalog.katas(session.root):
        return []
    return [
        f"katas: {devices.in_words(session.device)}",
        f"katas: for TPU {', '.join(session.chips)}{_uncompiled()}",
        f"katas: hidden cases drawn with --kata-seed {session.seed}",
    ]


def _uncompiled() -> str:
    if reason := compiler.why_not():
        return f"; not compiled: {reason}"
    newer = compiler.other_version()
    return f" ({newer})" if newer else ""


class Reporter:
    """Collects the grades where all reports arrive: in pytest itself, or in xdist's controller."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._grades: list[Grade] = []
        self._recorded = Recorded()
        self._unwritten = ""  # why there is no summary

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the grade; tell a failure that repeats an earlier one of the same kata in a line."""
        if not hasattr(report, ATTRIBUTE):
            return
        grade = codec.from_builtins(Grade, getattr(report, ATTRIBUTE))
        if report.failed and (earlier := self._told(grade)):
            seed = self._config.stash[SESSION].seed
            report.longrepr = terminal.repeated(grade, earlier, report.nodeid, seed)
        if isinstance(report.longrepr, str):
            # Given a text, pytest's summary repeats all of it wherever the variable CI is set.
            report.longrepr = Told(report.longrepr)  # type: ignore[assignment]
        self._grades.append(grade)

    def _told(self, grade: Grade) -> Grade | None:
        return next((g for g in self._grades if same_failure(g, grade)), None)

    def _standings(self) -> Standings:
        return standings(catalog.katas(self._config.rootpath), self._grades)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._unwritten:
            terminalreporter.write_line(self._unwritten, yellow=True)
        if not self._grades:
            return
        text = rendered(
            terminal.map_of(
                self._standings(),
                self._config.stash[SESSION].seed,
                self._config.get_verbosity(),
                recorded.told(self._recorded, self._config.rootpath),
            ),
            width=shutil.get_terminal_size().columns,
            colour=terminalreporter.hasmarkup,
            encoding=terminal.encoding_of(terminalreporter),
        )
        terminalreporter.ensure_newline()
        terminalreporter.section("katas", sep="=")
        terminalreporter.write(text)

    def pytest_sessionfinish(self) -> None:
        session = self._config.stash[SESSION]
        self._recorded = recorded.remember(session, self._grades)
        if file := self._config.getoption("kata_json"):
            jsonfile.write(file, self._grades, session)
        if file := self._config.getoption("kata_summary"):
            found = self._standings()
            self._unwritten = markdown.append(file, found, self._grades, session.seed, os.environ)
