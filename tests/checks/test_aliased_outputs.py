"""An output that is an input's array: what the kernel does not write has to be as it was."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from pallascope.checks.values import check
from pallascope.kernels import TracedLaunch, for_chip
from pallascope.model import (
    ArrayType,
    Clues,
    Finding,
    Mode,
    Observation,
    Reference,
)
from tests.pallascope.support.calls import array
from tests.support.factories import evidence, from_numpy

DECK = np.random.default_rng(1)
CACHE = DECK.standard_normal((32, 128)).astype(np.float32)
NEW = DECK.standard_normal((8, 128)).astype(np.float32)
WANTED = np.concatenate([CACHE[:16], NEW, CACHE[24:]])


@pytest.fixture(autouse=True, scope="module")
def cpu() -> None:
    jax.config.update("jax_platforms", "cpu")


def written(bug: str = "", dtype: Any = jnp.float32) -> Any:
    """A launch that writes new over rows 16 to 24 of a cache."""

    def kernel(new_ref: Any, cache_in: Any, cache_hbm: Any, buffer: Any, sem: Any) -> None:
        del cache_in
        at, size = (0, 32) if bug == "all rows" else (8 if bug == "another place" else 16, 8)
        buffer[...] = jnp.zeros_like(buffer)
        buffer[pl.ds(0, 8)] = new_ref[...]
        part = buffer.at[pl.ds(0, size)]
        pltpu.sync_copy(part, cache_hbm.at[pl.ds(at, size)])
        del sem

    def launch(new: Any, cache: Any) -> Any:
        anywhere = pl.BlockSpec(memory_space=pl.ANY)
        return pl.pallas_call(
            kernel,
            in_specs=[pl.BlockSpec(memory_space=pltpu.VMEM), anywhere],
            out_specs=anywhere,
            out_shape=jax.ShapeDtypeStruct(CACHE.shape, dtype),
            scratch_shapes=[pltpu.VMEM(CACHE.shape, dtype), pltpu.SemaphoreType.DMA],
            input_output_aliases={} if bug == "another array" else {1: 0},
        )(new, cache)

    return launch


def judged(bug: str) -> Finding | None:
    with for_chip("TPU v5 lite", 1):
        traced = TracedLaunch.of(written(bug), (NEW, CACHE), {})
        results = [
            traced.run((NEW, CACHE), Mode.STRICT, 1, unwritten) for unwritten in ("nan", "zero")
        ]
        trace = traced.trace()
    given = Reference(
        names=("new", "cache"),
        inputs=(array(NEW), array(CACHE)),
        keywords={},
        expected=(from_numpy(WANTED.astype(np.float64)),),
        results=(ArrayType("float32", CACHE.shape),),
        annotations=('Float[Array, "T D"]',),
        contraction=1,
    )
    own, zeros = (array(result[0]) for result in results)
    observed = Observation(trace=trace, outputs=(own,))
    return check(evidence(observed, given, clues=lambda: Clues(with_zeros=(zeros,))))


def test_what_is_not_written_is_as_it_was() -> None:
    assert judged("") is None


def test_an_output_of_its_own_does_not_hold_it() -> None:
    finding = judged("another array")
    assert finding is not None
    assert finding.phrase == "cache_hbm does not keep the values of cache"
    assert "input_output_aliases" in finding.message


@pytest.mark.parametrize("bug", ["all rows", "another place"])
def test_what_should_not_have_been_written_is_wrong(bug: str) -> None:
    finding = judged(bug)
    assert finding is not None
    assert "wrong" in finding.message
