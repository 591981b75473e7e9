"""What a learner is told whose kernel is wrong between devices."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from grader.exercise.cases import draw
from grader.grading.grader import Grader
from grader.verdict import MAX_STARS, Grade, State
from pallascope.model import Check
from pallascope.tpu import compiler
from tests.support.mesh_katas import SPLIT_SUM, SPLIT_SUM_KEY, TO_RIGHT, TO_RIGHT_KEY
from tests.support.repositories import Repository

_SIGNALS = """    for other in (left, right):
        pl.semaphore_signal(barrier, 1, device_id=(other,))
    pl.semaphore_wait(barrier, 2)
"""
NO_LIBTPU = compiler.unavailable_reason()
needs_libtpu = pytest.mark.skipif(bool(NO_LIBTPU), reason="libtpu is not installed")
_CREDIT = """
    pl.semaphore_signal(barrier, 1, device_id=(left,))
    pl.semaphore_wait(barrier, 1)"""
_AGAIN = """
    copy.start()
    copy.wait()"""
Graded = Callable[[str, str, str, str], Grade]


@pytest.fixture
def graded(repository: Repository, grader: Grader) -> Graded:
    """The grade of a file in which one text is replaced, on the first hidden case."""

    def grade(text: str, key: str, old: str, new: str) -> Grade:
        kata = repository.add("meshed", key=key)
        kata.solution.write_text(text.replace("NAME", "meshed"))
        written = kata.solution.read_text()
        assert written.count(old) == 1
        kata.path.write_text(written.replace(old, new))
        return grader.grade(kata, draw(kata.id, kata.key, 1)[0], 60)

    return grade


def test_devices_that_split_a_sum_are_right(graded: Graded) -> None:
    grade = graded(SPLIT_SUM, SPLIT_SUM_KEY, "return split(", "return split(")
    assert grade.state is State.PASSED, grade.finding


def test_devices_that_hand_on_are_right(graded: Graded) -> None:
    grade = graded(TO_RIGHT, TO_RIGHT_KEY, "copy.wait()", "copy.wait()")
    assert grade.state is State.PASSED, grade.finding


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (_SIGNALS, "", "writes to another device before it is known to have begun"),
        ("barrier, 2)", "barrier, 3)", "all devices wait: one of them on the barrier semaphore"),
        ("rem(me + 1, count)", "rem(me + 1, 8)", "the mesh has no device 4"),
        ("rem(me + count - 1, count)", "rem(me - 1, count)", "the mesh has no device -1"),
        ("copy.wait()", "copy.wait_send()", "never waited for on recv_sem"),
        ("copy.wait()", "copy.wait_recv()", "send_sem"),
    ],
)
def test_what_is_wrong_between_devices_is_named(
    graded: Graded, old: str, new: str, says: str
) -> None:
    grade = graded(TO_RIGHT, TO_RIGHT_KEY, old, new)
    assert grade.state is State.FAILED
    assert grade.finding
    assert grade.finding.check is Check.VALUES
    assert says in grade.finding.phrase


def test_a_sum_that_is_not_added_up_leaves_copies_that_differ(graded: Graded) -> None:
    old = 'jax.lax.psum(_matmul(x, y, bm), "x")'
    grade = graded(SPLIT_SUM, SPLIT_SUM_KEY, old, "_matmul(x, y, bm)")
    assert grade.finding
    along = 'the copies of the result differ along "x"'
    assert grade.finding.phrase == f"{along}, and nothing adds them up"
    assert "device 1 holds other values than device 0" in grade.finding.message


def test_a_sum_that_is_not_all_leaves_copies_that_differ(graded: Graded) -> None:
    old = 'jax.lax.psum(_matmul(x, y, bm), "x")'
    new = f'{old} + jax.lax.axis_index("x")'
    more = '"psum", "add", "convert_element_type"'
    key = f"outside_floats = true\n{SPLIT_SUM_KEY}".replace('"psum"', more)
    grade = graded(SPLIT_SUM, key, old, new)
    assert grade.finding
    assert grade.finding.phrase.endswith('along "x" after psum over "x"')
    assert "on line" in grade.finding.message


@needs_libtpu
def test_a_kernel_that_no_shard_map_divides_is_not_lowered(graded: Graded) -> None:
    grade = graded(SPLIT_SUM, SPLIT_SUM_KEY, "return split(x, y)", "return _matmul(x, y, bm)")
    assert grade.finding
    assert (grade.finding.check, grade.stars) == (Check.LOWERS, 1)
    assert "cannot be automatically partitioned" in " ".join(grade.finding.message.split())
    assert "jax.shard_map" in grade.finding.message


@needs_libtpu
def test_what_collectives_send_is_compared_with_par(graded: Graded) -> None:
    more = '"psum", "psum_scatter", "all_gather", "ppermute"'
    key = SPLIT_SUM_KEY.replace('"psum"', more)
    old = 'jax.lax.psum(_matmul(x, y, bm), "x")'
    summed = 'jax.lax.psum_scatter(_matmul(x, y, bm), "x", tiled=True)'
    same = graded(SPLIT_SUM, key, old, f'jax.lax.all_gather({summed}, "x", tiled=True)')
    assert (same.stars, same.finding) == (MAX_STARS, None)
    around = f'jax.lax.ppermute({old}, "x", [(0, 1), (1, 2), (2, 3), (3, 0)])'
    grade = graded(SPLIT_SUM, key, old, around)
    assert (grade.state, grade.stars) == (State.PASSED, MAX_STARS - 1)
    assert grade.finding
    assert grade.finding.phrase == '1.7× par\'s bytes over the links: ppermute over "x"'
    assert "line 3" in grade.finding.message


@needs_libtpu
def test_a_kernel_that_communicates_is_judged_by_its_bytes(graded: Graded) -> None:
    right = graded(TO_RIGHT, TO_RIGHT_KEY, "copy.wait()", "copy.wait()")
    assert (right.stars, right.finding) == (MAX_STARS, None)


@needs_libtpu
def test_what_is_sent_twice_costs_the_third_star(graded: Graded) -> None:
    grade = graded(TO_RIGHT, TO_RIGHT_KEY, "copy.wait()", f"copy.wait(){_CREDIT}{_AGAIN}")
    assert (grade.state, grade.stars) == (State.PASSED, 2)
    assert grade.finding
    assert grade.finding.phrase == "2.0× par's bytes over the links"


def test_a_slot_that_is_written_again_without_a_credit_is_a_race(graded: Graded) -> None:
    grade = graded(TO_RIGHT, TO_RIGHT_KEY, "copy.wait()", f"copy.wait(){_AGAIN}")
    assert grade.finding
    assert grade.finding.phrase == "o_ref is written by two copies at the same time"
