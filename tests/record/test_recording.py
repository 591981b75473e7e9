"""What a session records: passes of a whole kata, of the content that was graded, and once."""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
from pathlib import Path

import pytest

from grader.exercise import catalog
from grader.exercise.answer_key import Key
from grader.exercise.catalog import Kata
from grader.exercise.key_reader import load
from grader.record import ledger
from grader.record.ledger import (
    LEDGER,
    NewPasses,
    Pass,
    parse_pass,
    record_passes,
    record_session,
    solved_passes,
)
from grader.report.maps import newly_recorded
from grader.tools.git import blob_id
from grader.verdict import Conditions, Device, Grade, State
from pallascope.model import Check, Finding, Mode, NotJudged
from pallascope.tools.text import render_text
from pallascope.tpu import compiler
from tests.support.repositories import Repository

DAY = datetime.date(2026, 11, 20)
BLOB = blob_id(b"content")
VERSIONS = {"grader": "0.1.0", "libtpu": "0.0.42", "chip": "v5e"}
CONDITIONS = Conditions(7, Device("cpu", Mode.STRICT), ("v5e",), gpu="h100")
FOR_GPUS = """title = "Double"
concept = "threads"
write = "kernel"
todo = ["double it"]
hints = ["a", "b", "c"]
target = "gpu"
"""
CASES = """count = 3

[cases]
M = [32, 64, 96]
"""
SLOW = Finding(Check.COST, "2.00× par's time", "")


@pytest.fixture
def double(repository: Repository) -> Kata:
    """A kata of three hidden cases."""
    return repository.add("double")


def grade(kata: Kata, case: int, stars: int = 3, blob: str = BLOB) -> Grade:
    return Grade(kata.id, case, State.PASSED, stars, blob=blob)


def recorded(kata: Kata, *grades: Grade) -> tuple[Pass, ...]:
    return solved_passes([kata], grades, DAY, VERSIONS, CONDITIONS)


def test_the_fewest_stars_count(double: Kata) -> None:
    grades = [grade(double, case, stars) for case, stars in enumerate((3, 2, 3))]
    assert recorded(double, *grades) == (Pass(double.id, BLOB, 2, DAY, tuple(VERSIONS.items())),)


@pytest.mark.parametrize("case", range(3))
@pytest.mark.parametrize(
    "change",
    [
        {"state": State.FAILED},
        {"state": State.TODO},
        {"blob": ""},
        {"blob": blob_id(b"edited between two cases")},
        {"case": 3},
        {"case": 1},
    ],
    ids=["failed", "todo", "edited-meanwhile", "edited-between", "another-case", "twice"],
)
def test_all_cases_of_one_content_have_to_pass(
    double: Kata, case: int, change: dict[str, object]
) -> None:
    grades = [grade(double, n) for n in range(3)]
    grades[case] = dataclasses.replace(grades[case], **change)  # type: ignore[arg-type]
    complete = {g.case for g in grades} == {0, 1, 2}
    assert bool(recorded(double, *grades)) == (complete and "case" in change)


def test_a_part_of_the_cases_is_no_pass(double: Kata) -> None:
    assert recorded(double, grade(double, 0), grade(double, 1)) == ()
    assert recorded(double) == ()


def test_a_compiler_that_was_not_asked_is_not_named(double: Kata) -> None:
    unasked = NotJudged(Check.COMPILES, "no libtpu")
    grades = [dataclasses.replace(grade(double, n), not_judged=unasked) for n in range(3)]
    (solved,) = recorded(double, *grades)
    assert dict(solved.versions) == {**VERSIONS, "libtpu": "-", "unjudged": "compiles"}
    assert parse_pass(str(solved)) == solved


def test_the_first_rung_that_was_not_judged_is_recorded(double: Kata) -> None:
    grades = [grade(double, n) for n in range(3)]
    for case, check in ((0, Check.COST), (2, Check.LOWERS)):
        unasked = NotJudged(check, "nobody knows")
        grades[case] = dataclasses.replace(grades[case], not_judged=unasked)
    (solved,) = recorded(double, *grades)
    assert dict(solved.versions) == {**VERSIONS, "unjudged": "lowers"}


