"""Predicted beside measured times: matrix products on a TPU v5e, and copies on a v6e.

    python tools/benchmarks/tpu_accuracy.py

prints four tables in Markdown, and the median and worst ratio of each. Nothing is run, so no TPU
is needed; it takes about a minute.

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

The fourth is from one notebook, measured on a v6e by a profiler; nothing is subtracted. A copy
through VMEM in blocks of different sizes is followed by kernels that write 2048 tokens into a cache
by hand: in one step from a copy in VMEM, and in slices, of which each step reads and writes a
number. The first, third, fifth … row of each are the fit half.

    python tools/benchmarks/tpu_accuracy.py --rows docs/accuracy.json

also writes each row for the picture that `tools/draw_accuracy.py` draws.

    python tools/benchmarks/tpu_accuracy.py --fit

finds the two numbers `Chip.launch` and `Chip.dma_latency` of a v6e, by least squares of the
logarithms over the fit half, and prints them. It takes about a minute.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import importlib
import itertools
import json
import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

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
NEW = jax.ShapeDtypeStruct((2048, 4, 128), jnp.bfloat16)
CACHE = jax.ShapeDtypeStruct((5607 * 64, 4, 128), jnp.bfloat16)
#: Milliseconds, as printed, by the tokens in a block: NEW to another array.
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
#: The same for NEW into CACHE, by the slices in a step; 0 for one step with a DMA for each token.
WRITTEN = {0: 0.0216, 8: 0.0743, 16: 0.0456, 32: 0.0304, 64: 0.0239}
HALVES = ("fit", "test")
#: What `--fit` tries, in seconds.
LATENCIES = tuple(nanoseconds * 1e-9 for nanoseconds in range(420, 521, 10))


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


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One row: its chip and source, "fit" or "test", its kernel in words, and seconds.

    "fit": a number of the model, or the launch that is subtracted, was chosen by such rows.
    """

    chip: str
    source: str
    half: str
    words: str
    measured: float
    predicted: float

    @property
    def ratio(self) -> float:
        return self.predicted / self.measured


def tutorial() -> Iterator[Row]:
    """Print the first table; gives its rows."""
    print(f"{TUTORIAL}, less {LAUNCH * 1e3:.3f} ms for each launch\n")
    _head("kernel", "size", "bm, bk, bn", "printed ms", "measured ms", "predicted ms", "ratio")
    for ((words, blocks), printed), number in itertools.product(PRINTED.items(), range(len(SIZES))):
        size, measured = SIZES[number], printed[number] - LAUNCH
        x = jax.ShapeDtypeStruct((size, size), jnp.bfloat16)
        sizes = dict(zip(("bm", "bk", "bn"), blocks, strict=True))
        way = {"transposed": ".T" in words, "relu": "relu" in words}
        predicted = _seconds(matmul, x, x, **sizes, **way)
        _row(words, size, _list(blocks), printed[number], measured, predicted)
        row = f"{words} of {size}, blocks of {_list(blocks)}"
        yield Row("v5e", "JAX's matmul tutorial", "fit", row, measured, predicted)


def grouped() -> Iterator[Row]:
    """Print the second table; gives its rows."""
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
        words = f"{row['kind']}, {_list(row['lhs'])} by {_list(row['rhs'])}"
        yield Row("v5e", "Tokamax", "test", words, measured, predicted)


def swept() -> Iterator[Row]:
    """Print the third table; gives its rows. A launch was estimated from those of the fit half."""
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
        words, half = f"blocks of {_list(blocks)}", HALVES[number % 2]
        yield Row("v5e", "pallas-forge", half, words, measured - launch, own)


def copied() -> list[tuple[str, str, float, Any]]:
    """The rows of the fourth table: words, half, measured seconds, and a function that predicts.

    The function takes a chip and gives seconds.
    """
    pipelined = [
        (f"{tokens} tokens in a block", ms, functools.partial(_seconds, copy, NEW, tokens=tokens))
        for tokens, ms in COPIED.items()
    ]
    by_hand = [
        (
            f"{count} slices in a step" if count else "2048 DMAs in one step",
            ms,
            functools.partial(_seconds, write, NEW, CACHE, places(count), in_a_step=count),
        )
        for count, ms in WRITTEN.items()
    ]
    return [
        (words, HALVES[number % 2], ms / 1e3, predict)
        for rows in (pipelined, by_hand)
        for number, (words, ms, predict) in enumerate(rows)
    ]


def compare_copies() -> Iterator[Row]:
    """Print the fourth table; gives its rows."""
    print(f"{COPIES}, on a v6e\n")
    _head("kernel", "half", "measured ms", "predicted ms", "ratio")
    for words, half, measured, predict in copied():
        predicted = predict(chip="v6e")
        _row(words, half, measured, predicted)
        yield Row("v6e", "tengyifei/playground", half, words, measured, predicted)


