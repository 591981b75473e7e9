"""Low precision by independent code: numpy in float64, ml_dtypes for int4 and roundings."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from tests.support.independent.registry import independent

HIGH, LOW = slice(0, 4), slice(4, 8)  # of the bits of a byte, as numpy unpacks them


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


@independent("row_quantiser")
def _(cap: Any, x: Any) -> Any:
    """Row by row, by numpy's rint."""
    rows, scales = [], []
    for row in np.asarray(x, np.float64):
        most = min(max(row.max(), -row.min()), float(cap[0, 0]))
        scales.append([most / 127 or 1.0])
        rows.append(np.rint(row / scales[-1][0]).clip(-127, 127))
    return np.array(rows, np.int8), np.array(scales)


@independent("int4_weights")
def _(x: Any, w: Any, zero: Any, scale: Any) -> Any:
    """Scaled integers less scaled zero points, with ml_dtypes' values of the integers."""
    x, w = np.asarray(x, np.float64), np.asarray(w).astype(ml_dtypes.int4).astype(np.float64)
    size, scale = len(w) // len(scale), np.asarray(scale, np.float64)
    groups = np.arange(len(w)) // size
    return x @ (w * scale[groups, 0]) - x @ (zero * scale)[groups, 0]


@independent("packed_int4")
def _(x: Any, packed: Any, scale: Any) -> Any:
    """The bytes as numpy's unpacked bits, four of which ml_dtypes reads as an int4."""
    bits = np.unpackbits(np.asarray(packed).view(np.uint8)[..., None], axis=-1)
    halves = (np.packbits(bits[..., at], axis=-1)[..., 0] >> 4 for at in (LOW, HIGH))
    signed = [half.view(np.int8).astype(ml_dtypes.int4).astype(np.float64) for half in halves]
    scale = np.asarray(scale, np.float64)
    size, total = x.shape[1] // len(scale), 0.0
    for g, one in enumerate(scale):
        first = g // 2 * size
        w = signed[g % 2][first : first + size] * one
        total = total + np.asarray(x[:, g * size : (g + 1) * size], np.float64) @ w
    return total


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


#: The numbers of e2m1 without their signs, as the MX specification lists them.
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])


@independent("mxfp4_matmul")
def _(x: Any, packed: Any, scale: Any) -> Any:
    """Group by group, from a table of e2m1's numbers."""
    x, byte = np.asarray(x, np.float64), np.asarray(packed, np.int64)
    total: Any = 0.0
    for g, exponents in enumerate(np.asarray(scale, np.float64)):
        first = g // 2 * 32
        code = byte[first : first + 32] // (16 if g % 2 else 1) % 16
        w = E2M1[code % 8] * np.where(code < 8, 1, -1) * 2.0 ** (exponents - 127)
        total = total + x[:, 32 * g : 32 * g + 32] @ w
    return total


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


@independent("dropout")
def _(x: Any, dy: Any, seed: Any) -> Any:
    """On average, nothing happens: numpy's mean over both outcomes."""
    kept = np.array([3, 1]) / 4
    return tuple(np.average([one / kept[0], 0 * one], axis=0, weights=kept) for one in (x, dy))


@independent("stochastic_rounding")
def _(w: Any, u: Any, seed: Any) -> Any:
    """The sum of float32 numbers, by ml_dtypes' rounding to nearest."""
    total = np.asarray(w, np.float32) + np.asarray(u, np.float32)
    return total.astype(ml_dtypes.bfloat16)
