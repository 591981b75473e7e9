"""Any function with a pallas_call in, predictions out: chips, names, values, what is missing."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from rich.console import Console

from pallascope.kernels import NotLowered
from pallascope.model import RunCount
from pallascope.tools import codec
from pallascope.tpu import (
    OnChip,
    Prediction,
    compile_process,
    compiler,
    predict,
    predictions,
)
from pallascope.tpu.bottlenecks import bottlenecks
from pallascope.tpu.chips import CHIPS
from pallascope.tpu.compiler import Build
from pallascope.tpu.kernel_screen import kernel_block
from pallascope.tpu.libtpu_errors import LibtpuRefusalKind
from pallascope.tpu.sweep import SweepRow, table
from pallascope.tpu.vmem import Use
from tests.pallascope.support import core_map_kernels as launches
from tests.pallascope.support.launches import shape

libtpu = pytest.mark.skipif(bool(compiler.unavailable_reason()), reason="libtpu")


def added(x: jax.Array, *, block: int = 128) -> jax.Array:
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1

    rows = pl.BlockSpec((block, 128), lambda i: (i, 0))
    return pl.pallas_call(
        kernel,
        grid=(x.shape[0] // block,),
        in_specs=[rows],
        out_specs=rows,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
    )(x)


X = shape("float32", 512, 128)
BYTES = 512 * 128 * 4


@libtpu
def test_the_whole_way() -> None:
    (found,) = predictions(added, X, block=64)
    assert (found.chip, found.call.name, found.call.grid) == ("v5e", "kernel", (8,))
    assert found.compiled
    assert not found.unknown
    assert found.schedule is not None
    assert found.schedule.bytes == found.traffic.bytes == found.bytes == 2 * BYTES
    assert [(m.operand, m.inward) for m in found.schedule.moved] == [
        ("x_ref", True),
        ("o_ref", False),
    ]
    assert found.vmem is not None
    assert found.vmem.used == found.traffic.vmem == 4 * 64 * 128 * 4
    assert found.seconds == pytest.approx(found.schedule.cycles / 1.5e9)
    assert codec.unpack(OnChip, codec.pack(OnChip(None, (found,)))) == OnChip(None, (found,))


@libtpu
def test_chips_differ_and_launches_hold_several_kernels() -> None:
    v5e, v6e = (predictions(lambda x: added(added(x)), X, chip=chip) for chip in ("v5e", "v6e"))
    assert [p.chip for p in (*v5e, *v6e)] == ["v5e", "v5e", "v6e", "v6e"]
    both = OnChip(None, (*v5e, *v6e))
    assert both.on("v6e") == v6e
    assert v5e[0].seconds != v6e[0].seconds


@libtpu
def test_events_are_kept_where_asked_for() -> None:
    (without,) = predictions(added, X)
    (found,) = predictions(added, X, events=100)
    assert without.schedule is not None
    assert found.schedule is not None
    assert not without.schedule.transfers
    assert len(found.schedule.transfers) == 8
    assert found.schedule.cycles == without.schedule.cycles


def test_an_unknown_chip_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="v5e"):
        predictions(added, X, chip="v1")


def test_what_mosaic_refuses_is_raised() -> None:
    def sorting(x: jax.Array) -> jax.Array:
        def kernel(x_ref, o_ref):
            o_ref[...] = jnp.sort(x_ref[...])

        return pl.pallas_call(kernel, out_shape=x)(x)

    with pytest.raises(NotLowered, match="sort"):
        predictions(sorting, X)


def doubled(*refs: Any) -> None:
    inputs, output = refs[:-1], refs[-1]
    output[...] = sum(ref[...] for ref in inputs)


@libtpu
def test_operands_of_one_name_are_told_apart() -> None:
    def three(x: jax.Array) -> jax.Array:
        return pl.pallas_call(doubled, out_shape=x)(x, x, x)

    (found,) = predictions(three, X)
    assert len(set(found.labels)) == len(found.labels) == 4
    assert found.schedule is not None
    assert {m.operand for m in found.schedule.moved} == set(found.labels)


def gathered(table: Any, x: Any) -> jax.Array:
    """Rows of blocks in the order of a table: the index map reads scalar prefetch."""

    def kernel(table_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...]

    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(4,),
        in_specs=[pl.BlockSpec((128, 128), lambda i, table: (table[i], 0))],
        out_specs=pl.BlockSpec((128, 128), lambda i, table: (i, 0)),
    )
    return pl.pallas_call(kernel, grid_spec=spec, out_shape=x)(table, x)


@libtpu
@pytest.mark.parametrize(
    ("table", "reads"), [((0, 1, 2, 3), 4), ((2, 2, 2, 2), 1), ((1, 1, 3, 1), 3)]
)
def test_tables_decide_what_moves(table: tuple[int, ...], reads: int) -> None:
    (found,) = predictions(gathered, np.array(table, np.int32), X)
    assert not found.unknown
    assert found.schedule is not None
    moved = {m.operand: m.size for m in found.schedule.moved}
    assert moved["x_ref"] == reads * 128 * 128 * 4


@libtpu
def test_a_table_of_unknown_contents_gives_no_number() -> None:
    (found,) = predictions(gathered, shape("int32", 4), X)
    assert found.compiled
    assert found.schedule is None
    assert "table_ref" in found.unknown


@libtpu
def test_more_vmem_than_there_is() -> None:
    def large(x: jax.Array) -> jax.Array:
        return added(x, block=8192)

    (found,) = predictions(large, shape("float32", 16384, 128))
    assert found.failure is None
    (found,) = predictions(functools.partial(added, block=16384), shape("float32", 65536, 128))
    assert found.failure is not None
    assert found.failure.wanted > found.failure.limit == 16 << 20
    assert not found.compiled
    assert not OnChip(None, (found,)).not_compiled


def test_without_the_compiler_the_index_maps_still_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: Any) -> Build:
        raise compiler.CompilerUnavailable("no libtpu here")

    monkeypatch.setattr(compile_process, "build", gone)
    (found,) = predictions(added, X)
    assert found.traffic.bytes == found.bytes == 2 * BYTES
    assert (found.compiled, found.schedule, found.seconds) == (False, None, None)
    assert found.unknown == "no libtpu here"
    assert OnChip(None, (found,)).not_compiled == (found,)


def blocks(rows: int, **params: Any) -> Any:
    """Doubles float32[8192, 1024], (rows, 1024) at a time: two buffers of 4 KiB a row each way."""

    def body(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] * 2

    return _launched(body, pl.BlockSpec((rows, 1024), lambda i: (i, 0)), 8192 // rows, (), params)


def kept(rows: int, **params: Any) -> Any:
    """The same by way of scratch that the compiler leaves out."""

    def body(x_ref: Any, o_ref: Any, twice_ref: Any) -> None:
        twice_ref[...] = x_ref[...] * 2
        o_ref[...] = twice_ref[...] + 1

    scratch = (pltpu.VMEM((rows, 1024), jnp.float32),)
    spec = pl.BlockSpec((rows, 1024), lambda i: (i, 0))
    return _launched(body, spec, 8192 // rows, scratch, params)


def copied(rows: int, **params: Any) -> Any:
    """Copies by hand by way of scratch."""

    def body(x_ref: Any, o_ref: Any, buffer: Any) -> None:
        pltpu.sync_copy(x_ref.at[pl.ds(0, rows)], buffer)
        pltpu.sync_copy(buffer, o_ref.at[pl.ds(0, rows)])

    scratch = (pltpu.VMEM((rows, 1024), jnp.float32),)
    return _launched(body, pl.BlockSpec(memory_space=pl.ANY), 1, scratch, params)


def scoped(rows: int, **params: Any) -> Any:
    """The same with a buffer that the body makes, after another one that is gone by then."""

    def body(x_ref: Any, o_ref: Any) -> None:
        def through(buffer: Any) -> None:
            pltpu.sync_copy(x_ref.at[pl.ds(0, rows)], buffer)
            pltpu.sync_copy(buffer, o_ref.at[pl.ds(0, rows)])

        for _ in range(2):
            pl.run_scoped(through, pltpu.VMEM((rows, 1024), jnp.float32))

    return _launched(body, pl.BlockSpec(memory_space=pl.ANY), 1, (), params)


def _launched(body: Any, spec: Any, steps: int, scratch: tuple[Any, ...], params: Any) -> Any:
    return pl.pallas_call(
        body,
        grid=(steps,),
        in_specs=[spec],
        out_specs=spec,
        out_shape=jax.ShapeDtypeStruct((8192, 1024), jnp.float32),
        scratch_shapes=scratch,
        compiler_params=pltpu.CompilerParams(**params),
    )


@pytest.mark.parametrize(
    ("launch", "refused"),
    [
        (blocks(1024), False),  # 16 MiB, as many as a kernel may have
        (blocks(2048), True),
        (blocks(2048, vmem_limit_bytes=40 << 20), False),
        (blocks(8192), True),  # one step: one buffer each
        (kept(1024), False),
        (copied(2048), False),
        (copied(4096 + 8), True),
        (scoped(2048), False),
        (scoped(4096 + 8), True),
        (kept(8192, vmem_limit_bytes=127 << 20), False),
    ],
)
@pytest.mark.parametrize("libtpu_is_here", [False, pytest.param(True, marks=libtpu)])
def test_blocks_and_buffers_alone_are_too_much(
    launch: Any, refused: bool, libtpu_is_here: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the compiler, what it would refuse for its blocks is refused, and nothing else."""

    def gone(*_: Any) -> Build:
        raise compiler.CompilerUnavailable("no libtpu here")

    if not libtpu_is_here:
        monkeypatch.setattr(compile_process, "build", gone)
    (found,) = predictions(launch, shape("float32", 8192, 1024))
    assert (found.failure is not None) is refused
    if found.failure:
        assert found.failure.kind is LibtpuRefusalKind.VMEM
        assert found.failure.wanted > found.failure.limit


