"""The sweep over block sizes finds faster ones, and only such that every chip and dtype accepts."""

from __future__ import annotations

import dataclasses

import pytest

from grader.exercise.catalog import katas
from tests.support.repositories import ROOT
from tools.benchmarks.par_sweep import ACCEPTED, Sweep

pytest.importorskip("libtpu")


def sweep_of(name: str, **sizes: int) -> Sweep:
    """The sweep of a solution on a v5e, from some other blocks than its own."""
    kata = next(kata for kata in katas(ROOT, "solutions") if kata.name == name)
    sweep = Sweep(kata, ["v5e"])
    sweep.case = dataclasses.replace(sweep.case, sizes={**sweep.case.sizes, **sizes})
    return sweep


def test_sweep_finds_larger_blocks() -> None:
    sweep = sweep_of("blocked_transpose", bm=128)
    assert sweep.blocks == ["bm", "bn"]
    best = sweep.best()
    assert best["bm"] > 128
    assert sweep.mean(best) < sweep.mean(sweep.case.sizes)


def test_sweep_asks_for_whole_blocks() -> None:
    """The grid of sharded_experts has N // tn columns: blocks of 2048 would leave some out."""
    sweep = sweep_of("sharded_experts", N=3072)
    assert sweep.blocks == ["tm", "tk", "tn"]
    assert sweep.seconds(sweep.case.sizes)
    assert not sweep.seconds({**sweep.case.sizes, "tn": 2048})


def test_sweep_asks_for_a_time_of_every_dtype() -> None:
    """With blocks of 2048 columns, tiled_softmax fits VMEM in bfloat16, and not in float32."""
    sweep = sweep_of("tiled_softmax")
    wide = {**sweep.case.sizes, "bn": 2048}
    assert sweep.seconds(wide)
    assert sweep.all_have_a_time(sweep.case.sizes)
    assert not sweep.all_have_a_time(wide)


def test_sweep_refuses_blocks_that_need_too_much_memory() -> None:
    sweep = sweep_of("blocked_transpose")
    assert not sweep.seconds({"bm": 2048, "bn": 4096})


def test_accepted_solutions_exist() -> None:
    assert set(ACCEPTED) <= {kata.name for kata in katas(ROOT, "solutions")}
