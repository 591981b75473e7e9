"""The solutions of two tracks at production size, beside the kernels that ship in JAX, and XLA.

    python tests/benchmarks/tpu_tracks.py [--chip v5e] [--chip v6e] [WORD …]

Each solution of 3_attention and 4_grouped_matmul is compiled and simulated at a size that models
have (4096 tokens, heads of 128; 8 experts of 2048 × 2048), in bfloat16; WORDs choose some by name.
"jax" is the kernel that ships for the same job, on the same inputs; "XLA" its own estimate for the
spec, or for `jax.lax.ragged_dot`, without Pallas. Tables of a mask and sizes of groups are real
arrays, for they decide what is moved. Nothing is run, so no TPU is needed; it takes two minutes.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import importlib
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental.pallas.ops.tpu import flash_attention as flash
from jax.experimental.pallas.ops.tpu import splash_attention as splash

from grader.exercise import specs
from grader.exercise.cases import draw
from grader.exercise.catalog import Kata, katas
from grader.model import Case, Reference
from grader.tools.modules import load_module
from grader.tpu import Prediction, compile_apart, predictions
from grader.tpu.chips import CHIPS, named
from grader.tpu.units import bytes_of, time_of

ROOT = Path(__file__).parents[2]
BLOCK = 512
CAUSAL = 0  # the pattern of a sparse mask
TILING = (512, 1024, 1024)
# The package has a function of the module's name.
megablox: Any = importlib.import_module("jax.experimental.pallas.ops.tpu.megablox.gmm")

Function = Callable[..., Any]
#: By name: the same job done by a kernel that ships in JAX, and by XLA where the spec is naive.
SHIPPED: dict[str, tuple[Function, str]] = {}
BY_XLA: dict[str, Function] = {}

ATTENTION = {"B": 1, "N": 8, "T": 4096, "S": 4096, "H": 128, "bq": BLOCK, "bkv": BLOCK}
#: Of rows that tiles divide, or that one block holds, and of masks that jax has by name.
SPECIAL: dict[str, dict[str, int]] = {
    "dot_product_attention": {"T": 1024, "S": 1024},
    "tiled_softmax": {"M": 4096, "N": 4096, "bm": 512, "bn": 1024},
    "online_softmax": {"M": 4096, "N": 4096, "bm": 512, "bn": 1024},
    "attention_one_q_block": {"T": 512},
    "grouped_query_attention": {"K": 2},
    "block_sparse_attention": {"pattern": CAUSAL},
    "splash_attention": {"pattern": CAUSAL, "K": 8},
    "splash_backward_dkv": {"pattern": CAUSAL},
    "segment_ids_and_soft_cap": {"K": 8},
    "ragged_sequence": {"K": 8, "T": 4000, "S": 4000},
    "flash_backward_delta": {"bt": 2048},
    "moe_layer": {"T": 4096, "D": 2048, "F": 2048, "E": 8, "top_k": 2, "td": 1024, "tf": 512},
}
GROUPED = dict(zip(("tm", "tk", "tn"), TILING, strict=True)) | {
    **{"G": 8, "M": 8192, "K": 2048, "N": 2048, "T": 16, "pattern": 0}
}


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
        first = time_of(seconds) if seconds is not None else told[0]
        return [first, bytes_of(moved), bytes_of(used)]


def case_of(exercise: Kata) -> Case:
    """The production size: of those above, what the key's cases have."""
    wanted = ATTENTION if exercise.track == "3_attention" else GROUPED
    wanted = wanted | SPECIAL.get(exercise.name, {})
    given = {name: size for name, size in wanted.items() if name in exercise.key.choices}
    return dataclasses.replace(draw(exercise.id, exercise.key, 0, given)[0], dtype="bfloat16")


def side(function: Function, args: Sequence[Any], chip: str, kernels: str = "") -> Side:
    """What a launch's kernels take: those in whose names that word is."""
    try:
        found = predictions(function, *args, chip=chip)
    except Exception as error:
        return Side(trouble=f"{type(error).__name__}: {str(error).partition(chr(10))[0][:80]}")
    return Side(tuple(kernel for kernel in found if kernels in kernel.call.name))


