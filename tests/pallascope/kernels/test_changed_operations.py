"""Which operation makes NaN, and which single change of a kernel gives other results."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from pallascope.kernels import TracedLaunch, noting_nonfinite
from pallascope.kernels.changed_operations import MOST_REPAIRS
from pallascope.kernels.cpu_runs import NotTried
from pallascope.kernels.source_lines import Source, line_of
from pallascope.model import Mode

X = np.arange(1, 8 * 512 + 1, dtype=np.float32).reshape(8, 512) / 64
BLOCK = 128


@pytest.fixture(autouse=True, scope="module")
def cpu() -> None:
    jax.config.update("jax_platforms", "cpu")


def launch(kernel: Callable[..., None], grid: tuple[int, ...] = ()) -> TracedLaunch:
    """A launch over X as a whole; or over its blocks of columns, with one output block."""
    block = pl.BlockSpec((8, BLOCK), lambda *steps: (0, steps[0]))
    specs: dict[str, Any] = (
        {"in_specs": [block], "out_specs": pl.BlockSpec((8, BLOCK), lambda *_: (0, 0))}
        if grid
        else {}
    )
    out = jax.ShapeDtypeStruct((8, BLOCK) if grid else X.shape, jnp.float32)
    return TracedLaunch.of(
        lambda x: pl.pallas_call(kernel, out_shape=out, grid=grid, **specs)(x), [X], {}
    )


# ---- NaN ----


def nonfinite_of(
    kernel: Callable[..., None], x: Any = X, infinity: bool = False
) -> list[tuple[str, str]]:
    """The operations that make NaN, or infinity, each with the text of its line."""
    found: set[tuple[str, str]] = set()

    def note(name: str, eqn: Any) -> None:
        line = line_of(eqn.source_info, __file__)
        found.add((name, linecache.getline(__file__, line).strip()))

    with noting_nonfinite(note, infinity):
        launch(kernel).run([x], Mode.STRICT, 0, "zero")
    return sorted(found)


def zero_by_zero(x_ref: Any, o_ref: Any) -> None:
    none = x_ref[...] - x_ref[...]
    o_ref[...] = none / none


def infinite_product(x_ref: Any, o_ref: Any) -> None:
    infinity = jnp.exp(x_ref[...] * 1e3)
    o_ref[...] = infinity * jnp.where(x_ref[...] > 1, 0.0, 1.0) + jnp.log(-x_ref[...])


def no_nan(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = jnp.exp(x_ref[...]) / x_ref[...]


def test_operations_that_make_nan_are_noted_with_their_lines() -> None:
    assert nonfinite_of(zero_by_zero) == [("div", "o_ref[...] = none / none")]
    line = "o_ref[...] = infinity * jnp.where(x_ref[...] > 1, 0.0, 1.0) + jnp.log(-x_ref[...])"
    assert nonfinite_of(infinite_product) == [("log", line), ("mul", line)]
    assert nonfinite_of(no_nan) == []


def test_nan_that_are_passed_on_are_not_noted() -> None:
    x = X.copy()
    x[0, 3] = np.nan
    assert nonfinite_of(no_nan, x) == []
    assert nonfinite_of(zero_by_zero, x) == [("div", "o_ref[...] = none / none")]


def test_operations_that_make_infinity_of_finite_numbers_are_noted() -> None:
    line = "infinity = jnp.exp(x_ref[...] * 1e3)"
    assert nonfinite_of(infinite_product, infinity=True) == [("exp", line)]
    assert nonfinite_of(no_nan, infinity=True) == []


# ---- repairs ----


def sums(x_ref: Any, o_ref: Any) -> None:
    @pl.when(pl.program_id(0) == 0)
    def _() -> None:
        o_ref[...] = jnp.zeros_like(o_ref)

    o_ref[...] += x_ref[...]


def stores(x_ref: Any, o_ref: Any) -> None:
    @pl.when(pl.program_id(0) == 0)
    def _() -> None:
        o_ref[...] = jnp.zeros_like(o_ref)

    o_ref[...] = x_ref[...]


def begins_anew(x_ref: Any, o_ref: Any) -> None:
    @pl.when(pl.program_id(0) >= 0)
    def _() -> None:
        o_ref[...] = jnp.zeros_like(o_ref)

    o_ref[...] += x_ref[...]


def of_the_other_step(x_ref: Any, o_ref: Any) -> None:
    @pl.when(pl.program_id(1) == 0)
    def _() -> None:
        o_ref[...] = jnp.zeros_like(o_ref)

    o_ref[...] += x_ref[...]


def unrolled(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = jnp.zeros_like(o_ref)
    for part in range(3):
        o_ref[...] = part * x_ref[...]


def of_columns(x_ref: Any, o_ref: Any) -> None:
    column = jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 1)
    o_ref[...] = jnp.where(column < 5, x_ref[...], 0.0)


def of_rows(x_ref: Any, o_ref: Any) -> None:
    column = jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 0)
    o_ref[...] = jnp.where(column < 5, x_ref[...], 0.0)


def one_more(x_ref: Any, o_ref: Any) -> None:
    column = jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 1)
    o_ref[...] = jnp.where(column <= 5, x_ref[...], 0.0)


def exchanged(x_ref: Any, o_ref: Any) -> None:
    column = jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 1)
    o_ref[...] = jnp.where(column < 5, 0.0, x_ref[...])


def formula(x_ref: Any, o_ref: Any) -> None:
    largest = jnp.maximum(x_ref[...], 30.0)
    o_ref[...] = jnp.exp(x_ref[...] - largest) * jax.lax.rsqrt(x_ref[...])


def other_way_round(x_ref: Any, o_ref: Any) -> None:
    largest = jnp.maximum(x_ref[...], 30.0)
    o_ref[...] = jnp.exp(largest - x_ref[...]) * jax.lax.rsqrt(x_ref[...])


def smallest(x_ref: Any, o_ref: Any) -> None:
    largest = jnp.minimum(x_ref[...], 30.0)
    o_ref[...] = jnp.exp(x_ref[...] - largest) * jax.lax.rsqrt(x_ref[...])


def root(x_ref: Any, o_ref: Any) -> None:
    largest = jnp.maximum(x_ref[...], 30.0)
    o_ref[...] = jnp.exp(x_ref[...] - largest) * jnp.sqrt(x_ref[...])


def adds_up(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = x_ref[...] * 2.0
    o_ref[...] += jnp.log(x_ref[...])


def only_log(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = x_ref[...] * 2.0
    o_ref[...] = jnp.log(x_ref[...])


def makes(
    wrong: Callable[..., None], right: Callable[..., None], grid: tuple[int, ...]
) -> list[str]:
    """The changes of a wrong kernel that give the results of the right one."""
    wanted = launch(right, grid).run([X], Mode.STRICT)[0]
    own = launch(wrong, grid)
    assert not np.allclose(own.run([X], Mode.STRICT)[0], wanted)
    found = []
    for repair in own.repairs(__file__):
        with repair.made():
            (result,) = own.run([X], Mode.STRICT, races=False)
        if np.allclose(result, wanted, rtol=1e-6):
            line = linecache.getline(__file__, repair.line).strip()
            found.append(f"{line}: {repair.change}")
    return found


@pytest.mark.parametrize(
    ("wrong", "right", "grid", "change"),
    [
        (
            *(stores, sums, (4,)),
            "o_ref[...] = x_ref[...]: added to the Ref (+=) instead of storing to it",
        ),
        (
            *(only_log, adds_up, ()),
            "o_ref[...] = jnp.log(x_ref[...]): added to the Ref (+=) instead of storing to it",
        ),
        (
            *(adds_up, only_log, ()),
            "o_ref[...] += jnp.log(x_ref[...]): stored to the Ref instead of adding to it",
        ),
        (
            *(begins_anew, sums, (4,)),
            "@pl.when(pl.program_id(0) >= 0): had == instead of >=",
        ),
        (
            *(of_the_other_step, sums, (4, 1)),
            "@pl.when(pl.program_id(1) == 0): had pl.program_id(0) instead of pl.program_id(1)",
        ),
        (
            *(of_rows, of_columns, ()),
            "column = jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 0): "
            "counted along dimension 1 instead of 0",
        ),
        (
            *(one_more, of_columns, ()),
            "o_ref[...] = jnp.where(column <= 5, x_ref[...], 0.0): had < instead of <=",
        ),
        (
            *(exchanged, of_columns, ()),
            "o_ref[...] = jnp.where(column < 5, 0.0, x_ref[...]): "
            "exchanged the two values of jnp.where",
        ),
        (
            *(other_way_round, formula, ()),
            "o_ref[...] = jnp.exp(largest - x_ref[...]) * jax.lax.rsqrt(x_ref[...]): "
            "exchanged the two sides of the minus",
        ),
        (
            *(smallest, formula, ()),
            "largest = jnp.minimum(x_ref[...], 30.0): took the maximum instead of the minimum",
        ),
        (
            *(root, formula, ()),
            "o_ref[...] = jnp.exp(x_ref[...] - largest) * jnp.sqrt(x_ref[...]): "
            "had rsqrt instead of sqrt",
        ),
    ],
)
def test_one_change_gives_the_right_results(
    wrong: Callable[..., None], right: Callable[..., None], grid: tuple[int, ...], change: str
) -> None:
    assert change in makes(wrong, right, grid)


@pytest.mark.parametrize(
    ("wrong", "right", "grid"),
    [(root, of_columns, ()), (unrolled, stores, (4,)), (one_more, formula, ())],
)
def test_no_single_change_makes_up_for_another_kernel(
    wrong: Callable[..., None], right: Callable[..., None], grid: tuple[int, ...]
) -> None:
    assert makes(wrong, right, grid) == []


def test_the_stores_of_an_unrolled_loop_change_together() -> None:
    own = launch(unrolled, (4,))
    change, *_ = own.repairs(__file__)
    assert len(change.by) == 3
    with change.made():
        (result,) = own.run([X], Mode.STRICT)
    assert np.allclose(result, 3 * X[:, -BLOCK:])


def waits(x_ref: Any, o_ref: Any) -> None:
    def turn(left: Any) -> Any:
        o_ref[...] = o_ref[...] + x_ref[...]
        return left - 1

    o_ref[...] = x_ref[...]
    jax.lax.while_loop(lambda left: left > 0, turn, jnp.int32(x_ref[0, 0]))


def test_no_condition_changes_in_a_kernel_that_might_wait_for_ever() -> None:
    changes = [repair.change for repair in launch(waits).repairs(__file__)]
    assert changes
    assert not [change for change in changes if "instead of >" in change]


def test_few_changes_are_tried_and_none_of_lines_of_other_files() -> None:
    def many(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...]
        for _ in range(MOST_REPAIRS):
            o_ref[...] = jnp.exp(o_ref[...]) - 1.0

    assert len(launch(many).repairs(__file__)) == MOST_REPAIRS
    assert launch(many).repairs("another.py") == []


# ---- the first of many changes ----


def standardised(x_ref: Any, o_ref: Any) -> None:
    mean = jnp.mean(x_ref[...], axis=1, keepdims=True)
    y = x_ref[...] - mean
    variance = jnp.mean(y * y, axis=1, keepdims=True)
    o_ref[...] = y * jax.lax.rsqrt(variance + 1e-6)


def of_uncentred_rows(x_ref: Any, o_ref: Any) -> None:
    x = x_ref[...]
    mean = jnp.mean(x, axis=1, keepdims=True)
    y = x - mean
    variance = jnp.mean(x * x, axis=1, keepdims=True)
    o_ref[...] = y * jax.lax.rsqrt(variance + 1e-6)


def last_row(x_ref: Any, o_ref: Any) -> None:
    total = jnp.cumsum(x_ref[...], axis=0)
    o_ref[...] = x_ref[...] + total[7:]


def first_row(x_ref: Any, o_ref: Any) -> None:
    total = jnp.cumsum(x_ref[...], axis=0)
    o_ref[...] = x_ref[...] + total[:1]


def triangle(x_ref: Any, o_ref: Any) -> None:
    row, column = (jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, n) for n in range(2))
    o_ref[...] = jnp.where(column <= row, x_ref[...], 0.0)


def other_triangle(x_ref: Any, o_ref: Any) -> None:
    row, column = (jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, n) for n in range(2))
    o_ref[...] = jnp.where(column >= row, x_ref[...], 0.0)


def every_second(x_ref: Any, o_ref: Any) -> None:
    @pl.when(pl.program_id(0) == 0)
    def _() -> None:
        o_ref[...] = jnp.zeros_like(o_ref)

    @pl.when(pl.program_id(0) % 2 == 0)
    def _() -> None:
        o_ref[...] += x_ref[...]


def the_first_two(x_ref: Any, o_ref: Any) -> None:
    @pl.when(pl.program_id(0) == 0)
    def _() -> None:
        o_ref[...] = jnp.zeros_like(o_ref)

    @pl.when(pl.program_id(0) // 2 == 0)
    def _() -> None:
        o_ref[...] += x_ref[...]


def scaled(x_ref: Any, o_ref: Any) -> None:
    @pl.loop(0, 8)
    def _(row: Any) -> None:
        o_ref[row] = x_ref[row]


def scaled_twice(x_ref: Any, o_ref: Any) -> None:
    @pl.loop(0, 8)
    def _(row: Any) -> None:
        o_ref[row] = x_ref[row] * 0.25


def in_halves(x_ref: Any, o_ref: Any, factor: float = 1.0) -> None:
    def halves(slots: Any, sems: Any) -> None:
        def bring(n: int) -> Any:
            rows = x_ref.at[pl.ds(4 * n, 4)]
            return pltpu.make_async_copy(rows, slots.at[n], sems.at[n])

        bring(0).start()
        bring(1).start()
        for n in range(2):
            bring(n).wait()
            o_ref[pl.ds(4 * n, 4)] = slots[n] * factor

    pl.run_scoped(
        halves, pltpu.VMEM((2, 4, x_ref.shape[1]), jnp.float32), pltpu.SemaphoreType.DMA((2,))
    )


def sends_the_wrong_half(x_ref: Any, o_ref: Any) -> None:
    def halves(first: Any, second: Any) -> None:
        pltpu.sync_copy(x_ref.at[pl.ds(0, 4)], first)
        pltpu.sync_copy(x_ref.at[pl.ds(4, 4)], second)
        pltpu.sync_copy(first, o_ref.at[pl.ds(0, 4)])
        pltpu.sync_copy(first, o_ref.at[pl.ds(4, 4)])

    half = pltpu.VMEM((4, x_ref.shape[1]), jnp.float32)
    pl.run_scoped(halves, half, half)


def numbered_from_1(x_ref: Any, o_ref: Any, first: int = 1) -> None:
    step = pl.program_id(0)

    @pl.when(step == 0)
    def _() -> None:
        o_ref[...] = jnp.zeros_like(o_ref)

    weight = (step + first) * 2 if first else step * 2
    o_ref[...] += x_ref[...] * weight.astype(jnp.float32)


def numbered_from_0(x_ref: Any, o_ref: Any) -> None:
    numbered_from_1(x_ref, o_ref, 0)


def weighted(x_ref: Any, o_ref: Any) -> None:
    x = x_ref[...]
    p = jnp.tanh(x / 50)
    q = 1 - p
    o_ref[...] = q * (x - jnp.sum(x * p, axis=1, keepdims=True))


def not_weighted(x_ref: Any, o_ref: Any) -> None:
    x = x_ref[...]
    p = jnp.tanh(x / 50)
    q = 1 - p
    o_ref[...] = q * (x - jnp.sum(x, axis=1, keepdims=True)) + 0 * p


def less_one(x_ref: Any, o_ref: Any) -> None:
    x = x_ref[...]
    p = jnp.tanh(x / 50)
    q = p - 1
    o_ref[...] = q * (x - jnp.sum(x * p, axis=1, keepdims=True))


def summed(x_ref: Any, o_ref: Any, reverse: bool = False) -> None:
    o_ref[...] = jax.lax.cumsum(x_ref[...], axis=0, reverse=reverse)


def summed_backwards(x_ref: Any, o_ref: Any) -> None:
    summed(x_ref, o_ref, True)


def tanh_of_tanh(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = jnp.tanh(jnp.tanh(x_ref[...]) * 3)


def only_one_tanh(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = jnp.tanh(x_ref[...]) * 3


def half_in_halves(x_ref: Any, o_ref: Any) -> None:
    in_halves(x_ref, o_ref, 0.5)


def sums_rescaled(x_ref: Any, o_ref: Any) -> None:
    @pl.when(pl.program_id(0) == 0)
    def _() -> None:
        o_ref[...] = jnp.zeros_like(o_ref)

    weight = jnp.tanh(jnp.mean(x_ref[...], axis=1, keepdims=True) / 8)
    o_ref[...] = weight * o_ref[...] + x_ref[...] * weight


def sums_not_rescaled(x_ref: Any, o_ref: Any) -> None:
    @pl.when(pl.program_id(0) == 0)
    def _() -> None:
        o_ref[...] = jnp.zeros_like(o_ref)

    weight = jnp.tanh(jnp.mean(x_ref[...], axis=1, keepdims=True) / 8)
    o_ref[...] = o_ref[...] + x_ref[...] * weight


def of_both(x_ref: Any, o_ref: Any) -> None:
    first, later = pl.program_id(0) == 0, pl.program_id(0) % 3 == 2

    @pl.when(first & later)
    def _() -> None:
        o_ref[...] = jnp.zeros_like(o_ref)

    o_ref[...] += x_ref[...]


def adds_its_input(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = jnp.tanh(x_ref[...]) + x_ref[...]


def only_tanh(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = jnp.tanh(x_ref[...])


def another(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = jnp.tanh(x_ref[...] * 0.37) + 0.11


def softmax(x_ref: Any, o_ref: Any, axis: int | None = 1) -> None:
    x = x_ref[...]
    exp = jnp.exp(x - jnp.max(x, axis=axis, keepdims=True))
    o_ref[...] = exp / jnp.sum(exp, axis=axis, keepdims=True)


def softmax_of_columns(x_ref: Any, o_ref: Any) -> None:
    softmax(x_ref, o_ref, 0)


def softmax_of_all(x_ref: Any, o_ref: Any) -> None:
    softmax(x_ref, o_ref, None)


def normed(x_ref: Any, o_ref: Any, axis: int | None = 1, columns: int | None = 1) -> None:
    x = x_ref[...]
    centred = x - x.mean(columns, keepdims=True)
    o_ref[...] = centred * jax.lax.rsqrt(jnp.var(x, axis, keepdims=True) + 1e-3)


def less_mean_of_all(x_ref: Any, o_ref: Any) -> None:
    normed(x_ref, o_ref, 1, None)


def variance_of_columns(x_ref: Any, o_ref: Any) -> None:
    normed(x_ref, o_ref, 0)


def rescaled(x_ref: Any, o_ref: Any, both: bool = False) -> None:
    factor, term = jnp.tanh(x_ref[0:1]), jnp.sin(x_ref[...])
    o_ref[...] = factor * (x_ref[...] + term) if both else factor * x_ref[...] + term


def rescaled_both(x_ref: Any, o_ref: Any) -> None:
    rescaled(x_ref, o_ref, True)


def gradient(x_ref: Any, o_ref: Any, only_first: bool = False) -> None:
    x, p = x_ref[...], jnp.tanh(x_ref[...])
    total = jnp.sum(x, axis=1, keepdims=True)
    o_ref[...] = p * x - total if only_first else p * (x - total)


def gradient_of_first(x_ref: Any, o_ref: Any) -> None:
    gradient(x_ref, o_ref, True)


def times_step(x_ref: Any, o_ref: Any, by: int = 4, scale: int = 8) -> None:
    step = pl.program_id(0)
    first = step * scale + 1 if scale > 1 else step + 1
    o_ref[...] = x_ref[...] * (lax.rem(step * by, 7) * first)


def times_other_step(x_ref: Any, o_ref: Any) -> None:
    times_step(x_ref, o_ref, 8)


def times_number(x_ref: Any, o_ref: Any) -> None:
    times_step(x_ref, o_ref, 4, 1)


def with_bias(x_ref: Any, o_ref: Any, each: bool = False) -> None:
    bias = jnp.sin(x_ref[0:1, 0:1])
    last = pl.program_id(0) == 3

    @pl.when(pl.program_id(0) == 0)
    def _() -> None:
        o_ref[...] = jnp.zeros_like(o_ref)

    o_ref[...] += x_ref[...] + bias if each else x_ref[...] + jnp.where(last, bias, 0.0)


def bias_in_each_step(x_ref: Any, o_ref: Any) -> None:
    with_bias(x_ref, o_ref, True)


def gated(x_ref: Any, o_ref: Any) -> None:
    gate, value = x_ref[:, :BLOCK], jnp.cos(x_ref[:, BLOCK : 2 * BLOCK])
    o_ref[...] = jnp.concatenate([jnp.tanh(gate) * value] * 4, axis=1)


def gated_by_value(x_ref: Any, o_ref: Any) -> None:
    gate, value = x_ref[:, :BLOCK], jnp.cos(x_ref[:, BLOCK : 2 * BLOCK])
    o_ref[...] = jnp.concatenate([jnp.tanh(value) * gate] * 4, axis=1)


def normalised(x_ref: Any, o_ref: Any) -> None:
    total = jnp.sum(x_ref[...], axis=1, keepdims=True)
    o_ref[...] = jnp.tanh(x_ref[...]) / total


def not_normalised(x_ref: Any, o_ref: Any) -> None:
    total = jnp.sum(x_ref[...], axis=1, keepdims=True)
    value = jnp.tanh(x_ref[...])
    o_ref[...] = jnp.where(total > 1e9, total, value)


def close(values: np.ndarray, wanted: np.ndarray) -> bool:
    return np.allclose(values, wanted, rtol=1e-5, atol=1e-5)


SOURCE = Source(__file__, [line.rstrip("\n") for line in linecache.getlines(__file__)], ())


@pytest.mark.parametrize(
    ("wrong", "right", "grid", "change"),
    [
        (of_uncentred_rows, standardised, (), "had y instead of x"),
        (first_row, last_row, (), "took [7:8] instead of [0:1] along dimension 0"),
        (other_triangle, triangle, (), "had <= instead of >="),
        (the_first_two, every_second, (4,), "had % instead of //"),
        (scaled_twice, scaled, (), "had no * 0.25"),
        (half_in_halves, in_halves, (), "had no * 0.5"),
        (summed_backwards, summed, (), "had reverse=False"),
        (tanh_of_tanh, only_one_tanh, (), "had no tanh"),
        (not_weighted, weighted, (), "multiplied x by p"),
        (less_one, weighted, (), "exchanged the two sides of the minus"),
        (numbered_from_0, numbered_from_1, (4,), "had step + 1 instead of step"),
        (sends_the_wrong_half, in_halves, (), "had second instead of first"),
        (sums_not_rescaled, sums_rescaled, (4,), "multiplied the whole sum by weight"),
        (of_both, sums, (4,), "had only the left side of &"),
        (only_tanh, adds_its_input, (), "stored the value + x_ref[...]"),
        (stores, sums, (4,), "added to the Ref (+=) instead of storing to it"),
        (rescaled_both, rescaled, (), "multiplied only x_ref[...] by factor"),
        (rescaled, rescaled_both, (), "multiplied the whole sum by factor"),
        (gradient_of_first, gradient, (), "multiplied the whole difference by p"),
        (
            bias_in_each_step,
            with_bias,
            (4,),
            "had + bias only in the last step along dimension 0 of the grid",
        ),
        (times_other_step, times_step, (4,), "had 4 instead of 8"),
        (times_number, times_step, (4,), "had step * 8 instead of step"),
        (gated_by_value, gated, (), "had gate and value exchanged"),
        (not_normalised, normalised, (), "divided the value by total"),
        (less_mean_of_all, normed, (), "reduced along dimension 1 instead of all dimensions"),
        (variance_of_columns, normed, (), "reduced along dimension 1 instead of dimension 0"),
        (of_the_other_step, sums, (4, 1), "had pl.program_id(0) instead of pl.program_id(1)"),
    ],
)
def test_the_first_change_that_makes_all_results_right(
    wrong: Callable[..., None], right: Callable[..., None], grid: tuple[int, ...], change: str
) -> None:
    wanted = launch(right, grid).run([X], Mode.STRICT)
    found = launch(wrong, grid).first_repair([X], wanted, [close], SOURCE)
    assert found
    repair, results = found
    assert repair.change == change
    assert close(results[0], wanted[0])


@pytest.mark.parametrize(
    ("wrong", "where"),
    [(softmax_of_columns, "dimension 0"), (softmax_of_all, "all dimensions")],
)
def test_all_reductions_along_a_dimension_change_together(
    wrong: Callable[..., None], where: str
) -> None:
    wanted = launch(softmax).run([X], Mode.STRICT)
    found = launch(wrong).first_repair([X], wanted, [close], SOURCE)
    assert found
    line, change = found[0].line, f"reduced along dimension 1 instead of {where}"
    assert found[0].change == f"{change}, and line {line + 1} too"
    assert SOURCE.lines[line - 1].strip().startswith("exp =")
    assert launch(softmax_of_rows_of_two).first_repair([X], wanted, [close], SOURCE) is None


def softmax_of_rows_of_two(x_ref: Any, o_ref: Any) -> None:
    """No dimensions of the block have this result: its rows are halved."""
    for at in range(2):
        half = pl.ds(at * BLOCK, BLOCK)
        exp = jnp.exp(x_ref[:, half])
        o_ref[:, half] = exp / jnp.sum(exp, axis=0, keepdims=True)


@pytest.mark.parametrize("wrong", [of_uncentred_rows, other_triangle, another])
def test_a_change_that_helps_only_in_part_is_not_found(wrong: Callable[..., None]) -> None:
    wanted = launch(last_row).run([X], Mode.STRICT)
    assert launch(wrong).first_repair([X], wanted, [close], SOURCE) is None


def test_results_that_are_nearly_right_by_chance_are_compared_more_strictly() -> None:
    wanted = launch(triangle).run([X], Mode.STRICT)
    anything = [lambda *_: True, close]
    found = launch(other_triangle).first_repair([X], wanted, anything, SOURCE)
    assert found
    assert found[0].change == "had <= instead of >="
    assert launch(other_triangle).first_repair([X], wanted, anything[:1], SOURCE) is None


def test_only_the_lines_that_are_asked_are_changed() -> None:
    wanted = launch(triangle).run([X], Mode.STRICT)
    elsewhere = Source(SOURCE.file, SOURCE.lines, {1})
    assert launch(other_triangle).first_repair([X], wanted, [close], elsewhere) is None


def test_jax_numpy_around_kernels_is_changed_too() -> None:
    def own(x: Any) -> Any:
        return jnp.where(x > 7, 0.0, x)

    traced = TracedLaunch.of(own, [X], {})
    wanted = [np.where(X > 7, X, 0.0)]
    found = traced.first_repair([X], wanted, [close], SOURCE)
    assert found
    assert found[0].change == "exchanged the two values of jnp.where"


def blocks(index_map: Callable[..., Any]) -> TracedLaunch:
    """A launch over X in blocks of 4 rows, doubled."""
    spec = pl.BlockSpec((4, BLOCK), lambda i, j: (i, j))
    given = pl.BlockSpec((4, BLOCK), index_map)

    def doubled(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] * 2

    return TracedLaunch.of(
        pl.pallas_call(doubled, X, grid=(2, 4), in_specs=[given], out_specs=spec), [X], {}
    )


@pytest.mark.parametrize(
    ("index_map", "change"),
    [
        (lambda i, j: (i, i), "returned (i, j) instead of (i, i)"),
        (lambda i, j: (0, j), "returned (i, j) instead of (0, j)"),
        (lambda i, j: (j, j), "returned (i, j) instead of (j, j)"),
        (lambda i, j: ((i * 2 + j // 4) // 4, j), "had 2 instead of 4"),
        (lambda i, j: (j // 2, i), ""),
        (lambda i, j: (1 - i, j), ""),
    ],
)
def test_index_maps_are_changed(index_map: Callable[..., Any], change: str) -> None:
    found = blocks(index_map).first_repair([X], [2 * X], [close], SOURCE)
    assert (found[0].change if found else "") == change
    if found:
        assert "lambda i, j:" in SOURCE.lines[found[0].line - 1]


def test_computed_results_of_an_index_map_change_places() -> None:
    spec = pl.BlockSpec((4, BLOCK), lambda j, i: (i // 2, j))
    wrong = pl.BlockSpec((4, BLOCK), lambda j, i: (j, i // 2))

    def numbered(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] * (pl.program_id(0) + 1)

    x = X[:, : 2 * BLOCK]
    traced = TracedLaunch.of(
        pl.pallas_call(numbered, x, grid=(2, 4), in_specs=[wrong], out_specs=spec), [x], {}
    )
    wanted = x * np.repeat([1, 2], BLOCK)
    found = traced.first_repair([x], [wanted], [close], SOURCE)
    assert found
    assert found[0].change == "returned (…, j) instead of (j, …)"


TABLE = np.array([2, 1, 4, 0], np.int32)


def by_table(kernel: Callable[..., None]) -> TracedLaunch:
    """A launch that gets a table of four numbers, and X as a whole."""
    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(1,),
        in_specs=[pl.BlockSpec(X.shape, lambda *_: (0, 0))],
        out_specs=pl.BlockSpec(X.shape, lambda *_: (0, 0)),
    )
    out = jax.ShapeDtypeStruct(X.shape, jnp.float32)
    called = pl.pallas_call(kernel, out_shape=out, grid_spec=spec)
    return TracedLaunch.of(lambda table, x: called(table, x), [TABLE, X], {})


def at_an_entry(table_ref: Any, x_ref: Any, o_ref: Any) -> None:
    step, one = pl.program_id(0), 1
    first = table_ref[step] * one + 1
    row = jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 0)
    o_ref[...] = jnp.where(row < first + table_ref[step + 2], x_ref[...], 0.0)


def at_the_step(table_ref: Any, x_ref: Any, o_ref: Any) -> None:
    step, one = pl.program_id(0), 1
    first = step * one + 1
    row = jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 0)
    o_ref[...] = jnp.where(row < first + table_ref[step + 2], x_ref[...], 0.0)


def at_the_entry_before(table_ref: Any, x_ref: Any, o_ref: Any) -> None:
    row = jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 0)
    o_ref[...] = jnp.where(row < 3 + table_ref[pl.program_id(0) + 1], x_ref[...], 0.0)


@pytest.mark.parametrize(
    ("wrong", "change"),
    [
        (at_the_step, "had table_ref[step] instead of step"),
        (at_the_entry_before, "read table_ref at the index + 1"),
    ],
)
def test_entries_of_tables(wrong: Callable[..., None], change: str) -> None:
    wanted = by_table(at_an_entry).run([TABLE, X], Mode.STRICT)
    found = by_table(wrong).first_repair([TABLE, X], wanted, [close], SOURCE)
    assert found
    assert found[0].change == change


def draws(x_ref: Any, o_ref: Any) -> None:
    pltpu.prng_seed(1)
    o_ref[...] = x_ref[...] + pltpu.prng_random_bits(x_ref.shape).astype(jnp.float32)


def reads_outside(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = jnp.zeros_like(o_ref) + x_ref[pl.ds(pl.program_id(0) * 8, 8)]


def test_random_bits_are_not_tried() -> None:
    with pytest.raises(NotTried):
        launch(draws).first_repair([X], [X], [close], SOURCE)


def sum_of_rows(x_ref: Any, o_ref: Any, factor: int = 1) -> None:
    step = pl.program_id(0)

    @pl.when(step == 0)
    def _() -> None:
        o_ref[...] = jnp.zeros_like(o_ref)

    o_ref[...] += x_ref[pl.ds(step * factor if factor > 1 else step, 1)]


def sum_of_rows_outside(x_ref: Any, o_ref: Any) -> None:
    sum_of_rows(x_ref, o_ref, 8)


def test_an_index_out_of_bounds_is_wrong() -> None:
    wanted = launch(sum_of_rows, (4,)).run([X], Mode.STRICT)
    found = launch(sum_of_rows_outside, (4,)).first_repair([X], wanted, [close], SOURCE)
    assert found
    assert found[0].change == "had no * 8"
    assert launch(reads_outside, (4,)).first_repair([X], [X[:, :BLOCK]], [close], SOURCE) is None
