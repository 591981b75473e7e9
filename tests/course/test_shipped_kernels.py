"""JAX's own kernels, run by the TPU interpreter, compute what the specs of katas like them say."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas.ops.tpu import paged_attention as paged

from grader.exercise import specs
from grader.exercise.cases import draw
from grader.exercise.catalog import Kata, katas
from pallascope.runs.launch_runs import trace_argument
from pallascope.tools.arrays import to_numpy
from pallascope.tools.files import load_module
from tests.support.repositories import ROOT

PAGED = [kata for kata in katas(ROOT, "solutions") if kata.name.startswith("paged_attention_")]


@pytest.mark.parametrize("exercise", PAGED, ids=lambda kata: kata.name)
def test_jaxs_paged_attention(exercise: Kata) -> None:
    """In bfloat16: it rounds float32 pages. Garbage in pages is none that it would survive."""
    case = dataclasses.replace(draw(exercise.id, exercise.key, 1)[0], dtype="bfloat16")
    reference = specs.reference(load_module(exercise.solution), exercise.name, case)
    lengths, table, q, *pools = (trace_argument(array) for array in reference.inputs)
    batch, groups, heads, width = q.shape
    keys, values = (jnp.nan_to_num(pool.swapaxes(0, 1)) for pool in pools)
    queries = q.reshape(batch, groups * heads, width) * width**-0.5
    with pltpu.force_tpu_interpret_mode():
        result = paged.paged_attention(
            queries, keys, values, lengths, table, pages_per_compute_block=1
        )
    real = np.asarray(lengths) > 0  # it leaves sequences of nothing alone
    expected = to_numpy(reference.expected[0])[real]
    error = np.abs(np.asarray(result, np.float64).reshape(q.shape)[real] - expected)
    assert error.max() < 2e-2 * np.abs(expected).max()
