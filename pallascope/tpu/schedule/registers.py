"""Values in registers of the scalar core, words in SMEM, and values known only to a run on a chip.

A register holds a word, an address in HBM, or an unknown value. A word is a signed 32-bit Python
integer; a predicate is a bool.

SMEM holds an array in the tiles that it has in HBM (`pallascope.tpu.block_sizes`), one after the
other along a row of them: up to 8 rows of 128 lanes, and the native 32 or 64 rows for 8 or
4 bits where they divide the array's. Elements narrower than a word share one with those of the
following rows, the first row in the lowest bits. An array of rank 1 lies in rows of
128, so elements 0 and 128 of an int16 array share a word. Source: the addresses that libtpu's
schedules compute.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pallascope.tpu.block_rules import LANES, dtype_bits, native_tile
from pallascope.tpu.block_sizes import padded, tile_shape
from pallascope.tpu.schedule.bundles import NotUnderstood

Array = np.ndarray[tuple[int, ...], np.dtype[np.generic]]


def smem_words(array: Array) -> list[int]:
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
    rows, lanes = tile_shape(values.shape, bits)
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


WORD, SIGN = (1 << 32) - 1, 1 << 31

#: A number shifted right by 31 is one of these if and only if it is a word.
FITS = frozenset((0, -1))


@dataclass(frozen=True, slots=True)
class OperandSource:
    """An operand of the kernel in the schedule: `kind` is "input" or "output", with its number."""

    kind: str
    index: int


class Unknown:
    """A scalar that is known only in a real run; every value computed from it is unknown too.

    Using it for a branch, a DMA or an address raises NotUnderstood.
    """

    __slots__ = ("why",)

    def __init__(self, why: str) -> None:
        self.why = why

    def _spread(self, *_: Any) -> Any:
        return self._result()

    def _result(self) -> Unknown:
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _spread
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _spread
    __xor__ = __rxor__ = __lt__ = __le__ = __gt__ = __ge__ = _spread
    __eq__ = __ne__ = _spread
    __hash__ = object.__hash__

    def __and__(self, other: Any) -> Any:
        return other if isinstance(other, int) and not other else self._spread()

    def __or__(self, other: Any) -> Any:
        return other if other is True else self._spread()

    __rand__, __ror__ = __and__, __or__

    def __bool__(self) -> bool:
        raise NotUnderstood(f"control flow depends on {self._result().why}")

    def __index__(self) -> int:
        raise NotUnderstood(f"an address depends on {self._result().why}")


class Address(Unknown):
    """An address in HBM: a known operand and offset, at an unknown base.

    A DMA counts the `offset` in granules; so does the scalar core, except on v5e, where it counts
    sixteen of them and shifts the sum when it makes a DMA's address.
    """

    __slots__ = ("offset", "source")

    def __init__(self, source: OperandSource, offset: int = 0) -> None:
        self.source, self.offset = source, offset

    def _result(self) -> Unknown:
        return _SOMEWHERE

    def __add__(self, other: Any) -> Any:
        return Address(self.source, self.offset + other) if _known(other) else other._spread()

    def __sub__(self, other: Any) -> Any:
        return Address(self.source, self.offset - other) if _known(other) else other._spread()

    def __lshift__(self, other: Any) -> Any:
        return Address(self.source, self.offset << other) if _known(other) else other._spread()

    def __and__(self, other: Any) -> Any:
        return Address(self.source, self.offset & other) if _known(other) else other._spread()

    __radd__, __rand__ = __add__, __and__


_SOMEWHERE = Unknown("where in HBM an operand lies")


def wrapped(value: Any) -> Any:
    """The low 32 bits as a signed word; other values stay unchanged."""
    return (value + SIGN & WORD) - SIGN if _known(value) else value


def _known(value: Any) -> bool:
    return not isinstance(value, Unknown)


def select(condition: Any, this: Any, other: Any) -> Any:
    """`this` where the condition holds, else `other`; unknown if the condition is."""
    if isinstance(condition, Unknown):
        return condition
    return this if condition else other


def leading_zeros(value: Any) -> Any:
    """The number of a word's leading zero bits."""
    return value if isinstance(value, Unknown) else 32 - (value & WORD).bit_length()


def divide(dividend: Any, divisor: Any) -> tuple[Any, Any]:
    """Quotient and remainder of two words as unsigned numbers."""
    if (unknown := first_unknown(dividend, divisor)) is not None:
        return unknown, unknown
    if divisor == 0:
        return Unknown("a division by zero"), Unknown("a division by zero")
    quotient, remainder = divmod(dividend & WORD, divisor & WORD)
    return wrapped(quotient), wrapped(remainder)


def floating(*operands: Any) -> Unknown:
    """The unknown result of float32 arithmetic; an operand that is unknown is the reason."""
    unknown = first_unknown(*operands)
    return Unknown("arithmetic on a float32 scalar") if unknown is None else unknown


def first_unknown(*values: Any) -> Unknown | None:
    """The first of the values that is unknown, or None."""
    return next((value for value in values if isinstance(value, Unknown)), None)
