"""Kernels that were traced for a TPU run in the strict interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from pallascope.kernels import TracedLaunch, for_chip
from pallascope.model import Mode
from pallascope.tools.arrays import to_numpy
from tests.pallascope.support import core_map_kernels as launches

Values = np.ndarray[Any, Any]

X = np.arange(256 * 128, dtype=np.float32).reshape(256, 128)
MATRIX = np.random.default_rng(1).standard_normal((256, 256)).astype(np.float32)


@pytest.fixture(autouse=True, scope="module")
def cpu() -> None:
    jax.config.update("jax_platforms", "cpu")


def run(function: Callable[..., Any], *args: Any, mode: Mode = Mode.STRICT) -> Values:
    """Traced outside of any interpreter, carried, and run in one."""
    with for_chip("TPU v5 lite", 1):
        launch = TracedLaunch.carried(TracedLaunch.of(function, args, {}).dumped())
        (out,) = launch.run(args, mode, 1)
        return out


@pytest.mark.parametrize(
    "launch",
    [
        launches.add_by_copies,
        launches.add_with_scratch,
        launches.add_by_pipeline,
        launches.add_on_two_cores,
        launches.add_in_core_map,
        launches.add_in_run_state,
    ],
)
def test_every_form_of_a_kernel_over_a_mesh(launch: Callable[..., Any]) -> None:
    np.testing.assert_array_equal(run(launch, X), X + 10)


def test_a_pipeline_with_an_accumulator() -> None:
    found = run(launches.matmul_by_pipeline, MATRIX, MATRIX)
    np.testing.assert_allclose(found, MATRIX @ MATRIX, rtol=1e-4, atol=1e-3)


def test_what_is_never_written_is_nan() -> None:
    def launch(x: Any) -> Any:
        def kernel(x_ref: Any, o_ref: Any) -> None:
            pltpu.sync_copy(x_ref.at[:128], o_ref.at[:128])

        return launches.launched(kernel, x)(x)

    found = run(launch, X)
    np.testing.assert_array_equal(found[:128], X[:128])
    assert np.isnan(found[128:]).all()


def doubled(x: Any, **options: Any) -> Any:
    def kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] * 2

    rows = pl.BlockSpec((64, 128), lambda i: (i, 0))
    grid = (x.shape[0] // 64,)
    call = pl.pallas_call(
        kernel, grid=grid, in_specs=[rows], out_specs=rows, out_shape=x, **options
    )
    return call(x)


def test_kernels_in_loops_branches_and_calls() -> None:
    def launch(x: Any) -> Any:
        x = jax.lax.fori_loop(0, 2, lambda _, x: doubled(x), x)
        x = jax.lax.cond(x[0, 1] > 3, doubled, lambda x: x, x)
        x, _ = jax.lax.while_loop(
            lambda at: at[1] < 2, lambda at: (doubled(at[0]), at[1] + 1), (x, jnp.int32(0))
        )
        return jax.checkpoint(jax.jit(doubled))(x)

    np.testing.assert_array_equal(run(launch, X), X * 2**6)


def test_what_the_launch_says_of_the_mode_is_overruled() -> None:
    """Plain interpretation would forgive this: it fills unwritten memory, but lets reads pass."""

    def launch(x: Any) -> Any:
        rows = pl.BlockSpec((64, 128), lambda i: (i + 1, 0))
        call = pl.pallas_call(
            lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...]),
            grid=(4,),
            in_specs=[rows],
            out_specs=pl.BlockSpec((64, 128), lambda i: (i, 0)),
            out_shape=x,
            interpret=True,
        )
        return call(x)

    with pytest.raises(Exception, match=r"[Oo]ut.of.bounds"):
        run(launch, X)
    assert run(launch, X, mode=Mode.INTERPRET).shape == X.shape


def adding_to(start: Callable[[], Any]) -> Callable[..., Any]:
    """A launch that adds x to an array, whose place its result takes."""

    def kernel(x_ref: Any, start_ref: Any, o_ref: Any) -> None:
        pl.delay(1)
        pltpu.touch(x_ref)
        pltpu.trace_value("x", jnp.int32(1))
        o_ref[...] = start_ref[...] + x_ref[...]

    def launch(x: Any) -> Any:
        out = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return pl.pallas_call(kernel, out_shape=out, input_output_aliases={1: 0})(x, start())

    return launch


@pytest.mark.parametrize(
    ("start", "written"),
    [
        (lambda: jnp.zeros(X.shape, jnp.float32), True),
        (lambda: jax.lax.empty(X.shape, jnp.float32), False),
        (lambda: jax.jit(lambda: jax.lax.empty(X.shape, jnp.float32))(), False),
        (lambda: jax.empty_ref(jax.ShapeDtypeStruct(X.shape, jnp.float32))[...], False),
    ],
)
def test_an_empty_array_holds_nan(start: Callable[[], Any], written: bool) -> None:
    """XLA on the CPU would give zeros; a TPU, whatever was in memory."""
    launch = TracedLaunch.of(adding_to(start), [X], {})
    (result,) = launch.run([X], Mode.STRICT)
    assert np.array_equal(result, X) if written else np.isnan(result).all()
    (result,) = launch.run([X], Mode.STRICT, 0, "zero")
    assert np.array_equal(result, X)
    (sample,) = launch.block_sample([X], seed=1).results
    assert bool(np.isnan(to_numpy(sample.values)).any()) is not written


@pytest.mark.parametrize("unroll", [1, 2])
def test_a_loop_over_a_ref_is_run_step_by_step(
    monkeypatch: pytest.MonkeyPatch, unroll: int
) -> None:
    """JAX 0.12 calls the bodies of such loops by a primitive of their own."""

    def kernel(x_ref: Any, o_ref: Any) -> None:
        def turn(row: Any, total: Any) -> Any:
            total += x_ref[row]
            o_ref[row] = total
            return total

        jax.lax.fori_loop(0, 8, turn, jnp.zeros(128, jnp.float32), unroll=unroll)

    spec = pl.BlockSpec((8, 128), lambda i: (i, 0))
    out = jax.ShapeDtypeStruct(X.shape, X.dtype)
    launch = pl.pallas_call(kernel, grid=(32,), in_specs=[spec], out_specs=spec, out_shape=out)
    monkeypatch.setattr(TracedLaunch, "run", None)  # of the launch as a whole
    with for_chip("TPU v5 lite", 1):
        (sample,) = TracedLaunch.of(launch, [X], {}).block_sample([X], 1).results
    expected = X.reshape(32, 8, 128).cumsum(axis=1).reshape(-1)
    np.testing.assert_array_equal(to_numpy(sample.values), expected[to_numpy(sample.at)])
