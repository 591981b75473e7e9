"""What the running worker says of copies that a kernel starts by hand, and of runs that raise."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from grader.exercise.cases import hidden_cases
from grader.exercise.catalog import katas
from grader.sandbox.launch_client import TpuLaunchClient, WorkerQueues
from grader.sandbox.messages import Traced, eager_copies
from grader.verdict import Case, Device
from pallascope.kernels import TracedLaunch, for_chip
from pallascope.kernels.refs import PIPELINES
from pallascope.model import PIPELINE_INPUT, ArrayType, DmaHazard, Mode, Reference, SourceFile
from pallascope.runs.launch_runs import answer
from pallascope.runs.questions import RunResult, RunTrace, TargetDevice
from pallascope.tools import arrays, codec
from tests.support import copying_kernels as kernels
from tests.support.repositories import ROOT


@pytest.fixture(autouse=True, scope="module")
def cpu() -> None:
    jax.config.update("jax_platforms", "cpu")


def ran(
    launch: kernels.Launch,
    eager: bool = False,
    cores: int = 1,
    path: str = kernels.__file__,
    x: Any = kernels.X,
) -> RunResult:
    """The answer of a process that knows the trace alone."""
    with for_chip("TPU v5 lite", 1):
        trace = TracedLaunch.of(launch, (x,), {}).dumped()
    source = SourceFile(path, Path(path).read_bytes())
    inputs = (arrays.from_numpy(x),)
    traced = (source, trace, inputs, TargetDevice("v5e"), "copied")
    question = RunTrace(*traced, Mode.STRICT, cores, eager=eager, again=True)
    found = answer(question)
    assert isinstance(found, RunResult)
    return found


def test_what_went_wrong_crosses_over_with_its_lines() -> None:
    found = ran(kernels.through_vmem("leaves"))
    (fault,) = found.copy_faults
    assert fault.hazard is DmaHazard.NEVER_AWAITED
    assert fault.line is not None
    assert fault.line.text == "out.start()"
    assert codec.from_builtins(RunResult, codec.to_builtins(found)) == found


def test_copies_happen_when_they_are_waited_for_or_when_they_start() -> None:
    late, eager = (ran(kernels.through_vmem("leaves"), eager) for eager in (False, True))
    outputs = [arrays.to_numpy(one.outputs[0]) for one in (late, eager)]
    assert np.isnan(outputs[0]).all()
    np.testing.assert_array_equal(outputs[1], kernels.X)
    assert late.copy_faults == eager.copy_faults


def test_hidden_cases_take_turns() -> None:
    turns = [
        eager_copies(Case("1_first/kata_01_double", at, 1, 1, {}, "float32")) for at in range(4)
    ]
    assert turns == [False, True, False, True]


def reads_beyond_the_end(x: jax.Array) -> jax.Array:
    """Each of two cores reads beyond the end of X, in its last step."""

    def kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...]

    return pl.pallas_call(
        kernel,
        grid=(4,),
        in_specs=[pl.BlockSpec((8, 128), lambda i: (i + 4 * (i % 2), 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
    )(x)


def test_a_run_on_two_cores_always_says_the_same_of_the_step_that_fails() -> None:
    found = [ran(reads_beyond_the_end, cores=2, path=__file__).problem for _ in range(12)]
    assert found[0] is not None
    assert "Out-of-bounds" in found[0].message
    assert found == found[:1] * 12
    assert found[0] == ran(reads_beyond_the_end, cores=1, path=__file__).problem


RAGGED = {"float32": 20, "bfloat16": 40}  # rows: two and a half tiles of 8, or of 16


def in_pipeline(rows: int, body: Any) -> kernels.Launch:
    """x to an array of its shape, through blocks of two tiles; the last one is ragged."""

    def launch(x: Any) -> Any:
        bm = 64 // x.dtype.itemsize
        block = pl.BlockSpec((bm, 128), lambda i: (i, 0))

        def kernel(x_hbm: Any, o_hbm: Any) -> None:
            grid = (pl.cdiv(rows, bm),)
            pipeline = pltpu.emit_pipeline(body, grid=grid, in_specs=[block], out_specs=[block])
            pipeline(x_hbm, o_hbm)

        return pl.pallas_call(
            kernel,
            in_specs=[kernels.ANYWHERE],
            out_specs=kernels.ANYWHERE,
            out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        )(x)

    return launch


def doubles(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = x_ref[...] * 2


def adds_the_sum(x_ref: Any, o_ref: Any) -> None:
    """Adds each block's sum, with whatever lies past the edge."""
    o_ref[...] = x_ref[...] + jnp.sum(jnp.nan_to_num(x_ref[...]))


