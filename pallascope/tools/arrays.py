"""Arrays between numpy and the bytes sent to processes; conversion to float64; comparisons."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike

from pallascope.model import Array


def dtype_of(name: str) -> np.dtype:
    """The numpy dtype for JAX's name; ml_dtypes has those that numpy lacks."""
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def from_numpy(value: ArrayLike) -> Array:
    """Copy an array (numpy, or JAX's on any device) into bytes."""
    array = np.asarray(value)
    return Array(array.dtype.name, tuple(array.shape), np.ascontiguousarray(array).tobytes())


def to_numpy(array: Array) -> np.ndarray:
    """The numpy array of these bytes: read-only, in its own dtype."""
    flat = np.frombuffer(array.data, dtype_of(array.dtype))
    return flat.reshape(array.shape)


def in_float64(array: Array) -> np.ndarray:
    """The array's values in float64, which is exact for every dtype that we use except int64."""
    return to_numpy(array).astype(np.float64)


def holds_nan(array: Array) -> bool:
    """Whether an element is NaN; integers never are."""
    values = to_numpy(array)
    return bool((values != values).any())


def holds_infinity(array: Array) -> bool:
    """Whether an element is infinite; integers never are."""
    return bool(np.isinf(in_float64(array)).any())


def widened(array: Array) -> Array:
    """An array of bfloat16 or float16 in float32, with the same values; any other as it is."""
    if array.dtype not in ("bfloat16", "float16"):
        return array
    if not array.data:
        return Array("float32", array.shape, b"")
    return from_numpy(to_numpy(array).astype(np.float32))


#: An odd prime, so that no two blocks of an array with this period are alike.
PERIOD = 65_521


def drawn_like(array: Array, dtype: str, seed: int) -> Array:
    """[PERIOD]: elements of an array, drawn with replacement, in another dtype.

    Those that aren't finite are left out. Numbers beyond -1 … 1 are replaced by their inverses, so
    that exponentials of sums stay finite and all numbers differ.
    """
    values = to_numpy(array).reshape(-1)
    exact = values.astype(np.float64)
    integers = np.issubdtype(values.dtype, np.integer) or values.dtype == np.bool_
    values = values[np.isfinite(exact)]
    rng = np.random.default_rng(seed)
    drawn = (
        values[rng.integers(0, max(values.size, 1), PERIOD)] if values.size else np.zeros(PERIOD)
    )
    if not integers:
        drawn = drawn.astype(np.float64)
        drawn = np.where(np.abs(drawn) > 1, 1 / np.where(drawn, drawn, 1), drawn)
    return from_numpy(drawn.astype(dtype_of(dtype)))


def similar(one: np.ndarray, other: np.ndarray, near: float = 2.0**-5) -> bool:
    """Whether an array equals another where that is finite, up to a part of its largest."""
    if one.shape != other.shape:
        return False
    pair = [values.astype(np.float64) for values in (one, other)]
    finite = np.isfinite(pair[1])
    with np.errstate(invalid="ignore"):
        error = np.abs(pair[0] - pair[1])[finite]
    return bool((error <= near * np.abs(pair[1][finite]).max(initial=0.0)).all())
