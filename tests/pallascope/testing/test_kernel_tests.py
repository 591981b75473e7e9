"""`Pallas`: faults in kernels of nobody's course, right kernels, and the caller's process."""

from __future__ import annotations

import dataclasses
import functools
import os
import signal
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from pallascope import KernelFault, KernelNotJudged, Pallas
from pallascope.testing import kernel_tests
from pallascope.tpu import libtpu

SHAPE = (32, 128)
ROWS = 8
compiled = pytest.mark.skipif(bool(libtpu.unavailable_reason()), reason="needs libtpu")


@pytest.fixture
def pallas() -> Pallas:
    return Pallas(seed=1)


def like(x: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def rows(x: Any) -> pl.BlockSpec:
    return pl.BlockSpec((ROWS, x.shape[1]), lambda i: (i, 0))


def scaled(x: Any, *, by: float = 2.0, write: bool = True) -> Any:
    """x * by; without `write`, the last block is never written."""

    def kernel(x_ref: Any, o_ref: Any) -> None:
        @pl.when(write | (pl.program_id(0) < pl.num_programs(0) - 1))
        def _() -> None:
            o_ref[...] = x_ref[...] * by

    grid = (x.shape[0] // ROWS,)
    return pl.pallas_call(
        kernel, grid=grid, in_specs=[rows(x)], out_specs=rows(x), out_shape=like(x)
    )(x)


def summed(x: Any, *, semantics: Any = "arbitrary", clear: bool = True) -> Any:
    """float32[8, n]: the sum of all blocks of eight rows."""

    def kernel(x_ref: Any, o_ref: Any) -> None:
        @pl.when((pl.program_id(0) == 0) & clear)
        def _() -> None:
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += x_ref[...]

    return pl.pallas_call(
        kernel,
        grid=(x.shape[0] // ROWS,),
        in_specs=[rows(x)],
        out_specs=pl.BlockSpec((ROWS, x.shape[1]), lambda i: (0, 0)),
        out_shape=jax.ShapeDtypeStruct((ROWS, x.shape[1]), x.dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=(semantics,)),
    )(x)


def sum_of_blocks(x: Any) -> Any:
    return x.reshape(-1, ROWS, x.shape[1]).sum(axis=0)


def copied(x: Any, *, wait: str = "before") -> Any:
    """x * 2 through a copy by hand, which is awaited "before" or "after" its use, or "never"."""

    def kernel(x_hbm: Any, o_ref: Any, buffer: Any, sem: Any) -> None:
        copy = pltpu.make_async_copy(x_hbm, buffer, sem)
        copy.start()
        if wait == "before":
            copy.wait()
        o_ref[...] = buffer[...] * 2
        if wait == "after":
            copy.wait()

    return pl.pallas_call(
        kernel,
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        out_shape=like(x),
        scratch_shapes=[pltpu.VMEM(x.shape, x.dtype), pltpu.SemaphoreType.DMA],
    )(x)


def waiting(x: Any) -> Any:
    """Waits for a signal that nobody gives."""

    def kernel(x_ref: Any, o_ref: Any, sem: Any) -> None:
        pl.semaphore_wait(sem, 1)
        o_ref[...] = x_ref[...]

    return pl.pallas_call(kernel, out_shape=like(x), scratch_shapes=[pltpu.SemaphoreType.REGULAR])(
        x
    )


def aligned(x: Any, start: Any) -> Any:
    """Eight rows from `start`, of which it promises that it is a multiple of 8."""

    def kernel(start_ref: Any, x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[pl.ds(pl.multiple_of(start_ref[0], ROWS), ROWS), :]

    return pl.pallas_call(
        kernel,
        in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec(memory_space=pltpu.VMEM)],
        out_shape=jax.ShapeDtypeStruct((ROWS, x.shape[1]), x.dtype),
    )(start, x)


def fault(call: Callable[[], Any]) -> KernelFault:
    with pytest.raises(KernelFault) as caught:
        call()
    return caught.value


# ---- check ----


def test_a_right_function_returns_its_results(pallas: Pallas) -> None:
    x = pallas.normal(SHAPE)
    result = pallas.check(scaled, x, expected=lambda x: 2 * x)
    assert np.array_equal(result, 2 * np.asarray(x))


def test_results_and_arguments_are_trees(pallas: Pallas) -> None:
    """A custom class among the arguments and around the results, and a static argument."""

    @jax.tree_util.register_dataclass
    @dataclasses.dataclass
    class Pair:
        left: Any
        right: Any

    @jax.jit
    def both(pair: Pair, by: Any = None) -> dict[str, Any]:
        assert by is None
        return {"sum": Pair(scaled(pair.left), scaled(pair.right, by=3.0))}

    pair = Pair(pallas.normal(SHAPE), pallas.normal(SHAPE, "bfloat16"))
    expected = {"sum": Pair(2 * pair.left, 3 * pair.right)}
    found = pallas.check(both, pair, None, expected=expected)
    assert isinstance(found["sum"], Pair)


def test_wrong_values_name_the_cause_and_the_call(pallas: Pallas) -> None:
    x = pallas.normal(SHAPE, "bfloat16")
    told = str(fault(lambda: pallas.check(scaled, x, expected=lambda x: 3 * x)))
    assert told.startswith("values: ")
    assert "rounding explains at most" in told
    assert told.endswith("case   scaled bfloat16[32,128] on 2 cores")


def test_unwritten_memory(pallas: Pallas) -> None:
    """With and without a reference."""
    x, call = pallas.normal(SHAPE), functools.partial(summed, clear=False)
    for how in ({"expected": sum_of_blocks}, {}):
        told = str(fault(functools.partial(pallas.check, call, x, **how)))
        assert "o_ref read before it was written" in told or "o_ref used before" in told


def test_a_block_that_is_never_written(pallas: Pallas) -> None:
    check = functools.partial(pallas.check, scaled, pallas.normal(SHAPE), write=False)
    assert "o_ref" in str(fault(lambda: check(expected=lambda x: 2 * x)))


def test_a_race_has_a_name_to_ignore(pallas: Pallas, capsys: pytest.CaptureFixture[str]) -> None:
    x = pallas.normal(SHAPE)
    racing = functools.partial(summed, semantics="parallel")
    assert "race" in str(fault(lambda: pallas.check(racing, x)))
    assert "RACE" not in capsys.readouterr().out
    pallas.check(scaled, x, ignore=("races", "copies", "semaphores", "devices", "promises"))


def test_a_copy_is_read_too_early_or_never_awaited(pallas: Pallas) -> None:
    x = pallas.normal(SHAPE)
    pallas.check(copied, x, expected=lambda x: 2 * x)
    for wait in ("after", "never"):
        told = str(fault(functools.partial(pallas.check, copied, x, wait=wait)))
        assert "buffer is read" in told
        assert f"{os.path.relpath(__file__)}:" in told


def test_a_false_promise(pallas: Pallas) -> None:
    x = pallas.normal(SHAPE)
    right, wrong = jnp.array([8], jnp.int32), jnp.array([4], jnp.int32)
    pallas.check(aligned, x, right, expected=lambda x, start: x[8:16])
    assert "multiple_of" in str(fault(lambda: pallas.check(aligned, x, wrong)))
    pallas.check(aligned, x, wrong, ignore=("promises",))


def test_reads_out_of_bounds_can_be_ignored(pallas: Pallas) -> None:
    """Their values are unwritten memory: a kernel that uses them is still wrong."""

    def next_rows(x: Any, used: bool = False) -> Any:
        def kernel(x_ref: Any, o_ref: Any) -> None:
            row = pl.program_id(0)
            following = x_ref[pl.ds(row + 1, 1)]
            o_ref[...] = following if used else jnp.where(row + 1 < len(x), following, 0)

        out = pl.BlockSpec((1, *x.shape[1:]), lambda i: (i, 0))
        whole = pl.BlockSpec(x.shape, lambda i: (0, 0))
        spec = {"grid": (len(x),), "in_specs": [whole], "out_specs": out}
        return pl.pallas_call(kernel, **spec, out_shape=like(x))(x)

    def expected(x: Any, used: bool = False) -> Any:
        return jnp.pad(x[1:], ((0, 1), (0, 0)))

    x = pallas.normal(SHAPE)
    check = functools.partial(pallas.check, next_rows, x, expected=expected)
    assert "reads out of bounds" in str(fault(check))
    check(ignore=("bounds",))
    assert "values" in str(fault(lambda: check(used=True, ignore=("bounds",))))


def test_tolerances_are_numpys(pallas: Pallas) -> None:
    x = jnp.abs(pallas.normal(SHAPE)) + 1
    check = functools.partial(pallas.check, scaled, x, expected=lambda x: 2.01 * x)
    told = str(fault(lambda: check(rtol=1e-3)))
    assert "rtol and atol allow at most" in " ".join(told.split())
    check(rtol=1e-2)
    check(atol=1.0)


def test_a_reference_that_is_no_jax_function(pallas: Pallas) -> None:
    x = pallas.normal(SHAPE)
    pallas.check(scaled, x, expected=lambda x: np.asarray(x) * np.float32(2))
    pallas.check(scaled, x, expected=2 * np.asarray(x))


def test_a_reference_of_another_shape_is_a_wrong_argument(pallas: Pallas) -> None:
    x = pallas.normal(SHAPE)
    with pytest.raises(ValueError, match="other shapes"):
        pallas.check(scaled, x, expected=lambda x: x[:8])


def test_the_kernel_at_fault_is_named(pallas: Pallas) -> None:
    """Of two kernels, the first one's result is wrong, and the message is about its blocks."""

    def two(x: Any) -> Any:
        return scaled(x, by=5.0), summed(x)

    x = pallas.normal(SHAPE)
    told = str(fault(lambda: pallas.check(two, x, expected=lambda x: (2 * x, sum_of_blocks(x)))))
    assert "in blocks of 8×128" in told


def test_a_function_without_a_kernel(pallas: Pallas) -> None:
    told = fault(lambda: pallas.check(lambda x: x + 1, pallas.normal(SHAPE)))
    assert told.check == "pallas_used"
    assert "launches no kernel" in str(told)


def test_a_function_that_raises_keeps_its_exception(pallas: Pallas) -> None:
    def raising(x: Any) -> Any:
        raise TypeError("no such thing")

    told = fault(lambda: pallas.check(raising, pallas.normal(SHAPE)))
    assert "TypeError: no such thing" in str(told)
    assert f"line   {os.path.relpath(__file__)}:" in str(told)
    assert isinstance(told.__cause__, TypeError)


def test_a_kernel_that_hangs_is_stopped_and_the_next_one_runs(pallas: Pallas) -> None:
    impatient = Pallas(seconds=3)
    told = str(fault(lambda: impatient.check(waiting, impatient.normal(SHAPE))))
    assert "hasn't ended after 3 s" in told
    pallas.check(scaled, pallas.normal(SHAPE))


def test_a_process_that_dies_is_no_fault_of_the_kernel(
    pallas: Pallas, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = pallas.normal(SHAPE)
    pallas.check(scaled, x)
    process = kernel_tests._process(os.getpid(), "runs")
    assert process._child
    os.kill(process._child.pid, signal.SIGKILL)
    with pytest.raises(KernelNotJudged, match="SIGKILL"):
        pallas.check(scaled, x)
    pallas.check(scaled, x)


def test_an_operation_that_the_interpreter_lacks_is_no_fault(pallas: Pallas) -> None:
    def kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = jax.pure_callback(lambda x: x, like(x_ref), x_ref[...])

    def calling(x: Any) -> Any:
        return pl.pallas_call(kernel, out_shape=like(x))(x)

    with pytest.raises(KernelNotJudged):
        pallas.check(calling, pallas.normal(SHAPE))


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"interpreter": "fast"}, "no interpreter 'fast'"),
        ({"ignore": ("race",)}, "can't be 'race'"),
        ({"ignore": "races"}, "several names"),
        ({"chip": "v9"}, "v9"),
        ({"mesh": {"x": 99}}, "99 devices"),
        ({"cores": 1}, r"cores=\(1,\)"),
    ],
)
def test_wrong_arguments(pallas: Pallas, how: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        pallas.check(scaled, pallas.normal(SHAPE), **how)


def test_arguments_that_no_run_takes(pallas: Pallas) -> None:
    for expected in (None, lambda x: 2 * x):
        with pytest.raises(ValueError, match="x has no contents"):
            pallas.check(scaled, jax.ShapeDtypeStruct(SHAPE, jnp.float32), expected=expected)
    with pytest.raises(ValueError, match="random key"):
        pallas.check(lambda key: key, jax.random.key(0))


def test_a_compiled_run_needs_a_tpu(pallas: Pallas) -> None:
    with pytest.raises(KernelNotJudged, match="no TPU"):
        pallas.check(scaled, pallas.normal(SHAPE), interpreter="compiled")


def test_the_callers_process_is_left_alone(pallas: Pallas) -> None:
    """After a check, jax's own interpreter computes as before, and jax has the same devices."""
    x = pallas.normal(SHAPE)
    flags, devices = os.environ.get("XLA_FLAGS"), jax.devices()

    def doubled() -> Any:
        kernel = lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...] * 2)  # noqa: E731
        return pl.pallas_call(kernel, out_shape=like(x), interpret=pltpu.InterpretParams())(x)

    before = np.asarray(doubled())
    pallas.check(scaled, x)
    assert "race" in str(fault(lambda: pallas.check(summed, x, semantics="parallel")))
    assert np.array_equal(doubled(), before)
    assert (os.environ.get("XLA_FLAGS"), jax.devices()) == (flags, devices)


