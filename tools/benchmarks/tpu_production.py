"""The kernels that ship in JAX, predicted for TPUs: cost, or the reason why there is none.

    python tools/benchmarks/tpu_production.py [--chip v5e] [--chip v6e] [WORD …]

Every kernel of `jax.experimental.pallas.ops.tpu`, at sizes that models have, is lowered, compiled
and simulated; WORDs choose launches by what their names contain. Page tables, group sizes and masks
are real arrays, for they decide what is moved; tensors are shapes only. Prints a table in Markdown
with a row for each kernel of a launch. Nothing is run, so no TPU is needed; it takes a minute.
"""

from __future__ import annotations

import argparse
import importlib
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.pallas.ops.tpu import all_gather, flash_attention, matmul
from jax.experimental.pallas.ops.tpu import paged_attention as paged
from jax.experimental.pallas.ops.tpu import ragged_paged_attention as ragged
from jax.experimental.pallas.ops.tpu import splash_attention as splash
from jax.experimental.pallas.ops.tpu.random import philox, threefry

from pallascope.kernels import TracedLaunch
from pallascope.kernels.lowering import for_chip, lower
from pallascope.tools.text import format_bytes, format_time
from pallascope.tpu import compile_process
from pallascope.tpu.chips import CHIPS, named
from pallascope.tpu.predict import predict
from pallascope.tpu.prediction import Prediction, roofline

Launch = tuple[Callable[..., Any], Sequence[Any]]
LAUNCHES: dict[str, Callable[[], Launch]] = {}
BF16 = jnp.bfloat16
HEADS, TOKENS, WIDTH = 8, 4096, 128
# The package has a function of the module's name.
megablox: Any = importlib.import_module("jax.experimental.pallas.ops.tpu.megablox.gmm")


def shape(*sizes: int, dtype: Any = BF16) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(sizes, dtype)


def with_gradient(function: Callable[..., Any], *args: Any) -> Launch:
    """The launch and its backward pass, for a cotangent that is an argument too."""

    def both(cotangent: Any, *inputs: Any) -> Any:
        result, backward = jax.vjp(function, *inputs)
        return result, backward(cotangent)

    return both, (jax.eval_shape(function, *args), *args)


def launch(name: str) -> Callable[[Callable[[], Launch]], Callable[[], Launch]]:
    def add(make: Callable[[], Launch]) -> Callable[[], Launch]:
        LAUNCHES[name] = make
        return make

    return add


@launch("matmul 4096³")
def _() -> Launch:
    def function(x, y):
        return matmul.matmul(x, y, block_shape=(512, 1024), block_k=1024)

    return function, [shape(4096, 4096)] * 2


@launch("flash_attention, with gradient")
def _() -> Launch:
    def function(q, k, v):
        return flash_attention.flash_attention(q, k, v, causal=True, sm_scale=WIDTH**-0.5)

    return with_gradient(function, *[shape(2, HEADS, TOKENS, WIDTH)] * 3)


@launch("flash_attention, blocks of 512")
def _() -> Launch:
    sizes = flash_attention.BlockSizes(block_q=512, block_k_major=512, block_k=512, block_b=1)

    def function(q, k, v):
        return flash_attention.flash_attention(q, k, v, causal=True, block_sizes=sizes)

    return function, [shape(2, HEADS, TOKENS, WIDTH)] * 3


@launch("flash_attention, segments")
def _() -> Launch:
    def function(q, k, v, ids):
        segments = flash_attention.SegmentIds(q=ids, kv=ids)
        return flash_attention.flash_attention(q, k, v, segment_ids=segments)

    ids = shape(2, TOKENS, dtype=jnp.int32)
    return function, [*[shape(2, HEADS, TOKENS, WIDTH)] * 3, ids]


