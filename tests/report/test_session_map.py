"""The map of the exercises, on terminals of all kinds."""

from __future__ import annotations

import io
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Group
from rich.text import Text

from grader.exercise.catalog import Kata
from grader.report.failures import reason
from grader.report.maps import encoding_of, fix_line, session_map
from grader.report.session_standings import standings
from grader.verdict import MAX_STARS, Grade, State
from pallascope.model import Check, Finding, NotJudged
from pallascope.tools.text import render_text

PHRASE = (
    "bm=8: every element of o_ref is off by the same factor, 1.5, on all of the grid's steps, so"
)
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


def kata(number: int, name: str, track: str = "1_first") -> Kata:
    return Kata(Path("/nowhere"), track, f"kata_{number:02}_{name}")


SOLVED, FAILING, WAITING, ABSENT, LAST = (
    kata(1, "double"),
    kata(2, "blocked_transpose"),
    kata(3, "row_sum"),
    kata(4, "absent"),
    kata(1, "softmax", "2_second"),
)
POOL = (SOLVED, FAILING, WAITING, ABSENT, LAST)


def failure(phrase: str = PHRASE) -> Grade:
    finding = Finding(Check.VALUES, phrase, "all of it")
    return Grade(FAILING.id, 0, State.FAILED, 1, finding, seconds=1.25)


def grades(phrase: str = PHRASE) -> list[Grade]:
    return [
        *(Grade(SOLVED.id, i, State.PASSED, MAX_STARS, seconds=0.5) for i in range(3)),
        failure(phrase),
        Grade(WAITING.id, 0, State.TODO, 0),
        Grade(LAST.id, 0, State.PASSED, MAX_STARS),
    ]


