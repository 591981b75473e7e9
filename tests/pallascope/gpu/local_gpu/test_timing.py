"""Launches timed in turns, by clocks that tell what they are told."""

from __future__ import annotations

from pallascope.gpu.timed_gpu_process import (
    BUDGET,
    FEWEST,
    MOST,
    Batch,
    enough,
    interleaved,
)
from pallascope.model import Times


def side(name: str, seconds: float, log: list[tuple[str, int]]) -> Batch:
    def run(launches: int) -> float:
        log.append((name, launches))
        return launches * seconds

    return run


def test_a_sample_takes_a_millisecond() -> None:
    log: list[tuple[str, int]] = []
    assert enough(side("x", 100e-6, log), 1e-3) == 16
    assert log[0] == ("x", 1)  # the first launch warms up
    assert enough(side("x", 2e-3, log), 1e-3) == 1
    assert enough(side("x", 0.0, log), 1e-3) == MOST


def test_sides_take_turns_and_so_does_who_begins() -> None:
    log: list[tuple[str, int]] = []
    own, par = interleaved(side("own", 1e-3, log), side("par", 0.5e-3, log), 4, 1e-3)
    samples = log[-8:]
    assert [name for name, _ in samples] == ["par", "own", "own", "par", "par", "own", "own", "par"]
    assert {launches for name, launches in samples if name == "own"} == {1}
    assert {launches for name, launches in samples if name == "par"} == {2}
    assert own == Times(1e-3, 1e-3, 1e-3, 4)
    assert par.median == 0.5e-3


def test_the_median_stands_between_the_ends() -> None:
    seconds = iter([1.0, 1.0, 1.0, 3.0, 9.0, 2.0])
    own, _ = interleaved(lambda _: next(seconds), lambda _: 1.0, 3, 1e-3)
    assert own == Times(3.0, 2.0, 9.0, 3)


def test_slow_launches_have_fewer_samples() -> None:
    log: list[tuple[str, int]] = []
    own, par = interleaved(side("own", 4.0, log), side("par", 1.0, log))
    assert own.runs == par.runs == BUDGET / 5
    own, _ = interleaved(side("own", 100.0, log), side("par", 1.0, log))
    assert own.runs == FEWEST
