"""What the process does on a device: tried on the CPU, with places of buffers made up."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pallascope.gpu import timed_gpu_process
from pallascope.gpu.timed_gpu_process import (
    GAP,
    PATTERN,
    Extent,
    GpuRunResult,
    GpuRunStage,
    GuardLayout,
    RunQuestion,
    lay_out,
)
from pallascope.gpu.toolchain import NotInstalled, Tools
from pallascope.model import Array
from pallascope.tools.arrays import to_numpy
from tests.pallascope.gpu.local_gpu.programs import X, doubling, given, halved, program

CPU = jax.devices("cpu")[0]


def in_a_row() -> Callable[[Any], Extent]:
    """Places one behind the other, in the order of asking: arrays first, then guards."""
    known: dict[int, Extent] = {}

    def extent(array: Any) -> Extent:
        end = max((start + size for start, size in known.values()), default=0)
        return known.setdefault(id(array), (end, array.nbytes))

    return extent


def ran(question: RunQuestion, **others: Any) -> tuple[GpuRunResult, list[GpuRunStage]]:
    stages: list[GpuRunStage] = []
    return timed_gpu_process.run(question, CPU, "cpu", stages.append, **others), stages


def test_the_process_knows_what_launches_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """jax sets these variables where a kernel is traced; where one is only run, nobody does."""
    library = tmp_path / "jax_cuda12_plugin/libmosaic_gpu_runtime.so"
    library.parent.mkdir()
    library.touch()
    (library.parent / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "jax_cuda12_plugin", raising=False)  # jax may have loaded it
    monkeypatch.setattr(os, "environ", {"CUDA_HOME": "/opt/cuda"})
    monkeypatch.setattr(timed_gpu_process, "tools", no_tools)
    timed_gpu_process.prepare(tmp_path)
    assert os.environ["MOSAIC_GPU_RUNTIME_LIB_PATH"] == str(library)
    assert os.environ["MOSAIC_GPU_CUDA_ROOT"] == "/opt/cuda"

    (tmp_path / "ptxas").touch()
    monkeypatch.setattr(timed_gpu_process, "tools", lambda: Tools(tmp_path / "ptxas", tmp_path))
    timed_gpu_process.prepare(tmp_path)
    assert os.environ["MOSAIC_GPU_CUDA_ROOT"] == str(tmp_path / "cuda")
    assert (tmp_path / "cuda/bin/ptxas").exists()


def no_tools() -> Tools:
    raise NotInstalled("not here")


def test_a_launch_runs_once_and_its_results_come_back() -> None:
    found, stages = ran(RunQuestion(doubling(), (given(),)))
    assert (to_numpy(found.outputs[0]) == 2 * X).all()
    assert stages == [GpuRunStage.COMPILING, GpuRunStage.RUNNING]
    assert (found.changed, found.trampled, found.sides) == ((), (), 4)
    assert found.own is None


def test_results_are_stored_into_what_was_filled() -> None:
    launch, straight = timed_gpu_process.donated(doubling(), "cpu")
    spare = jnp.array(timed_gpu_process.filled(X.shape, X.dtype))  # jax's own memory, as on a GPU
    place = timed_gpu_process.extent_of(spare)
    assert np.isnan(np.asarray(spare)).all()
    (result,) = launch([spare], jax.device_put(X, CPU))
    assert straight
    assert spare.is_deleted()
    assert timed_gpu_process.extent_of(result) == place


def test_results_that_xla_copies_are_not_guarded() -> None:
    launch, straight = timed_gpu_process.donated(program(lambda x: x), "cpu")
    assert (np.asarray(launch([jnp.zeros(X.shape)], X)[0]) == X).all()
    assert not straight
    found, _ = ran(RunQuestion(program(lambda x: x), (given(),)), extent=in_a_row())
    assert found.sides == 4
    assert found.guarded <= 2  # the input's


def test_beside_par_results_are_compared_and_both_are_timed() -> None:
    outline = Array("float32", X.shape, b"")
    found, stages = ran(RunQuestion(doubling(), (outline,), par=program(lambda x: 2 * x)))
    assert stages[-2:] == [GpuRunStage.PAR, GpuRunStage.TIMING]
    assert (found.far, found.outputs) == (0.0, ())
    assert found.own
    assert found.par
    assert found.own.runs == found.par.runs
    assert 0 < found.own.lowest <= found.own.median <= found.own.highest
    assert found.floor > 0


def test_what_an_input_or_a_guard_holds_afterwards() -> None:
    layout = lay_out([("input 0", X)], CPU, in_a_row())
    layout.guards[1] = jnp.asarray(layout.guards[1]).at[3:5].set(0)
    assert layout.trampled() == ("2 bytes of memory that no input or result holds",)
    changed = X.copy()
    changed[0, 0] = -1
    question = RunQuestion(doubling(), (given(),))
    assert timed_gpu_process._seen(question, CPU, layout, [changed], True).changed == (0,)
    assert timed_gpu_process._seen(question, CPU, layout, [X], True).changed == ()


def laid(*places: int) -> GuardLayout:
    """A guard, a buffer of 256 bytes, a guard, by where they begin."""
    pattern = np.full(64, PATTERN, np.uint8)
    first, buffer, second = places
    extents = ((first, 64), (second, 64))
    held = (timed_gpu_process.GuardedBuffer("result 0", (buffer, 256)),)
    return GuardLayout([], held, [pattern, pattern.copy()], extents)


@pytest.mark.parametrize(
    ("places", "sides"),
    [
        ((0, 64, 320), 2),
        ((0, 64 + GAP - 1, 2000), 1),
        ((0, 64 + GAP, 2000), 0),
        ((5000, 64, 320), 1),
        ((320, 64, 0), 2),
    ],
)
def test_only_a_guard_next_to_a_buffer_guards_it(places: tuple[int, ...], sides: int) -> None:
    assert laid(*places).guarded() == sides


def test_where_a_guard_was_hit() -> None:
    layout = laid(0, 64, 320)
    layout.guards[1][:4] = 0
    assert layout.trampled() == ("4 bytes right after result 0",)
    layout.guards[0][-1] = 0
    assert layout.trampled()[0] == "1 byte right before result 0"


def test_how_far_results_are_apart() -> None:
    x = jnp.asarray(X)
    assert timed_gpu_process.distance(x, x) == 0
    assert timed_gpu_process.distance(x.at[0, 0].add(2.55), x) == pytest.approx(0.01)
    assert timed_gpu_process.distance(halved(x), x) == np.inf
    assert timed_gpu_process.distance(halved(x), halved(x)) == 0
    assert timed_gpu_process.distance(jnp.zeros(4, jnp.int32), jnp.ones(4, jnp.int32)) == 1


@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
def test_inputs_without_contents_are_drawn(dtype: str) -> None:
    (one,) = timed_gpu_process.contents([Array(dtype, (64, 64), b"")], 3)
    (again,) = timed_gpu_process.contents([Array(dtype, (64, 64), b"")], 3)
    assert one.dtype.name == dtype
    assert (one == again).all()
    assert len(np.unique(one.astype(np.float32))) > 20
