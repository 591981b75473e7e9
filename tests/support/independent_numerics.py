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


@independent("fp8_matmul")
def _(x: Any, w: Any, scales: Any) -> Any:
    """ml_dtypes' rounding to e4m3, numpy's product in float64."""
    x_scale, w_scale = np.asarray(scales, np.float64)
    quantised = np.clip(x / x_scale, -448, 448).astype(ml_dtypes.float8_e4m3fn)
    return quantised.astype(np.float64) * x_scale @ (np.asarray(w, np.float64) * w_scale)


@independent("block_scaled_matmul")
def _(x: Any, w: Any, x_scales: Any, w_scales: Any) -> Any:
    """Both sides dequantised in float64, their scales spread by Kronecker products."""
    x, w, s, t = (np.asarray(a, np.float64) for a in (x, w, x_scales, w_scales))
    return (x * np.kron(s.T, np.ones((1, 128)))) @ (w * np.kron(t, np.ones((128, 128))))
