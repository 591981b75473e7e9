"""Which DMAs a kernel starts by itself, counted from its trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from pallascope.kernels.manual_dma import (
    CONDITIONAL,
    NO_OPERAND,
    UNTOLD_LOOP,
    UNTOLD_SIZE,
    Dma,
    Dmas,
)
from tests.pallascope.support import core_map_kernels as launches
from tests.pallascope.support.launches import on_v5e, shape

X = shape("float32", 256, 128)


@pytest.fixture(autouse=True, scope="module")
def cpu() -> None:
    jax.config.update("jax_platforms", "cpu")


def copied(body: Callable[..., None], *scratch: Any, x: Any = X) -> Dmas:
    """The copies of a kernel from x to an output like it."""
    return on_v5e(lambda x: launches.launched(body, x, scratch_types=scratch)(x), x).copies()


def test_a_copy_within_hbm_reads_and_writes() -> None:
    found = on_v5e(launches.copy_within_hbm, X).copies()
    assert found.known == (Dma(0, True, (256, 128), 1), Dma(1, False, (256, 128), 1))
    assert found.unknown == ("", "")
    assert found.of(1) == (Dma(1, False, (256, 128), 1),)


def test_copies_into_scratch_count_for_what_is_at_each_end() -> None:
    found = on_v5e(launches.add_with_scratch, X).copies()
    whole = (256, 128)
    assert found.of(0) == (Dma(0, True, whole, 1),)
    assert found.of(1) == (Dma(1, False, whole, 1),)
    assert found.of(2) == (Dma(2, False, whole, 1), Dma(2, True, whole, 1))


def test_slices_of_slices_in_a_loop() -> None:
    def body(x_ref: Any, o_ref: Any) -> None:
        def step(i: Any, _: None) -> None:
            half = x_ref.at[pl.ds(128, 128)]
            pltpu.sync_copy(half.at[pl.ds(i * 8, 8), :], o_ref.at[pl.ds(i * 8, 8)])
            pltpu.sync_copy(x_ref.at[i], o_ref.at[i])

        jax.lax.fori_loop(0, 5, step, None)

    assert set(copied(body).known) == {
        Dma(0, True, (8, 128), 5),
        Dma(1, False, (8, 128), 5),
        Dma(0, True, (1, 128), 5),
        Dma(1, False, (1, 128), 5),
    }


def test_a_copy_under_a_condition_is_not_counted() -> None:
    def body(x_ref: Any, o_ref: Any) -> None:
        @pl.when(jax.lax.axis_index("core") == 0)
        def _() -> None:
            pltpu.sync_copy(x_ref, o_ref)

    assert copied(body) == Dmas((), (CONDITIONAL, CONDITIONAL))


def test_a_loop_as_long_as_it_turns_out_to_be() -> None:
    def body(x_ref: Any, o_ref: Any, n_ref: Any) -> None:
        pltpu.sync_copy(x_ref.at[0, 0], n_ref)
        jax.lax.fori_loop(0, n_ref[...], lambda i, _: pltpu.sync_copy(x_ref, o_ref), None)

    found = copied(body, pltpu.SMEM((), jnp.int32), x=shape("int32", 256, 128))
    assert found.unknown == (UNTOLD_LOOP, UNTOLD_LOOP, "")
    assert found.of(0) is None


def test_as_many_rows_as_it_turns_out_to_be() -> None:
    def body(x_ref: Any, o_ref: Any) -> None:
        rows = pl.ds(0, pl.multiple_of(8 * (jax.lax.axis_index("core") + 1), 8))
        pltpu.sync_copy(x_ref.at[rows], o_ref.at[rows])

    assert copied(body).unknown == (UNTOLD_SIZE, UNTOLD_SIZE)


def test_hbm_that_is_no_operand() -> None:
    def body(x_ref: Any, o_ref: Any) -> None:
        pl.run_scoped(lambda buffer: pltpu.sync_copy(x_ref, buffer), pltpu.HBM(X.shape, X.dtype))

    assert set(copied(body).unknown) == {NO_OPERAND}


def test_in_a_pallas_call_too() -> None:
    def kernel(x_ref: Any, o_ref: Any) -> None:
        pltpu.sync_copy(x_ref, o_ref)

    whole = pl.BlockSpec(memory_space=pl.ANY)
    call = pl.pallas_call(kernel, in_specs=[whole], out_specs=whole, out_shape=X)
    assert on_v5e(call, X).copies().known == (
        Dma(0, True, (256, 128), 1),
        Dma(1, False, (256, 128), 1),
    )
