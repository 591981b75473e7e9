"""Exceptions as data: the line, whether it is the stub's own, what the interpreter prints."""

from __future__ import annotations

import importlib.util
import logging
import sys
from pathlib import Path

import pytest

from pallascope.kernels.jax_internals import CALLBACK_LOGGER
from pallascope.model import (
    Problem,
    SourceFile,
    SourceLine,
    Stage,
)
from pallascope.runs.exception_reports import caught, problem_of
from pallascope.tpu.libtpu_errors import read_lowering_error
from tests.support.factories import NOWHERE, read

FILE = """import helper


def given():
    raise NotImplementedError("given")


def solve():
    # BEGIN SOLUTION
    raise NotImplementedError("double it")
    # END SOLUTION


def outside():
    raise NotImplementedError("outside")


def by_given():
    # BEGIN SOLUTION
    given()
    # END SOLUTION


def by_helper():
    # BEGIN SOLUTION
    helper.raises(NotImplementedError("helper"))
    # END SOLUTION


def wrapped():
    try:
        helper.raises(KeyError("inner"))
    except KeyError as error:
        raise ValueError("outer") from error


def another():
    # BEGIN SOLUTION
    raise ValueError("  padded  ")
    # END SOLUTION


def exits():
    raise SystemExit(3)


def interrupts():
    raise KeyboardInterrupt


def recurses():
    recurses()
"""
#: `raises` raises on the line on which the stub does, in a file of its own.
HELPER = """







def raises(error):
    raise error


def wraps(function):
    try:
        function()
    except Exception as error:
        cause = error
    raise RuntimeError("INTERNAL: told by jax") from cause


def hides(function):
    try:
        function()
    except Exception:
        raise RuntimeError("while handling")
"""


class Learner:
    """A file of the learner's, imported, and a module that stands for a library."""

    def __init__(self, folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = folder / "exercise.py"
        self.path.write_text(text)
        (folder / "helper.py").write_text(HELPER)
        monkeypatch.syspath_prepend(folder)
        monkeypatch.delitem(sys.modules, "helper", raising=False)
        spec = importlib.util.spec_from_file_location("exercise", self.path)
        assert spec
        assert spec.loader
        self.module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.module)

    def problem(self, name: str, through: str = "", stage: Stage = Stage.TRACE) -> Problem:
        """What calling the function `name` (through the helper's function `through`) raises."""
        with caught(read(self.path), stage) as result:
            function = getattr(self.module, name)
            getattr(self.module.helper, through)(function) if through else function()
        assert result.problem
        return result.problem


@pytest.fixture
def learner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Learner:
    return Learner(tmp_path, FILE, monkeypatch)


def line_of(text: str) -> int:
    lines: list[str] = list(FILE.splitlines())
    return lines.index(text) + 1


# ---- place and kind ----


@pytest.mark.parametrize("stage", Stage)
def test_an_exception_is_told_as_data(learner: Learner, stage: Stage) -> None:
    problem = learner.problem("another", stage=stage)
    assert (problem.stage, problem.kind, problem.message) == (stage, "ValueError", "padded")
    line = '    raise ValueError("  padded  ")'
    assert problem.place == SourceLine(line_of(line), line.strip())
    assert "Traceback" in problem.traceback
    assert "exercise.py" in problem.traceback


def test_the_place_is_the_innermost_line_of_the_file(learner: Learner) -> None:
    call = '    helper.raises(NotImplementedError("helper"))'
    assert learner.problem("by_helper").place == SourceLine(line_of(call), call.strip())
    inner = '    raise NotImplementedError("given")'
    assert learner.problem("by_given").place == SourceLine(line_of(inner), inner.strip())


@pytest.mark.parametrize("through", ["wraps", "hides"])
def test_the_place_may_be_the_causes(learner: Learner, through: str) -> None:
    """As where JAX raises its own error from the user's."""
    problem = learner.problem("another", through)
    assert problem.kind == "RuntimeError"
    assert problem.place
    assert problem.place.text == 'raise ValueError("  padded  ")'


def test_the_exceptions_own_place_comes_before_the_causes(learner: Learner) -> None:
    problem = learner.problem("wrapped")
    assert problem.place
    assert problem.place.text == 'raise ValueError("outer") from error'


def test_no_place_where_the_file_has_no_part(tmp_path: Path) -> None:
    file = tmp_path / "exercise.py"
    file.write_text("x = 1\n")
    with caught(read(file), Stage.RUN) as result:
        raise ValueError("elsewhere")
    assert result.problem
    assert result.problem.place is None