def test_a_library_that_asks_for_the_device_gets_the_chip(pallas: Pallas) -> None:
    asked: list[tuple[str, str]] = []

    def asking(x: Any) -> Any:
        asked.append((jax.default_backend(), jax.devices()[0].device_kind))
        return scaled(x)

    pallas.check(asking, pallas.normal(SHAPE), chip="v6e")
    assert set(asked) == {("tpu", "TPU v6 lite")}


def test_what_a_kernel_prints_is_shown(pallas: Pallas, capsys: pytest.CaptureFixture[str]) -> None:
    def kernel(x_ref: Any, o_ref: Any) -> None:
        pl.debug_print("first: {}", x_ref[0, 0])
        o_ref[...] = x_ref[...]

    ones = jnp.ones(SHAPE)
    pallas.check(lambda x: pl.pallas_call(kernel, out_shape=like(x))(x), ones)
    assert "first: 1.0" in capsys.readouterr().out


# ---- several devices ----


def shifted(x: Any, *, wait: bool = True) -> Any:
    """Each device's rows from its left neighbour."""
    mesh = jax.sharding.get_abstract_mesh()

    def kernel(x_ref: Any, o_ref: Any, send_sem: Any, receive_sem: Any) -> None:
        right = jax.lax.rem(jax.lax.axis_index("x") + 1, mesh.shape["x"])
        copy = pltpu.make_async_remote_copy(
            x_ref, o_ref, send_sem, receive_sem, device_id=(right,),
            device_id_type=pl.DeviceIdType.MESH,
        )  # fmt: skip
        copy.start()
        if wait:
            copy.wait()
        else:
            copy.wait_send()

    def each(x: Any) -> Any:
        whole = pl.BlockSpec(memory_space=pl.ANY)
        return pl.pallas_call(
            kernel, in_specs=[whole], out_specs=whole, out_shape=like(x),
            scratch_shapes=[pltpu.SemaphoreType.DMA] * 2,
        )(x)  # fmt: skip

    spec = jax.sharding.PartitionSpec("x", None)
    return jax.shard_map(each, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)(x)


