"""Launches inside of vmap, loops, jit, checkpoint and custom_vjp: known tables stay known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from rich.console import Console

from pallascope.kernels import TracedLaunch
from pallascope.kernels.lowering import TracedKernel, for_chip
from pallascope.tools import codec
from pallascope.tpu import OnChip, Prediction, compiler, predict, predictions
from pallascope.tpu.kernel_screen import kernel_block
from tests.pallascope.support.launches import shape

libtpu = pytest.mark.skipif(bool(compiler.unavailable_reason()), reason="libtpu")
Function = Callable[..., Any]

X, TWO = shape("float32", 512, 128), shape("float32", 2, 512, 128)
TABLE = np.array([3, 1, 0, 2], np.int32)
TABLES = np.stack([TABLE, np.zeros(4, np.int32)])
ROWS = pl.BlockSpec((128, 128), lambda i, *_: (i, 0))
BLOCK = 128 * 128 * 4  # bytes


def gathered(table: Any, x: Any) -> jax.Array:
    """Row blocks of x in the order of a table."""

    def kernel(table_ref: Any, x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...]

    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(4,),
        in_specs=[pl.BlockSpec((128, 128), lambda i, table: (table[i], 0))],
        out_specs=ROWS,
    )
    return pl.pallas_call(kernel, grid_spec=spec, out_shape=X)(table, x)


def added(steps: Any, x: Any) -> jax.Array:
    """The first row blocks of x, plus 1."""

    def kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] + 1

    launch = pl.pallas_call(kernel, grid=(steps,), in_specs=[ROWS], out_specs=ROWS, out_shape=x)
    return launch(x)


@jax.custom_vjp
def differentiable(table: Any, x: Any) -> jax.Array:
    return gathered(table, x)


differentiable.defvjp(
    lambda table, x: (gathered(table, x), table), lambda table, dy: (None, gathered(table, dy))
)


def gradient(function: Function) -> Function:
    return lambda table, x: jax.vjp(lambda x: function(table, x), x)[1](x)


def scanned(tables: Any, x: Any) -> Any:
    return lax.scan(lambda carry, table: (gathered(table, carry), None), x, tables)[0]


def reversed_scan(tables: Any, x: Any) -> Any:
    return lax.scan(lambda y, table: (gathered(table, y), None), x, tables, reverse=True)[0]


def indexed(tables: Any, x: Any) -> Any:
    return lax.fori_loop(0, 2, lambda i, carry: gathered(tables[i], carry), x)


def nested(tables: Any, x: Any) -> Any:
    """Two runs for each of two tables, which are rotated once more each time."""

    def inner(i: Any, carry: Any) -> Any:
        table, y = carry
        return jnp.roll(table, 1), gathered(table + 0 * i, y)

    def outer(y: Any, table: Any) -> Any:
        return lax.fori_loop(0, 2, inner, (table, y))[1], None

    return lax.scan(outer, x, tables)[0]


def kernels(function: Function, *args: Any) -> tuple[TracedKernel, ...]:
    with for_chip("TPU v5 lite", 1):
        return TracedLaunch.of(function, args, {}).kernels(args)


def tables_of(kernel: TracedKernel) -> list[Any]:
    return [None if values[0] is None else values[0].tolist() for values in kernel.turns]


# ---- tables that change ----


@pytest.mark.parametrize(
    "function", [jax.vmap(gathered, (0, None)), scanned, indexed, jax.jit(scanned)]
)
def test_each_run_has_its_own_table(function: Function) -> None:
    (kernel,) = kernels(function, TABLES, X)
    assert kernel.values[0] is None
    assert tables_of(kernel) == TABLES.tolist()


def test_the_order_of_the_runs() -> None:
    (kernel,) = kernels(reversed_scan, TABLES, X)
    assert sorted(tables_of(kernel)) == sorted(TABLES.tolist())
    (kernel,) = kernels(nested, TABLES, X)
    one, other = TABLES.tolist()
    assert tables_of(kernel) == [one, [2, 3, 1, 0], other, other]


def test_a_table_that_a_kernel_computes_stays_unknown() -> None:
    def launch(table: Any, x: Any) -> Any:
        def body(_: Any, carry: Any) -> Any:
            table, y = carry
            y = gathered(table, y)
            return y[0, :4].astype(jnp.int32), y

        return lax.fori_loop(0, 3, body, (table, x))[1]

    (kernel,) = kernels(launch, TABLE, X)
    assert (kernel.values[0], kernel.turns) == (None, ())


def test_a_loop_that_changes_no_table_has_one_set_of_values() -> None:
    (kernel,) = kernels(lambda t, x: scanned(jnp.zeros((3, 1), int) + t, x), TABLE, X)
    assert len(kernel.turns) == 3
    (kernel,) = kernels(lambda t, x: lax.fori_loop(0, 3, lambda _, y: gathered(t, y), x), TABLE, X)
    assert kernel.values[0] is not None
    assert kernel.turns == ()


@libtpu
def test_all_runs_count_and_the_longest_is_shown() -> None:
    (once,) = predictions(gathered, TABLES[0], X)
    (short,) = predictions(gathered, TABLES[1], X)
    (both,) = predictions(scanned, TABLES, X)
    assert both.seconds == pytest.approx((once.seconds or 0) + (short.seconds or 0))
    assert both.bytes == once.bytes + short.bytes
    assert once.bytes - short.bytes == 3 * BLOCK
    assert both.schedule is not None
    assert both.schedule == once.schedule
    assert both.traffic == once.traffic
    assert "the longest run: the loop changes its tables" in text(both)
    assert codec.unpack(OnChip, codec.pack(OnChip(None, (both,)))) == OnChip(None, (both,))


@libtpu
def test_it_is_compiled_once_and_at_most_some_runs_are_simulated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled: list[Any] = []
    usual = predict.compile_process.build

    def counted(*args: Any) -> Any:
        compiled.append(args)
        return usual(*args)

    monkeypatch.setattr(predict.compile_process, "build", counted)
    monkeypatch.setattr(predict, "MOST_TURNS", 2)
    tables = np.repeat(TABLES, 4, axis=0)
    (found,) = predictions(scanned, tables, X)
    (pair,) = predictions(scanned, TABLES, X)
    assert len(compiled) == 2
    assert found.seconds == pytest.approx(4 * (pair.seconds or 0))


@libtpu
def test_a_length_of_a_grid_may_change() -> None:
    (found,) = predictions(jax.vmap(added), np.array([3, 2], np.int32), TWO)
    assert found.runs.times == 2
    assert found.bytes == (3 + 2) * 2 * BLOCK


def test_a_table_that_depends_on_small_arrays_of_floats() -> None:
    def launch(scales: Any, x: Any) -> Any:
        def body(y: Any, scale: Any) -> Any:
            return gathered((scale * np.arange(4)).astype(jnp.int32), y), None

        return lax.scan(body, x, scales)[0]

    (kernel,) = kernels(launch, np.array([1, 0.5], np.float32), X)
    assert tables_of(kernel) == [[0, 1, 2, 3], [0, 0, 1, 1]]
    (kernel,) = kernels(launch, shape("float32", 2), X)
    assert kernel.turns == ()


def test_keys_and_callbacks_in_a_loop_do_no_harm() -> None:
    """Their values aren't computed; the table is."""

    def launch(table: Any, x: Any) -> Any:
        def body(carry: Any, row: Any) -> Any:
            key, y = carry
            key, _ = jax.random.split(key)
            noise = jax.pure_callback(lambda: np.float32(0), shape("float32"))
            return (key, gathered(row, y) + noise), None

        return lax.scan(body, (jax.random.key(0), x), table)[0][1]

    (kernel,) = kernels(launch, TABLES, X)
    assert tables_of(kernel) == TABLES.tolist()


