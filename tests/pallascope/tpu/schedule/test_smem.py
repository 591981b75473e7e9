"""How tables lie in SMEM, by hand: which word, and which part of it, holds which element."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from pallascope.tpu.schedule import smem_words


def test_a_row_lies_word_by_word() -> None:
    found = smem_words(np.array([5, -6, 7], np.int32))
    assert found[:4] == [5, -6, 7, 0]
    assert len(found) == 128


def test_a_scalar_is_the_first_word() -> None:
    assert smem_words(np.int32(-3))[0] == -3  # type: ignore[arg-type]
    assert smem_words(np.array(True))[0] == 1


def test_rows_of_a_tile_follow_each_other() -> None:
    found = smem_words(np.arange(3 * 5, dtype=np.int32).reshape(3, 5))
    assert [found[row * 128 : row * 128 + 6] for row in range(3)] == [
        [0, 1, 2, 3, 4, 0],
        [5, 6, 7, 8, 9, 0],
        [10, 11, 12, 13, 14, 0],
    ]
    assert len(found) == 4 * 128


def test_tiles_follow_each_other_along_the_rows() -> None:
    table = np.arange(9 * 130, dtype=np.int32).reshape(9, 130)
    found = smem_words(table)
    assert len(found) == 4 * 1024
    assert found[7 * 128 + 5] == table[7, 5]
    assert found[1024 + 7 * 128 + 1] == table[7, 129]
    assert found[2 * 1024 + 127] == table[8, 127]


def test_leading_dimensions_come_first() -> None:
    table = np.arange(2 * 3 * 2 * 4, dtype=np.int32).reshape(2, 3, 2, 4)
    found = smem_words(table)
    assert found[(1 * 3 + 2) * 2 * 128 + 128 + 3] == table[1, 2, 1, 3]


@pytest.mark.parametrize(("dtype", "share"), [("int16", 2), ("uint8", 4), ("int8", 4)])
def test_narrow_elements_share_words_with_the_rows_below(dtype: str, share: int) -> None:
    bits = 32 // share
    table = np.arange(16 * 4).reshape(16, 4).astype(dtype)
    found = smem_words(table)
    assert len(found) == 16 // share * 128
    for row in range(share):
        assert found[3] >> bits * row & (1 << bits) - 1 == table[row, 3]
        assert found[128 + 1] >> bits * row & (1 << bits) - 1 == table[share + row, 1]


def test_negative_elements_keep_to_their_part() -> None:
    assert smem_words(np.array([[-1], [0]], np.int16))[0] == 0xFFFF
    assert smem_words(np.array([[0], [-1]], np.int16))[0] == -(1 << 16)
    assert smem_words(np.array([[-1], [0]], np.int8))[0] == 0xFF


def test_a_long_row_of_narrow_elements_is_folded() -> None:
    found = smem_words(np.arange(300, dtype=np.int16))
    assert found[3] == 3 + (131 << 16)
    assert found[128 + 3] == 128 + 131
    assert len(found) == 256


def test_large_tables_of_bytes_have_native_tiles() -> None:
    table = np.arange(64 * 200).reshape(64, 200) % 100
    found = smem_words(table.astype(np.int8))
    assert found[128 * 7 + 2] & 0xFF == table[28, 2]  # word row 7 of the first 32 rows
    assert found[128 * 8 + 2] & 0xFF == table[0, 130]  # then the tile beside it
    assert found[128 * 16 + 2] & 0xFF == table[32, 2]
    assert smem_words(table[:40].astype(np.int8))[128 * 2 + 2] & 0xFF == table[0, 130]
    assert smem_words(table.astype(np.int16))[128 * 4 + 2] & 0xFF == table[0, 130]


def test_half_bytes() -> None:
    table = (np.arange(8 * 2).reshape(8, 2) % 16 - 8).astype(ml_dtypes.int4)
    column = sum((int(table[row, 0]) & 15) << 4 * row for row in range(8))
    assert smem_words(table)[0] & 0xFFFFFFFF == column


def test_booleans_take_a_word_each() -> None:
    assert smem_words(np.array([[True, False], [False, True]]))[:2] == [1, 0]
    assert smem_words(np.array([[True, False], [False, True]]))[128:130] == [0, 1]


def test_floats_are_their_bits() -> None:
    assert smem_words(np.array([1.0, -2.0], np.float32))[:2] == [0x3F800000, -(1 << 30)]
    assert smem_words(np.array([[1.0]], ml_dtypes.bfloat16))[0] == 0x3F80


def test_wide_elements_are_refused() -> None:
    with pytest.raises(ValueError, match="no word of SMEM holds a float64"):
        smem_words(np.zeros(3))