def by_xla(function: Function, args: Sequence[Any], chip: str) -> str:
    """XLA's estimate, or why there is none."""
    found = compile_apart.xla_cycles(function, args, named(chip))
    return time_of(found.cycles / named(chip).clock) if found.cycles else found.missing


def row(exercise: Kata, reference: Reference, spec: Function, own: Function, chip: str) -> str:
    """The table's row for one solution on one chip."""
    inputs = [specs.argument(array) for array in reference.inputs]
    ours = side(functools.partial(own, **reference.keywords), inputs, chip)
    function, kernels = SHIPPED.get(exercise.name, (None, ""))
    theirs = side(function, inputs, chip, kernels) if function else Side(trouble="–")
    ratio = f"{ours.seconds / theirs.seconds:.2f}" if ours.seconds and theirs.seconds else "–"
    estimate = by_xla(BY_XLA.get(exercise.name, spec), inputs, chip)
    cells = [exercise.number, exercise.name, chip, *ours.cells, *theirs.cells, ratio, estimate]
    return "| " + " | ".join(cells) + " |"


# ---- the same jobs, as JAX does them ----


def shipped(name: str, kernels: str = "") -> Callable[[Function], Function]:
    """Register what JAX ships for a kata's job: its kernels in whose names that word is."""

    def add(function: Function) -> Function:
        SHIPPED[name] = (function, kernels)
        return function

    return add


def _flash(q: Any, k: Any, v: Any, causal: bool = False, segments: Any = None) -> Any:
    edges = ("q", "k_major", "k", "b")
    forward = {f"block_{edge}": BLOCK for edge in edges} | {"block_b": 1}
    backward = ("q_major_dkv", "k_major_dkv", "k_dkv", "q_dkv", "k_major_dq", "k_dq", "q_dq")
    sizes = flash.BlockSizes(**forward, **{f"block_{edge}": BLOCK for edge in backward})
    scale = q.shape[-1] ** -0.5
    return flash.flash_attention(
        q, k, v, causal=causal, segment_ids=segments, sm_scale=scale, block_sizes=sizes
    )


def _splash(mask: Any, heads: int, one_kv: bool = False, **options: Any) -> Function:
    edges = ("q", "kv", "kv_compute", "q_dkv", "kv_dkv", "kv_dkv_compute", "q_dq", "kv_dq")
    blocks: dict[str, Any] = {f"block_{edge}": BLOCK for edge in edges}
    sizes = splash.BlockSizes(**blocks)
    make = splash.make_splash_mqa_single_device if one_kv else splash.make_splash_mha_single_device
    return make(splash.MultiHeadMask([mask] * heads), block_sizes=sizes, **options)


@shipped("flash_attention")
def _(q: Any, k: Any, v: Any) -> Any:
    return _flash(q, k, v)


@shipped("causal_flash")
def _(q: Any, k: Any, v: Any) -> Any:
    return _flash(q, k, v, causal=True)


@shipped("grouped_query_attention")
def _(q: Any, k: Any, v: Any) -> Any:
    heads = q.shape[1] // k.shape[1]
    kernel = _splash(splash.FullMask((q.shape[2], k.shape[2])), heads, one_kv=True)
    grouped = q.reshape(*k.shape[:2], heads, *q.shape[2:])
    return jax.vmap(jax.vmap(kernel))(grouped * q.shape[-1] ** -0.5, k, v)


@shipped("flash_backward_dq", "dq")
def _(q: Any, k: Any, v: Any, do: Any, *_: Any) -> Any:
    return jax.vjp(_flash, q, k, v)[1](do)


@shipped("flash_backward_dkv", "dkv")
def _(q: Any, k: Any, v: Any, do: Any, *_: Any) -> Any:
    return jax.vjp(_flash, q, k, v)[1](do)


@shipped("flash_custom_vjp")
def _(q: Any, k: Any, v: Any, do: Any) -> Any:
    o, backward = jax.vjp(functools.partial(_flash, causal=True), q, k, v)
    return o, backward(do)


