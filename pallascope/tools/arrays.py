"""Arrays between numpy and the bytes sent to processes; conversion to float64; a test for NaN."""

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
