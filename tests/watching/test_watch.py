"""`kata watch`: what it does at each event, and each source of events by itself."""

from __future__ import annotations

import contextlib
import datetime
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from rich.console import Console

from grader.commands.watch import pytest_timeout
from grader.exercise.cases import draw
from grader.exercise.catalog import Kata
from grader.record.ledger import Pass, append_passes
from grader.sandbox import devices
from grader.sandbox.isolation import Level
from grader.tools.editor import NoEditor
from grader.tools.git import blob_id
from grader.verdict import Case, Grade, State
from grader.watching import watch_loop as watch_module
from grader.watching.background_jobs import BackgroundCommands, GradingThreads
from grader.watching.watch_events import (
    CommandEnded,
    Event,
    FileSaved,
    FileWatcher,
    Graded,
    GradingFailed,
    KeyPressed,
    WatchWarning,
    changed_katas,
    keyboard,
)
from grader.watching.watch_loop import Watch
from grader.watching.watch_screen import Screen, Settings
from pallascope.model import Check, Finding, NotJudged
from tests.support.repositories import ROOT, Repository, Shop

SEED = 5


def never(event: Event) -> None:
    pytest.fail(f"nothing was to be told: {event}")


class WorkerPool:
    """Stands for the lanes and for the commands: writes down what is asked of them."""

    def __init__(self) -> None:
        self.asked: list[tuple[object, ...]] = []

    def grade(self, kata: Kata, cases: Sequence[Case], seconds: float | None) -> int:
        self.asked.append(("grade", kata.name, len(cases), seconds))
        return len(self.asked)

    def prepare(self, kata: Kata, cases: Sequence[Case]) -> None:
        self.asked.append(("prepare", kata.name, len(cases)))

    def start(self, module: str, *arguments: str) -> int:
        self.asked.append((module, *arguments))
        return len(self.asked)

    def cancel(self) -> None:
        pass

    @property
    def last(self) -> tuple[object, ...]:
        return self.asked[-1]

    @property
    def number(self) -> int:
        """Of what was asked last."""
        return len(self.asked)


class Desk:
    """A watch over the shop's three exercises, on stand-ins, and what it says."""

    def __init__(self, shop: Shop, only: str = "", fresh: bool = False, keys: bool = True) -> None:
        self.shop = shop
        self.pool = WorkerPool()
        self.time = 0.0
        noon = datetime.datetime(2026, 11, 20, 12)
        console = Console(highlight=False, width=100)
        screen = Screen(console, fresh, keys, now=lambda: noon)
        settings = Settings(shop.root, only, SEED, "v5e", 30.0)
        self.opened: list[tuple[Path, int]] = []
        self.watch = Watch(
            settings, self.pool, self.pool, self.pool, screen, self._open, lambda: self.time
        )

    def _open(self, file: Path, line: int) -> str:
        """Stands for an editor."""
        self.opened.append((file, line))
        return "code"

    def said(self) -> str:
        return self.shop.capture.readouterr().out

    def save(self, kata: Kata, body: str = Repository.BODY) -> int:
        """Solve, save, and the number of the run that follows."""
        self.shop.repository.solve(kata, body)
        assert self.watch.handle(FileSaved(kata))
        return self.pool.number

    def graded(self, run: int, kata: Kata, cases: int = 3, finding: Finding | None = None) -> None:
        """Grades come in for these cases: passed, or failed with this finding."""
        state = State.FAILED if finding else State.PASSED
        for case in range(cases):
            grade = Grade(kata.id, case, state, 0 if finding else 3, finding, drawn="bm=8")
            assert self.watch.handle(Graded(run, grade))


WRONG = Finding(Check.VALUES, "off by a factor", "off by a factor of 2\n  and more")


@pytest.fixture
def desk(shop: Shop) -> Desk:
    return Desk(shop)


# ---- what is graded ----


def test_it_begins_with_the_first_that_is_to_do(desk: Desk) -> None:
    desk.shop.repository.solve(desk.shop.double)
    desk.watch.begin()
    assert desk.pool.asked == [("prepare", "row_sum", 3)]
    said = desk.said()
    assert "watching katas/" in said
    assert "row_sum is still to do: doubling" in said
    assert "open   katas/1_first/kata_02_row_sum.py:" in said


