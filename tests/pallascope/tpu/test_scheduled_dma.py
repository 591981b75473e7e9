"""What kernels copy by themselves, counted by the compiler's schedule."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest

from pallascope.tpu import Prediction, compiler
from pallascope.tpu.dma_buffers import with_scheduled_dma
from pallascope.tpu.predict import predictions
from pallascope.tpu.schedule import OperandDmas
from pallascope.tpu.traffic import BY_THE_KERNEL, OUTSIDE
from tests.pallascope.support import manual_dma_launches as launches
from tests.pallascope.support.launches import shape
from tests.pallascope.support.sample_predictions import matmul, rows, schedule

X = shape("float32", 512, 256)
SIZE = 512 * 256 * 4
#: As a paged kernel is given its tables: by value.
LENGTHS = np.array([3, 0, 130, 256], np.int32)
TABLES = np.array([[1, 1, 1, 1], [40, -1, 3, 7]], np.int32)
IDS = np.array([5, 1, 1, 0, 7, 500, 3, 2], np.int32)

needs_libtpu = pytest.mark.skipif(bool(compiler.unavailable_reason()), reason="libtpu")


def test_only_what_the_trace_does_not_tell_is_taken_from_the_schedule() -> None:
    call = matmul()
    traced = rows(call, bytes=None, moves=None, least=None, stored=900, note=BY_THE_KERNEL)
    again = with_scheduled_dma(
        traced,
        [one.name for one in call.operands],
        dataclasses.replace(
            schedule(),
            moved=(
                OperandDmas("x_ref", True, 600, 9.0, 3),
                OperandDmas("x_ref", False, 400, 0.0, 2),
            ),
        ),
    )
    x, *others = again.operands
    assert (x.moves, x.bytes, x.written, x.least, x.by_hand) == (5, 1000, 400, 900, True)
    assert others == list(traced.operands[1:])


def test_reasons_of_operands_with_blocks_stay() -> None:
    call = matmul()
    hidden = rows(call, bytes=None, moves=None, least=None, note=OUTSIDE)
    assert with_scheduled_dma(hidden, [one.name for one in call.operands], schedule()) == hidden


@pytest.fixture(autouse=True, scope="module")
def cpu() -> None:
    jax.config.update("jax_platforms", "cpu")


def moved(kernel: Prediction) -> dict[str, tuple[int | None, int | None]]:
    """By operand that the kernel copies by itself: how many copies, and their bytes."""
    assert kernel.schedule is not None, kernel.unknown or kernel.failure
    pairs = zip(kernel.labels, kernel.traffic.operands, strict=True)
    assert kernel.traffic.unknown == ()
    return {label: (row.moves, row.bytes) for label, row in pairs if row.by_hand and row.bytes}


@needs_libtpu
@pytest.mark.parametrize(
    ("launch", "args", "expected"),
    [
        (launches.double_buffer, (X,), {"x_ref": (4, SIZE), "o_ref": (4, SIZE)}),
        (launches.ring, (X,), {"x_ref": (8, SIZE)}),
        (launches.emitted, (X,), {"x_ref": (4, SIZE), "o_ref": (4, SIZE)}),
        (launches.over_a_mesh, (X,), {"x_ref": (4, SIZE), "o_ref": (4, SIZE)}),
        (launches.nested, (X,), {"x_ref": (8, SIZE), "o_ref": (2, 2 * 8 * 256 * 4)}),
        # Three rows take one block of 128, and 130 take two.
        (launches.ragged, (LENGTHS, shape("float32", 4, 256, 128)), {"x_ref": (5, 5 * 65_536)}),
        (launches.gather, (IDS, X), {"x_ref": (8, 8 * 256 * 4)}),
        (
            launches.gather_over_a_mesh,
            (TABLES, X),
            {"tables": (1, 512), "x_ref": (3, 3 * 8192), "o_ref": (3, 3 * 8192)},
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_copies_and_bytes_of_pipelines_by_hand(
    launch: Any, args: tuple[Any, ...], expected: dict[str, tuple[int, int]]
) -> None:
    (found,) = predictions(launch, *args)
    assert moved(found) == expected


@needs_libtpu
def test_a_cache_that_is_given_away_costs_what_is_written_and_a_new_one_all_of_it() -> None:
    rows_of, cache = shape("float32", 4, 8, 128), shape("float32", 4, 64, 8, 128)
    positions = np.array([1, 60, 0, 7], np.int32)
    (kept,) = predictions(launches.cache_write, positions, rows_of, cache)
    assert moved(kept) == {"new_ref": (4, 4 * 4096), "o_ref": (4, 4 * 4096)}
    assert (kept.copied, bool(kept.least)) == ((), True)
    (new,) = predictions(launches.new_cache, positions, rows_of, cache)
    assert new.bytes - kept.bytes == 2 * 4 * 64 * 4096
