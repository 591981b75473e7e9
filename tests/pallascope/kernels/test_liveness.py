"""How often a launch runs its kernels: by the trace, and by the programs that XLA makes of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from pallascope.kernels import TracedLaunch, for_chip
from pallascope.kernels.liveness import run_counts
from pallascope.kernels.outside_kernels import OutsideReader
from pallascope.model import RunCount
from pallascope.tpu.chips import CHIPS
from pallascope.tpu.hlo import kernel_instructions
from pallascope.tpu.libtpu import compiled, lower, unavailable_reason
from tests.pallascope.support.launches import shape

X = shape("float32", 64, 128)
V5E = CHIPS["v5e"]


def added(x: Any, by: float = 1.0, *, kept: bool = False) -> jax.Array:
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] + by

    params = pltpu.CompilerParams(has_side_effects=kept)
    return pl.pallas_call(kernel, out_shape=X, compiler_params=params)(x)


def both(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    def kernel(x_ref, o_ref, p_ref):
        o_ref[...] = x_ref[...]
        p_ref[...] = x_ref[...] + 1

    return pl.pallas_call(kernel, out_shape=(X, X))(x)


def scanned(body: Callable[[Any], Any], x: Any, length: int = 8) -> Any:
    return lax.scan(lambda carry, _: (body(carry), None), x, None, length=length)[0]


def pair(carry: tuple[Any, Any]) -> tuple[Any, Any]:
    return added(carry[0]), carry[1] + 1


def until(body: Callable[[Any], Any], x: Any) -> Any:
    return lax.while_loop(lambda c: c[0] < x[0, 0], lambda c: (c[0] + 1, body(c[1])), (0.0, x))


def chosen(x: Any) -> Any:
    return lax.cond(x[0, 0] > 0, added, lambda x: added(added(x)), x)


def kernel_in_condition(x: Any) -> Any:
    return lax.while_loop(lambda c: added(c)[0, 0] < 9, lambda c: c + 1, x)


ONCE, LOOP = RunCount(), RunCount(untold=True)
BRANCH = RunCount(conditional=True)
LAUNCHES: dict[str, tuple[Callable[[Any], Any], list[RunCount]]] = {
    "one": (added, [ONCE]),
    "in jit": (jax.jit(added), [ONCE]),
    "under a checkpoint": (jax.checkpoint(added), [ONCE]),
    "one after another": (lambda x: added(added(x)), [ONCE, ONCE]),
    "scan": (lambda x: scanned(added, x), [RunCount(8)]),
    "scan in scan": (lambda x: scanned(lambda c: scanned(added, c, 3), x), [RunCount(24)]),
    "scan of no turns": (lambda x: scanned(added, x, 0), [RunCount(0)]),
    "fori_loop": (lambda x: lax.fori_loop(0, 5, lambda i, c: added(c), x), [RunCount(5)]),
    "fori_loop from a number to an array": (
        lambda x: lax.fori_loop(2, jnp.int32(5), lambda i, c: added(c) * i, x),
        [RunCount(3)],
    ),
    "map": (lambda x: lax.map(lambda i: added(x + i), jnp.arange(6.0)), [RunCount(6)]),
    "fori_loop to what is computed": (
        lambda x: lax.fori_loop(0, x[0, 0].astype(int), lambda i, c: added(c), x),
        [LOOP],
    ),
    "while": (lambda x: until(added, x)[1], [LOOP]),
    "scan in while": (
        lambda x: until(lambda c: scanned(added, c), x)[1],
        [RunCount(8, untold=True)],
    ),
    "in the condition of a while": (kernel_in_condition, [LOOP]),
    "cond": (chosen, [BRANCH] * 3),
    "cond in scan": (lambda x: scanned(chosen, x), [RunCount(8, conditional=True)] * 3),
    "half used": (lambda x: both(x)[0], [ONCE]),
    "times zero": (lambda x: x + 0 * added(x), [ONCE]),
    "unused": (lambda x: (added(x), x)[1], [RunCount(0)]),
    "unused in jit": (lambda x: jax.jit(lambda x: (added(x), x))(x)[1], [RunCount(0)]),
    "unused but kept": (lambda x: (added(x, kept=True), x)[1], [ONCE]),
    "only used by an unused one": (lambda x: (added(added(x)), x)[1], [RunCount(0), RunCount(0)]),
    "unused in scan": (
        lambda x: lax.scan(lambda c, _: (c + x, added(c)), x, None, length=8)[0],
        [RunCount(0)],
    ),
    "unused carry": (lambda x: scanned(pair, (x, x))[1], [RunCount(0)]),
    "unused carry of a while": (lambda x: until(added, x)[0], [RunCount(0, untold=True)]),
    "carry used by the other": (
        lambda x: scanned(lambda c: (added(c[0]), c[1] + c[0]), (x, x))[1],
        [RunCount(8)],
    ),
    "twice the same": (lambda x: added(x) + added(x), [ONCE, RunCount(0)]),
    "twice the same, of the same": (
        lambda x: added(x * 2) + added(x * 2),
        [ONCE, RunCount(0)],
    ),
    "twice the same in jit": (
        lambda x: added(x) + jax.jit(added)(x),
        [ONCE, RunCount(0)],
    ),
    "unused, then used": (lambda x: (added(x), added(x))[1], [RunCount(0), ONCE]),
    "twice, kept": (lambda x: added(x, kept=True) + added(x, kept=True), [ONCE, ONCE]),
    "twice, of others": (lambda x: added(x) + added(x * 2), [ONCE, ONCE]),
    "another of the same": (lambda x: added(x) + added(x, 2.0), [ONCE, ONCE]),
}


@pytest.mark.parametrize("name", LAUNCHES)
def test_by_the_trace(name: str) -> None:
    function, expected = LAUNCHES[name]
    with for_chip(V5E.kind, V5E.cores):
        closed = TracedLaunch.of(function, [X], {}).closed
        assert run_counts(closed) == expected
        assert len(OutsideReader(closed).kernels) == len(expected)


@pytest.mark.parametrize("name", [name for name in LAUNCHES if name != "scan of no turns"])
@pytest.mark.skipif(bool(unavailable_reason()), reason="libtpu")
def test_by_what_xla_keeps(name: str) -> None:
    function, expected = LAUNCHES[name]
    program = compiled(lower(function, [X], V5E))
    assert len(kernel_instructions(program)) == sum(runs.times > 0 for runs in expected)