@pytest.mark.parametrize("dtype", RAGGED)
@pytest.mark.parametrize("eager", [False, True])
def test_a_pipeline_copies_whole_tiles_over_a_ragged_edge(dtype: str, eager: bool) -> None:
    x = np.arange(RAGGED[dtype] * 128).reshape(-1, 128).astype(jnp.dtype(dtype)) % 251
    found = ran(in_pipeline(len(x), doubles), eager, x=x)
    assert (found.problem, found.unwritten) == (None, None)
    assert {fault.hazard for fault in found.copy_faults} <= {DmaHazard.NOTHING_THERE}  # a hint
    np.testing.assert_array_equal(arrays.to_numpy(found.outputs[0]), x * 2)


def test_a_pipelines_padding_must_not_matter() -> None:
    found = ran(in_pipeline(20, adds_the_sum), x=np.ones((20, 128), np.float32))
    assert found.unwritten
    assert found.unwritten.buffers == (PIPELINES, PIPELINE_INPUT)
    assert found.unwritten.values[0] == 1 + 4 * 128  # the last block has four rows


def leaves_the_tile(x: jax.Array) -> jax.Array:
    """The kernel copies a whole tile by itself, past the edge of x."""

    def kernel(x_hbm: Any, o_ref: Any, sem: Any) -> None:
        rows = pl.ds(pl.program_id(0) * 8, 8)
        pltpu.async_copy(x_hbm.at[rows], o_ref, sem).wait()

    return pl.pallas_call(
        kernel,
        grid=(3,),
        in_specs=[kernels.ANYWHERE],
        out_specs=pl.BlockSpec((8, 128), lambda i: (0, 0)),
        out_shape=jax.ShapeDtypeStruct((8, 128), x.dtype),
        scratch_shapes=[pltpu.SemaphoreType.DMA],
    )(x)


def test_another_copy_past_the_edge_raises() -> None:
    problem = ran(leaves_the_tile, x=np.ones((20, 128), np.float32)).problem
    assert problem
    assert "Out-of-bounds read" in problem.message


def follows(x: jax.Array) -> jax.Array:
    """Reads the row whose number is in SMEM that nothing has written, or the first."""

    def kernel(x_ref: Any, o_ref: Any, row_ref: Any) -> None:
        row = jnp.where(row_ref[0] > 1000, 0, row_ref[0])
        o_ref[...] = x_ref[pl.ds(row, 8)]

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((8, 128), x.dtype),
        scratch_shapes=[pltpu.SMEM((1,), jnp.int32)],
    )(x)


def test_an_index_from_unwritten_memory_is_found() -> None:
    found = ran(follows)
    np.testing.assert_array_equal(arrays.to_numpy(found.outputs[0]), kernels.X[:8])
    assert found.problem is None
    assert found.unwritten
    assert found.unwritten.buffers == ("row_ref",)
    assert ran(kernels.double_buffer()).unwritten is None  # the interpreter's state is as before


def without_small(x: jax.Array) -> jax.Array:
    """It keeps what is larger than 5; it should halve it, and drop what is larger than 5."""

    def kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = jnp.where(x_ref[...] > 5, x_ref[...], 0)

    return pl.pallas_call(kernel, jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


@pytest.mark.parametrize(("redrawn", "named"), [(7.5, True), (4.0, False)])
def test_a_change_has_to_be_right_for_other_inputs_too(redrawn: float, named: bool) -> None:
    kata = next(kata for kata in katas(ROOT, "solutions") if kata.name == "constant_add")
    case = hidden_cases(kata, 1)[0]
    with for_chip("TPU v5 lite", 1):
        trace = TracedLaunch.of(without_small, (kernels.X,), {}).dumped()

    def reference(value: float) -> Reference:
        x = np.full_like(kernels.X, value)
        wanted = np.where(x > 5, 0, x / 2)
        rest = (arrays.from_numpy(x),), {}, (arrays.from_numpy(wanted),)
        return Reference(("x",), *rest, (ArrayType("float32", x.shape),), ("",), 0)

    queue = SimpleNamespace(answer=lambda question, _: answer(question))
    queues = SimpleNamespace(
        runs=lambda _: queue, pool=SimpleNamespace(device=Device("cpu", Mode.STRICT))
    )
    client = TpuLaunchClient(cast(WorkerQueues, queues), kata, case, reference(7.0), ("v5e",))
    client._known["traced"] = Traced(trace=trace)
    client._known["source"] = SourceFile(__file__, Path(__file__).read_bytes())
    repaired = client.repaired(lambda: reference(redrawn))
    change = "exchanged the two values of jnp.where"
    assert repaired.change == (change if named else "")
