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


def _rounded_in_groups(a: Any, dim: int) -> Any:
    """Each 128 numbers along a dimension on ml_dtypes' grid of e4m3, by numpy's own exponents."""
    groups = np.stack(np.split(a, a.shape[dim] // 128, axis=dim))
    largest = np.abs(groups).max(axis=dim + 1, keepdims=True)
    scale = 2.0 ** np.ceil(np.log2(np.where(largest > 0, largest, 448) / 448))
    rounded = (groups / scale).astype(ml_dtypes.float8_e4m3fn).astype(np.float64) * scale
    return np.concatenate(list(rounded), axis=dim)


@independent("block_scaled_training_step")
def _(x: Any, w: Any, dy: Any) -> Any:
    x, w, dy = (np.asarray(a, np.float64) for a in (x, w, dy))
    by_rows, by_columns = ([_rounded_in_groups(a, dim) for a in (x, w, dy)] for dim in (1, 0))
    return by_rows[0] @ by_columns[1], by_rows[2] @ by_rows[1].T, by_columns[0].T @ by_columns[2]