def test_a_schedule_that_contradicts_the_index_maps_is_not_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = predict.traffic  # the function, as the module has imported it

    def other(*args: Any) -> Any:
        found = real(*args)
        rows = (dataclasses.replace(found.operands[0], bytes=1), *found.operands[1:])
        return dataclasses.replace(found, operands=rows)

    if compiler.unavailable_reason():
        pytest.skip("libtpu")
    monkeypatch.setattr(predict, "traffic", other)
    (found,) = predictions(added, X)
    assert found.schedule is None
    assert "262,144 bytes of x_ref, its index map asks for 1" in found.unknown


@libtpu
@pytest.mark.parametrize("kind", ["parallel", pltpu.PARALLEL])
@pytest.mark.parametrize(("steps", "part"), [(4, 1 / 2), (3, 2 / 3), (1, 1)])
def test_of_a_grid_that_two_cores_share_the_larger_part_is_timed(
    steps: int, part: float, kind: Any
) -> None:
    wide = shape("float32", 128 * steps, 128)

    def shared(x: jax.Array) -> jax.Array:
        rows = pl.BlockSpec((128, 128), lambda i: (i, 0))
        parallel = pltpu.CompilerParams(dimension_semantics=(kind,))

        def kernel(x_ref, o_ref):
            o_ref[...] = x_ref[...] * 2

        return pl.pallas_call(
            kernel,
            grid=(steps,),
            in_specs=[rows],
            out_specs=rows,
            out_shape=x,
            compiler_params=parallel,
        )(x)

    (two_cores,) = predictions(shared, wide, chip="v5p")
    assert two_cores.schedule is not None
    assert two_cores.sharing == (2 if steps > 1 else 1)
    v5p = CHIPS["v5p"]
    assert two_cores.bandwidth == v5p.bandwidth * (1 if steps > 1 else v5p.alone)
    moved = max(two_cores.schedule.moved, key=lambda one: one.size)
    assert two_cores.schedule.cycles > moved.size / two_cores.bandwidth * v5p.clock
    assert two_cores.bytes == two_cores.traffic.bytes == 2 * steps * 128 * 128 * 4
    assert two_cores.schedule.bytes == pytest.approx(part * two_cores.bytes)
    assert ("2 TensorCores share its grid" in shown(two_cores)) == (steps > 1)
    (one_core,) = predictions(shared, wide)
    assert one_core.sharing == 1