@shipped("aligned_grouped_matmul")
def _(x: Any, w: Any) -> Any:
    sizes = np.full(len(w), len(x) // len(w), np.int32)
    return megablox.gmm(x, w, sizes, x.dtype, tiling=TILING)


@shipped("ragged_grouped_matmul")
@shipped("launch_grouped_matmul")
def _(x: Any, w: Any, sizes: Any) -> Any:
    return megablox.gmm(x, w, sizes, x.dtype, tiling=TILING)


@shipped("transposed_grouped_matmul")
def _(x: Any, dy: Any, sizes: Any) -> Any:
    return megablox.tgmm(x.T, dy, sizes, x.dtype, tiling=TILING)


@shipped("grouped_matmul_vjp")
def _(x: Any, w: Any, sizes: Any, dy: Any) -> Any:
    y = megablox.gmm(x, w, sizes, x.dtype, tiling=TILING)
    dx = megablox.gmm(dy, w, sizes, x.dtype, tiling=TILING, transpose_rhs=True)
    return y, dx, megablox.tgmm(x.T, dy, sizes, x.dtype, tiling=TILING)


@shipped("block_sparse_attention")
@shipped("splash_attention")
def _(q: Any, k: Any, v: Any, *tables: Any) -> Any:
    causal = splash.CausalMask((q.shape[2], k.shape[2]))
    return jax.vmap(_splash(causal, q.shape[1]))(q * q.shape[-1] ** -0.5, k, v)


@shipped("splash_backward_dkv", "dkv")
def _(q: Any, k: Any, v: Any, do: Any, *_: Any) -> Any:
    kernel = _splash(splash.CausalMask((q.shape[2], k.shape[2])), q.shape[1])
    return jax.vjp(jax.vmap(kernel), q * q.shape[-1] ** -0.5, k, v)[1](do)


@shipped("segment_ids_and_soft_cap")
def _(q: Any, k: Any, v: Any, q_ids: Any, kv_ids: Any) -> Any:
    mask = splash.FullMask((q.shape[2], k.shape[2]))
    kernel = _splash(mask, q.shape[1], attn_logits_soft_cap=50.0)
    ids = splash.SegmentIds(q=q_ids, kv=kv_ids)
    return jax.vmap(kernel)(q * q.shape[-1] ** -0.5, k, v, ids)


@shipped("moe_layer")
def _(x: Any, logits: Any, gate: Any, up: Any, down: Any) -> Any:
    """Three grouped matmuls for the same groups; SwiGLU between them is not counted."""
    experts = jax.lax.top_k(logits, SPECIAL["moe_layer"]["top_k"])[1].ravel()
    rows = jax.numpy.bincount(experts, length=len(gate)).astype(np.int32)
    both = jax.numpy.repeat(x, len(experts) // len(x), axis=0)
    hidden = [megablox.gmm(both, w, rows, x.dtype, tiling=TILING) for w in (gate, up)]
    return megablox.gmm(hidden[0] * hidden[1], down, rows, x.dtype, tiling=TILING)


def _by_ragged_dot(x: Any, w: Any, sizes: Any, *_: Any) -> Any:
    return jax.lax.ragged_dot(x, w, sizes)


BY_XLA.update(ragged_grouped_matmul=_by_ragged_dot, launch_grouped_matmul=_by_ragged_dot)


def main() -> None:
    """Predict every solution on each chip, and print the table."""
    parser = argparse.ArgumentParser(
        description="Predict two tracks' solutions beside JAX's kernels."
    )
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--chip", action="append", choices=list(CHIPS))
    options = parser.parse_args()
    warnings.simplefilter("ignore", DeprecationWarning)
    titles = "kata, , chip, ours, HBM, VMEM, jax, HBM, VMEM, ours / jax, XLA"
    print(f"jax {jax.__version__}\n\n| {titles.replace(', ', ' | ')} |")
    print("|" + "---|" * len(titles.split(", ")))
    started = time.perf_counter()
    for exercise in katas(ROOT, "solutions"):
        asked = not options.words or any(word in exercise.name for word in options.words)
        if exercise.track[0] in "34" and exercise.key.kernel and asked:
            case = case_of(exercise)
            solution = load_module(exercise.solution)
            reference = specs.reference(solution, exercise.name, case, evaluated=False)
            spec, keywords = specs.spec_of(solution, exercise.name, case)
            spec = functools.partial(spec, **keywords)
            for chip in options.chip or ("v5e", "v6e"):
                own = getattr(solution, exercise.name)
                print(row(exercise, reference, spec, own, chip), flush=True)
    print(f"\n{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