def test_where_nothing_was_judged_nothing_is_recorded(double: Kata) -> None:
    why = NotJudged(Check.RUNS, "a package is missing")
    grades = [dataclasses.replace(grade(double, n, 0), not_judged=why) for n in range(3)]
    assert solved_passes([double], grades, DAY, VERSIONS, CONDITIONS) == ()


def test_a_broken_key_records_nothing(double: Kata) -> None:
    double.key_path.write_text("")
    unread = Kata(double.root, double.track, double.stem)
    assert recorded(unread, *(grade(unread, n) for n in range(3))) == ()


# ---- into the ledger ----

ONE = Pass("1_first/kata_01_double", BLOB, 2, DAY)


def test_what_is_known_is_not_recorded_again(repository: Repository) -> None:
    better = dataclasses.replace(ONE, stars=3)
    for new, expected in ((ONE, (ONE,)), (ONE, ()), (better, (better,)), (ONE, ())):
        assert record_passes(repository.root, [new], Mode.STRICT).passes == expected
    assert ledger.read_ledger(repository.root).passes == (ONE, better)


def test_only_the_first_pass_is_the_first(repository: Repository) -> None:
    """Not the same content with more stars, and no other content."""
    better, other = (dataclasses.replace(ONE, **new) for new in ({"stars": 3}, {"blob": "0" * 40}))
    for new, expected in ((ONE, (ONE.kata,)), (better, ()), (other, ())):
        assert record_passes(repository.root, [new], Mode.STRICT).first == expected
    elsewhere = dataclasses.replace(ONE, kata="1_first/kata_02_row_sum")
    assert record_passes(repository.root, [elsewhere], Mode.INTERPRET).first == ()
    assert record_passes(repository.root, [elsewhere], Mode.STRICT).first == (elsewhere.kata,)


def test_nothing_to_record_makes_no_file(repository: Repository) -> None:
    assert record_passes(repository.root, [], Mode.STRICT) == NewPasses()
    assert not (repository.root / LEDGER).exists()


@pytest.mark.parametrize("mode", [Mode.INTERPRET, Mode.COMPILED])
def test_forgiving_modes_record_nothing_and_say_so(repository: Repository, mode: Mode) -> None:
    done = record_passes(repository.root, [ONE], mode)
    assert done.trouble == f"--kata-mode {mode.value} is too lenient to record; use strict"
    assert not (repository.root / LEDGER).exists()


def test_damage_is_told_of_where_something_is_appended(repository: Repository) -> None:
    (repository.root / LEDGER).write_text("=======\n")
    (warning,) = record_passes(repository.root, [ONE], Mode.STRICT).warnings
    assert warning.startswith(f"{LEDGER}:1: ")
    assert record_passes(repository.root, [ONE], Mode.STRICT).warnings == ()


# ---- in words ----


def words(done: NewPasses, root: Path) -> str:
    return "".join(render_text(text, 100, False) for text in newly_recorded(done, root))


def test_many_passes_are_one_line(settled_git: None, tmp_path: Path) -> None:
    many = [dataclasses.replace(ONE, kata=f"2_a_b/kata_0{n}_x_{n}") for n in range(6)]
    assert words(NewPasses(tuple(many)), tmp_path) == (
        "recorded  x_0 ★★☆, x_1 ★★☆, x_2 ★★☆, x_3 ★★☆ and 2 more   "
        "(can't be committed: not a git repository)\n"
    )
    assert words(NewPasses(), tmp_path) == ""


# ---- from pytest ----

#: A kernel whose file is another one after each case.
# A file is exchanged as a whole: the other worker must never read half of one.
RESTLESS = """import os, pathlib
file = pathlib.Path(__file__)
saved = file.with_suffix(f".{os.getpid()}")
saved.write_text(file.read_text() + "#")
saved.replace(file)
o_ref[...] = x_ref[...] * 2"""