def test_a_mesh_of_devices(pallas: Pallas) -> None:
    x = pallas.normal((4 * ROWS, 128))
    pallas.check(shifted, x, mesh={"x": 4}, expected=lambda x: jnp.roll(x, ROWS, axis=0))
    told = str(fault(lambda: pallas.check(shifted, x, mesh={"x": 4}, wait=False)))
    assert "device" in told or "semaphore" in told


# ---- gradients, order ----


@jax.custom_vjp
def doubled(x: Any) -> Any:
    return scaled(x)


doubled.defvjp(lambda x: (scaled(x), None), lambda _, g: (scaled(g, by=2.0),))


@jax.custom_vjp
def wrong_gradient(x: Any) -> Any:
    return scaled(x)


wrong_gradient.defvjp(lambda x: (scaled(x), None), lambda _, g: (scaled(g, by=2.5),))


def test_gradients(pallas: Pallas) -> None:
    x = pallas.normal(SHAPE)
    pallas.grad_check(doubled, x, expected=lambda x: 2 * x)
    with_rows = lambda x, rows: doubled(x[:rows])  # noqa: E731
    pallas.grad_check(with_rows, x, rows=32, expected=lambda x: 2 * x)
    assert "values: " in str(
        fault(lambda: pallas.grad_check(wrong_gradient, x, expected=lambda x: 2 * x))
    )
    with pytest.raises(ValueError, match="floating"):
        pallas.grad_check(doubled, jnp.ones(SHAPE, jnp.int32), expected=lambda x: 2 * x)