def test_nothing_is_left_uncompiled_where_there_is_nothing() -> None:
    assert OnChip().not_compiled == ()


# ---- kernels over a mesh ----


WIDE = shape("float32", 256, 128)


@libtpu
@pytest.mark.parametrize(
    "launch", [launches.add_by_copies, launches.add_with_scratch, launches.add_by_pipeline]
)
@pytest.mark.parametrize("chip", ["v5e", "v6e"])
def test_a_kernel_over_a_mesh_goes_the_whole_way(launch: Any, chip: str) -> None:
    (found,) = predictions(launch, WIDE, chip=chip)
    assert (found.failure, found.unknown, found.compiled) == (None, "", True)
    assert found.schedule is not None
    size = 256 * 128 * 4
    assert [(m.operand, m.inward, m.size) for m in found.schedule.moved] == [
        ("x_ref", True, size),
        ("o_ref", False, size),
    ]
    assert codec.unpack(OnChip, codec.pack(OnChip(None, (found,)))) == OnChip(None, (found,))


@libtpu
@pytest.mark.parametrize("launch", [launches.add_in_core_map, launches.add_in_run_state])
def test_a_core_map_moves_what_it_closes_over(launch: Any) -> None:
    (found,) = predictions(launch, WIDE)
    assert found.schedule is not None
    assert found.schedule.bytes == found.traffic.bytes == 2 * 256 * 128 * 4