def test_it_says_once_that_files_are_not_isolated(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    level = Level(0, False, "only Linux has Landlock and seccomp")
    monkeypatch.setattr(watch_module, "level", lambda: level)
    desk.watch.begin()
    assert desk.said().count("not isolated: only Linux") == 1


def test_with_all_of_them_edited_it_begins_with_the_first(desk: Desk) -> None:
    for kata in (desk.shop.double, desk.shop.row_sum, desk.shop.row_max):
        desk.shop.repository.solve(kata)
    desk.watch.begin()
    assert desk.pool.last == ("grade", "double", 3, 30.0)


def test_what_is_saved_is_graded(desk: Desk) -> None:
    desk.watch.begin()
    run = desk.save(desk.shop.row_max)
    assert desk.pool.last == ("grade", "row_max", 3, 30.0)
    desk.said()
    desk.time = 0.75
    desk.graded(run, desk.shop.row_max)
    assert "12:00:00  ✔ ★★★ row_max  0.75 s" in desk.said()


def test_a_name_keeps_others_out(shop: Shop) -> None:
    desk = Desk(shop, only="first")
    desk.watch.begin()
    desk.save(shop.row_max)
    assert desk.pool.asked == [("prepare", "double", 3)]


def test_a_name_that_nothing_has_is_told(shop: Shop) -> None:
    with pytest.raises(ValueError, match=r"no kata matches 'duoble'; did you mean double\?"):
        Desk(shop, only="duoble")


def test_a_save_during_a_run_is_graded_in_its_place(desk: Desk) -> None:
    desk.watch.begin()
    first = desk.save(desk.shop.double, "o_ref[...] = x_ref[...] * 3")
    second = desk.save(desk.shop.double)
    assert second > first
    desk.said()
    desk.graded(first, desk.shop.double, finding=WRONG)
    assert desk.said() == ""
    desk.graded(second, desk.shop.double)
    assert "✔ ★★★ double" in desk.said()


def test_the_same_content_again_changes_nothing_during_its_run(desk: Desk) -> None:
    desk.watch.begin()
    assert desk.save(desk.shop.double) == desk.save(desk.shop.double)


def test_the_same_content_after_its_verdict_is_graded_again(desk: Desk) -> None:
    desk.watch.begin()
    run = desk.save(desk.shop.double)
    desk.graded(run, desk.shop.double)
    assert desk.save(desk.shop.double) > run


def test_another_save_during_a_run_comes_first_and_the_run_again_after_it(desk: Desk) -> None:
    desk.watch.begin()
    desk.save(desk.shop.double)
    run = desk.save(desk.shop.row_sum)
    assert desk.pool.last == ("grade", "row_sum", 3, 30.0)
    desk.graded(run, desk.shop.row_sum)
    assert desk.pool.last == ("grade", "double", 3, 30.0)
    desk.graded(desk.pool.number, desk.shop.double)
    said = desk.said()
    assert said.index("✔ ★★★ row_sum") < said.index("✔ ★★★ double")


# ---- what is said ----


def test_a_failure_is_told_at_once_and_once(desk: Desk) -> None:
    desk.watch.begin()
    run = desk.save(desk.shop.double)
    desk.said()
    desk.graded(run, desk.shop.double, cases=1, finding=WRONG)
    said = desk.said()
    assert said.startswith("values: off by a factor of 2\n  and more\n  case   bm=8\n")
    node = "katas/1_first/kata_01_double.py::test_double[hidden0]"
    assert f'again  pytest "{node}" --kata-seed {SEED}' in said
    desk.graded(run, desk.shop.double, cases=2, finding=WRONG)
    assert desk.said().splitlines()[0] == "12:00:00  ✘ ☆☆☆ double  0.00 s  values: off by a factor"


def test_a_missing_star_names_the_command_for_it(desk: Desk) -> None:
    desk.watch.begin()
    run = desk.save(desk.shop.double)
    slow = Finding(Check.COST, "2.0× par's time", "…")
    for case in range(3):
        desk.watch.handle(Graded(run, Grade(desk.shop.double.id, case, State.PASSED, 2, slow)))
    said = desk.said()
    assert "✔ ★★☆ double  0.00 s  cost: 2.0× par's time" in said
    assert "the third star: c, or kata cost double" in said


def test_a_rung_that_was_not_judged_is_told(desk: Desk) -> None:
    desk.watch.begin()
    run = desk.save(desk.shop.double)
    unasked = NotJudged(Check.COMPILES, "no libtpu")
    for case in range(3):
        grade = Grade(desk.shop.double.id, case, State.PASSED, 1, not_judged=unasked)
        desk.watch.handle(Graded(run, grade))
    said = desk.said()
    assert "✔ ★☆☆ double  0.00 s  compiles: not judged" in said
    assert "not judged: compiles (no libtpu): no star from there on" in said
    assert "the third star" not in said


def test_a_file_that_still_raises_is_to_do(desk: Desk) -> None:
    desk.watch.begin()
    run = desk.save(desk.shop.double, 'raise NotImplementedError("later")')
    desk.said()
    for case in range(3):
        desk.watch.handle(Graded(run, Grade(desk.shop.double.id, case, State.TODO, 0)))
    assert "double is still to do" in desk.said()
    assert desk.pool.last[0] == "grade", "nothing was passed that could be recorded"


@pytest.mark.parametrize("fresh", [True, False])
def test_a_screen_begins_anew_where_there_is_one(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, fresh: bool
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    desk = Desk(shop, fresh=fresh)
    desk.watch.begin()
    desk.said()
    desk.save(shop.double)
    assert ("\x1b[2J" in desk.said()) is fresh


def test_keys_are_shown_only_where_they_work(shop: Shop) -> None:
    for keys in (True, False):
        Desk(shop, keys=keys).watch.begin()
        said = shop.capture.readouterr().out
        shown = "h hint   n next   o open   r rerun   c cost   v view   q quit" in said
        assert shown is keys


def test_the_bar_stays_below_what_is_said(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal: it is taken away, its two lines, before anything else is written."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    desk = Desk(shop, fresh=True)
    desk.watch.begin()
    assert desk.said().endswith("0 of 3 solved\x1b[0m\n")
    desk.watch.handle(KeyPressed("h"))
    assert desk.said().startswith("\x1b[2F\x1b[J")


def test_a_file_that_is_gone_is_told(desk: Desk) -> None:
    desk.watch.begin()
    desk.shop.double.path.unlink()
    desk.watch.handle(FileSaved(desk.shop.double))
    assert "double is gone; kata reset double restores it" in desk.said()


def test_a_broken_key_is_told_and_the_watch_goes_on(desk: Desk) -> None:
    desk.watch.begin()
    desk.shop.edit_key(desk.shop.double, 'concept = "doubling"', "")
    desk.save(desk.shop.double)
    said = desk.said()
    assert "double: This kata is broken, not your kernel." in said
    assert "concept: needs a text" in said
    desk.save(desk.shop.row_sum)
    assert desk.pool.last == ("grade", "row_sum", 3, 30.0)


def test_what_cannot_be_graded_ends_the_run(desk: Desk) -> None:
    desk.watch.begin()
    run = desk.save(desk.shop.double)
    desk.watch.handle(GradingFailed(run, "Kernels cannot be run here.\nno jax"))
    assert "double could not be graded. Kernels cannot be run here.\nno jax" in desk.said()
    desk.graded(run, desk.shop.double)
    assert "✔" not in desk.said()


def test_what_was_wrong_with_a_dropped_run_is_not_told(desk: Desk) -> None:
    desk.watch.begin()
    run = desk.save(desk.shop.double, "o_ref[...] = 1")
    desk.save(desk.shop.double)
    desk.said()
    desk.watch.handle(GradingFailed(run, "no jax"))
    assert desk.said() == ""


def test_that_saves_are_not_seen_is_told(desk: Desk) -> None:
    desk.watch.handle(WatchWarning("the limit is reached: looking every 150 ms instead"))
    assert "the limit is reached" in desk.said()


# ---- the record ----


def test_a_pass_is_confirmed_by_pytest(desk: Desk) -> None:
    desk.watch.begin()
    desk.graded(desk.save(desk.shop.double), desk.shop.double)
    module, file, *arguments = desk.pool.last
    assert (module, file) == ("pytest", "katas/1_first/kata_01_double.py")
    assert not any(str(argument).startswith("--kata-seed") for argument in arguments)
    desk.said()
    desk.watch.handle(CommandEnded(desk.pool.number, 0, "all fine\nrecorded  double ★★★\n"))
    said = desk.said()
    assert "12:00:00  double is confirmed\n" in said
    assert "\nrecorded  double ★★★\n" in said
    assert "all fine" not in said


def test_the_first_pass_tells_what_comes_after_it(desk: Desk) -> None:
    kata = desk.shop.double
    after = ("word " * 19 + "word\n") * 2
    desk.shop.edit_key(kata, "count = 3", f'count = 3\nafter = """{after}"""')
    desk.watch.begin()
    for known in (False, True):
        desk.graded(desk.save(kata), kata)
        if not known:
            assert "word word" not in desk.said(), "pytest has not confirmed it yet"
            blob = blob_id(kata.path.read_bytes())
            append_passes(desk.shop.root, [Pass(kata.id, blob, 3, datetime.date(2026, 11, 20))])
        desk.watch.handle(CommandEnded(desk.pool.number, 0, "recorded  double ★★★\n"))
        said = desk.said()
        assert ("solved    double  doubling\n  word word" in said) is not known
        assert said.rstrip().endswith("1 of 3 solved"), "the bar stays below"


def test_a_pass_that_is_not_confirmed_is_told_in_full(desk: Desk) -> None:
    desk.watch.begin()
    desk.graded(desk.save(desk.shop.double), desk.shop.double)
    desk.watch.handle(CommandEnded(desk.pool.number, 1, "values: block 3 is wrong\n"))
    said = desk.said()
    assert "double is not confirmed. On other hidden cases:\nvalues: block 3 is wrong" in said


@pytest.mark.parametrize("key", ["n", "h", "c", "v"])
def test_keys_do_not_keep_a_pass_from_the_record(desk: Desk, key: str) -> None:
    desk.watch.begin()
    desk.graded(desk.save(desk.shop.double), desk.shop.double)
    recording = desk.pool.number
    desk.watch.handle(KeyPressed(key))
    desk.said()
    desk.watch.handle(CommandEnded(recording, 0, "recorded  double ★★★\n"))
    assert "double is confirmed\nrecorded  double ★★★\n" in desk.said()


def test_one_pass_is_confirmed_after_the_other(desk: Desk) -> None:
    desk.watch.begin()
    desk.graded(desk.save(desk.shop.double), desk.shop.double)
    first = desk.pool.number
    desk.graded(desk.save(desk.shop.row_sum), desk.shop.row_sum)
    assert desk.pool.last[0] == "grade", "the first is still being confirmed"
    desk.watch.handle(CommandEnded(first, 0, ""))
    assert desk.pool.last[:2] == ("pytest", "katas/1_first/kata_02_row_sum.py")
    desk.watch.handle(CommandEnded(desk.pool.number, 0, ""))
    said = desk.said()
    assert said.index("double is confirmed") < said.index("row_sum is confirmed")


def test_a_failure_is_not_recorded(desk: Desk) -> None:
    desk.watch.begin()
    desk.graded(desk.save(desk.shop.double), desk.shop.double, finding=WRONG)
    assert desk.pool.last[0] == "grade"


def test_a_confirmation_that_was_overtaken_is_not_told(desk: Desk) -> None:
    desk.watch.begin()
    desk.graded(desk.save(desk.shop.double), desk.shop.double)
    recording = desk.pool.number
    desk.save(desk.shop.double, "o_ref[...] = 1")
    desk.said()
    desk.watch.handle(CommandEnded(recording, -15, ""))
    assert desk.said() == ""


# ---- keys ----


def test_a_hint_is_asked_for_and_told(desk: Desk) -> None:
    desk.watch.begin()
    desk.watch.handle(KeyPressed("h"))
    assert desk.pool.last == ("grader.cli", "hint", "double")
    desk.watch.handle(CommandEnded(desk.pool.number, 0, "double, hint 1 of 3\n"))
    assert "kata hint double\ndouble, hint 1 of 3\n" in desk.said()


@pytest.mark.parametrize(("key", "command"), [("c", "cost"), ("v", "view")])
def test_a_look_is_taken_at_the_case_that_failed(desk: Desk, key: str, command: str) -> None:
    desk.watch.begin()
    run = desk.save(desk.shop.double)
    for case, finding in ((2, WRONG), (0, None), (1, None)):
        state = State.FAILED if finding else State.PASSED
        desk.watch.handle(Graded(run, Grade(desk.shop.double.id, case, state, 0, finding)))
    desk.watch.handle(KeyPressed(key))
    case = ("--seed", str(SEED), "--case", "2", "--chip", "v5e")
    assert desk.pool.last == ("grader.cli", command, "double", *case)


def test_the_next_is_the_next_stub(desk: Desk) -> None:
    desk.watch.begin()
    desk.graded(desk.save(desk.shop.row_sum), desk.shop.row_sum)
    desk.watch.handle(KeyPressed("n"))
    assert desk.pool.last == ("prepare", "row_max", 3)
    desk.watch.handle(KeyPressed("n"))
    assert desk.pool.last == ("prepare", "double", 3)


def test_the_next_lies_beyond_what_was_named_where_that_has_no_other(shop: Shop) -> None:
    desk = Desk(shop, only="double")
    desk.watch.begin()
    assert "double, 0 of 1 solved" in desk.said()
    desk.save(shop.row_max)
    assert desk.pool.asked == [("prepare", "double", 3)], "it is not watched"
    desk.watch.handle(KeyPressed("n"))
    assert desk.pool.last == ("prepare", "row_sum", 3)
    assert "row_sum, 0 of 2 solved" in desk.said()
    desk.save(shop.row_sum)
    assert desk.pool.last == ("grade", "row_sum", 3, 30.0), "from then on it is watched"


def test_the_next_is_of_those_that_were_named_while_there_are_any(shop: Shop) -> None:
    desk = Desk(shop, only="row_max or double")
    desk.watch.begin()
    for name in ("row_max", "double"):
        desk.watch.handle(KeyPressed("n"))
        assert desk.pool.last == ("prepare", name, 3)


def test_after_the_last_there_is_no_next(desk: Desk) -> None:
    for kata in (desk.shop.double, desk.shop.row_sum, desk.shop.row_max):
        desk.shop.repository.solve(kata)
    desk.watch.begin()
    desk.watch.handle(KeyPressed("n"))
    assert "no other kata is left to do" in desk.said()


def test_what_is_recorded_as_solved_is_passed_over(desk: Desk) -> None:
    """And of the others, with a record, also those that have been edited."""
    desk.shop.repository.solve(desk.shop.row_sum)
    desk.shop.repository.solve(desk.shop.row_max)
    blob = blob_id(desk.shop.row_sum.path.read_bytes())
    append_passes(
        desk.shop.root, [Pass(desk.shop.row_sum.id, blob, 3, datetime.date(2026, 11, 20))]
    )
    desk.watch.begin()
    assert desk.pool.last == ("prepare", "double", 3)
    assert "double, 1 of 3 solved" in desk.said()
    desk.watch.handle(KeyPressed("n"))
    assert desk.pool.last == ("grade", "row_max", 3, 30.0)


def test_an_exercise_is_opened_where_typing_starts(desk: Desk) -> None:
    desk.watch.begin()
    desk.said()
    desk.watch.handle(KeyPressed("o"))
    assert desk.opened == [(desk.shop.double.path, 14)]
    assert "12:00:00  code opens katas/1_first/kata_01_double.py:14\n" in desk.said()


def test_without_an_editor_the_watch_goes_on(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(file: Path, line: int) -> str:
        raise NoEditor("no editor is chosen")

    monkeypatch.setattr(desk.watch, "_open_at", refuse)
    desk.watch.begin()
    desk.said()
    assert desk.watch.handle(KeyPressed("o"))
    assert "12:00:00  no editor is chosen" in desk.said()


def test_a_rerun_grades_again(desk: Desk) -> None:
    desk.watch.begin()
    run = desk.save(desk.shop.double)
    desk.watch.handle(KeyPressed("r"))
    assert desk.pool.last[:2] == ("grade", "double")
    assert desk.pool.number > run


def test_q_ends_it_and_other_keys_do_not(desk: Desk) -> None:
    desk.watch.begin()
    assert desk.watch.handle(KeyPressed("x"))
    assert desk.watch.handle(KeyPressed(""))
    assert not desk.watch.handle(KeyPressed("q"))


# ---- saves ----


def until(events: queue.SimpleQueue[Event], seconds: float = 20) -> Event:
    return events.get(timeout=seconds)


def first_seen(events: queue.SimpleQueue[Event], write: Callable[[int], object]) -> Event:
    """The event that a save leads to; saved again until then, as nobody tells when it watches."""
    for attempt in range(40):
        write(attempt)
        with contextlib.suppress(queue.Empty):
            return until(events, 0.5)
    raise AssertionError("no save was seen")


@pytest.mark.parametrize("poll", [False, True], ids=["told", "poll"])
def test_saves_of_exercises_are_seen(shop: Shop, poll: bool) -> None:
    """However an editor saves: in place, or by a new file that takes the old one's name."""

    def in_place(attempt: int) -> None:
        (shop.double.path.parent / "notes.txt").write_text(f"no exercise {attempt}")
        shop.double.path.write_text(f"# {attempt}\n")

    def replaced(attempt: int) -> None:
        other = shop.row_sum.path.with_suffix(".py~")
        other.write_text(f"# {attempt}\n")
        os.replace(other, shop.row_sum.path)

    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    saves = FileWatcher(shop.root, events.put, poll)
    saves.start()
    try:
        assert first_seen(events, in_place) == FileSaved(shop.double)
        seen = {first_seen(events, replaced) for _ in range(3)}
        assert FileSaved(shop.row_sum) in seen <= {FileSaved(shop.row_sum), FileSaved(shop.double)}
    finally:
        saves.close()
    assert not saves.is_alive()


def test_the_one_written_last_comes_last(shop: Shop) -> None:
    os.utime(shop.double.path, (2e9, 2e9))
    paths = [shop.double.path, shop.row_sum.path, shop.double.path, shop.root / "katas/README.md"]
    assert list(changed_katas(shop.root, paths)) == [shop.row_sum, shop.double]


# ---- keys of a real terminal ----


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
def test_a_key_is_told_without_a_line_end_and_the_terminal_left_as_it_was() -> None:
    import pty
    import termios

    outer, inner = pty.openpty()
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    handler = signal.getsignal(signal.SIGCONT)
    with os.fdopen(inner) as stream:
        before = termios.tcgetattr(inner)
        with keyboard(stream, events.put) as there:
            assert there
            os.write(outer, b"h")
            assert until(events) == KeyPressed("h")
            os.write(outer, b"\x1b[A")  # an arrow, which must not be taken for three keys
            time.sleep(0.1)
            os.write(outer, b"n")
            assert until(events) == KeyPressed("n")
            os.write(outer, b"\x04")
            assert until(events) == KeyPressed("")
        assert termios.tcgetattr(inner) == before
    os.close(outer)
    assert signal.getsignal(signal.SIGCONT) == handler


def test_without_a_terminal_there_are_no_keys(tmp_path: Path) -> None:
    (tmp_path / "in").touch()
    with (tmp_path / "in").open() as stream, keyboard(stream, never) as there:
        assert not there


# ---- commands ----


@pytest.fixture
def events() -> queue.SimpleQueue[Event]:
    return queue.SimpleQueue()


def test_a_command_tells_what_it_said(shop: Shop, events: queue.SimpleQueue[Event]) -> None:
    number = BackgroundCommands(shop.root, events.put, use_colour=False).start(
        "grader.cli", "hint", "double"
    )
    event = until(events)
    assert isinstance(event, CommandEnded)
    assert (event.command, event.code) == (number, 0)
    assert event.output.startswith("double, hint 1 of 3")


def test_a_new_command_ends_the_one_before(shop: Shop, events: queue.SimpleQueue[Event]) -> None:
    (shop.root / "asleep.py").write_text("import time\ntime.sleep(60)\n")
    commands = BackgroundCommands(shop.root, events.put, use_colour=False)
    first = commands.start("asleep")
    second = commands.start("grader.cli", "list")
    ended = [event for event in (until(events), until(events)) if isinstance(event, CommandEnded)]
    assert {event.command: event.code for event in ended} == {first: -15, second: 0}


# ---- options ----


def test_a_kernel_may_take_as_long_as_for_pytest(tmp_path: Path) -> None:
    assert pytest_timeout(tmp_path) == 0
    for text, seconds in (("", 0), ("timeout = 2.5  # s\n", 2.5)):
        (tmp_path / "pyproject.toml").write_text(f"[tool.pytest.ini_options]\n{text}")
        assert pytest_timeout(tmp_path) == seconds
    assert f"timeout = {pytest_timeout(ROOT):g} " in (ROOT / "pyproject.toml").read_text()


# ---- lanes ----


@pytest.fixture(scope="module")
def told() -> queue.SimpleQueue[Event]:
    return queue.SimpleQueue()


@pytest.fixture(scope="module")
def lanes(told: queue.SimpleQueue[Event]) -> Iterator[GradingThreads]:
    device = devices.choose("strict", devices.Hardware(tpu=False, gpu=False))
    with GradingThreads(device, ("v5e",), told.put, count=2) as found:
        yield found


def grades(events: queue.SimpleQueue[Event], run: int, count: int) -> dict[int, State]:
    found: dict[int, State] = {}
    while len(found) < count:
        event = until(events, 120)
        assert isinstance(event, Graded), event
        assert event.run == run
        found[event.grade.case] = event.grade.state
    return found


def test_lanes_grade_each_save_in_a_fresh_process(
    shop: Shop, lanes: GradingThreads, told: queue.SimpleQueue[Event]
) -> None:
    """What one attempt leaves in its process, or in jax, is not there for the next."""
    cases = draw(shop.double.id, shop.double.key, SEED)
    assert len(cases) == 3
    lanes.prepare(shop.double, cases)
    poison = "import jax\n    jax.lax.mul = None\n    o_ref[...] = x_ref[...]"
    for body, state in ((poison, State.FAILED), (Repository.BODY, State.PASSED)):
        shop.repository.solve(shop.double, body)
        run = lanes.grade(shop.double, cases, 60)
        assert grades(told, run, 3) == dict.fromkeys(range(3), state)


def test_a_run_that_hangs_is_dropped_for_the_next(
    shop: Shop, lanes: GradingThreads, told: queue.SimpleQueue[Event]
) -> None:
    cases = draw(shop.double.id, shop.double.key, SEED)
    shop.repository.solve(shop.double, "while True: pass")
    lanes.grade(shop.double, cases, 3600)  # if it were waited for, this test would time out
    time.sleep(1)
    shop.repository.solve(shop.double)
    run = lanes.grade(shop.double, cases, 60)
    assert grades(told, run, 3) == dict.fromkeys(range(3), State.PASSED)


def test_a_solution_that_has_changed_is_asked_anew(
    shop: Shop, lanes: GradingThreads, told: queue.SimpleQueue[Event]
) -> None:
    cases = draw(shop.double.id, shop.double.key, SEED)
    shop.repository.solve(shop.double)
    assert set(grades(told, lanes.grade(shop.double, cases, 60), 3).values()) == {State.PASSED}
    text = shop.double.solution.read_text()
    shop.double.solution.write_text(text.replace("return x * 2", "return x * 3"))
    assert set(grades(told, lanes.grade(shop.double, cases, 60), 3).values()) == {State.FAILED}


def test_a_broken_solution_is_told(
    shop: Shop, lanes: GradingThreads, told: queue.SimpleQueue[Event]
) -> None:
    cases = draw(shop.double.id, shop.double.key, SEED)
    shop.repository.solve(shop.double)
    shop.double.solution.write_text("no python")
    run = lanes.grade(shop.double, cases[:1], 60)
    event = until(told, 60)
    assert isinstance(event, GradingFailed)
    assert event.run == run
    assert event.why.startswith("This kata is broken, not your kernel.\nthe solution's spec: Syn")


def test_lanes_leave_no_thread_behind() -> None:
    device = devices.choose("strict", devices.Hardware(tpu=False, gpu=False))
    before = threading.active_count()
    with GradingThreads(device, ("v5e",), never, count=1):
        assert threading.active_count() == before + 1
    assert threading.active_count() == before
