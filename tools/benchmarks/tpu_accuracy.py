"""Predicted beside measured times: matrix products on a TPU v5e, and copies on a v6e.

    python tools/benchmarks/tpu_accuracy.py

prints four tables in Markdown, and the median and worst ratio of each. Nothing is run, so no TPU
is needed; it takes about six minutes, for the smallest blocks make 262144 grid steps.

The first is from the tutorial "Matrix Multiplication" of JAX's documentation: three variants of a
kernel, two choices of blocks, three sizes. The notebook printed means of 100 launches, timed by
the host, one at a time. So each holds a launch, which it doesn't tell apart. LAUNCH is subtracted
from every row; it is an estimate from these same rows. Those of 4096 and up stay within 0.9 to 1.1
for any launch between 0.065 and 0.198 ms. Those of 1024 say little: a third to nine tenths of them
is the launch.

The second is out of sample: nothing was fitted to it. Tokamax ships what its tuning measured, and
its grouped matmul descends from `jax.experimental.pallas.ops.tpu.megablox`, which is predicted here
with the same tiles. These times are a profiler's, summed over what the device did: nothing is
subtracted, but what XLA does around the kernel is in them and not predicted. Left out are rows that
ask for four buffers, which JAX's kernel doesn't offer, and rows with residuals, which copy the
result. The last row is the only one that HBM bounds: with that many writes among the reads it does
not reach the bandwidth that is predicted with.

The third is a sweep of block sizes at one size, timed by the host. Its kernel adds up in a float32
result, which XLA rounds afterwards. A launch is estimated from every second row, and the ratios are
those of the other rows.

The fourth is one copy through VMEM in blocks of different sizes, on a v6e, by a profiler. Nothing
is subtracted, and nothing was fitted to it.
"""

from __future__ import annotations

import importlib
import itertools
import json
import statistics
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from pallascope.tpu import chips, predictions

TUTORIAL = "docs/pallas/tpu/matmul.ipynb of jax-ml/jax"
LAUNCH = 0.105e-3  # seconds
SIZES = (1024, 4096, 8192)
SMALL, LARGE = (128, 128, 128), (512, 1024, 1024)  # bm, bk, bn
#: Seconds, as printed, by variant and blocks, for each of SIZES.
PRINTED = {
    ("x @ y", SMALL): (0.00029766598949208854, 0.011771515250438824, 0.09183577066054567),
    ("x @ y", LARGE): (0.00012708659982308746, 0.00088908776990138, 0.006099433819763363),
    ("x @ y.T", SMALL): (0.0003029372810851783, 0.012017967159627005, 0.09500920018996112),
    ("x @ y.T", LARGE): (0.00012131539988331496, 0.0008790623804088682, 0.006107717020204291),
    ("relu(x @ y)", SMALL): (0.00030103540048003196, 0.011807117109419778, 0.09181861146935262),
    ("relu(x @ y)", LARGE): (0.00012622540001757442, 0.000896632740041241, 0.006130605939542875),
}
TUNED = Path(__file__).with_name("ragged_dot_v5e.json")
SWEEP = "notebooks/05_reproduce_figures.ipynb of linhkid/pallas-forge, at 090510b"
#: Milliseconds, as printed, by bm and bk, for each of COLUMNS: medians of 15 launches.
COLUMNS, PRODUCT = (128, 256, 512), 2048  # bn; M, K and N
SWEPT = {
    (64, 128): (2.665, 1.588, 1.007),
    (64, 256): (1.693, 1.092, 0.770),
    (64, 512): (1.143, 0.794, 0.681),
    (128, 128): (1.603, 0.972, 0.694),
    (128, 256): (1.020, 0.693, 0.530),
    (128, 512): (0.754, 0.553, 0.457),
    (256, 128): (0.974, 0.646, 0.496),
    (256, 256): (0.713, 0.520, 0.416),
    (256, 512): (0.552, 0.437, 0.380),
    (512, 128): (0.668, 0.488, 0.389),
    (512, 256): (0.538, 0.400, 0.387),
    (512, 512): (0.476, 0.373, 0.318),
}
COPIES = "pallas/index-copy.ipynb of tengyifei/playground, at 0b283c5"
#: Milliseconds, as printed, by the tokens in a block: bfloat16[2048, 4, 128] to another array.
COPIED = {
    1: 0.6497,
    2: 0.3362,
    4: 0.1743,
    8: 0.0908,
    16: 0.0476,
    32: 0.0259,
    64: 0.0146,
    128: 0.0090,
}


