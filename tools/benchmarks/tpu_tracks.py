"""Solutions at production size, beside the kernels that ship in JAX, and XLA.

    python tools/benchmarks/tpu_tracks.py [--chip v5e] [--chip v6e] [--no-xla] [WORD …]

Each solution after 1_basics is compiled and simulated at the size that its key has under
[production], the first where there are several, in bfloat16 if it can be drawn; WORDs choose some
by name or track. "jax" is the kernel that ships for the same job, on the same inputs, with the same
blocks; "XLA" its own estimate for the spec, or for `jax.lax.ragged_dot`, without Pallas, and what
its program moves. Tables of a mask and sizes of groups are real arrays, for they decide what is
moved. Launches for several chips are left out. Nothing is run, so no TPU is needed; it takes five
minutes.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import importlib
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental.pallas.ops.tpu import flash_attention as flash
from jax.experimental.pallas.ops.tpu import paged_attention as paged
from jax.experimental.pallas.ops.tpu import ragged_paged_attention as ragged
from jax.experimental.pallas.ops.tpu import splash_attention as splash
from jax.experimental.pallas.ops.tpu.splash_attention import (
    splash_attention_mask as splash_masks,
)

from grader.exercise import specs
from grader.exercise.cases import draw
from grader.exercise.catalog import Kata, katas
from grader.verdict import Case
from pallascope.model import Reference
from pallascope.runs.launch_runs import trace_argument
from pallascope.tools.files import load_module
from pallascope.tools.text import format_bytes, format_time
from pallascope.tpu import Prediction, compile_process, predictions
from pallascope.tpu.chips import CHIPS, chips_with_cores, named

ROOT = Path(__file__).parents[2]
# The package has a function of the module's name.
megablox: Any = importlib.import_module("jax.experimental.pallas.ops.tpu.megablox.gmm")

Function = Callable[..., Any]
#: By name: the same job done by a kernel that ships in JAX, which is given the case's sizes first;
#: and by XLA, where the spec is naive.
SHIPPED: dict[str, tuple[Function, str]] = {}
BY_XLA: dict[str, Function] = {}

Sizes = Mapping[str, int]


@dataclasses.dataclass(frozen=True)
class Side:
    """One way of doing the job: its kernels, or why there is no prediction."""

    kernels: tuple[Prediction, ...] = ()
    trouble: str = ""

    @property
    def seconds(self) -> float | None:
        times = [kernel.seconds for kernel in self.kernels]
        return None if self.trouble or None in times else sum(t for t in times if t)

    @property
    def cells(self) -> list[str]:
        """Time, HBM bytes and VMEM; or why there are none."""
        if self.trouble:
            return [self.trouble, "", ""]
        if failures := [kernel.failure.message for kernel in self.kernels if kernel.failure]:
            return [failures[0].partition("\n")[0], "", ""]
        seconds = self.seconds
        told = [kernel.unknown for kernel in self.kernels if kernel.unknown]
        used = max((kernel.vmem.used for kernel in self.kernels if kernel.vmem), default=0)
        moved = sum(kernel.bytes for kernel in self.kernels)
        first = format_time(seconds) if seconds is not None else told[0]
        return [first, format_bytes(moved), format_bytes(used)]


def case_of(exercise: Kata) -> Case:
    """The key's production size; of several choices the first, which for a mask is the causal."""
    production = exercise.key.production
    assert production is not None
    first = {name: choices[0] for name, choices in production.choices.items()}
    given = {name: size for name, size in first.items() if isinstance(size, int)}
    case = draw(exercise.id, exercise.key, 0, given)[-1]
    dtypes = production.choices.get("dtype", exercise.key.choices.get("dtype", ()))
    return dataclasses.replace(case, dtype="bfloat16") if "bfloat16" in dtypes else case


def side(function: Function, args: Sequence[Any], chip: str, kernels: str = "") -> Side:
    """What a launch's kernels take: those in whose names that word is."""
    try:
        found = predictions(function, *args, chip=chip)
    except Exception as error:
        return Side(trouble=f"{type(error).__name__}: {str(error).partition(chr(10))[0][:80]}")
    return Side(tuple(kernel for kernel in found if kernels in kernel.call.name))


