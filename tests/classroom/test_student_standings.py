"""Where students stand, by files and ledgers alone; where a class is stuck."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.classroom.class_report import stuck_katas
from grader.classroom.students import Clone, Course, StudentStanding, find_clones
from grader.exercise.catalog import KATAS, katas
from grader.record.status import FileState
from tests.support.classrooms import DAY, ClassOf
from tests.support.repositories import Shop


@pytest.fixture
def pupils(shop: Shop, tmp_path: Path) -> ClassOf:
    return ClassOf(shop, tmp_path / "class")


def standings(pupils: ClassOf) -> list[StudentStanding]:
    course = Course(katas(pupils.shop.root))
    return [course.standing(clone) for clone in find_clones(pupils.folder).clones]


def states(standing: StudentStanding) -> list[str]:
    return [place.state.value for place in standing.katas]


def test_a_student_who_has_done_something(pupils: ClassOf) -> None:
    shop = pupils.shop
    pupils.join("ada")
    pupils.passed("ada", shop.double)
    pupils.passed("ada", shop.row_sum, stars=2, body="o_ref[...] = 2 * x_ref[...]")
    pupils.write("ada", shop.row_sum, "o_ref[...] = x_ref[...] * 3")
    pupils.write("ada", shop.row_max, "o_ref[...] = x_ref[...] * 4")
    (ada,) = standings(pupils)
    assert states(ada) == ["solved", "changed", "edited"]
    assert (ada.solved, ada.stars, ada.latest, ada.problems) == (1, 3, DAY, ())


def test_a_stub_of_another_version_is_to_do(pupils: ClassOf) -> None:
    root = pupils.join("ada")
    kata = pupils.shop.double
    file = root / KATAS / f"{kata.id}.py"
    file.write_text(file.read_text().replace("double it", "an older task"))
    gone = root / KATAS / f"{pupils.shop.row_sum.id}.py"
    gone.unlink()
    assert states(standings(pupils)[0]) == ["todo", "gone", "todo"]
    file.write_text(file.read_text().replace("an older task", "x" * 5000))
    assert states(standings(pupils)[0])[0] == "edited", "too long for Python's compiler"


def test_what_is_wrong_in_a_clone_is_told_of_it_alone(pupils: ClassOf) -> None:
    shop = pupils.shop
    for student in ("ada", "bob"):
        pupils.join(student)
        pupils.passed(student, shop.double)
    ledger = pupils.folder / "ada" / KATAS / "ledger.txt"
    ledger.write_bytes(ledger.read_bytes() + b"\xff\xfe nonsense\n")
    file = pupils.folder / "ada" / KATAS / f"{shop.row_max.id}.py"
    file.unlink()
    file.symlink_to(pupils.folder / "bob" / KATAS / f"{shop.double.id}.py")
    ada, bob = standings(pupils)
    assert (ada.solved, bob.solved, bob.problems) == (1, 1, ())
    assert [problem.split(":")[0] for problem in ada.problems] == [
        "katas/ledger.txt",
        "katas/2_second/kata_01_row_max.py is a symbolic link, not read",
    ]
    assert ada.katas[2].state is FileState.GONE


def test_where_most_are_stuck_comes_first(pupils: ClassOf) -> None:
    shop = pupils.shop
    for student in ("ada", "bob", "cleo"):
        pupils.join(student)
    pupils.passed("ada", shop.double)
    pupils.write("bob", shop.double, "wrong")
    for student in ("ada", "bob"):
        pupils.write(student, shop.row_max, "wrong")
    pupils.passed("cleo", shop.row_sum)
    found = stuck_katas(standings(pupils))
    assert [(one.kata, one.tried, one.students, one.share) for one in found] == [
        (shop.row_max.id, 2, ("ada", "bob"), 1.0),
        (shop.double.id, 2, ("bob",), 0.5),
    ]


def test_a_folder_that_is_a_link_is_one_problem(pupils: ClassOf) -> None:
    for student in ("ada", "bob"):
        pupils.join(student)
        pupils.passed(student, pupils.shop.double)
    folder = pupils.folder / "ada" / KATAS
    folder.rename(pupils.folder / "ada" / "mine")
    folder.symlink_to(pupils.folder / "bob" / KATAS)
    ada, bob = standings(pupils)
    assert (ada.solved, ada.problems) == (0, ("katas is a symbolic link, not read",))
    assert (bob.solved, bob.problems) == (1, ())


def test_an_error_in_one_clone_does_not_hide_another(
    pupils: ClassOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    for student in ("ada", "bob"):
        pupils.join(student)
        pupils.passed(student, pupils.shop.double)
    read = Clone.read

    def failing(clone: Clone, path: str) -> bytes | None:
        if clone.student == "ada":
            raise OSError(5, "Input/output error")
        return read(clone, path)

    monkeypatch.setattr(Clone, "read", failing)
    ada, bob = standings(pupils)
    assert states(ada) == ["gone", "gone", "gone"]
    assert ada.problems == ("[Errno 5] Input/output error",)
    assert bob.solved == 1