def matmul(
    x: Any,
    y: Any,
    *,
    bm: int,
    bk: int,
    bn: int,
    transposed: bool = False,
    relu: bool = False,
    in_result: bool = False,
) -> Any:
    """x[M, K] @ y[K, N], or @ y[N, K].T, in bfloat16 with a float32 accumulator in VMEM.

    With `in_result`, the float32 result itself is the accumulator.
    """

    def kernel(x_ref: Any, y_ref: Any, o_ref: Any, acc_ref: Any = None) -> None:
        acc_ref = o_ref if in_result else acc_ref

        @pl.when(pl.program_id(2) == 0)
        def _() -> None:
            acc_ref[...] = jnp.zeros_like(acc_ref)

        contracted = ((1,), (1 if transposed else 0,))
        acc_ref[...] += lax.dot_general(
            x_ref[...], y_ref[...], (contracted, ((), ())), preferred_element_type=jnp.float32
        )

        if in_result:
            return

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def _() -> None:
            acc = acc_ref[...]
            o_ref[...] = (jnp.maximum(acc, 0) if relu else acc).astype(o_ref.dtype)

    (m, k), n = x.shape, y.shape[0 if transposed else 1]
    if transposed:
        y_spec = pl.BlockSpec((bn, bk), lambda i, j, step: (j, step))
    else:
        y_spec = pl.BlockSpec((bk, bn), lambda i, j, step: (step, j))
    return pl.pallas_call(
        kernel,
        grid=(m // bm, n // bn, k // bk),
        in_specs=[pl.BlockSpec((bm, bk), lambda i, j, step: (i, step)), y_spec],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, step: (i, j)),
        out_shape=jax.ShapeDtypeStruct((m, n), jnp.float32 if in_result else x.dtype),
        scratch_shapes=[] if in_result else [pltpu.VMEM((bm, bn), jnp.float32)],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary")
        ),
    )(x, y)


def tutorial() -> Iterator[tuple[int, float]]:
    """Print the first table; gives the size and the ratio of each row."""
    print(f"{TUTORIAL}, less {LAUNCH * 1e3:.3f} ms for each launch\n")
    _head("kernel", "size", "bm, bk, bn", "printed ms", "measured ms", "predicted ms", "ratio")
    for ((words, blocks), printed), number in itertools.product(PRINTED.items(), range(len(SIZES))):
        size, measured = SIZES[number], printed[number] - LAUNCH
        x = jax.ShapeDtypeStruct((size, size), jnp.bfloat16)
        sizes = dict(zip(("bm", "bk", "bn"), blocks, strict=True))
        way = {"transposed": ".T" in words, "relu": "relu" in words}
        predicted = _seconds(matmul, x, x, **sizes, **way)
        _row(words, size, _list(blocks), printed[number], measured, predicted)
        yield size, predicted / measured


def grouped() -> Iterator[float]:
    """Print the second table; gives the ratio of each row."""
    gmm: Any = importlib.import_module("jax.experimental.pallas.ops.tpu.megablox.gmm")
    table = json.loads(TUNED.read_text())
    print(f"{table['source']}\n")
    _head("kernel", "x", "w or y", "groups", "tm, tk, tn", "measured ms", "predicted ms", "ratio")
    for row in table["rows"]:
        x, y = (jax.ShapeDtypeStruct(tuple(row[side]), jnp.bfloat16) for side in ("lhs", "rhs"))
        groups = np.array(table["groups"][row["groups"]], np.int32)
        options = {"preferred_element_type": jnp.bfloat16, "tiling": tuple(row["tiling"])}
        if row["kind"] == "x.T @ y":
            x = jax.ShapeDtypeStruct(x.shape[::-1], x.dtype)
            predicted = _seconds(gmm.tgmm, x, y, groups, **options)
        else:
            transposed = row["kind"] == "x @ w.T"
            predicted = _seconds(gmm.gmm, x, y, groups, **options, transpose_rhs=transposed)
        measured = statistics.median(row["milliseconds"]) / 1e3
        shapes = _list(row["lhs"]), _list(row["rhs"])
        _row(row["kind"], *shapes, len(groups), _list(row["tiling"]), measured, predicted)
        yield predicted / measured


