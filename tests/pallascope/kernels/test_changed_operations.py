"""Which operation makes NaN, and which single change of a kernel gives other results."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl

from pallascope.kernels import TracedLaunch, noting_nonfinite
from pallascope.kernels.changed_operations import MOST_REPAIRS
from pallascope.kernels.source_lines import line_of
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