def fit() -> None:
    """Print the launch and the latency of a v6e that suit the fit half best."""
    known = chips.CHIPS["v6e"]
    rows = [(measured, predict) for _, half, measured, predict in copied() if half == "fit"]
    best: list[tuple[float, float, float]] = []
    for latency in LATENCIES:
        tried = dataclasses.replace(known, dma_latency=latency, launch=0.0)
        with mock.patch.dict(chips.CHIPS, v6e=tried):
            pairs = [(measured, predict(chip="v6e")) for measured, predict in rows]
        for launch in (microseconds * 0.1e-6 for microseconds in range(41)):
            error = sum(math.log((own + launch) / measured) ** 2 for measured, own in pairs)
            best.append((error, latency, launch))
        error, _, launch = min(one for one in best if one[1] == latency)
        print(
            f"latency {latency * 1e9:.0f} ns, launch {launch * 1e6:.1f} µs: {error:.4f}", flush=True
        )
    error, latency, launch = min(best)
    print(f"best: latency {latency * 1e9:.0f} ns, launch {launch * 1e6:.1f} µs, error {error:.4f}")


def places(in_a_step: int) -> np.ndarray[Any, Any]:
    """Where 2048 tokens go, int32[3, n]: place in the cache, first token, number of tokens.

    24 slices of 64 tokens, then 512 of one, then empty ones up to a multiple of `in_a_step`. For 0
    in a step, int32[2048]: each token's place.
    """
    if not in_a_step:
        return np.arange(NEW.shape[0], dtype=np.int32)
    long = [*range(0, 1024, 64), *range(2048, 2560, 64)]
    short = np.random.default_rng(42).integers(3000, CACHE.shape[0], 512)
    rows = [(place, 64 * number, 64) for number, place in enumerate(long)]
    rows += [(int(place), 1536 + number, 1) for number, place in enumerate(short)]
    return np.array(rows + [(0, 0, 0)] * (-len(rows) % in_a_step), np.int32).T.copy()


@functools.partial(jax.jit, static_argnames="in_a_step", donate_argnames="cache")
def write(new: Any, cache: Any, where: Any, *, in_a_step: int) -> Any:
    """new[2048, 4, 128] into cache[n, 4, 128], whose array the result takes, by DMAs through VMEM.

    `in_a_step` slices, as `slices` gives them, in each step; 0 for one step, token by token.
    """

    def run(sources: Sequence[Any], targets: Sequence[Any], sem: Any) -> None:
        dmas = [
            pltpu.make_async_copy(source, target, sem)
            for source, target in zip(sources, targets, strict=True)
        ]
        for dma in dmas:
            dma.start()
        for dma in dmas:
            dma.wait()

    def by_token(where_ref: Any, new_ref: Any, _: Any, out_ref: Any, vmem: Any, sem: Any) -> None:
        run([new_ref], [vmem], sem)
        tokens = range(vmem.shape[0])
        run([vmem.at[n] for n in tokens], [out_ref.at[where_ref[n]] for n in tokens], sem)

    def by_slice(where_ref: Any, new_ref: Any, _: Any, out_ref: Any, vmem: Any, sem: Any) -> None:
        columns = [pl.program_id(0) * in_a_step + n for n in range(in_a_step)]
        sizes = [where_ref[2, column] for column in columns]
        parts = [vmem.at[n, pl.ds(0, size)] for n, size in enumerate(sizes)]
        both = list(zip(columns, sizes, strict=True))
        run([new_ref.at[pl.ds(where_ref[1, n], size)] for n, size in both], parts, sem)
        run(parts, [out_ref.at[pl.ds(where_ref[0, n], size)] for n, size in both], sem)

    vmem = (in_a_step, 64, *new.shape[1:]) if in_a_step else new.shape
    return pl.pallas_call(
        by_slice if in_a_step else by_token,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(where.shape[1] // in_a_step,) if in_a_step else (),
            in_specs=[pl.BlockSpec(memory_space=pl.ANY)] * 2,
            out_specs=pl.BlockSpec(memory_space=pl.ANY),
            scratch_shapes=[pltpu.VMEM(vmem, new.dtype), pltpu.SemaphoreType.DMA(())],
        ),
        out_shape=jax.ShapeDtypeStruct(cache.shape, cache.dtype),
        input_output_aliases={2: 0},
    )(where, new, cache)


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


def _summary(words: str, rows: Sequence[Row]) -> None:
    if rows:
        ratios = [row.ratio for row in rows]
        worst = max(ratios, key=lambda ratio: max(ratio, 1 / ratio))
        middle = statistics.median(ratios)
        print(f"{words}: {len(ratios)} rows, median {middle:.3f}, worst {worst:.3f}")


def main() -> None:
    """Predict every row of all tables and print them, or fit."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--fit", action="store_true", help="fit two numbers of a v6e")
    parser.add_argument("--rows", type=Path, metavar="FILE", help="also write the rows, as JSON")
    options = parser.parse_args()
    if options.fit:
        return fit()
    print(f"Predicted with jax {jax.__version__}; measured in bfloat16.\n")
    rows: list[Row] = []
    for table in (tutorial, grouped, swept, compare_copies):
        found = list(table())
        rows += found
        print()
        for half in HALVES:
            _summary(f"{half} half", [row for row in found if row.half == half])
        if table is tutorial:
            _summary("of 16 µs to 0.2 ms", [row for row in found if row.measured < 2e-4])
            _summary("longer", [row for row in found if row.measured >= 2e-4])
        print()
    if options.rows:
        kept = ",\n".join(json.dumps(dataclasses.asdict(row)) for row in rows)
        options.rows.write_text(f"[\n{kept}\n]\n", encoding="utf-8")
    return None


if __name__ == "__main__":
    main()