def by_xla(function: Function, args: Sequence[Any], chip: str) -> tuple[str, str]:
    """XLA's estimate, or why there is none; and the bytes that its program moves."""
    found = compile_process.xla_cycles(function, args, named(chip))
    told = format_time(found.cycles / named(chip).clock) if found.cycles else found.missing
    return told, format_bytes(found.moved) if found.moved else "–"


def row(
    exercise: Kata,
    case: Case,
    reference: Reference,
    spec: Function | None,
    own: Function,
    chip: str,
) -> str:
    """The table's row for one solution on one chip."""
    inputs = [trace_argument(array) for array in reference.inputs]
    ours = side(functools.partial(own, **reference.keywords), inputs, chip)
    function, kernels = SHIPPED.get(exercise.name, (None, ""))
    theirs = Side(trouble="–")
    if function:
        theirs = side(functools.partial(function, case.sizes), inputs, chip, kernels)
    ratio = f"{ours.seconds / theirs.seconds:.2f}" if ours.seconds and theirs.seconds else "–"
    of_xla = by_xla(BY_XLA.get(exercise.name, spec), inputs, chip) if spec else ("–", "–")
    sizes = ", ".join(f"{name}={size}" for name, size in case.sizes.items() if name != "pattern")
    names = [exercise.number, exercise.name, sizes, chip]
    cells = [*names, *ours.cells, *theirs.cells, ratio, *of_xla]
    return "| " + " | ".join(cells) + " |"


# ---- the same jobs, as JAX does them ----


def shipped(name: str, kernels: str = "") -> Callable[[Function], Function]:
    """Register what JAX ships for a kata's job: its kernels in whose names that word is."""

    def add(function: Function) -> Function:
        SHIPPED[name] = (function, kernels)
        return function

    return add


def _flash(sizes: Sizes, causal: bool, q: Any, k: Any, v: Any) -> Any:
    bq, bkv = sizes["bq"], sizes["bkv"]
    forward = {"block_q": bq, "block_k_major": bkv, "block_k": bkv, "block_b": 1}
    of_queries, of_keys = ("q_major_dkv", "q_dkv", "q_dq"), ("k_major_dkv", "k_dkv")
    backward = {f"block_{edge}": bq for edge in of_queries}
    backward |= {f"block_{edge}": bkv for edge in (*of_keys, "k_major_dq", "k_dq")}
    blocks = flash.BlockSizes(**forward, **backward)
    scale = q.shape[-1] ** -0.5
    return flash.flash_attention(q, k, v, causal=causal, sm_scale=scale, block_sizes=blocks)


def _splash(
    sizes: Sizes, mask: Any, q: Any, k: Any, v: Any, ids: Any = None, **options: Any
) -> Any:
    """Splash attention; where heads of queries share one of keys, its kernel for such groups."""
    of_queries: dict[str, Any] = {f"block_{edge}": sizes["bq"] for edge in ("q", "q_dkv", "q_dq")}
    edges = ("kv", "kv_compute", "kv_dkv", "kv_dkv_compute", "kv_dq")
    of_keys: dict[str, Any] = {f"block_{edge}": sizes["bkv"] for edge in edges}
    blocks = splash.BlockSizes(**of_queries, **of_keys)
    heads = q.shape[1] // k.shape[1]
    shared = heads > 1
    make = splash.make_splash_mqa_single_device if shared else splash.make_splash_mha_single_device
    masks = splash.MultiHeadMask([mask] * (heads if shared else q.shape[1]))
    kernel = make(masks, block_sizes=blocks, **options)
    scaled = q * q.shape[-1] ** -0.5
    if not shared:
        return jax.vmap(kernel)(scaled, k, v, ids)
    grouped = scaled.reshape(*k.shape[:2], heads, *q.shape[2:])
    return jax.vmap(jax.vmap(kernel, (0, 0, 0, None)))(grouped, k, v, ids)


def _causal(sizes: Sizes, q: Any, k: Any, v: Any) -> Any:
    return _splash(sizes, splash.CausalMask((q.shape[2], k.shape[2])), q, k, v)


