"""Collects grades from every process: failures by reason, the example case, map, files, ledger."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence

import pytest
from rich.console import Group, RenderableType

from grader.exercise import catalog
from grader.exercise.catalog import Kata
from grader.exercise.key_tables import KeyProblem
from grader.grading.session_case import GONE
from grader.plugin.items import SESSION, has_links
from grader.record.ledger import NewPasses, record_session
from grader.report import maps, report_files
from grader.report.completion import newly_solved
from grader.report.failures import (
    FailureText,
    explained_at,
    explanation,
    joint_report,
    reason,
)
from grader.report.maps import newly_recorded
from grader.report.session_standings import SessionStandings, Standing, standings
from grader.verdict import Grade, State
from pallascope.tools import codec
from pallascope.tools.files import describe_os_error
from pallascope.tools.regions import RegionError
from pallascope.tools.text import encodable, render_text

ATTRIBUTE = "kata_grade"  # of a report: the grade as builtins, which xdist sends to the controller


@dataclasses.dataclass(frozen=True, slots=True)
class _FailedCase:
    """A failed hidden case's grade and pytest's report."""

    grade: Grade
    report: pytest.TestReport


class Reporter:
    """Collects the grades of all processes, in pytest itself or in xdist's controller."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._grades: list[Grade] = []
        self._failed: list[_FailedCase] = []
        self._recorded = NewPasses()
        self._file_errors: list[str] = []  # files that could not be written

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the grade."""
        if not hasattr(report, ATTRIBUTE):
            return
        grade = codec.from_builtins(Grade, getattr(report, ATTRIBUTE))
        if isinstance(report.longrepr, str):
            # If this were a str and the variable CI is set, pytest's summary would repeat all of
            # it.
            report.longrepr = FailureText(report.longrepr)  # type: ignore[assignment]
        self._grades.append(grade)
        if report.failed:
            self._failed.append(_FailedCase(grade, report))

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

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter, exitstatus: int
    ) -> Generator[None]:
        """Print the map, and below it the explanation of the kata to fix first.

        Cases that fail for the same reason share one block, and have no line in pytest's summary.
        Blocks of further katas stand above the map.
        """
        stats = terminalreporter.stats
        failed = stats.get("failed", [])
        # Plugins may rerun a case: only reports that pytest counts as failed get a block.
        counted = {id(report) for report in failed}
        cases = [case for case in self._failed if id(case.report) in counted]
        ours = {id(case.report) for case in cases}
        to_fix = self._to_fix({case.grade.kata for case in cases})
        blocks = self._joint_reports(cases)
        first = [report for kata, report in blocks if to_fix and kata == to_fix.kata.id]
        others = [report for kata, report in blocks if not (to_fix and kata == to_fix.kata.id)]
        try:
            if others:
                stats["failed"] = others
                terminalreporter.summary_failures()
            stats["failed"] = [report for report in failed if id(report) not in ours]
            yield
            self._print_map(terminalreporter, exitstatus, to_fix)
            for report in first:
                self._print_block(terminalreporter, report)
            if to_fix and self._config.get_verbosity() > -2:
                self._write(terminalreporter, maps.fix_line(to_fix.kata))
        finally:
            if failed:
                stats["failed"] = failed
            else:
                stats.pop("failed", None)

    def _to_fix(self, explained: Collection[str]) -> Standing | None:
        """The first failed kata, if it is one of the explained ones (ids).

        It isn't if its file was deleted, or if a conftest.py hides its failure. With --tb=no, no
        kata is explained.
        """
        following = self._standings().next
        is_explained = following is not None and following.kata.id in explained
        return following if is_explained and self._config.option.tbstyle != "no" else None

    def _joint_reports(self, failed: Sequence[_FailedCase]) -> list[tuple[str, pytest.TestReport]]:
        """For each kata and reason, one report that stands for its cases, with the kata's id."""
        groups: dict[tuple[str, ...], list[_FailedCase]] = {}
        for case in failed:
            groups.setdefault(reason(case.grade), []).append(case)
        return [(key[0], self._joint_report(cases)) for key, cases in groups.items()]

    def _joint_report(self, cases: Sequence[_FailedCase]) -> pytest.TestReport:
        session = self._config.stash[SESSION]
        kata = catalog.kata_with_id(session.root, cases[0].grade.kata)
        count = sum(grade.kata == kata.id for grade in self._grades)
        try:
            drawn = session.cases(kata)
        except (KeyProblem, RegionError, OSError):
            drawn = ()

        def size(case: _FailedCase) -> int:
            index = case.grade.case
            return sum(drawn[index].sizes.values()) if index < len(drawn) else 0

        example = min(cases, key=size)
        text, links = str(example.report.longrepr), has_links(self._config)
        finding = example.grade.finding
        if finding and text.startswith(finding.check.title):
            node = example.report.nodeid
            text = explanation(kata, example.grade, node, session.seed, opens=False, links=links)
        elif finding and links:  # a broken kata, or no process
            text = "\n".join([text, *explained_at(finding)])
        title = f"{kata.name}: {len(cases)} of {count} hidden cases"
        return joint_report(example.report, title, text)

    def _print_block(
        self, terminalreporter: pytest.TerminalReporter, report: pytest.TestReport
    ) -> None:
        """Print a report like pytest, but without a heading for all failures."""
        title, text = report.location[2], str(report.longrepr)
        encoding = maps.encoding_of(terminalreporter)
        if self._config.option.tbstyle == "line":
            terminalreporter.write_line(encodable(text.partition("\n")[0], encoding))
            return
        terminalreporter.write_sep("_", title, red=True, bold=True)
        terminalreporter.write_line(encodable(text, encoding))
        shown = self._config.option.showcapture
        for name, content in report.sections:
            if shown == "all" or shown in name or name.endswith("full error"):
                terminalreporter.section(name, sep="-")
                terminalreporter.write_line(encodable(content.rstrip("\n"), encoding))

    def _write(self, terminalreporter: pytest.TerminalReporter, text: RenderableType) -> None:
        terminalreporter.ensure_newline()
        terminalreporter.write(
            render_text(
                Group(text),  # rich wraps a text that it gets alone in spite of no_wrap
                width=shutil.get_terminal_size().columns,
                colour=terminalreporter.hasmarkup,
                encoding=maps.encoding_of(terminalreporter),
            )
        )

    def _print_map(
        self,
        terminalreporter: pytest.TerminalReporter,
        exitstatus: int,
        to_fix: Standing | None,
    ) -> None:
        for text in self._file_errors:
            terminalreporter.write_line(text, yellow=True)
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and (text := self._unmatched()):
            terminalreporter.write_line(text, yellow=True)
        if not self._grades:
            return
        isolated = self._config.stash[SESSION].isolated
        if not (isolated.isolated or has_header(self._config)):
            terminalreporter.write_line(f"katas: {isolated}", yellow=True)
        terminalreporter.ensure_newline()
        terminalreporter.section("katas", sep="=")
        self._write(
            terminalreporter,
            maps.session_map(
                self._standings(),
                self._config.stash[SESSION].seed,
                self._config.get_verbosity(),
                [*newly_recorded(self._recorded, self._config.rootpath), *self._newly_solved()],
                explained=to_fix,
            ),
        )

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
                self._file_errors.append(f"--kata-json was not written: {describe_os_error(error)}")
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
