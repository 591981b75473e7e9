"""A hypothesis about a wrong result names a kernel that it explains, and none that is like it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jaxtyping import Array, Float32, Int32

from grader.exercise import specs
from pallascope.checks.compare import Comparison, Sum, tolerance
from pallascope.checks.diagnoses.value_patterns import changed_spec
from pallascope.model import Roundings
from pallascope.tools.arrays import in_float64
from tests.pallascope.support.calls import call, operand

SIZE, ROWS = 6, 2  # three blocks of rows
DECK = np.random.default_rng(0)
X, W = (DECK.standard_normal((SIZE, SIZE)).astype(np.float32) for _ in "xw")
N = np.array([1, 5, 2, 9, 4, 7], np.int32)
CALL = call(operand("x_ref", X.shape, (ROWS, SIZE)), operand("w_ref", W.shape, (SIZE, SIZE)))


@pytest.fixture(autouse=True, scope="module")
def cpu() -> None:
    jax.config.update("jax_platforms", "cpu")


def spec(x: Float32[Array, "M K"], w: Float32[Array, "K N"], n: Int32[Array, "M"]) -> Any:  # noqa: F821, UP037
    return jnp.dot(x, w, precision="highest") + n[:, None]


def of(x: Any = X, w: Any = W, n: Any = N) -> Any:
    """The result of a kernel that is right except for its inputs."""
    return (x.astype(np.float64) @ w.astype(np.float64) + n[:, None]).astype(np.float32)


def half(one: Any, other: Any) -> Any:
    """The upper half of one result, and the lower half of another."""
    return np.concatenate([one[: SIZE // 2], other[SIZE // 2 :]])


def without(part: slice) -> Any:
    x = X.copy()
    x[:, part] = 0
    return x


def truncated(x: Any) -> Any:
    return (x.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


#: By hypothesis: its words, the result of a kernel that it explains, and one that is like that.
EXPLAINED: dict[Callable[..., Any], tuple[str, Any, Any]] = {
    specs.exchanged: ("x_ref and w_ref were exchanged", of(W, X), half(of(W, X), of())),
    specs.transposed: ("x_ref were transposed", of(X.T), half(of(X.T), of())),
    specs.other_blocks: (
        "each grid step got block 0 of x_ref along dimension 0",
        of(np.tile(X[:ROWS], (3, 1))),
        of(np.tile(X[ROWS : 2 * ROWS], (3, 1))),
    ),
    specs.shifted: ("n were larger by 1", of(n=N + 1), of(n=N + 2)),
    specs.constant: ("x_ref were 1", of(np.ones_like(X)), of(np.full_like(X, 2))),
    specs.negated: ("x_ref had the other sign", of(-X), of(abs(X))),
    specs.rounded: (
        "x_ref were rounded to bfloat16",
        of(X.astype(ml_dtypes.bfloat16)),
        of(truncated(X)),
    ),
    specs.without_a_part: (
        "the first half of x_ref along dimension 1 didn't count",
        of(without(slice(0, SIZE // 2))),
        of(without(slice(1, SIZE // 2))),
    ),
}


def diagnosed(actual: Any) -> str:
    """The phrase of the diagnosis, "" if there is none."""
    expected = of().astype(np.float64)
    allowed = tolerance(expected, "float32", Roundings(), Sum(SIZE))
    result = Comparison("o_ref", "float32", actual.astype(np.float64), expected, allowed, X.shape)
    assert result.wrong.any()
    found = specs.hypotheses(spec, [X, W, N], {}, [CALL], [actual], __file__)
    named = changed_spec(result, [(each, in_float64(each.results[0])) for each in found])
    return named.phrase if named else ""


@pytest.mark.parametrize("kind", specs.HYPOTHESES, ids=lambda kind: kind.__name__)
def test_a_hypothesis_names_what_it_explains_and_not_what_is_like_it(
    kind: Callable[..., Any],
) -> None:
    words, explained, alike = EXPLAINED[kind]
    assert diagnosed(explained) == f"as if {words}"
    assert words not in diagnosed(alike)