def test_a_session_records_each_pass_once(repository: Repository) -> None:
    right = repository.add("right")
    repository.solve(right)
    repository.solve(repository.add("restless", number=3), RESTLESS)
    repository.add("stub", number=4)
    done = repository.process("-n", "2", "--kata-seed", "3", "--kata-isolation", "off")
    stars = min(grade["stars"] for grade in done.grades["right"])
    (solved,) = ledger.read_ledger(repository.root).passes
    assert (solved.kata, solved.stars) == (right.id, stars)
    assert solved.blob == blob_id(right.path.read_bytes())
    assert {grade["blob"] for grade in done.grades["right"]} == {solved.blob}
    assert done.state("restless") == "passed"
    assert {grade["blob"] for grade in done.grades["restless"]} == {""}
    assert [name for name, _ in solved.versions] == ["grader", "jax", "libtpu", "chip"]
    assert (dict(solved.versions)["libtpu"] == "-") == bool(compiler.unavailable_reason())
    assert f"recorded  right {'★' * stars}{'☆' * (3 - stars)}   " in done.out


def test_a_ledger_that_cannot_be_written_costs_no_grade(repository: Repository) -> None:
    repository.solve(repository.add("right"))
    (repository.root / LEDGER).mkdir()
    done = repository.pytest("--kata-seed", "3")
    assert done.code == 0
    assert "1/1 solved" in done.out
    assert "not recorded  right ★★" in done.out
    assert "katas/ledger.txt is not writable (Is a directory)" in " ".join(done.out.split())
    assert not os.listdir(repository.root / LEDGER)
    assert json.loads(repository.grades.read_text())["schema"] == 3


def test_one_for_gpus_names_its_gpu_and_no_libtpu(repository: Repository) -> None:
    kata = repository.add("double", key=f'{FOR_GPUS}only_on = "b200"\n{CASES}')
    judged = dataclasses.replace(grade(kata, 0), not_judged=NotJudged(Check.COST, "no GPU"))
    (passed,) = recorded(kata, judged, grade(kata, 1), grade(kata, 2))
    wanted = {"grader": "0.1.0", "libtpu": "-", "chip": "b200", "unjudged": "cost"}
    assert dict(passed.versions) == wanted


def test_one_for_gpus_is_recorded_in_any_mode(repository: Repository) -> None:
    """It runs in Mosaic GPU's interpreter, which forgives nothing, whatever the mode is."""
    kata = repository.add("double", key=FOR_GPUS + CASES)
    other = repository.add("halve")
    conditions = dataclasses.replace(CONDITIONS, device=Device("cpu", Mode.INTERPRET))
    grades = [grade(one, case) for one in (kata, other) for case in range(3)]
    found = record_session(repository.root, grades, conditions)
    assert [passed.kata for passed in found.passes] == [kata.id]
    assert dict(found.passes[0].versions)["chip"] == "h100"
    assert [p.kata for p in ledger.read_ledger(repository.root).passes] == [kata.id]


def test_no_key_is_read_of_what_was_not_graded(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them take longer to read than some katas to grade."""
    kata = repository.add("double")
    repository.add("halve")
    grades = [grade(kata, case) for case in range(kata.key.total)]
    read: list[Path] = []

    def noted(path: Path) -> Key:
        read.append(path)
        return load(path)

    monkeypatch.setattr(catalog, "load", noted)
    assert record_session(repository.root, grades, CONDITIONS).passes
    assert set(read) == {kata.key_path}


def test_a_session_with_an_accident_records_nothing(double: Kata) -> None:
    grades = [grade(double, case) for case in range(3)]
    assert recorded(double, *grades)
    grades[1] = dataclasses.replace(grades[1], stars=2, accident=True)
    assert recorded(double, *grades) == ()
