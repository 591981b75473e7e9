"""What is said of a launch that sends more to other chips than par, with numbers made by hand."""

from __future__ import annotations

import dataclasses

import pytest

from grader.checks import cost
from grader.checks.communication_cost import check_sends, dearest
from pallascope.model import (
    RESHARDING,
    Accident,
    ArrayType,
    Collective,
    Finding,
    Route,
    RunCount,
)
from pallascope.tpu import OnChip
from tests.pallascope.support.sample_predictions import prediction, schedule
from tests.support.factories import OwnAndPar, attempt, evidence

KERNEL = prediction(schedule(cycles=1000, size=1_000_000))
PART = ArrayType("float32", (128, 256))
SUM = Collective("psum", ("model",), 2, (PART,), 1 << 17, line=57)
GATHER = Collective("all_gather", ("model",), 2, (PART,), 1 << 18, line=58)
LAID = Collective(RESHARDING, ("data", "model"), 4, (PART,), 1 << 18)


def judged(own: tuple[Collective, ...], par: tuple[Collective, ...]) -> Finding | None:
    sides = (OnChip(None, (KERNEL,), around) for around in (own, par))
    found = cost.check(evidence(attempt(), on_chips=OwnAndPar(*sides)))
    assert found is None or isinstance(found, Finding)
    return found


@pytest.mark.parametrize("own", [(), (SUM,), (dataclasses.replace(SUM, line=1),)])
def test_what_sends_no_more_than_par_passes(own: tuple[Collective, ...]) -> None:
    assert judged(own, (SUM,)) is None


def test_a_collective_that_par_does_not_have_is_named() -> None:
    found = judged((SUM, GATHER), (SUM,))
    assert found is not None
    assert found.phrase == '3.0× par\'s bytes over the links: all_gather over "model"'
    text = " ".join(found.message.split())
    assert "sends 384 KiB to others; par sends 128 KiB (3.00×, up to 1.10× passes)" in text
    assert 'all_gather over "model" (2 devices) of float32[128, 256], line 58: 256 KiB' in text
    assert "works on all of them" in text


def test_where_par_sends_nothing_there_is_no_ratio() -> None:
    found = judged((LAID,), ())
    assert found is not None
    assert found.phrase.startswith("bytes over the links, and par needs none: resharding over")
    assert "par sends nothing" in found.message
    assert "in_specs the same axes" in " ".join(found.message.split())


def test_turns_that_nobody_can_count_get_no_verdict() -> None:
    found = judged((dataclasses.replace(SUM, runs=RunCount(untold=True)),), (SUM,))
    assert found is not None
    assert found.phrase.startswith(
        'no verdict: the number of iterations of a loop around psum over "model"'
    )


def test_those_that_par_has_too_are_not_named() -> None:
    twice = dataclasses.replace(SUM, runs=RunCount(times=2))
    assert dearest((SUM, GATHER, SUM), (SUM,)) == (GATHER, SUM)
    assert dearest((twice,), (SUM,)) == (twice,)


SENDS = dataclasses.replace(KERNEL, sent=1 << 20)
ROWS, WHOLE = (("x",), ()), ((), ())


def over(right: int, left: int) -> OnChip:
    """A kernel whose chips send this many KiB to the next chip and to the previous one."""
    routes = (Route((("x", 1),), right << 10), Route((("x", -1),), left << 10))
    sent = sum(route.bytes for route in routes)
    kernel = dataclasses.replace(KERNEL, sent=sent, routes=tuple(r for r in routes if r.bytes))
    return OnChip(None, (kernel,))


@pytest.mark.parametrize(
    ("own", "par", "phrase"),
    [
        (over(16, 8), over(12, 12), "1.3× par's bytes on the busiest link, to the next chip"),
        (over(0, 24), over(12, 12), "2.0× par's bytes on the busiest link, to the previous chip"),
        (over(13, 11), over(12, 12), ""),
        (over(12, 12), over(24, 0), ""),
        (over(0, 24), over(24, 0), ""),
        (over(0, 0), over(0, 0), ""),
        (over(24, 24), over(24, 0), "2.0× par's bytes over the links"),
    ],
)
def test_a_link_that_carries_more_than_any_of_par_s(own: OnChip, par: OnChip, phrase: str) -> None:
    found = cost.check(evidence(attempt(), on_chips=OwnAndPar(own, par)))
    assert (found.phrase if isinstance(found, Finding) else "") == phrase


def test_both_directions_of_the_busiest_link_are_told() -> None:
    sides = OwnAndPar(over(24, 0), over(12, 12))
    found = cost.check(evidence(attempt(), on_chips=sides))
    assert isinstance(found, Finding)
    text = " ".join(found.message.split())
    assert 'link to the next chip along "x" carries 24 KiB' in text
    assert "its link to the previous one nothing" in text
    assert "Par's busiest link carries 12 KiB (2.00×, up to 1.10× passes)" in text
    assert '24 KiB +1 along "x", 1 hop' in text


def test_links_of_collectives_are_not_told_apart() -> None:
    own, par = over(24, 0), over(12, 12)
    around = (dataclasses.replace(side, collectives=(SUM,)) for side in (own, par))
    unknown = OnChip(None, (dataclasses.replace(KERNEL, sent=24 << 10, routes=None),))
    for sides in (around, (own, unknown)):
        assert cost.check(evidence(attempt(), on_chips=OwnAndPar(*sides))) is None


@pytest.mark.parametrize(
    ("own", "says"),
    [
        (OnChip(None, (SENDS,), (), (ROWS,)), ""),
        (OnChip(None, (SENDS,), (), (None,)), ""),
        (OnChip(None, (SENDS,), (), (WHOLE,)), "XLA sends parts of x"),
        (OnChip(None, (KERNEL,), (), (ROWS,)), "the kernel sends 0% of the solution's bytes"),
        (Accident("it crashed", ""), ""),
    ],
)
def test_the_kernel_sends_and_not_xla(own: OnChip | Accident, says: str) -> None:
    par = OnChip(None, (SENDS,), (), (ROWS,))
    reference = dataclasses.replace(evidence(attempt()).reference, names=("x",))
    given = evidence(attempt(), reference, on_chips=OwnAndPar(own, par))
    found = check_sends(given)
    assert (found.phrase if found else "") == says
    assert (
        check_sends(evidence(attempt(), on_chips=OwnAndPar(own, OnChip(None, (KERNEL,))))) is None
    )