def _splash(mask: Any, fused: bool = False, block: int = 512) -> Launch:
    kernel = splash.make_splash_mha_single_device(
        splash.MultiHeadMask([mask] * HEADS),
        block_sizes=splash.BlockSizes(
            block_q=block,
            block_kv=block,
            block_kv_compute=block,
            block_q_dkv=block,
            block_kv_dkv=block,
            block_kv_dkv_compute=block,
            block_q_dq=None if fused else block,
            block_kv_dq=None if fused else block,
            use_fused_bwd_kernel=fused,
        ),
    )
    return with_gradient(jax.vmap(kernel), *[shape(2, HEADS, TOKENS, WIDTH)] * 3)


@launch("splash_attention, causal, with gradient")
def _() -> Launch:
    return _splash(splash.CausalMask((TOKENS, TOKENS)))


@launch("splash_attention, local, fused backward")
def _() -> Launch:
    return _splash(splash.LocalMask((TOKENS, TOKENS), (1024, 0), 0), fused=True)


@launch("splash_attention, grouped queries")
def _() -> Launch:
    masks = splash.MultiHeadMask([splash.CausalMask((TOKENS, TOKENS))] * 4)
    kernel = splash.make_splash_mqa_single_device(masks)
    return jax.vmap(kernel), [
        shape(2, 4, TOKENS, WIDTH),
        *[shape(2, TOKENS, WIDTH)] * 2,
    ]


def _groups(count: int, rows: int) -> np.ndarray[Any, np.dtype[np.int32]]:
    """Sizes of groups as a router makes them: none alike, some empty, `rows` together."""
    weights = np.random.default_rng(0).gamma(1.0, size=count)
    weights[::7] = 0
    sizes = (weights / weights.sum() * rows).astype(np.int32)
    sizes[1] += rows - sizes.sum()
    return sizes


@launch("megablox gmm")
def _() -> Launch:
    def function(x, w, sizes):
        return megablox.gmm(x, w, sizes, BF16, tiling=(512, 1024, 1024))

    return function, [shape(16384, 2048), shape(64, 2048, 1024), _groups(64, 16384)]


@launch("megablox gmm, transposed")
def _() -> Launch:
    def function(x, w, sizes):
        return megablox.gmm(x, w, sizes, BF16, tiling=(512, 1024, 1024), transpose_rhs=True)

    return function, [shape(16384, 1024), shape(64, 2048, 1024), _groups(64, 16384)]


@launch("megablox tgmm")
def _() -> Launch:
    def function(x, g, sizes):
        return megablox.tgmm(x, g, sizes, BF16, tiling=(512, 1024, 1024))

    return function, [shape(2048, 16384), shape(16384, 1024), _groups(64, 16384)]


def _paged(inline: bool) -> Launch:
    draw, sequences, pages, size = np.random.default_rng(0), 32, 64, 32

    def function(q, k, v, lengths, table):
        return paged.paged_attention(
            q, k, v, lengths, table, pages_per_compute_block=16, inline_seq_dim=inline
        )

    cache = shape(8, sequences * pages, size, WIDTH)
    table = draw.permutation(sequences * pages).astype(np.int32).reshape(sequences, pages)
    lengths = draw.integers(1, pages * size, sequences, dtype=np.int32)
    return function, [shape(sequences, 32, WIDTH), cache, cache, lengths, table]


@launch("paged_attention")
def _() -> Launch:
    return _paged(inline=True)


@launch("paged_attention, a grid step a block")
def _() -> Launch:
    return _paged(inline=False)


def _ragged(**blocks: int) -> Launch:
    """Prompts and sequences that are further along, together."""
    draw, sequences, pages, size = np.random.default_rng(0), 16, 64, 16
    new = np.where(np.arange(sequences) < 12, 1, draw.integers(64, 256, sequences))
    seen = draw.integers(0, pages * size - 256, sequences)
    starts = np.concatenate([[0], np.cumsum(new)]).astype(np.int32)
    table = draw.permutation(sequences * pages).astype(np.int32).reshape(sequences, pages)

    def function(q, cache, lengths, table, starts, count):
        return ragged.ragged_paged_attention(
            q, cache, lengths, table, starts, count, sm_scale=WIDTH**-0.5, **blocks
        )

    return function, [
        shape(1024, 32, WIDTH),
        shape(sequences * pages, size, 16, WIDTH),
        (new + seen).astype(np.int32),
        table,
        starts,
        np.array([sequences], np.int32),
    ]


