"""What bounds a kernel, by where its time goes."""

from __future__ import annotations

import pytest

from pallascope.model import RunCount
from pallascope.tpu.chips import CHIPS
from pallascope.tpu.prediction import Bound, roofline
from tests.pallascope.support.sample_predictions import BYTES_PER_CYCLE, prediction, schedule

THOUSAND = 1000 * BYTES_PER_CYCLE  # bytes that take all of a thousand cycles


def bound(**parts: object) -> Bound:
    line = roofline(prediction(schedule(**parts)))  # type: ignore[arg-type]
    assert line
    return line.bound


@pytest.mark.parametrize("unit", ["MXU", "XLU", "EUP", "VPU", "VMEM", "scalar"])
def test_a_kernel_that_computes_is_bound_by_the_unit_that_is_busiest(unit: str) -> None:
    busy = dict.fromkeys(["MXU", "XLU", "EUP", "VPU", "VMEM", "scalar"], 100) | {unit: 400}
    assert bound(issue=900, busy=busy) is Bound[unit.upper()]


def test_bytes_that_move_beside_enough_to_compute_do_not_bind() -> None:
    """JAX's matmul of 4096 in blocks of 512 x 1024 x 1024: 71 % for the bytes, 1 % of waiting."""
    busy = {"MXU": 560, "VPU": 320, "VMEM": 110}
    assert bound(issue=990, busy=busy, size=THOUSAND * 71 // 100) is Bound.MXU


@pytest.mark.parametrize(("part", "expected"), [(95, Bound.HBM), (55, Bound.HBM), (45, None)])
def test_bytes_that_take_longer_than_computing_bind_from_half_of_the_time_on(
    part: int, expected: Bound | None
) -> None:
    found = bound(issue=300, busy={"VPU": 300}, size=THOUSAND * part // 100)
    assert found is (expected or Bound.LATENCY)


def test_bytes_bind_however_much_is_computed_beside_them() -> None:
    """A pipeline whose computing takes 80 % of what its bytes take waits for 20 % only."""
    assert bound(issue=800, busy={"VPU": 800}, size=THOUSAND * 97 // 100) is Bound.HBM


def test_waiting_for_little_is_latency() -> None:
    """The same matmul in blocks of 128: 41 % of waiting, 30 % of MXU, 23 % for the bytes."""
    busy = {"MXU": 300, "scalar": 220, "VMEM": 70}
    assert bound(issue=590, busy=busy, size=THOUSAND * 23 // 100) is Bound.LATENCY


def test_waiting_that_is_less_than_the_busiest_unit_takes_does_not_bind() -> None:
    assert bound(issue=700, busy={"MXU": 400, "VPU": 300}, size=0) is Bound.MXU


def test_nothing_but_waiting_is_latency() -> None:
    assert bound(issue=0, busy={}, size=THOUSAND // 10) is Bound.LATENCY


def test_its_parts_are_seconds_and_add_up() -> None:
    busy = {"VPU": 300, "MXU": 500, "scalar": 0}
    line = roofline(prediction(schedule(1500, 800, busy, 819_000)))
    assert line
    assert line.total == pytest.approx(1e-6)
    assert line.memory == pytest.approx(1e-6)  # 819 GB/s
    assert [(unit.value, taken * 1.5e9) for unit, taken in line.units] == [
        ("MXU", pytest.approx(500)),
        ("VPU", pytest.approx(300)),
    ]
    assert line.waiting + sum(taken for _, taken in line.units) == pytest.approx(line.total)
    assert line.issue == pytest.approx(800 / 1.5e9)


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        (
            {"issue": 100, "size": 500_000},
            "488 KiB at 819 GB/s take 611 ns, 92% of the time",
        ),
        (
            {"issue": 100, "size": 50_000},
            "90% of the time is spent waiting; 48.8 KiB at 819 GB/s take 61.1 ns, 9% of the time",
        ),
        (
            {"issue": 900, "size": 0},
            "issuing instructions takes 600 ns, 90% of the time, and this unit needs 600 ns of it; "
            "0 B at 819 GB/s take 0 ns, 0% of the time",
        ),
    ],
    ids=["hbm", "latency", "unit"],
)
def test_it_says_why(parts: dict[str, int], words: str) -> None:
    line = roofline(prediction(schedule(**parts)))  # type: ignore[arg-type]
    assert line
    assert line.why == words


def test_without_a_schedule_there_is_none() -> None:
    assert roofline(prediction()) is None


def test_a_launch_that_takes_most_of_the_time_binds() -> None:
    launch = CHIPS["v6e"].launch
    cycles = round(CHIPS["v6e"].clock * launch / 2)
    line = roofline(prediction(schedule(cycles=cycles, issue=cycles), chip="v6e"))
    assert line
    assert line.bound is Bound.LAUNCH
    assert line.total == pytest.approx(1.5 * launch, rel=1e-3)
    assert line.issue == pytest.approx(launch / 2, rel=1e-3)
    assert line.why == "it takes 2.5 µs, 67% of the time"


def test_each_run_has_its_launch() -> None:
    found = prediction(schedule(), chip="v6e", runs=RunCount(times=3))
    once = 1000 / CHIPS["v6e"].clock + CHIPS["v6e"].launch
    assert found.seconds == pytest.approx(3 * once)
