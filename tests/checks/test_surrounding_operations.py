"""What may be done around a kernel: bounded by dtype and size, whatever it is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from grader.checks.disallowed_shortcuts import check_pallas_used
from grader.checks.surrounding_operations import (
    LARGEST,
    TOTAL,
    TooMuch,
    too_much,
)
from grader.exercise.answer_key import LAYOUT
from pallascope.kernels import TracedLaunch
from pallascope.model import ArrayType, Operation
from tests.pallascope.support.calls import doubling, trace
from tests.support.factories import FILE, X, attempt, evidence, reference

#: What the grouped matmuls' keys allow, and more.
TABLES = (*LAYOUT, "add", "convert_element_type", "cumsum", "div", "eq", "gather", "iota", "lt")
TABLES = (*TABLES, "max", "mul", "ne", "reduce_sum", "rem", "scatter-add", "select_n", "sub")

W = np.ones((128, 64), np.float32)
SIZES = np.full(4, 8, np.int32)


def judged(
    function: Callable[..., Any],
    *args: Any,
    floats: bool = False,
    allowed: tuple[str, ...] = TABLES,
) -> TooMuch | None:
    """What is said of a launch's operations, as if they stood around a kernel."""
    values = args or (np.float32(X), W)
    found = TracedLaunch.of(function, values, {}).trace(__file__)
    return too_much(found.outside, allowed, floats, reference())


def at_once(x: Any, w: Any) -> Any:
    return jnp.sum(x[:, :, None] / (1 / w)[None], axis=1)


def by_slices(x: Any, w: Any) -> Any:
    inverse = 1 / w
    return sum(x[:, k : k + 1] / inverse[k : k + 1] for k in range(128))


def advised(function: Callable[..., Any]) -> str:
    found = judged(function, allowed=("squeeze",))
    assert found is not None
    return found.advice


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda x, _: x.reshape(4, 8, 128)[SIZES % 4], "let the index map say which block"),
        (lambda x, _: jnp.repeat(x, 2, axis=0), "may give many steps the same block"),
        (lambda x, _: jnp.concatenate([x, x]), "may give many steps the same block"),
        (lambda x, _: x.T, "let the index map exchange block numbers"),
        (lambda x, _: x.reshape(64, 64), "let BlockSpecs cut it"),
        (lambda x, _: x[8:], "let BlockSpecs cut it"),
        (lambda x, _: x.astype(jnp.bfloat16), "Cast in the kernel's body"),
        (lambda x, _: x + 1, "Move the computation into the kernel's body"),
        (lambda x, _: x.T * 2, "Move the computation into the kernel's body"),
    ],
)
def test_what_moves_an_array_is_done_by_specs(function: Callable[..., Any], says: str) -> None:
    assert says in advised(function)


@pytest.mark.parametrize("product", [at_once, by_slices])
@pytest.mark.parametrize("floats", [False, True])
def test_a_product_of_matrices_by_any_other_name(product: Callable[..., Any], floats: bool) -> None:
    found = judged(product, floats=floats)
    assert found is not None
    assert found.phrase.startswith("too much outside" if floats else "work outside the kernel: ")
    first = product.__code__.co_firstlineno
    assert first < found.line <= first + 3


def test_a_float_may_be_moved_but_not_computed_for_tables() -> None:
    assert judged(lambda x, _: x.reshape(64, 64)[:, ::-1].T) is not None  # rev is not allowed
    assert judged(lambda x, _: x.T, allowed=("tables",)) is not None
    assert judged(lambda x, _: jnp.concatenate([x[:8], x[8:]]).reshape(64, 64).T) is None
    found = judged(lambda x, _: x * 2)
    assert found is not None
    assert found.phrase == "work outside the kernel: mul"
    assert "on float32[32, 128]" in found.reason
    assert "only integers may be computed" in found.reason