def test_exceptions_that_cause_each_other() -> None:
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    assert problem_of(one, NOWHERE, Stage.RUN).place is None


def test_a_syntax_error_has_the_line_that_does_not_parse(tmp_path: Path) -> None:
    file = tmp_path / "exercise.py"
    file.write_text("x = 1\n\n  def (:\n")
    with caught(read(file), Stage.IMPORT) as result:
        compile(file.read_text(), str(file), "exec")
    assert result.problem
    assert result.problem.kind in ("SyntaxError", "IndentationError")
    assert result.problem.place == SourceLine(3, "def (:")


def test_a_syntax_error_of_another_file_has_no_line_here(tmp_path: Path) -> None:
    file = tmp_path / "exercise.py"
    file.write_text("x = 1\ny = 2\nz = 3\n")
    with caught(read(file), Stage.IMPORT) as result:
        compile("\n\ndef", "other.py", "exec")
    assert result.problem
    assert result.problem.place is None


def test_a_line_past_the_end_has_no_text() -> None:
    assert SourceFile("", b"a\n b ").place(2) == SourceLine(2, "b")
    assert SourceFile("", b"a\nb").place(3) == SourceLine(3, "")


@pytest.mark.parametrize(
    ("name", "kind"), [("exits", "SystemExit"), ("interrupts", "KeyboardInterrupt")]
)
def test_no_way_out_of_a_case(learner: Learner, name: str, kind: str) -> None:
    assert learner.problem(name).kind == kind


def test_skipping_is_caught(tmp_path: Path) -> None:
    with caught(NOWHERE, Stage.TRACE) as result:
        pytest.skip("not today")
    assert result.problem
    assert (result.problem.kind, result.problem.message) == ("Skipped", "not today")


def test_nothing_raised_is_no_problem(tmp_path: Path) -> None:
    with caught(NOWHERE, Stage.RUN) as result:
        pass
    assert result.problem is None


def test_a_traceback_is_cut_at_its_beginning(tmp_path: Path) -> None:
    error = ValueError("x" * 50_000 + "the end")
    problem = problem_of(error, NOWHERE, Stage.RUN)
    assert len(problem.traceback) <= 20_000
    assert problem.traceback.rstrip().endswith("the end")


# ---- todo ----


def test_only_what_a_region_raises_itself_is_todo(learner: Learner) -> None:
    assert learner.problem("solve").todo
    for name in ("outside", "by_given", "by_helper", "another"):
        assert not learner.problem(name).todo, name


def test_without_its_markers_a_file_has_nothing_todo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = FILE.replace("    # END SOLUTION\n", "", 1)
    assert not Learner(tmp_path, text, monkeypatch).problem("solve").todo


# ---- what callbacks raise ----


def test_what_a_callback_raised_comes_before_what_jax_makes_of_it(learner: Learner) -> None:
    """The first of them: later ones are its consequences."""
    log = logging.getLogger(CALLBACK_LOGGER)
    log.propagate = False
    with caught(read(learner.path), Stage.RUN) as result:
        for name in ("another", "outside"):
            try:
                getattr(learner.module, name)()
            except (ValueError, NotImplementedError):
                log.exception("jax.io_callback failed")
        raise RuntimeError("INTERNAL: CpuCallback error")
    log.propagate = True
    assert result.problem
    assert (result.problem.kind, result.problem.message) == ("ValueError", "padded")
    assert result.problem.place
    assert not log.handlers


def test_a_record_without_an_exception_is_no_problem(tmp_path: Path) -> None:
    with caught(NOWHERE, Stage.RUN) as result:
        logging.getLogger(CALLBACK_LOGGER).debug("fine")
        raise ValueError("the problem")
    assert result.problem
    assert result.problem.message == "the problem"


def test_lines_are_quoted_from_the_submission(tmp_path: Path) -> None:
    """The file on the disk may hold another text: that of a stub, or nothing."""
    file = tmp_path / "kata.py"
    file.write_text("the_stub()\n")
    with caught(SourceFile(str(file), b"raise ZeroDivisionError\n"), Stage.LOWER):
        pass
    with pytest.raises(ZeroDivisionError) as raised:
        exec(compile("raise ZeroDivisionError\n", file, "exec"))
    refusal = read_lowering_error(raised.value)
    assert refusal.place == SourceLine(1, "raise ZeroDivisionError")