@libtpu
def test_a_pipeline_in_a_kernel_moves_as_a_grid_would() -> None:
    square = shape("float32", 256, 256)
    (found,) = predictions(launches.matmul_by_pipeline, square, square)
    assert found.schedule is not None
    blocks = {m.operand: m.size // (128 * 128 * 4) for m in found.schedule.moved}
    assert blocks == {"x_ref": 8, "y_ref": 8, "o_ref": 4}


@libtpu
def test_copies_are_counted_as_they_are_scheduled() -> None:
    for launch in (launches.add_by_copies, launches.add_with_scratch, launches.add_in_core_map):
        (found,) = predictions(launch, shape("bfloat16", 100, 130))
        assert found.schedule is not None
        scheduled = {(m.operand, m.inward): m.size for m in found.schedule.moved}
        rows = zip(found.traffic.operands, found.labels, strict=True)
        traced = {
            (label, inward): size
            for row, label in rows
            if row.bytes
            for inward, size in ((True, row.bytes - row.written), (False, row.written))
            if size
        }
        assert scheduled == traced


@libtpu
def test_a_copy_within_hbm_has_bytes_and_a_least_time() -> None:
    (found,) = predictions(launches.copy_within_hbm, WIDE)
    assert found.compiled
    assert found.least == "a DMA from HBM to HBM: its speed was never measured"
    assert (found.bytes, found.traffic.unknown) == (2 * 256 * 128 * 4, ())
    assert found.seconds is not None
    assert found.seconds > found.bytes / found.bandwidth


def test_more_cores_than_the_chip_has() -> None:
    (found,) = predictions(launches.add_on_two_cores, WIDE)
    assert found.failure is not None
    assert found.failure.kind is LibtpuRefusalKind.CORES
    assert found.failure.message == "its mesh asks for 2 TensorCores, and a v5e has 1 TensorCore"


@libtpu
def test_two_cores_where_there_are_two() -> None:
    (found,) = predictions(launches.add_on_two_cores, WIDE, chip="v5p")
    assert (found.failure, found.compiled, found.sharing) == (None, True, 2)
    assert found.schedule is not None


@libtpu
def test_of_two_cores_the_slower_one_is_the_time_and_both_move_bytes() -> None:
    """Whichever of them has the larger part."""
    x = jax.ShapeDtypeStruct((1024, 512), np.float32)
    first, second = (
        one
        for most in (0, 1)
        for one in predictions(functools.partial(launches.add_unevenly, most=most), x, chip="v5p")
    )
    for found in (first, second):
        assert found.bytes == 2 * 1024 * 512 * 4
        assert found.schedule is not None
        (other,) = found.beside
        assert found.schedule.bytes == 15 * other.bytes
        assert found.schedule.cycles > 2 * other.cycles
        phrases = {cause.phrase for cause in bottlenecks([found])}
        assert "the cores share the work unevenly" in phrases
    assert first.cycles == pytest.approx(second.cycles, rel=0.02)


def test_sparse_cores_are_not_judged() -> None:
    (found,) = predictions(launches.copy_on_sparse_cores, WIDE, chip="v6e")
    assert (found.compiled, found.failure) == (False, None)
    assert OnChip(None, (found,)).not_compiled == (found,)
    assert found.unknown == "it runs on SparseCores, whose time isn't predicted"


@pytest.mark.parametrize("way", ["copy", "signal", "place"])
def test_what_is_done_with_other_chips_is_the_reason(way: str) -> None:
    """Also within shard_map, which alone makes it right; the rest of a chip's part is no matter."""
    mesh = jax.sharding.AbstractMesh((4,), ("x",))
    logical = pl.DeviceIdType.LOGICAL

    def kernel(x_ref, o_ref, *semaphores):
        if way == "copy":
            ends = (x_ref, o_ref, *semaphores)
            copy = pltpu.make_async_remote_copy(*ends, device_id=1, device_id_type=logical)
            copy.start()
            copy.wait()
        elif way == "signal":
            pl.semaphore_signal(pltpu.get_barrier_semaphore(), device_id=1, device_id_type=logical)
        else:
            o_ref[...] = x_ref[...] + jax.lax.axis_index("x")

    scratch = [pltpu.SemaphoreType.DMA] * 2 if way == "copy" else []

    def launch(x: jax.Array) -> jax.Array:
        params = pltpu.CompilerParams(collective_id=0)
        ours = {"scratch_shapes": scratch, "compiler_params": params}
        return pl.pallas_call(kernel, out_shape=shape("float32", 128, 128), **ours)(x)

    specs = {"in_specs": jax.P("x"), "out_specs": jax.P("x"), "check_vma": False}
    (found,) = predictions(jax.shard_map(launch, mesh=mesh, **specs), X)
    assert found.unknown.startswith("it communicates with other chips")
    assert "no predicted time: it communicates with other chips" in shown(found)


def test_what_mosaic_refuses_within_a_mesh_is_raised() -> None:
    with pytest.raises(NotLowered, match="sort"):
        predictions(launches.sort_and_sum, WIDE)


@libtpu
def test_an_input_in_vmem_is_moved_for_the_kernel() -> None:
    (found,) = predictions(launches.copy_from_or_to_vmem, WIDE, into=False)
    assert found.schedule is not None
    assert found.schedule.bytes == found.traffic.bytes == 2 * 256 * 128 * 4
    assert [row.by_hand for row in found.traffic.operands] == [False, True]


@libtpu
def test_an_output_in_vmem_is_not_for_nothing() -> None:
    """XLA copies it to HBM after the kernel, in no schedule of the kernel's."""
    (found,) = predictions(launches.copy_from_or_to_vmem, WIDE, into=True)
    assert found.schedule is None
    assert found.unknown.startswith("the compiler's schedule moves 0 bytes of o_ref")
    assert found.bytes == 2 * 256 * 128 * 4


@libtpu
def test_buffers_that_a_kernel_makes_for_itself_are_scratch() -> None:
    (found,) = predictions(launches.add_by_pipeline, WIDE)
    assert found.vmem is not None
    assert [(a.use, a.name, a.size) for a in found.vmem.allocations] == [
        (Use.SCRATCH, "run_scoped", 2 * 64 * 128 * 4)
    ] * 2


@libtpu
def test_too_large_a_buffer_is_told_by_where_it_comes_from() -> None:
    (found,) = predictions(launches.scoped_through_vmem, shape("float32", 8192, 1024))
    assert found.failure is not None
    assert (found.failure.kind, found.failure.wanted) == (LibtpuRefusalKind.VMEM, 32 << 20)
    assert [(a.use, a.name) for a in found.failure.allocations] == [(Use.SCRATCH, "run_scoped")]


# ---- around a kernel ----


def looped(x: jax.Array, turns: int = 3) -> jax.Array:
    return jax.lax.fori_loop(0, turns, lambda _, carry: added(carry), x)


@libtpu
def test_a_kernel_in_a_loop_counts_once_for_each_turn() -> None:
    (once,) = predictions(added, X)
    (found,) = predictions(looped, X)
    assert found.runs == RunCount(times=3)
    assert found.schedule == once.schedule
    assert found.seconds == pytest.approx(3 * (once.seconds or 0))
    assert found.bytes == 3 * once.bytes
    told = shown(found)
    assert "4 steps, 3 runs" in told
    assert "a loop around it runs it 3 times; the numbers below are for one run" in told
    (cause, *_) = bottlenecks([found], [once])
    assert cause.phrase == "3 runs of kernel, by a loop around it"
    assert cause.size == 2 * once.bytes


def test_a_loop_whose_turns_nobody_knows_is_told_of() -> None:
    def until(x: jax.Array) -> jax.Array:
        return jax.lax.while_loop(lambda carry: carry[0, 0] < 3, added, x)

    (found,) = predictions(until, X)
    assert found.runs == RunCount(untold=True)
    assert "known only at run time" in shown(found)


def test_a_branch_is_told_of() -> None:
    (found,) = predictions(lambda x: jax.lax.cond(x[0, 0] > 0, added, jnp.sin, x), X)
    assert found.runs == RunCount(conditional=True)
    assert "in a branch of lax.cond" in shown(found)


def test_what_xla_removes_has_no_prediction() -> None:
    def wasteful(x: jax.Array) -> jax.Array:
        added(x * 2)
        return added(x) + added(x)

    assert len(predictions(wasteful, X)) == 1


def shifted(x: jax.Array, *, by: int = 1, element: bool = False) -> jax.Array:
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[: o_ref.shape[0]]

    rows = (pl.Element(136), pl.Element(128)) if element else (128, 128)
    step = 128 if element else 1
    return pl.pallas_call(
        kernel,
        grid=(4,),
        in_specs=[pl.BlockSpec(rows, lambda i: ((i + by) * step, 0))],
        out_specs=pl.BlockSpec((128, 128), lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct((512, 128), x.dtype),
    )(x)


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"by": 1}, "x_ref: on 1 of 4 grid steps, first on (3), its block is not within"),
        ({"by": -1}, "x_ref: on 1 of 4 grid steps, first on (0), its block is not within"),
        (
            {"by": 0, "element": True},
            "the (136, 128) elements from (384, 0) on, and the array is float32[512, 128]",
        ),
    ],
    ids=str,
)
def test_a_block_outside_of_its_array_is_told_of(keywords: dict[str, Any], words: str) -> None:
    (found,) = predictions(shifted, X, **keywords)
    (told,) = found.outside
    assert words in told
    assert "its block is not within the array" in shown(found)
    assert "not within its array" in shown(table([SweepRow({}, (found,))]))


def test_a_block_that_is_cut_off_at_the_edge_is_within() -> None:
    (found,) = predictions(functools.partial(added, block=128), shape("float32", 500, 128))
    assert not found.outside


def shown(what: Any) -> str:
    """A kernel, or a table, as it is drawn; on one line."""
    drawn = kernel_block(what) if isinstance(what, Prediction) else what
    console = Console(width=100, color_system=None)
    with console.capture() as capture:
        console.print(drawn)
    return " ".join(capture.get().split())
