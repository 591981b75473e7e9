"""Collects grades from every process; writes the map and the record."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Iterator, Mapping

import pytest
from rich.console import RenderableType

from grader.exercise import catalog
from grader.exercise.catalog import Kata
from grader.grading.session_case import GONE
from grader.plugin.items import SESSION
from grader.record.ledger import NewPasses, record_session
from grader.report import maps, report_files
from grader.report.completion import newly_solved
from grader.report.failures import FailureText, repeated_failure
from grader.report.maps import newly_recorded
from grader.report.standings import SessionStandings, same_failure, standings
from grader.verdict import Grade, State
from pallascope.tools import codec
from pallascope.tools.files import describe_os_error
from pallascope.tools.terminal import render_text

SUMMARISING = pytest.StashKey[bool]()  # pytest is writing its summary
ATTRIBUTE = "kata_grade"  # of a report: the grade as builtins, which xdist sends to the controller


class Reporter:
    """Collects the grades of all processes, in pytest itself or in xdist's controller."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._grades: list[Grade] = []
        self._recorded = NewPasses()
        self._file_errors: list[str] = []  # files that could not be written

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the grade. A failure like an earlier one of the same kata gets a short text."""
        if not hasattr(report, ATTRIBUTE):
            return
        grade = codec.from_builtins(Grade, getattr(report, ATTRIBUTE))
        if report.failed and (earlier := self._earlier_failure(grade)):
            seed = self._config.stash[SESSION].seed
            report.longrepr = repeated_failure(grade, earlier, report.nodeid, seed)
        if isinstance(report.longrepr, str):
            # If this were a str and the variable CI is set, pytest's summary would repeat all of
            # it.
            report.longrepr = FailureText(report.longrepr)  # type: ignore[assignment]
        self._grades.append(grade)

    def _earlier_failure(self, grade: Grade) -> Grade | None:
        return next((g for g in self._grades if same_failure(g, grade)), None)

    def _unmatched(self) -> str:
        """The message for a -k that matches no kata; "" if the arguments include no katas.

        It reads the arguments, because under xdist only the workers know the collected items.
        """
        katas, expression = catalog.katas(self._config.rootpath), self._config.option.keyword
        if not katas or not expression or catalog.matching_katas(katas, expression):
            return ""
        folder = self._config.rootpath / catalog.KATAS
        start = self._config.invocation_params.dir
        paths = [(start / argument.partition("::")[0]).resolve() for argument in self._config.args]
        katas_requested = any(
            folder.is_relative_to(path) or path.is_relative_to(folder) for path in paths
        )
        return catalog.no_match_message(katas, expression) if katas_requested else ""

    def _katas(self) -> tuple[Kata, ...]:
        """Every kata that exists, or existed when it was graded."""
        root = self._config.rootpath
        graded = {catalog.kata_with_id(root, grade.kata) for grade in self._grades}
        return catalog.in_order(graded.union(catalog.katas(root)))

    def _newly_solved(self) -> Iterator[RenderableType]:
        """The texts of katas that were solved for the first time; none with -q or in CI."""
        first = [kata for kata in self._katas() if kata.id in self._recorded.first]
        quiet = self._config.get_verbosity() < 0 or in_ci(os.environ)
        return newly_solved(first, self._grades, quiet)

    def _standings(self) -> SessionStandings:
        return standings(self._katas(), self._grades)

    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter, exitstatus: int
    ) -> None:
        # With CI set, and from -vv on, pytest cuts nothing off.
        self._config.stash[SUMMARISING] = not in_ci(os.environ) and self._config.get_verbosity() < 2
        for text in self._file_errors:
            terminalreporter.write_line(text, yellow=True)
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and (text := self._unmatched()):
            terminalreporter.write_line(text, yellow=True)
        if not self._grades:
            return
        isolated = self._config.stash[SESSION].isolated
        if not (isolated.isolated or has_header(self._config)):
            terminalreporter.write_line(f"katas: {isolated}", yellow=True)
        text = render_text(
            maps.session_map(
                self._standings(),
                self._config.stash[SESSION].seed,
                self._config.get_verbosity(),
                [*newly_recorded(self._recorded, self._config.rootpath), *self._newly_solved()],
            ),
            width=shutil.get_terminal_size().columns,
            colour=terminalreporter.hasmarkup,
            encoding=maps.encoding_of(terminalreporter),
        )
        terminalreporter.ensure_newline()
        terminalreporter.section("katas", sep="=")
        terminalreporter.write(text)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Record passes and write the files. The session fails with any failed grade, even one that
        pytest reported as passed, and if the JSON could not be written."""
        existing = {kata.id for kata in catalog.katas(self._config.rootpath)}
        self._grades = [g if g.kata in existing else as_gone(g) for g in self._grades]
        written = self._finish()
        failed = not written or any(map(_has_failed, self._grades))
        if session.exitstatus == pytest.ExitCode.OK and failed:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _finish(self) -> bool:
        """Returns False if --kata-json could not be written."""
        session = self._config.stash[SESSION]
        self._recorded = record_session(session.root, self._grades, session.conditions)
        written = True
        if file := self._config.getoption("kata_json"):
            try:
                report_files.write_json(file, self._grades, session.conditions)
            except OSError as error:
                written = False
                self._file_errors.append(f"--kata-json is not written: {describe_os_error(error)}")
        if file := self._config.getoption("kata_summary"):
            session_standings = self._standings()
            why = report_files.append_summary(
                file, session_standings, self._grades, session.seed, os.environ
            )
            self._file_errors += [why] if why else []
        return written


def has_header(config: pytest.Config) -> bool:
    """Whether pytest prints its header, which says how katas are isolated."""
    return config.get_verbosity() >= 0 and not config.getoption("no_header")


def in_ci(environ: Mapping[str, str]) -> bool:
    """Whether this is a CI run, by pytest's own rule."""
    return bool(environ.get("CI") or environ.get("BUILD_NUMBER"))


def as_gone(grade: Grade) -> Grade:
    """The grade of a kata whose file was deleted during the session."""
    return dataclasses.replace(grade, state=State.FAILED, stars=0, finding=GONE, blob="")


def _has_failed(grade: Grade) -> bool:
    return grade.state is State.FAILED