def test_results_that_depend_on_the_order_of_steps(pallas: Pallas) -> None:
    x = pallas.normal(SHAPE)
    pallas.deterministic(scaled, x)
    told = str(fault(lambda: pallas.deterministic(summed, x, semantics="parallel")))
    assert "order" in told or "race" in told


# ---- the compiler ----

BIG = jax.ShapeDtypeStruct((4096, 1024), jnp.float32)


@compiled
def test_a_cost_has_all_numbers(pallas: Pallas) -> None:
    cost = pallas.cost(scaled, BIG, chip="v6e")
    assert (cost.chip, cost.bytes) == ("v6e", 2 * 4096 * 1024 * 4)
    assert cost.seconds
    assert cost.vmem
    assert list(cost.kernels) == ["kernel"]
    same = pallas.cost(functools.partial(scaled), BIG)
    assert same.fingerprint == cost.fingerprint != pallas.cost(scaled, BIG, by=3.0).fingerprint


@compiled
def test_the_compiler_refuses(pallas: Pallas) -> None:
    pallas.accepted(scaled, BIG)

    def narrow(x: Any) -> Any:
        block = pl.BlockSpec((8, 64), lambda i: (i, 0))
        kernel = lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...])  # noqa: E731
        return pl.pallas_call(
            kernel, grid=(8,), in_specs=[block], out_specs=block, out_shape=like(x)
        )(x)

    told = fault(lambda: pallas.accepted(narrow, BIG))
    assert told.check == "blocks"
    assert str(told).endswith("on a v5e")