def test_a_loop_without_iterations_has_no_kernel() -> None:
    assert kernels(scanned, TABLES[:0], X) == ()


# ---- tables that don't change ----


@libtpu
@pytest.mark.parametrize(
    "function",
    [
        jax.jit(gathered),
        jax.checkpoint(gathered),
        jax.named_call(gathered, name="named"),
        gradient(differentiable),
        gradient(jax.checkpoint(lambda table, x: jnp.sin(differentiable(table, x)))),
        lambda table, x: jax.vmap(gathered, (None, 0))(table, jnp.stack([x, x])),
        lambda table, x: lax.cond(x[0, 0] > 0, gathered, lambda _, x: x, table, x),
    ],
)
def test_a_table_stays_known(function: Function) -> None:
    found = predictions(function, TABLE, X)
    assert found
    assert all(kernel.seconds for kernel in found), [kernel.unknown for kernel in found]


@pytest.mark.parametrize("carried", [False, True])
def test_a_while_loop_that_keeps_a_table(carried: bool) -> None:
    def launch(table: Any, x: Any) -> Any:
        def body(carry: Any) -> Any:
            kept, y = carry
            return kept, gathered(kept if carried else table, y)

        return lax.while_loop(lambda carry: carry[1][0, 0] < 9, body, (table, x))[1]

    (kernel,) = kernels(launch, TABLE, X)
    assert kernel.runs.untold
    assert kernel.values[0] is not None
    assert kernel.values[0].tolist() == TABLE.tolist()


def test_a_while_loop_that_changes_a_table() -> None:
    def launch(table: Any, x: Any) -> Any:
        def body(carry: Any) -> Any:
            return carry[0][::-1], gathered(*carry)

        return lax.while_loop(lambda carry: carry[1][0, 0] < 9, body, (table, x))[1]

    (kernel,) = kernels(launch, TABLE, X)
    assert kernel.values[0] is None


def test_a_kernel_in_the_condition_of_a_while_loop() -> None:
    def launch(table: Any, x: Any) -> Any:
        def goes_on(carry: Any) -> Any:
            return gathered(carry[0], carry[1])[0, 0] < 9

        return lax.while_loop(goes_on, lambda carry: (carry[0], carry[1] + 1), (table, x))[1]

    (kernel,) = kernels(launch, TABLE, X)
    assert kernel.values[0] is not None


# ---- grids without steps ----


@libtpu
@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ((0,), "its grid (0,) is empty, so nothing runs: axis 0 has 0 steps"),
        ((4, 0), "its grid (4, 0) is empty, so nothing runs: axis 1 has 0 steps"),
        ((0, 2, 0), "its grid (0, 2, 0) is empty, so nothing runs: axes 0 and 2 have 0 steps"),
    ],
)
def test_an_empty_grid_is_named(grid: tuple[int, ...], message: str) -> None:
    def launch(x: Any) -> Any:
        def kernel(x_ref: Any, o_ref: Any) -> None:
            o_ref[...] = x_ref[...]

        spec = pl.BlockSpec((128, 128), lambda i, *_: (i, 0))
        return pl.pallas_call(kernel, grid=grid, in_specs=[spec], out_specs=spec, out_shape=x)(x)

    (found,) = predictions(launch, X)
    assert (found.unknown, found.seconds) == (message, None)
    (found,) = predictions(launch, shape("float32", 0, 128))
    assert found.unknown == message


def text(kernel: Prediction) -> str:
    console = Console(width=100, color_system=None)
    with console.capture() as capture:
        console.print(kernel_block(kernel))
    return " ".join(capture.get().split())
