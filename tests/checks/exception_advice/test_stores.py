"""Advice on what is stored and does not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from pallascope.checks.exception_advice import exception_advice
from pallascope.kernels import TracedLaunch
from pallascope.model import Mode, SourceFile, Stage
from pallascope.runs.exception_reports import caught
from tests.checks.exception_advice.raising import ROWS, launching, told

COLUMN = {
    "out_specs": pl.BlockSpec((8, 1), lambda i: (i, 0)),
    "out_shape": jax.ShapeDtypeStruct((32, 1), jnp.float32),
}
ROW = {
    "out_specs": pl.BlockSpec((1, 128), lambda i: (0, 0)),
    "out_shape": jax.ShapeDtypeStruct((1, 128), jnp.float32),
}
WHOLE = {"out_specs": ROWS}
SUM = {"scratch_shapes": [pltpu.VMEM((8, 128), jnp.bfloat16)]}


@pytest.fixture(autouse=True, scope="module")
def cpu() -> None:
    jax.config.update("jax_platforms", "cpu")


def stores_a_vector(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = jnp.sum(x_ref[...], axis=1)


def adds_a_vector(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] += jnp.sum(x_ref[...], axis=1)


def stores_a_vector_as_a_row(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = jnp.sum(x_ref[...], axis=0)


def stores_a_number(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = 0.0


def stores_another_part(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = x_ref[0:4]


def stores_integers(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = x_ref[...].astype(jnp.int32)


def keeps_a_rounded_sum(x_ref: Any, o_ref: Any, sum_ref: Any) -> None:
    sum_ref[...] += x_ref[...]
    o_ref[...] = sum_ref[...].astype(o_ref.dtype)


def sets_an_element(x_ref: Any, o_ref: Any) -> None:
    x = x_ref[...]
    x[0, 0] = 1.0
    o_ref[...] = x


def names_its_ref(x_ref: Any, o_ref: Any) -> None:
    @pl.when(pl.program_id(0) == 0)
    def _() -> None:
        o_ref += x_ref[...]  # noqa: F823, F841  # pyright: ignore


def reads_its_block_of_the_whole(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = x_ref[8:16]


@pytest.mark.parametrize(
    ("kernel", "changes", "says"),
    [
        (stores_a_vector, COLUMN, "Keep the axis: keepdims=True"),
        (adds_a_vector, COLUMN, "Keep the axis: keepdims=True"),
        (stores_a_vector_as_a_row, ROW, "A vector (n,) isn't a row (1, n)"),
        (stores_a_number, WHOLE, "jnp.zeros_like(o_ref)"),
        (stores_another_part, WHOLE, "look for its BlockSpec in in_specs or out_specs"),
        (stores_integers, WHOLE, ".astype(o_ref.dtype)."),
        (keeps_a_rounded_sum, SUM, "give the scratch the dtype of the sum"),
        (sets_an_element, WHOLE, "its elements cannot be set"),
        (names_its_ref, WHOLE, "To store, index the Ref"),
        (reads_its_block_of_the_whole, WHOLE, "its indices start at 0"),
    ],
)
def test_advice_fits_what_is_raised(kernel: Any, changes: dict[str, Any], says: str) -> None:
    content = Path(__file__).read_bytes()
    assert says in told(lambda: launching(kernel, **changes), __file__, content)


def copies_from_a_view(x_hbm: Any, o_hbm: Any) -> None:
    def copy(sem: Any) -> None:
        pairs = x_hbm.reshape(16, 2, 128), o_hbm.reshape(16, 2, 128)
        pltpu.async_copy(pairs[0].at[:, 1], pairs[1].at[:, 0], sem).wait()

    pl.run_scoped(copy, pltpu.SemaphoreType.DMA)


def test_a_copy_from_a_view_of_a_ref() -> None:
    """A limit of JAX's interpreter, with its own words: these rows don't follow each other."""
    hbm = pl.BlockSpec(memory_space=pl.ANY)
    call = pl.pallas_call(
        copies_from_a_view,
        in_specs=[hbm],
        out_specs=hbm,
        out_shape=jax.ShapeDtypeStruct((32, 128), jnp.float32),
    )
    x = np.ones((32, 128), np.float32)
    with caught(SourceFile("absent.py", b""), Stage.RUN) as found:
        TracedLaunch.of(call, [x], {}).run([x], Mode.STRICT)
    assert found.problem
    assert "JAX's interpreter can't follow a copy" in exception_advice(found.problem)


def test_without_a_kernel_an_array_is_changed_by_at() -> None:
    def sets(x: Any) -> Any:
        x[0] = 1.0
        return x

    content = Path(__file__).read_bytes()
    said = told(lambda: jax.make_jaxpr(sets)(jnp.ones(3)), __file__, content, kernel=False)
    assert "x.at[index].set(value) gives a new one" in said