def shown(
    width: int = 100,
    verbosity: int = 0,
    colour: bool = False,
    encoding: str = "utf-8",
    given: list[Grade] | None = None,
) -> str:
    session = standings(POOL, grades() if given is None else given)
    return render_text(session_map(session, 7, verbosity), width, colour, encoding)


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No colour setting of the machine that runs the tests."""
    monkeypatch.setenv("TERM", "xterm")
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)


def test_the_whole_map() -> None:
    assert shown() == (
        "1_first  █████░░░░░░░░░  1/3 solved, 1 not run\n"
        "  ✔ 01 ★★★ double\n" + f"  ✘ 02 ★☆☆ blocked_transpose  values: {PHRASE}"[:99] + "…\n"
        "  · 03 ☆☆☆ row_sum            todo\n"
        "2_second  ██████████████  1/1 solved\n"
        "  ✔ 01 ★★★ softmax\n"
        "2 of 4 solved, 1 failed, 1 todo   7 of 12 stars\n"
        "fix   katas/1_first/kata_02_blocked_transpose.py:1\n"
        "      pytest -k blocked_transpose\n"
        "      stuck?  kata hint blocked_transpose\n"
    )


def test_the_explained_exercise_counts_its_cases_and_leaves_the_next_step_to_the_caller() -> None:
    session = standings(POOL, grades())
    text = render_text(session_map(session, 7, explained=session.next), 100, False)
    assert "  ✘ 02 ★☆☆ blocked_transpose  1 of 1 hidden cases failed: explained below\n" in text
    assert text.endswith("7 of 12 stars\n")
    assert PHRASE[:9] not in text


@pytest.mark.parametrize("width", [40, 80, 200])
def test_where_to_fix_it_is_one_line(width: int) -> None:
    line = render_text(Group(fix_line(FAILING)), width, False)
    where = "katas/1_first/kata_02_blocked_transpose.py:1"
    assert line == f"fix   {where}   stuck?  kata hint blocked_transpose\n"


def test_todo_exercises_are_counted_where_there_are_many() -> None:
    pool = [
        kata(n, f"k{n}", track) for track in ("1_first", "2_second", "3_third") for n in range(9)
    ]
    given = [Grade(k.id, 0, State.TODO, 0) for k in pool]

    def text(verbosity: int, given: list[Grade]) -> str:
        return render_text(session_map(standings(pool, given), 7, verbosity), 100, False)

    assert text(0, given).splitlines()[:4] == [
        "1_first  ░░░░░░░░░░░░░░  0/9 solved",
        "  · 00 ☆☆☆ k0  todo",
        "  · 8 more todo",
        "2 more tracks: 18 katas todo",
    ]
    assert text(1, given).count("  · ") == 27
    assert "0 of 27" not in text(0, given)
    one_track = text(0, given[:18])
    assert "2_second: 9 katas todo" in one_track
    solved = text(0, [Grade(pool[0].id, 0, State.PASSED, MAX_STARS), *given[1:]])
    assert "  · 01 ☆☆☆ k1  todo\n  · 7 more todo\n" in solved
    assert "1 of 27 solved" in solved


def test_more_stands_before_what_to_do_next() -> None:
    session, notes = standings(POOL, grades()), [Text("recorded  double ★★★")]
    said = render_text(session_map(session, 7, 0, notes), 100, False).splitlines()
    at = said.index("recorded  double ★★★")
    assert "of 12 stars" in said[at - 1]
    assert said[at + 1].startswith("fix   ")
    assert "recorded" not in render_text(session_map(session, 7, -2, notes), 100, False)


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120, 300])
def test_no_line_is_wider_than_the_terminal_but_what_is_to_be_copied(width: int) -> None:
    lines = shown(width).splitlines()
    limit = max(40, min(width, 120))
    start = lines.index("fix   katas/1_first/kata_02_blocked_transpose.py:1")
    assert max(map(len, lines[:start])) <= limit
    assert lines[start + 2] == "      stuck?  kata hint blocked_transpose"
    (failing,) = (line for line in lines if "✘" in line)
    assert len(failing) == limit
    assert failing.endswith("…")


def test_narrow_lines_stay_one_line_each() -> None:
    lines = shown(40).splitlines()
    assert sum(line.startswith("  ") and not line.startswith("   ") for line in lines) == 4
    assert "  ✘ 02 ★☆☆ blocked_transpose  values: b…" in lines


def test_a_long_phrase_is_not_spread_over_a_very_wide_terminal() -> None:
    (line,) = (line for line in shown(300, given=[failure("x" * 200)]).splitlines() if "✘" in line)
    assert len(line) == 120


def test_without_colour_there_are_no_escapes() -> None:
    assert "\x1b" not in shown()


@pytest.mark.parametrize("width", [40, 100])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_colour_changes_no_letter(width: int, encoding: str) -> None:
    coloured = shown(width, colour=True, encoding=encoding)
    assert "\x1b[" in coloured
    lines = [line.rstrip() for line in ESCAPES.sub("", coloured).splitlines()]
    assert lines == shown(width, encoding=encoding).splitlines()


def test_signs_have_their_colours() -> None:
    coloured = shown(colour=True)
    for sign, code in (("✔", "32"), ("✘", "31"), ("·", "33")):
        assert f"\x1b[{code}m{sign}" in coloured


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "ISO-8859-1"])
@pytest.mark.parametrize("verbosity", [-2, 0, 1])
def test_other_encodings_can_carry_the_map(encoding: str, verbosity: int) -> None:
    text = shown(60, verbosity, encoding=encoding, given=grades("2×3 − 1 … is wrong"))
    assert text.encode(encoding).decode("ascii") == text
    if verbosity == 0:
        assert "1_first  #####.........  1/3 solved" in text
        assert "  + 01 *** double\n" in text
        assert "  x 02 *.. blocked_transpose  values: 2x3 - 1 - is" in text
        assert "  - 03 ... row_sum            todo" in text


@pytest.mark.parametrize("encoding", ["utf-8", "UTF-8", "utf8", "utf-16-le"])
def test_unicode_encodings_keep_the_signs(encoding: str) -> None:
    assert shown(encoding=encoding) == shown()


def test_other_encodings_can_carry_whatever_the_learners_code_said() -> None:
    """What pytest's writer can't encode it writes unicode-escaped, newlines and all."""
    assert shown(encoding="ascii", given=grades("ValueError: größer als ∞")).encode("ascii")


@pytest.mark.parametrize("width", [40, 120])
def test_a_terminal_of_no_known_kind_keeps_its_width(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "unknown")
    plain = ESCAPES.sub("", shown(width, colour=True))
    assert [line.rstrip() for line in plain.splitlines()] == shown(width).splitlines()


def test_very_quiet_is_the_total_alone() -> None:
    assert shown(verbosity=-2) == "2 of 4 solved, 1 failed, 1 todo   7 of 12 stars\n"
    assert shown(verbosity=-3) == shown(verbosity=-2)
    assert shown(verbosity=-1) == shown()


def test_verbose_counts_cases_and_seconds() -> None:
    text = shown(verbosity=1)
    assert "double             3 cases   1.5 s" in text
    assert "blocked_transpose  1 cases   1.2 s  values: bm=8" in text
    assert "cases" not in shown()


def test_words_in_brackets_are_no_markup() -> None:
    phrase = "o_ref[i] = [red]x_ref[/] :smile:"
    assert phrase in shown(given=grades(phrase))


@pytest.mark.parametrize(
    ("solved", "filled"), [(0, 0), (1, 5), (2, 9), (3, 14)], ids=["0", "1", "2", "3"]
)
def test_the_bar_is_filled_with_the_share_that_is_solved(solved: int, filled: int) -> None:
    three = (SOLVED, FAILING, WAITING)
    given = [
        Grade(k.id, 0, State.PASSED if i < solved else State.TODO, 0) for i, k in enumerate(three)
    ]
    title = shown(given=given).splitlines()[0]
    assert (title.count("█"), title.count("░")) == (filled, 14 - filled)
    assert f"{solved}/3 solved" in title


def test_what_comes_next_is_a_todo_where_nothing_failed() -> None:
    text = shown(given=[Grade(WAITING.id, 0, State.TODO, 0)])
    assert "next  katas/1_first/kata_03_row_sum.py:1\n      pytest -k row_sum\n" in text
    assert "fix " not in text


def test_nothing_comes_next_where_all_is_solved() -> None:
    text = shown(given=[Grade(SOLVED.id, 0, State.PASSED, MAX_STARS)])
    assert text.splitlines()[-1] == "  ✔ 01 ★★★ double"


def test_cases_fail_for_one_reason_if_only_numbers_differ() -> None:
    def of(check: Check, phrase: str, kata: Kata = FAILING) -> tuple[str, ...]:
        return reason(Grade(kata.id, 0, State.FAILED, 0, Finding(check, phrase, "")))

    first = of(Check.VALUES, "block (0, 1) is off by 1.5")
    assert first == of(Check.VALUES, "block (12, 0) is off by 1,024")
    assert first != of(Check.VALUES, "block (0, 1) is transposed")
    several = of(Check.VALUES, "blocks (0, 0), (1, 0) and (2, 0) never written")
    assert several == of(Check.VALUES, "block (0, 0) never written")
    assert first != of(Check.RUNS, "block (0, 1) is off by 1.5")
    assert first != of(Check.VALUES, "block (0, 1) is off by 1.5", SOLVED)


def test_the_encoding_is_that_of_pytests_stream() -> None:
    file = io.TextIOWrapper(io.BytesIO(), encoding="cp1252")
    assert encoding_of(SimpleNamespace(_tw=SimpleNamespace(_file=file))) == "cp1252"


@pytest.mark.parametrize(
    "reporter",
    [object(), SimpleNamespace(_tw=SimpleNamespace(_file=io.StringIO()))],
    ids=["no-stream", "no-encoding"],
)
def test_an_unknown_encoding_counts_as_the_poorest(reporter: object) -> None:
    assert encoding_of(reporter) == "ascii"


def test_a_star_that_is_missing_names_the_case_that_lacks_it() -> None:
    slow = Finding(Check.COST, "2.0× par's time", "It is slow.")
    given = [
        Grade(SOLVED.id, 0, State.PASSED, MAX_STARS),
        Grade(SOLVED.id, 2, State.PASSED, MAX_STARS - 1, slow),
    ]
    lines = shown(given=given).splitlines()
    assert f"the third star: kata cost {SOLVED.name} --seed 7 --case 2" in lines
    assert any("★★☆" in line and "cost: 2.0× par's time" in line for line in lines)


def test_what_was_not_judged_is_said_once_with_the_reason() -> None:
    unasked = NotJudged(Check.COMPILES, "pip install '.[tpu]'")
    given = [Grade(SOLVED.id, case, State.PASSED, 1, not_judged=unasked) for case in range(3)]
    text = shown(given=given)
    assert text.count("not judged: ") == 1
    said = " ".join(text.split())
    assert "not judged: compiles (pip install '.[tpu]'): no star from there on for" in said
    assert any("★☆☆" in line and "compiles: not judged" in line for line in text.splitlines())
    assert "the third star" not in text
    assert "not judged" not in shown(given=[Grade(SOLVED.id, 0, State.PASSED, MAX_STARS)])


def test_a_note_is_shown_once_for_each_exercise() -> None:
    note = "katas/1_first/kata_01_double.py:7: interpret= is ignored"
    given = [Grade(SOLVED.id, case, State.PASSED, MAX_STARS, notes=(note,)) for case in range(3)]
    assert " ".join(shown(given=given).split()).count(f"note {note}") == 1
    assert "note " not in shown(given=[Grade(SOLVED.id, 0, State.PASSED, MAX_STARS)])
