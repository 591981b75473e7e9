"""Predicted beside published times on a TPU v5p and a tpu7x, in two halves.

    python tools/benchmarks/tpu_published.py [--chip v5p] [--kernel grouped] [--every 4]

Tokamax ships what its tuning measured; `published_v5p_tpu7x.json` holds its rows, and the kernels
that are predicted are those that ship in JAX, with the same blocks: megablox's grouped matmul and
splash attention. `Chip.alone` of a v5p was fitted to one half of the rows: the first, third, fifth
… of each kind, in the order of the file. The other half shows what that is worth. `--every 4`
predicts every fourth row of each half. Nothing is run, so no TPU is needed; all rows take most of
an hour.

Left out are rows with residuals, which copy the result, and rows that ask for more than two
buffers, which JAX's grouped matmul doesn't offer: nearly all of "x.T @ y" on a tpu7x.

Tokamax launches its grouped matmul without a grid and cuts the arrays inside, so it runs on one
core of a v5p. Here JAX's kernel is asked for no parallel axis, and on a tpu7x, where blocks are
chosen larger than what a kernel gets, for all of VMEM.

The times of attention hold transposes of q, k, v and the result, which XLA does around the kernel.
"with moves" adds what they take at the least: each array read and written once, at the bandwidth of
the whole chip. Where that is more than a tenth of the sum, a row says less of the kernel, and is
summed up apart, as "short". Apart are also rows that ask the compiler for another scheduler, which
JAX's kernel doesn't: "scheduled". And Tokamax's kernel computes exp2 where JAX's computes exp.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas.ops.tpu import splash_attention as splash

from pallascope.tpu import predictions
from pallascope.tpu.chips import named

TABLE = Path(__file__).with_name("published_v5p_tpu7x.json")
CHIPS = ("v5p", "tpu7x")
HALVES = ("fit", "test")
#: How many cores the arrays around a kernel are moved by: those of JAX's device.
CORES = {"v5p": 2, "tpu7x": 1}
#: The part of a time that XLA's transposes may have without being what is measured.
MOST_MOVES = 0.1
PARAMS = pltpu.CompilerParams
Row = list[Any]


class NoTime(Exception):
    """The compiler refuses the kernel, or its time is not known: the text says why."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One row: its group, its half, and how predicted times compare with the measured one.

    `kernel` leaves out what XLA does around the kernel, and `whole` adds what is known of it.
    """

    group: str
    half: str
    kernel: float
    whole: float


def grouped(chip: str, row: Row) -> tuple[str, str, float, float]:
    """Group, words, and predicted seconds of one grouped matmul: alone, and with what is around."""
    kind, left, right, groups, tiling, _ = row
    gmm: Any = importlib.import_module("jax.experimental.pallas.ops.tpu.megablox.gmm")
    x, y = (jax.ShapeDtypeStruct(tuple(shape), jnp.bfloat16) for shape in (left, right))
    options: dict[str, Any] = {"preferred_element_type": jnp.bfloat16, "tiling": tuple(tiling)}
    function = gmm.gmm
    if kind == "x.T @ y":
        function, x = gmm.tgmm, jax.ShapeDtypeStruct(x.shape[::-1], x.dtype)
    elif kind == "x @ w.T":
        options["transpose_rhs"] = True
    with mock.patch.object(gmm.pltpu, "CompilerParams", _of_one_core(chip)):
        seconds = _seconds(function, x, y, _sizes(groups, left[0]), chip=chip, **options)
    return kind, f"{left} {right} by {tiling}", seconds, seconds


def _of_one_core(chip: str) -> Callable[..., Any]:
    limit = named(chip).vmem if chip == "tpu7x" else None
    order = ("arbitrary",) * 3
    return lambda **_: PARAMS(dimension_semantics=order, vmem_limit_bytes=limit)


def _sizes(groups: int | list[int], rows: int) -> np.ndarray:
    """How many rows each group has: as listed, or drawn evenly, as Tokamax draws them."""
    if not isinstance(groups, int):
        return np.array(groups, np.int32)
    drawn = np.random.default_rng(0).integers(0, groups, rows)
    return np.bincount(drawn, minlength=groups).astype(np.int32)


def attention(chip: str, row: Row) -> tuple[str, str, float, float]:
    """The same of one attention: grouped by scheduler, and by how much transposes take."""
    (batch, tokens, heads, width), kv_heads, out, causal, blocks, layouts, scheduled, _ = row
    mask = (splash.CausalMask if causal else splash.FullMask)((tokens, tokens))
    named_blocks = dict(zip(("block_q", "block_kv", "block_kv_compute"), blocks, strict=True))
    named_layouts = dict(
        zip(("q_layout", "k_layout", "v_layout"), map(splash.QKVLayout, layouts), strict=True)
    )
    kernel = splash.make_splash_mha_single_device(
        splash.MultiHeadMask([mask] * heads),
        block_sizes=splash.BlockSizes(**named_blocks, **named_layouts),
    )
    arrays = [
        (batch, n, tokens, last) for n, last in ((heads, width), (kv_heads, width), (kv_heads, out))
    ]
    types = [jax.ShapeDtypeStruct(shape, jnp.bfloat16) for shape in arrays]
    seconds = _seconds(jax.vmap(kernel), *types, chip=chip)
    moved = 2 * 2 * sum(map(math.prod, [*arrays, (batch, heads, tokens, out)]))
    moves = moved / (named(chip).bandwidth * CORES[chip])
    group = "short" if moves > MOST_MOVES * (seconds + moves) else "long"
    group = "scheduled" if scheduled else group
    words = f"{row[0]} {'causal' if causal else 'all'} by {blocks}"
    return group, words, seconds, seconds + moves


def _seconds(function: Any, *args: Any, **keywords: Any) -> float:
    (kernel,) = predictions(function, *args, **keywords)
    if kernel.seconds is None:
        raise NoTime(kernel.failure.message if kernel.failure else kernel.unknown)
    return kernel.seconds


def compared(
    chip: str, rows: Sequence[Row], predict: Callable[..., Any], every: int
) -> Iterator[Compared]:
    """Predict rows, print each, and compare. Rows alternate between the halves, kind by kind."""
    print("| half | of | row | measured ms | predicted ms | ratio | with moves |\n|" + "---|" * 7)
    seen: dict[object, int] = {}
    for row in rows:
        kind = row[0] if predict is grouped else row[3]
        seen[kind] = number = seen.get(kind, -1) + 1
        if number // 2 % every:
            continue
        half, measured = HALVES[number % 2], row[-1] / 1e3
        try:
            group, words, seconds, whole = predict(chip, row)
        except NoTime as why:
            print(f"| {half} | – | {row[:-1]} | {row[-1]} | {why} | – | – |", flush=True)
            continue
        found = Compared(group, half, seconds / measured, whole / measured)
        print(
            f"| {half} | {group} | {words} | {measured * 1e3:.3f} | {seconds * 1e3:.3f} | "
            f"{found.kernel:.3f} | {found.whole:.3f} |",
            flush=True,
        )
        yield found


def summarise(rows: Sequence[Compared]) -> None:
    """Print both halves of each group, and the test half divided by what fits the other best."""
    for group in dict.fromkeys(row.group for row in rows):
        halves = [[r for r in rows if (r.group, r.half) == (group, half)] for half in HALVES]
        for words, ratio in (("kernel", _kernel), ("with moves", _whole)):
            if words == "with moves" and all(r.kernel == r.whole for half in halves for r in half):
                continue
            fit, test = ([ratio(row) for row in half] for half in halves)
            for half, ratios in zip(HALVES, (fit, test), strict=True):
                print(f"{group}, {words}, {half} half: {_in_words(ratios)}")
            if fit and test:
                factor = statistics.geometric_mean(fit)
                scaled = [each / factor for each in test]
                print(f"{group}, {words}, test half over {factor:.3f}: {_in_words(scaled)}")


def _kernel(row: Compared) -> float:
    return row.kernel


def _whole(row: Compared) -> float:
    return row.whole


def _in_words(ratios: Sequence[float]) -> str:
    if not ratios:
        return "no rows"
    worst = max(ratios, key=lambda ratio: max(ratio, 1 / ratio))
    return f"{len(ratios)} rows, median {statistics.median(ratios):.3f}, worst {worst:.3f}"


def main() -> None:
    """Predict the rows that were asked for, and print them and both halves."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--chip", choices=CHIPS, action="append")
    parser.add_argument("--kernel", choices=("grouped", "splash"), action="append")
    parser.add_argument("--every", type=int, default=1, metavar="N")
    options = parser.parse_args()
    table = json.loads(TABLE.read_text())
    print(f"{table['source']}\n")
    for chip in options.chip or CHIPS:
        for kernel in options.kernel or ("grouped", "splash"):
            predict = grouped if kernel == "grouped" else attention
            print(f"{kernel} on a TPU {chip}, predicted with jax {jax.__version__}\n")
            rows = list(compared(chip, table[kernel][chip], predict, options.every))
            print()
            summarise(rows)
            print()


if __name__ == "__main__":
    main()
