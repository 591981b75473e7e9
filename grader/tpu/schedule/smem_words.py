"""How a scalar operand lies in SMEM: the 32-bit words that the scalar core reads.

SMEM holds an array in the tiles that it has in HBM (`grader.tpu.layout`), one after the other along
a row of them: up to 8 rows of 128 lanes, and the native 32 or 64 rows for 8 or 4 bits where they
divide the array's. Elements narrower than a word share one with those of the following rows, the
first row in the lowest bits. An array of rank 1 lies in rows of 128, so elements 0 and 128 of an
int16 array share a word. Read off the addresses that libtpu's schedules compute.
"""

import numpy as np

from grader.tpu.layout import padded, tile
from grader.tpu.tiling import LANES, dtype_bits, native_tile

Array = np.ndarray[tuple[int, ...], np.dtype[np.generic]]


def words(array: Array) -> list[int]:
    """An array's image in SMEM as signed 32-bit words, padded with zeros.

    Any shape; dtypes of up to 32 bits, bool as int32. Raises ValueError for a dtype of another
    width.
    """
    bits = dtype_bits(array.dtype.name)
    if bits > 32:
        raise ValueError(f"no word of SMEM holds a {array.dtype.name}")
    values = _unsigned(array, bits)
    if values.ndim < 2:
        values = np.pad(values.ravel(), (0, -values.size % LANES)).reshape(-1, LANES)
    shape = (-1, *values.shape[-2:])
    values = values.reshape(shape)
    rows, lanes = tile(values.shape, bits)
    if bits < 16 and values.shape[1] % (native := native_tile(bits)[0]) == 0:
        rows = native
    whole = padded(values.shape, (rows, lanes))
    values = np.pad(values, [(0, n - m) for n, m in zip(whole, values.shape, strict=True)])
    share = 32 // bits
    tiles = values.reshape(-1, whole[1] // rows, rows // share, share, whole[2] // lanes, lanes)
    shifts = np.arange(0, 32, bits, dtype=np.uint32).reshape(share, 1, 1)
    packed = (tiles << shifts).sum(axis=3, dtype=np.uint32)
    return packed.transpose(0, 1, 3, 2, 4).ravel().view(np.int32).tolist()


def _unsigned(array: Array, bits: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint32]]:
    """Each element's bits, as a number."""
    if array.dtype == bool:
        return array.astype(np.uint32)
    stored = np.dtype(f"u{array.dtype.itemsize}")  # 4-bit elements take a byte each on the host
    mask = np.uint32(2**bits - 1)
    return np.ascontiguousarray(array).view(stored).reshape(array.shape).astype(np.uint32) & mask