def test_tables_of_integers_may_be_computed() -> None:
    def tables(sizes: Any) -> Any:
        ends = jnp.cumsum(sizes)
        return jnp.where(sizes == 0, 0, (ends + 7) // 8), jnp.bincount(ends // 8, length=8)

    values = (SIZES,)
    found = TracedLaunch.of(tables, values, {}).trace(__file__)
    names = tuple({operation.name for operation in found.outside})
    assert judged(tables, SIZES, allowed=(*TABLES, *names)) is None


def test_what_a_key_allows_with_floats_is_bounded_by_its_size() -> None:
    """Weights, and a few passes over the rows, are what a router takes."""
    assert judged(lambda x, _: jnp.sum(x / jnp.max(x) * 2, axis=1), floats=True) is not None
    allowed = (*TABLES, "reduce_max", "exp")
    found = judged(lambda x, _: jnp.sum(x / jnp.max(x) * 2, 1), floats=True, allowed=allowed)
    assert found is None


TABLE_WAYS = {
    "searchsorted": lambda sizes: jnp.searchsorted(jnp.cumsum(sizes), jnp.arange(32)),
    "a flipped argsort": lambda sizes: jnp.argsort(sizes)[::-1],
    "tile": lambda sizes: jnp.tile(sizes, 3),
    "vmap": lambda sizes: jax.vmap(lambda n: jnp.sum(sizes < n))(jnp.arange(8)),
    "scan": lambda sizes: jax.lax.scan(lambda sum, n: (sum + n, sum), 0, sizes),
    "bincount": lambda sizes: jnp.bincount(sizes, length=9),
}
ROUTER_WAYS = {
    "einsum": lambda x, w: jnp.einsum("tk,tkd->td", x[:, :2], jnp.stack([x, x], axis=1)),
    "log_softmax": lambda x, w: jnp.exp(jax.nn.log_softmax(x)),
    "logsumexp": lambda x, w: jnp.exp(x - jax.nn.logsumexp(x, axis=1, keepdims=True)),
    "vmap": lambda x, w: jax.vmap(lambda row: row / jnp.sum(row))(x),
    "top_k": lambda x, w: jax.lax.top_k(x, 2),
    "scan": lambda x, w: jax.lax.scan(lambda sum, row: (sum + row, sum), x[0], x),
}


@pytest.mark.parametrize("way", TABLE_WAYS)
@pytest.mark.parametrize("allowed", ["tables", "cheap"])
def test_tables_may_be_made_in_any_way(way: str, allowed: str) -> None:
    assert judged(TABLE_WAYS[way], SIZES, allowed=(allowed,)) is None


@pytest.mark.parametrize("way", ROUTER_WAYS)
def test_rows_may_be_weighted_in_any_way(way: str) -> None:
    assert judged(ROUTER_WAYS[way], floats=True, allowed=("cheap",)) is None
    found = judged(ROUTER_WAYS[way], allowed=("tables",))
    assert found is not None
    assert "integers may be computed" in found.reason


def by_scan(x: Any, w: Any) -> Any:
    def one(total: Any, k: Any) -> Any:
        return total + x[:, k][:, None] * w[k], None

    return jax.lax.scan(one, jnp.zeros((32, 64)), jnp.arange(128))[0]


@pytest.mark.parametrize("product", [jnp.dot, at_once, by_slices, by_scan])
def test_products_cost_what_they_multiply(product: Callable[..., Any]) -> None:
    found = judged(product, floats=True, allowed=("cheap",))
    assert found is not None
    assert found.phrase.startswith("too much outside")
    assert "leave the products of matrices to the kernels" in found.advice


def test_a_loop_of_unknown_length_and_what_calls_the_host_are_not_cheap() -> None:
    def loop(x: Any, _: Any) -> Any:
        return jax.lax.while_loop(lambda y: jnp.max(y) > 1, lambda y: y / 2, x)

    def host(x: Any, _: Any) -> Any:
        return jax.pure_callback(lambda y: y, x, x)

    for launch, name in ((loop, "while"), (host, "pure_callback")):
        found = judged(launch, floats=True, allowed=("cheap",))
        assert found is not None
        assert name in found.phrase


@pytest.mark.parametrize("floats", [False, True])
def test_the_bounds_are_multiples_of_the_largest_array_of_the_case(floats: bool) -> None:
    def handled(times: float, dtype: str = "int32") -> Operation:
        return Operation("add", (ArrayType(dtype, (round(times * X.size),)),))

    against = reference()
    assert too_much([handled(LARGEST)], TABLES, floats, against) is None
    assert too_much([handled(LARGEST + 0.1)], TABLES, floats, against)
    assert too_much([handled(1)] * TOTAL, TABLES, floats, against) is None
    assert too_much([handled(1)] * (TOTAL + 1), TABLES, floats, against)


def test_the_line_is_told() -> None:
    sine = Operation("sin", (ArrayType("float32", (32, 128)),), line=17)
    finding = check_pallas_used(evidence(attempt(traced=trace(doubling(), outside=(sine,)))))
    assert finding is not None
    assert finding.phrase == "work outside the kernel: sin"
    assert f"{FILE}:17" in finding.message


def test_a_collective_that_the_key_does_not_allow_is_not_work_for_the_body() -> None:
    rows = ArrayType("float32", (64, 128))
    summed = Operation("psum_invariant", (rows,), results=(rows,), line=7, axes=("x",))
    found = too_much([summed], ("shard_map",), False, reference())
    assert found is not None
    assert found.phrase == "work outside the kernel: psum"
    assert "over the links" in found.reason
    assert "let in_specs give each chip" in found.advice
    assert too_much([summed], ("shard_map", "psum"), False, reference()) is None
