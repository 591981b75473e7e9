"""Races and semaphores, in the words that a learner reads."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from pallascope.checks.exceptions import complaint_finding
from pallascope.model import KernelCall
from tests.pallascope.kernels.test_races import LEAVING, RACING, Function, X, watched
from tests.pallascope.support.core_map_kernels import launched


@pytest.fixture(autouse=True, scope="module")
def cpu() -> None:
    jax.config.update("jax_platforms", "cpu")


@pytest.mark.parametrize(
    ("function", "phrase", "says"),
    [
        (
            RACING,
            "race between two cores",
            r"core [01] writes \[0:8, 0:128\] of o_ref in HBM",
        ),
        (LEAVING, "a semaphore is left non-zero", r"Semaphore \d+ has non-zero count for 0"),
    ],
    ids=["race", "semaphore"],
)
def test_the_words_are_those_of_the_interpreter(function: Function, phrase: str, says: str) -> None:
    finding = complaint_finding(watched(function).complaints)
    assert finding.phrase == phrase
    assert re.search(says, " ".join(finding.message.split()))


def test_a_race_of_copies_names_the_cores_that_started_them_and_the_line() -> None:
    """The interpreter tells of each copy by a number of its own."""

    def to_the_same_place(x_ref: Any, o_ref: Any, buffer: Any, sem: Any) -> None:
        buffer[...] = jnp.ones_like(buffer)
        copy = pltpu.make_async_copy(buffer, o_ref.at[pl.ds(0, 8)], sem)
        copy.start()
        copy.wait()

    scratch = [pltpu.VMEM((8, 128), jnp.float32), pltpu.SemaphoreType.DMA]
    out = jax.ShapeDtypeStruct(X.shape, X.dtype)
    shared = launched(to_the_same_place, out, cores=2, scratch_types=scratch)
    calls = (KernelCall("shared", (2,), (), cores=2),)
    finding = complaint_finding(watched(shared).complaints, calls=calls, file=__file__)
    line = to_the_same_place.__code__.co_firstlineno + 3
    told = " ".join(finding.message.split())
    for core in (0, 1):
        assert f"core {core} writes [0:8, 0:128] of o_ref in HBM, by a copy from" in told
    assert told.count(f"{__file__}:{line}") == 2
    assert "Divide the work by jax.lax.axis_index" in told
