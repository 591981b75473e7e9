"""A trace made anew, some of its operations replaced, also where they are nested."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend import core

from pallascope.kernels.evaluator import retraced

X = np.arange(8, dtype=np.float32)


@pytest.fixture(autouse=True, scope="module")
def cpu() -> None:
    jax.config.update("jax_platforms", "cpu")


def nested(x: Any) -> Any:
    x = jax.lax.fori_loop(0, 2, lambda _, x: jnp.sin(x), x)
    x = jax.lax.cond(x[0] > 3, jnp.sin, lambda x: x * 2, x)
    return jax.checkpoint(jax.jit(jnp.sin))(x)


def halved(_: core.JaxprEqn, inputs: Sequence[Any]) -> Sequence[Any]:
    return [inputs[0] / 2]


def test_what_is_nested_is_replaced_too() -> None:
    closed = jax.jit(nested).trace(X).jaxpr
    found = retraced(closed, {"sin": halved})
    assert "= sin " in str(closed)
    assert "= sin " not in str(found)
    (out,) = core.jaxpr_as_fun(found)(X)
    np.testing.assert_array_equal(out, X / 2 / 2 * 2 / 2)


def test_nothing_else_changes() -> None:
    closed = jax.jit(nested).trace(X).jaxpr
    again = retraced(closed, {"cos": halved})
    assert str(again) == str(closed)
    lines = [
        [str(eqn.source_info.traceback.frames[0]) for eqn in one.jaxpr.eqns]
        for one in (closed, again)
    ]
    assert lines[0] == lines[1]
