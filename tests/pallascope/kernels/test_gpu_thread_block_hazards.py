"""What is read from the trace of a kernel for GPUs, where no interpreter need run it."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jax.experimental.pallas.ops.gpu import hopper_matmul_mgpu

from pallascope.gpu import thread_block_hazards
from pallascope.gpu.gpu_interpreter import run_interpreted
from pallascope.gpu.gpus import named, traced_for
from pallascope.gpu.thread_block_hazards import ordering_hazards
from pallascope.kernels import TracedLaunch
from pallascope.kernels.serialization import make_ready_for_gpus
from pallascope.model import GpuFault, GpuHazard, SourceFile
from tests.pallascope.support import gpu_pipelines
from tests.pallascope.support.gpu_launches import (
    double_by_tma,
    from_registers,
    one_wgmma,
    struct,
)
from tests.pallascope.support.gpu_pipelines import (
    A,
    B,
    Launch,
    X,
    chosen,
    copied,
    handed_on,
    multiplied,
    tensor_products,
    two_copies,
)

SOURCE = SourceFile(gpu_pipelines.__file__, Path(gpu_pipelines.__file__).read_bytes())


@pytest.fixture(autouse=True, scope="module")
def backend() -> None:
    make_ready_for_gpus()


def faults_of(launch: Launch, *args: Any, values: Sequence[Any] = ()) -> tuple[GpuFault, ...]:
    """Of the trace as another process gets it."""
    with traced_for(named("h100")):
        dumped = TracedLaunch.of(launch, args, {}).dumped()
        return ordering_hazards(TracedLaunch.carried(dumped).closed, SOURCE, values)


@pytest.mark.parametrize(
    ("sizes", "commit", "told"),
    [
        ([64, 0, 64], False, [GpuHazard.NO_COMMIT]),
        ([64, 0, 64], True, []),
        ([0, 0, 0], False, []),  # nothing is copied
        ([64], False, []),  # not what the launch takes: nothing is known
    ],
)
def test_what_a_kernel_does_by_a_table(
    sizes: list[int], commit: bool, told: list[GpuHazard]
) -> None:
    given = [np.array(sizes, np.int32), np.zeros(X.shape, X.dtype)][: 1 + (len(sizes) > 1)]
    faults = faults_of(chosen(commit), struct("int32", 3), X, values=given)
    assert [fault.hazard for fault in faults] == told


@pytest.mark.parametrize(
    ("launch", "args"),
    [
        (copied(), (X,)),
        (copied(out_left=0), (X,)),
        (two_copies(), (X,)),
        (handed_on(), (X,)),
        (multiplied(), (A, B)),
        (tensor_products(), (A, B)),
        (double_by_tma, (struct("float32", 128, 64),)),
        (one_wgmma, (struct("float16", 64, 64), struct("float16", 64, 64))),
    ],
)
def test_nothing_is_said_of_a_right_one(launch: Launch, args: tuple[Any, ...]) -> None:
    """But that a kernel, such as `tensor_products`, may have no copy under way at its waits."""
    assert {fault.hazard for fault in faults_of(launch, *args)} <= {GpuHazard.NOTHING_AHEAD}


@pytest.mark.parametrize(
    ("launch", "args", "ahead"),
    [
        (copied(ahead=1), (X,), True),
        (copied(ahead=0), (X,), False),
        (multiplied(), (A, B), True),
        (tensor_products(), (A, B), False),
        (two_copies(), (X,), True),  # each memory is filled once
    ],
)
def test_copies_under_way_at_a_wait(launch: Launch, args: tuple[Any, ...], ahead: bool) -> None:
    hazards = [fault.hazard for fault in faults_of(launch, *args)]
    assert (GpuHazard.NOTHING_AHEAD not in hazards) is ahead


@pytest.mark.parametrize(("commit", "told"), [(True, []), (False, [GpuHazard.NO_COMMIT])])
def test_an_accumulator_that_begins_with_a_value(commit: bool, told: list[GpuHazard]) -> None:
    launch = functools.partial(from_registers, commit=commit)
    assert [fault.hazard for fault in faults_of(launch, struct("float16", 64, 64))] == told


def test_an_accumulator_that_begins_with_a_value_is_interpreted() -> None:
    b = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float16)
    noted: list[str] = []
    with traced_for(named("h100")):
        (found,) = run_interpreted(TracedLaunch.of(from_registers, [b], {}), [b], noted)
    product = np.ones((64, 64), np.float32) @ b.astype(np.float32)
    wanted = np.stack([1 + product, 1 + 2 * product])
    np.testing.assert_allclose(found.astype(np.float32), wanted, rtol=2e-3, atol=2e-2)
    assert not noted


def test_nothing_is_said_of_jax_s_own_matmul() -> None:
    """Warp-specialised: a thread that copies, two that multiply."""
    config = hopper_matmul_mgpu.TuningConfig(64, 128, 64, max_concurrent_steps=3)
    square = struct("float16", 256, 256)
    launch = functools.partial(hopper_matmul_mgpu.matmul, c=None, config=config)
    assert faults_of(launch, square, square) == ()


@pytest.mark.parametrize(
    ("launch", "disorder", "ref", "line"),
    [
        (copied(commit=False), GpuHazard.NO_COMMIT, "o_slots[0]", "plgpu.copy_smem_to_gmem("),
        (copied(drain=False), GpuHazard.NOT_DRAINED, "o_slots[1]", "plgpu.copy_smem_to_gmem("),
        (copied(out_left=2), GpuHazard.LEAVING, "o_slots[0]", "o_slots[slot] ="),
        (copied(ahead=2), GpuHazard.LAPPED, "here[0]", "plgpu.barrier_wait(here"),
        (copied(arrivals=2), GpuHazard.NEVER_ARRIVES, "here[0]", "plgpu.barrier_wait(here"),
    ],
)
def test_a_pipeline_by_hand(launch: Launch, disorder: GpuHazard, ref: str, line: str) -> None:
    fault = next(fault for fault in faults_of(launch, X) if fault.hazard is disorder)
    assert fault.ref == ref
    assert fault.line
    assert fault.line.text.startswith(line)


@pytest.mark.parametrize("order", thread_block_hazards._ORDERS)
@pytest.mark.parametrize(
    ("launch", "args", "hazard", "ref"),
    [
        (multiplied(early=True), (A, B), GpuHazard.READ_BY_WGMMA, "a_slots[0]"),
        (handed_on(early=True), (X,), GpuHazard.READ_BY_THREAD, "x_slots[0]"),
        (two_copies(both=False), (X,), GpuHazard.NOT_ARRIVED, "b_smem"),
    ],
)
def test_the_order_of_threads_does_not_matter(
    launch: Launch,
    args: tuple[Any, ...],
    hazard: GpuHazard,
    ref: str,
    order: tuple[bool, bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(thread_block_hazards, "_ORDERS", (order,))
    fault = faults_of(launch, *args)[0]
    assert (fault.hazard, fault.ref) == (hazard, ref)


@pytest.mark.parametrize(
    ("launch", "disorder", "ref"),
    [
        (multiplied(early=True), GpuHazard.READ_BY_WGMMA, "a_slots[0]"),
        (multiplied(left=1), GpuHazard.READ_BY_WGMMA, "a_slots[0]"),
        (multiplied(wait=False), GpuHazard.READ_BY_WGMMA, "a_slots[0]"),
        (multiplied(arrivals=1), GpuHazard.READ_BY_WGMMA, "a_slots[0]"),
        (multiplied(arrivals=3), GpuHazard.NEVER_ARRIVES, "free[0]"),
        (multiplied(arrive=False), GpuHazard.NEVER_ARRIVES, "free[0]"),
    ],
)
def test_threads_that_meet_at_barriers(launch: Launch, disorder: GpuHazard, ref: str) -> None:
    found = faults_of(launch, A, B)
    assert (found[0].hazard, found[0].ref) == (disorder, ref)


@pytest.mark.parametrize(
    ("launch", "disorder", "ref", "line"),
    [
        (tensor_products(free=False), GpuHazard.READ_BY_MMA, "a_slots[0]", "plgpu.copy_gmem_to"),
        (tensor_products(done=False), GpuHazard.NOT_MULTIPLIED, "acc_tmem", "result = plgpu.async"),
        (tensor_products(told=False), GpuHazard.NEVER_ARRIVES, "end", "plgpu.barrier_wait(end)"),
        (tensor_products(loaded=False), GpuHazard.STILL_LOADED, "acc_tmem", "plgpu.tcgen05_mma("),
    ],
)
def test_products_into_tensor_memory(
    launch: Launch, disorder: GpuHazard, ref: str, line: str
) -> None:
    fault = faults_of(launch, A, B)[0]
    assert (fault.hazard, fault.ref) == (disorder, ref)
    assert fault.line
    assert fault.line.text.startswith(line)


def test_a_count_that_is_wrong_is_told_before_the_waits_that_follow_from_it() -> None:
    fault = faults_of(multiplied(arrivals=3), A, B)[0]
    assert (fault.arrived, fault.needed) == (2, 3)
    assert len(fault.others) == 2
    assert all("full[0] (line" in other for other in fault.others)