def _tiling(sizes: Sizes) -> tuple[int, int, int]:
    return sizes["tm"], sizes["tk"], sizes["tn"]


@shipped("flash_attention")
def _(sizes: Sizes, q: Any, k: Any, v: Any) -> Any:
    return _flash(sizes, False, q, k, v)


@shipped("causal_flash")
def _(sizes: Sizes, q: Any, k: Any, v: Any) -> Any:
    return _flash(sizes, True, q, k, v)


@shipped("grouped_query_attention")
def _(sizes: Sizes, q: Any, k: Any, v: Any) -> Any:
    return _splash(sizes, splash.FullMask((q.shape[2], k.shape[2])), q, k, v)


@shipped("flash_backward_dq", "dq")
@shipped("flash_backward_dkv", "dkv")
def _(sizes: Sizes, q: Any, k: Any, v: Any, do: Any, *_: Any) -> Any:
    return jax.vjp(functools.partial(_flash, sizes, False), q, k, v)[1](do)


@shipped("flash_custom_vjp")
def _(sizes: Sizes, q: Any, k: Any, v: Any, do: Any) -> Any:
    o, backward = jax.vjp(functools.partial(_flash, sizes, True), q, k, v)
    return o, backward(do)


@shipped("aligned_grouped_matmul")
def _(sizes: Sizes, x: Any, w: Any) -> Any:
    rows = np.full(len(w), len(x) // len(w), np.int32)
    return megablox.gmm(x, w, rows, x.dtype, tiling=_tiling(sizes))


@shipped("ragged_grouped_matmul")
@shipped("launch_grouped_matmul")
def _(sizes: Sizes, x: Any, w: Any, rows: Any) -> Any:
    return megablox.gmm(x, w, rows, x.dtype, tiling=_tiling(sizes))


@shipped("transposed_grouped_matmul")
def _(sizes: Sizes, x: Any, dy: Any, rows: Any) -> Any:
    return megablox.tgmm(x.T, dy, rows, x.dtype, tiling=_tiling(sizes))


@shipped("grouped_matmul_vjp")
def _(sizes: Sizes, x: Any, w: Any, rows: Any, dy: Any) -> Any:
    tm, tk, tn = _tiling(sizes)
    y = megablox.gmm(x, w, rows, x.dtype, tiling=(tm, tk, tn))
    dx = megablox.gmm(dy, w, rows, x.dtype, tiling=(tm, tn, tk), transpose_rhs=True)
    return y, dx, megablox.tgmm(x.T, dy, rows, x.dtype, tiling=(tm, tk, tn))


@shipped("block_sparse_attention")
@shipped("splash_attention")
def _(sizes: Sizes, q: Any, k: Any, v: Any, *tables: Any) -> Any:
    return _causal(sizes, q, k, v)


@shipped("splash_backward_dq", "dq")
@shipped("splash_backward_dkv", "dkv")
def _(sizes: Sizes, q: Any, k: Any, v: Any, do: Any, *_: Any) -> Any:
    o, backward = jax.vjp(functools.partial(_causal, sizes), q, k, v)
    return backward(do.reshape(o.shape))


@shipped("sliding_window_and_sinks")
def _(sizes: Sizes, q: Any, k: Any, v: Any) -> Any:
    """The window is a formula, and the sinks an array."""
    square, position = (q.shape[2], k.shape[2]), np.arange(q.shape[2])
    window = splash.LocalMask(square, (sizes["window"] - 1, 0), offset=0)
    sinks = (position < sizes["sinks"]) & (position <= position[:, None])
    return _splash(sizes, window | splash_masks.NumpyMask(sinks), q, k, v)


@shipped("segment_ids_and_soft_cap")
def _(sizes: Sizes, q: Any, k: Any, v: Any, q_ids: Any, kv_ids: Any) -> Any:
    ids = splash.SegmentIds(q=q_ids, kv=kv_ids)
    mask = splash.FullMask((q.shape[2], k.shape[2]))
    return _splash(sizes, mask, q, k, v, ids, attn_logits_soft_cap=float(sizes["cap"]))


@shipped("moe_layer")
def _(sizes: Sizes, x: Any, logits: Any, gate: Any, up: Any, down: Any) -> Any:
    """Three grouped matmuls for the same groups; SwiGLU between them is not counted."""
    tm, td, tf = sizes["tm"], sizes["td"], sizes["tf"]
    experts = jax.lax.top_k(logits, sizes["top_k"])[1].ravel()
    rows = jax.numpy.bincount(experts, length=len(gate)).astype(np.int32)
    both = jax.numpy.repeat(x, len(experts) // len(x), axis=0)
    hidden = [megablox.gmm(both, w, rows, x.dtype, tiling=(tm, td, tf)) for w in (gate, up)]
    return megablox.gmm(hidden[0] * hidden[1], down, rows, x.dtype, tiling=(tm, tf, td))


@shipped("paged_attention_index_map")
@shipped("paged_attention_dma")
def _(sizes: Sizes, lengths: Any, table: Any, q: Any, k: Any, v: Any) -> Any:
    """Its pool has heads outermost; what XLA turns isn't counted. It copies 512 keys at a time."""
    batch, groups, rows, width = q.shape
    k, v = (pages.swapaxes(0, 1) for pages in (k, v))
    together = min(table.shape[1], 512 // sizes["P"])
    heads = q.reshape(batch, groups * rows, width)
    return paged.paged_attention(heads, k, v, lengths, table, pages_per_compute_block=together)


@shipped("ragged_paged_attention", "ragged")
def _(sizes: Sizes, lengths: Any, tables: Any, starts: Any, count: Any, q: Any, kv: Any) -> Any:
    """Its cache has the heads beside each other for each token; what XLA turns isn't counted."""
    (groups, rows, width), pages = q.shape, len(kv)
    queries = q.reshape(groups, rows // sizes["R"], sizes["R"], width)
    queries = queries.transpose(1, 0, 2, 3).reshape(len(queries[0]), -1, width)
    cache = kv.transpose(0, 3, 2, 1, 4).reshape(pages, sizes["page"], -1, width)
    blocks = {"num_kv_pages_per_block": sizes["pages"], "num_queries_per_block": sizes["bq"]}
    return ragged.ragged_paged_attention(
        queries, cache, lengths, tables, starts, count, sm_scale=width**-0.5, **blocks
    )


def _by_ragged_dot(x: Any, w: Any, sizes: Any, *_: Any) -> Any:
    return jax.lax.ragged_dot(x, w, sizes)


BY_XLA.update(ragged_grouped_matmul=_by_ragged_dot, launch_grouped_matmul=_by_ragged_dot)


def main() -> None:
    """Predict every solution on each chip, and print the table."""
    parser = argparse.ArgumentParser(description="Predict solutions beside JAX's kernels and XLA.")
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--no-xla", action="store_true", help="leave out XLA's estimates")
    parser.add_argument("--chip", action="append", choices=list(CHIPS))
    options = parser.parse_args()
    warnings.simplefilter("ignore", DeprecationWarning)
    titles = "kata, , size, chip, ours, HBM, VMEM, jax, HBM, VMEM, ours / jax, XLA, HBM"
    print(f"jax {jax.__version__}\n\n| {titles.replace(', ', ' | ')} |")
    print("|" + "---|" * len(titles.split(", ")))
    started = time.perf_counter()
    for exercise in katas(ROOT, "solutions"):
        asked = not options.words or any(word in exercise.id for word in options.words)
        shown = exercise.track != "1_basics" and exercise.key.kernel and exercise.key.production
        shown = shown and not exercise.key.mesh and exercise.key.target.uses_libtpu
        if shown and asked:
            case = case_of(exercise)
            solution = load_module(exercise.solution)
            reference = specs.reference(solution, exercise.name, case, evaluated=False)
            spec, keywords = specs.spec_of(solution, exercise.name, case)
            spec = None if options.no_xla else functools.partial(spec, **keywords)
            for chip in chips_with_cores(exercise.key.cores, options.chip or ("v5e", "v6e")):
                own = getattr(solution, exercise.name)
                print(row(exercise, case, reference, spec, own, chip), flush=True)
    print(f"\n{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
