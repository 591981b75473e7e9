"""Arrays survive the way through bytes, whatever their dtype."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from pallascope.tools.arrays import (
    dtype_of,
    from_numpy,
    in_float64,
    to_numpy,
)

DTYPES = ["float32", "bfloat16", "float16", "float64", "int32", "uint8", "int8", "bool"]


@pytest.mark.parametrize("name", [*DTYPES, "float8_e4m3fn", "int4"])
def test_bytes_and_back(name: str) -> None:
    values = np.arange(-3, 3).reshape(2, 3).astype(dtype_of(name))
    array = from_numpy(values)
    assert (array.dtype, array.shape) == (name, (2, 3))
    assert str(array) == f"{name}[2, 3]"
    back = to_numpy(array)
    assert back.dtype == values.dtype
    assert np.array_equal(back, values)


@pytest.mark.parametrize("values", [np.arange(6.0).reshape(2, 3).T, np.arange(12.0)[::3]])
def test_memory_order_does_not_matter(values: np.ndarray) -> None:
    assert np.array_equal(to_numpy(from_numpy(values)), values)


@pytest.mark.parametrize("shape", [(), (0, 4), (1,)])
def test_scalars_and_empty_arrays(shape: tuple[int, ...]) -> None:
    assert to_numpy(from_numpy(np.ones(shape, np.float32))).shape == shape


def test_it_is_a_copy() -> None:
    values = np.zeros(3)
    array = from_numpy(values)
    values[:] = 1
    assert not to_numpy(array).any()
    assert not to_numpy(array).flags.writeable


def test_the_dtypes_that_numpy_lacks_are_those_of_ml_dtypes() -> None:
    assert dtype_of("bfloat16") == ml_dtypes.bfloat16
    assert dtype_of("float32") == np.float32
    with pytest.raises(TypeError):
        dtype_of("float31")


def test_float64_is_exact() -> None:
    third = np.array([1 / 3, np.nan, np.inf]).astype(ml_dtypes.bfloat16)
    wide = in_float64(from_numpy(third))
    assert wide.dtype == np.float64
    assert wide[0] == float(third[0]) != 1 / 3
    assert np.isnan(wide[1])
    assert np.isinf(wide[2])