@launch("ragged_paged_attention")
def _() -> Launch:
    return _ragged(num_kv_pages_per_block=16, num_queries_per_block=32)


@launch("ragged_paged_attention, tuned blocks")
def _() -> Launch:
    return _ragged()


@launch("random philox")
def _() -> Launch:
    key = np.array([1, 2], np.uint32)
    return lambda key: philox.philox_random_bits(key, 32, (4096, 4096)), [key]


@launch("random threefry")
def _() -> Launch:
    key = np.array([1, 2], np.uint32)
    return lambda key: threefry.plthreefry_random_bits(key, 32, (4096, 4096)), [key]


@launch("all_gather over 4 chips")
def _() -> Launch:
    mesh: Any = jax.sharding.AbstractMesh((4,), ("x",))
    return lambda x: all_gather.all_gather(x, mesh=mesh, axis_name="x"), [shape(4096, 1024)]


def rows(name: str, chip: str) -> Iterator[list[str]]:
    """The table's rows for one launch: what each kernel costs, or where it came to a stop."""
    target = named(chip)
    try:
        with for_chip(target.kind, target.cores):
            function, args = LAUNCHES[name]()
            kernels = TracedLaunch.of(function, args, {}).kernels(args)
    except Exception as error:
        yield [name, "–", chip, "no", "–", "–", "–", "–", f"tracing: {_first_line(error)}"]
        return
    if not kernels:
        yield [name, "–", chip, "–", "–", "–", "–", "–", "no pallas_call"]
    for kernel in kernels:
        who = [name, kernel.call.name, chip]
        try:
            with for_chip(target.kind, target.cores):
                lower(kernel)
        except Exception as error:
            yield [*who, "no", "–", "–", "–", "–", f"lowering: {_first_line(error)}"]
        else:
            yield [*who, "yes", *_compiled(predict(kernel, target, 0, compile_process.build))]


def _compiled(kernel: Prediction) -> list[str]:
    grid = " × ".join("?" if n is None else str(n) for n in kernel.traffic.grid) or "1"
    if kernel.failure:
        return ["no", grid, "–", "–", kernel.failure.message]
    moved = format_bytes(kernel.bytes) if kernel.schedule or not kernel.traffic.unknown else "–"
    if kernel.seconds is None:
        return ["yes" if kernel.compiled else "–", grid, moved, "–", kernel.unknown]
    found = roofline(kernel)
    bound = found.bound.value if found else ""
    return ["yes", grid, moved, format_time(kernel.seconds), bound]


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"


def main() -> None:
    """Predict every launch on each chip, and print the table."""
    parser = argparse.ArgumentParser(description="Predict the kernels that ship in JAX.")
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--chip", action="append", choices=list(CHIPS))
    options = parser.parse_args()
    warnings.simplefilter("ignore", DeprecationWarning)
    chosen = [n for n in LAUNCHES if not options.words or any(w in n for w in options.words)]
    titles = "launch, kernel, chip, lowers, compiles, grid, HBM bytes, predicted, bound or reason"
    print(f"jax {jax.__version__}\n\n| {titles.replace(', ', ' | ')} |")
    print("|" + "---|" * len(titles.split(", ")))
    started = time.perf_counter()
    for name in chosen:
        for chip in options.chip or ("v5e", "v6e"):
            for row in rows(name, chip):
                cells = (cell.replace("|", "\\|").replace("\n", " ") for cell in row)
                print(f"| {' | '.join(cells)} |", flush=True)
    print(f"\n{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