def test_without_libtpu_nothing_is_accepted(
    pallas: Pallas, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(libtpu, "unavailable_reason", lambda: "it isn't installed")
    monkeypatch.setattr("pallascope.tpu.compile_process.unavailable_reason", lambda: "no libtpu")
    with pytest.raises(KernelNotJudged, match="it isn't installed"):
        pallas.accepted(scaled, BIG)


@compiled
def test_a_kernel_that_communicates_is_compiled_for_a_mesh(pallas: Pallas) -> None:
    x, mesh = jax.ShapeDtypeStruct((4 * 256, 128), jnp.float32), {"x": 4}
    pallas.accepted(shifted, x, mesh=mesh)
    cost = pallas.cost(shifted, x, mesh=mesh)
    assert cost.seconds is None
    assert "other chips" in cost.unknown


# ---- what older kernels do ----


def maxima(x: Any, *, keep: bool = False) -> Any:
    """Maxima of rows, with an output in the place of scratch; heads may run on two cores."""

    def kernel(x_ref: Any, m_ref: Any, o_ref: Any) -> None:
        @pl.when(pl.program_id(1) == 0)
        def _() -> None:
            m_ref[...] = jnp.full_like(m_ref, -jnp.inf)

        m_ref[...] = jnp.maximum(m_ref[...], x_ref[0])
        o_ref[0] = m_ref[...]

    heads, length, width = x.shape
    block = (1, ROWS, width)
    maximum, result = pl.pallas_call(
        kernel,
        grid=(heads, length // ROWS),
        in_specs=[pl.BlockSpec(block, lambda h, i: (h, i, 0))],
        out_specs=[
            pl.BlockSpec((ROWS, width), lambda h, i: (0, 0)),
            pl.BlockSpec(block, lambda h, i: (h, 0, 0)),
        ],
        out_shape=[
            jax.ShapeDtypeStruct((ROWS, width), x.dtype),
            jax.ShapeDtypeStruct((heads, ROWS, width), x.dtype),
        ],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")),
    )(x)
    return (maximum, result) if keep else result


def test_an_output_that_nothing_uses_is_scratch(pallas: Pallas) -> None:
    x = pallas.normal((4, 32, 128))
    pallas.check(maxima, x, expected=lambda x: x.reshape(4, 4, 8, 128).max(axis=1))
    told = str(fault(lambda: pallas.check(maxima, x, keep=True)))
    assert "race" in told
    assert "of m_ref in HBM" in told


def test_flags_of_the_compiler_and_classes_of_the_caller_are_no_hindrance(pallas: Pallas) -> None:
    """A trace with them is run; only a compiler reads the flags."""

    @jax.tree_util.register_dataclass
    @dataclasses.dataclass
    class Rows:
        values: Any

    def flagged(rows: Rows) -> Rows:
        def kernel(x_ref: Any, o_ref: Any) -> None:
            o_ref[...] = x_ref[...] * 2

        x = rows.values
        params = pltpu.CompilerParams(flags={"XLA_TPU_SOMETHING": True})
        inner = jax.jit(lambda rows: Rows(pl.pallas_call(
            kernel, out_shape=like(x), compiler_params=params)(rows.values)))  # fmt: skip
        return inner(rows)

    rows = Rows(pallas.normal(SHAPE))
    result = pallas.check(flagged, rows, expected=lambda rows: 2 * rows.values)
    assert isinstance(result, Rows)


def copied_view(x: Any, *, shape: tuple[int, ...]) -> Any:
    """Number 1 along the first dimension of x, seen in another shape."""

    def kernel(x_hbm: Any, o_ref: Any, sem: Any) -> None:
        copy = pltpu.make_async_copy(x_hbm.reshape(shape).at[1], o_ref, sem)
        copy.start()
        copy.wait()

    return pl.pallas_call(
        kernel,
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        out_shape=jax.ShapeDtypeStruct(shape[1:], x.dtype),
        scratch_shapes=[pltpu.SemaphoreType.DMA],
    )(x)


def test_a_copy_through_a_view(pallas: Pallas) -> None:
    """Of a block of rows; half of the elements in a row is no part that the interpreter copies."""
    x = pallas.normal(SHAPE)
    pallas.check(copied_view, x, shape=(4, 8, 128), expected=lambda x: x[8:16])
    with pytest.raises(KernelNotJudged, match="this view of a Ref"):
        pallas.check(copied_view, x, shape=(2, 16 * 128))


def test_a_loop_on_one_core_is_run_without_looking_for_races(pallas: Pallas) -> None:
    """Nothing in it can happen at the same time; in a parallel grid, it can."""

    def loop(x: Any) -> Any:
        def kernel(x_ref: Any, o_ref: Any) -> None:
            def step(n: Any, _: None) -> None:
                o_ref[pl.ds(n, 1)] = 2 * x_ref[pl.ds(n, 1)]

            jax.lax.fori_loop(0, SHAPE[0], step, None)

        return pl.pallas_call(kernel, out_shape=like(x))(x)

    x = pallas.normal(SHAPE)
    pallas.check(loop, x, expected=lambda x: 2 * x)
    assert not pallas._case(loop, (x,), {}, "", ()).may_race
    assert not pallas._case(scaled, (x,), {}, "", ()).may_race
    for racing, kwargs in ((summed, {"semantics": "parallel"}), (copied, {})):
        assert pallas._case(racing, (x,), kwargs, "", ()).may_race