def swept() -> Iterator[float]:
    """Print the third table; gives the ratios of the rows that no launch was estimated from."""
    x = jax.ShapeDtypeStruct((PRODUCT, PRODUCT), jnp.bfloat16)
    rounding = PRODUCT**2 * (4 + 2) / chips.named("v5e").bandwidth
    rows = [
        ((*two, bn), ms / 1e3)
        for two, row in SWEPT.items()
        for bn, ms in zip(COLUMNS, row, strict=True)
    ]
    predicted = [
        _seconds(matmul, x, x, **dict(zip(("bm", "bk", "bn"), blocks, strict=True)), in_result=True)
        + rounding
        for blocks, _ in rows
    ]
    launch = statistics.median(
        ms - own for (_, ms), own in zip(rows[::2], predicted[::2], strict=True)
    )
    print(
        f"{SWEEP}, less {launch * 1e3:.3f} ms for each launch; {PRODUCT} x {PRODUCT} x {PRODUCT}\n"
    )
    _head("bm, bk, bn", "printed ms", "measured ms", "predicted ms", "ratio")
    for number, ((blocks, measured), own) in enumerate(zip(rows, predicted, strict=True)):
        _row(_list(blocks), measured, measured - launch, own)
        if number % 2:
            yield own / (measured - launch)


def copied() -> Iterator[tuple[float, float]]:
    """Print the fourth table; gives the measured seconds and the ratio of each row."""
    print(f"{COPIES}, on a v6e\n")
    _head("tokens in a block", "steps", "measured ms", "predicted ms", "ratio")
    x = jax.ShapeDtypeStruct((2048, 4, 128), jnp.bfloat16)
    for tokens, milliseconds in COPIED.items():
        predicted = _seconds(copy, x, tokens=tokens, chip="v6e")
        measured = milliseconds / 1e3
        _row(tokens, x.shape[0] // tokens, measured, predicted)
        yield measured, predicted / measured


def copy(x: Any, *, tokens: int) -> Any:
    """x, through VMEM, in blocks of its first dimension."""

    def kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...]

    spec = pl.BlockSpec((tokens, *x.shape[1:]), lambda i: (i, 0, 0))
    out = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(
        kernel, grid=(x.shape[0] // tokens,), in_specs=[spec], out_specs=spec, out_shape=out
    )(x)


def _seconds(function: Any, *args: Any, **keywords: Any) -> float:
    (kernel,) = predictions(function, *args, **keywords)
    if kernel.seconds is None:
        raise SystemExit(f"{kernel.call.name}: {kernel.failure or kernel.unknown}")
    return kernel.seconds


def _head(*titles: str) -> None:
    print(f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}")


def _row(*cells: Any) -> None:
    """A line of a table. Floats are seconds; the last two are what was measured and predicted."""
    texts = [f"{1e3 * cell:.3f}" if isinstance(cell, float) else str(cell) for cell in cells]
    print(f"| {' | '.join([*texts, f'{cells[-1] / cells[-2]:.3f}'])} |", flush=True)


def _list(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


def _summary(words: str, ratios: Sequence[float]) -> None:
    worst = max(ratios, key=lambda ratio: max(ratio, 1 / ratio))
    print(f"{words}: {len(ratios)}, median {statistics.median(ratios):.3f}, worst {worst:.3f}")


def main() -> None:
    """Predict every row of both tables and print them."""
    print(f"Predicted for a TPU v5e with jax {jax.__version__}; measured in bfloat16.\n")
    rows = list(tutorial())
    print()
    _summary("all rows", [ratio for _, ratio in rows])
    _summary("rows of 4096 and up", [ratio for size, ratio in rows if size >= 4096])
    print()
    ratios = list(grouped())
    print()
    _summary("all rows", ratios)
    print()
    ratios = list(swept())
    print()
    _summary("rows that no launch was estimated from", ratios)
    print()
    copies = list(copied())
    print()
    _summary("all rows", [ratio for _, ratio in copies])
    _summary("rows of 16 µs or more", [ratio for time, ratio in copies if time >= 16e-6])


if __name__ == "__main__":
    main()
