"""How arrays lie in HBM and VMEM: cut into tiles, the last ones padded.

A DMA moves whole tiles, so a column of 4096 float32 numbers, shape (4096, 1), is 2 MiB of traffic:
each number takes a row of 128 lanes.

What is said here was read off the layouts that libtpu 0.0.50 and 0.0.51 gave to kernels' operands
on v4, v5e, v5p, v6e and tpu7x, alike on all, and off the sizes of their DMAs. Where such a layout
has larger tiles (8-bit arrays whose rows are a multiple of 32), no dimension is padded further.
Shapes are in elements. `bits` is `tiling.dtype_bits` of the dtype.
"""

import math

from grader.tpu.tiling import LANES, SUBLANES, Shape, native_tile


def tile(shape: Shape, bits: int) -> Shape:
    """The multiples to which an array's last two dimensions (or its only one) are padded.

    (8, 128) with 8 rows or more. Fewer rows take the next power of two, but fill a 32-bit lane at
    least: (4, 128) for 3 rows, (1, 128) for one row of float32 and (2, 128) for one of bfloat16. An
    array of rank 1 is padded to 128 lanes of 32 bits. Raises ValueError as `native_tile` does.
    """
    packed = native_tile(bits)[0] // SUBLANES  # elements that share a lane
    if len(shape) < 2:
        return (LANES * packed,) * len(shape)
    rows = 1 << max(shape[-2] - 1, 0).bit_length()
    return max(packed, min(rows, SUBLANES)), LANES


def padded(shape: Shape, tile: Shape) -> Shape:
    """A shape with its last dimensions rounded up to whole tiles."""
    kept = len(shape) - len(tile)
    whole = (-(-n // t) * t for n, t in zip(shape[kept:], tile, strict=True))
    return (*shape[:kept], *whole)


def stored_bytes(shape: Shape, bits: int) -> int:
    """What an array takes up in HBM or VMEM, padding included."""
    return math.prod(padded(shape, tile(shape, bits))) * bits // 8


def copied_bytes(extent: Shape, shape: Shape, bits: int) -> int:
    """What a DMA of a part of an array moves, `extent` elements along each of its dimensions.

    Whole tiles along the last dimension; along the one before, the rows that it asks for, as far as
    they do not share a 32-bit lane with others. Only where all rows are asked for, the padding
    behind them comes too.
    """
    rows, *rest = tile(shape, bits)
    if rest and extent[-2] < shape[-2]:
        rows = native_tile(bits)[0] // SUBLANES
    return math.prod(padded(extent, (rows, *rest))) * bits // 8


def padding_words(shape: Shape, bits: int) -> str:
    """Which dimensions of an array are padded, for a reader; empty where none is.

    "its last dimension, 1, is padded to 128"
    """
    last = tile(shape, bits)
    names = ("second-to-last dimension", "last dimension")[2 - len(last) :]
    sizes = shape[len(shape) - len(last) :], padded(shape, last)[len(shape) - len(last) :]
    parts = [
        f"its {name}, {size}, is padded to {whole}"
        for name, size, whole in zip(names, *sizes, strict=True)
        if size != whole
    ]
    return " and ".join(parts)
