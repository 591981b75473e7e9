"""Predicted beside measured times on a TPU v5e: 18 matrix multiplications and 10 grouped ones.

    python tools/benchmarks/tpu_accuracy.py

prints two tables in Markdown, and the median and worst ratio of each. Nothing is run, so no TPU
is needed; it takes about five minutes, for the smallest blocks make 262144 grid steps.

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

from pallascope.tpu import predictions

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


def matmul(
    x: Any, y: Any, *, bm: int, bk: int, bn: int, transposed: bool = False, relu: bool = False
) -> Any:
    """x[M, K] @ y[K, N], or @ y[N, K].T, in bfloat16 with a float32 accumulator in VMEM."""

    def kernel(x_ref: Any, y_ref: Any, o_ref: Any, acc_ref: Any) -> None:
        @pl.when(pl.program_id(2) == 0)
        def _() -> None:
            acc_ref[...] = jnp.zeros_like(acc_ref)

        contracted = ((1,), (1 if transposed else 0,))
        acc_ref[...] += lax.dot_general(
            x_ref[...], y_ref[...], (contracted, ((), ())), preferred_element_type=jnp.float32
        )

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
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
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


if __name__ == "__main__":
    main()
