"""The rung that asks whether what is to go block by block holds all blocks at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from grader.checks.disallowed_shortcuts import check_array_sizes
from grader.grading.ladder import verdict
from grader.verdict import State
from pallascope.kernels import TracedLaunch
from pallascope.model import Check, Finding
from tests.pallascope.support.calls import trace
from tests.support.factories import FILE, X, attempt, evidence, reference

ENDS = np.arange(256, dtype=np.int32)
BLOCK = 32


def seen(q: Any, k: Any, ends: Any) -> Any:
    return k <= ends[q][:, None]


def whole(ends: Any) -> Any:
    keys = jnp.arange(len(ends))
    return jnp.any(seen(keys, keys, ends).reshape(8, BLOCK, 8, BLOCK), (1, 3))


def mapped_at_once(ends: Any) -> Any:
    def kind(i: Any, j: Any) -> Any:
        lane = jnp.arange(BLOCK)
        return jnp.any(seen(i * BLOCK + lane, j * BLOCK + lane, ends))

    by_row = jax.vmap(jax.vmap(kind, (None, 0)), (0, None))
    return by_row(jnp.arange(8), jnp.arange(8))


def in_turn(ends: Any) -> Any:
    def kind(block: Any) -> Any:
        lane = jnp.arange(BLOCK)
        return jnp.any(seen(block // 8 * BLOCK + lane, block % 8 * BLOCK + lane, ends))

    return jax.lax.map(kind, jnp.arange(64)).reshape(8, 8)


def judged(function: Callable[..., Any]) -> Finding | None:
    found = TracedLaunch.of(function, (ENDS,), {}).trace(__file__)
    against = reference([np.zeros((8, BLOCK), np.float32)])
    return check_array_sizes(
        evidence(attempt(traced=found), against, kernel=False, block_by_block=True)
    )


@pytest.mark.parametrize("function", [whole, mapped_at_once])
def test_all_blocks_at_once(function: Callable[..., Any]) -> None:
    finding = judged(function)
    assert finding is not None
    assert finding.check is Check.COST
    assert finding.phrase.startswith("holds all blocks at once: ")
    said = " ".join(finding.message.split())
    assert "65,536 elements at once" in said
    assert f"{FILE}:" in said
    assert "jax.lax.scan" in said


def test_one_after_another() -> None:
    assert judged(in_turn) is None
    assert judged(lambda ends: ends) is None


def test_it_fails_what_is_right_and_is_asked_only_where_the_key_says_so() -> None:
    large = TracedLaunch.of(lambda x: jnp.sum(x[:, :, None] + x[:1, None]), (np.float32(X),), {})
    tried = attempt(traced=trace(outside=large.trace(__file__).outside))
    asked = verdict(evidence(tried, kernel=False, block_by_block=True))
    assert (asked.state, asked.stars) == (State.FAILED, 1)
    assert asked.finding
    assert asked.finding.message.startswith("The values are right, but the program makes ")
    assert verdict(evidence(tried, kernel=False)).state is State.PASSED
