"""Low precision by code that is not ours: numpy in float64, ml_dtypes for int4 and roundings."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from tests.support.independent import independent


@independent("bf16_accumulate")
def _(x: Any, w: Any) -> Any:
    """numpy's own weighted mean, in float64."""
    x, w = np.asarray(x, np.float64), np.asarray(w, np.float64)
    return np.average(x, axis=0, weights=w)[None]


@independent("f32_in_three")
def _(x: Any, y: Any) -> Any:
    """The float64 product, less that of the rests which ml_dtypes' rounding leaves."""
    (x, x_rest), (y, y_rest) = (_with_rest(np.asarray(one, np.float64)) for one in (x, y))
    return x @ y - x_rest @ y_rest


def _with_rest(x: Any) -> tuple[Any, Any]:
    return x, x - x.astype(ml_dtypes.bfloat16).astype(np.float64)


@independent("int8_matmul")
def _(x: Any, w: Any, zero: Any, w_sum: Any, x_scale: Any, w_scale: Any) -> Any:
    """The arrays that were quantised, multiplied in float64."""
    x, w, zero = (np.asarray(one, np.float64) for one in (x, w, zero))
    return ((x - zero) * np.asarray(x_scale)) @ (w * np.asarray(w_scale))


@independent("fp8_matmul")
def _(x: Any, w: Any, scales: Any) -> Any:
    """ml_dtypes' rounding to e4m3, numpy's product in float64."""
    x_scale, w_scale = np.asarray(scales, np.float64)
    quantised = np.clip(x / x_scale, -448, 448).astype(ml_dtypes.float8_e4m3fn)
    return quantised.astype(np.float64) * x_scale @ (np.asarray(w, np.float64) * w_scale)
