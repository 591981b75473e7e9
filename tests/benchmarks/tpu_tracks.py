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
import functools
import importlib
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental.pallas.ops.tpu import flash_attention as flash
from jax.experimental.pallas.ops.tpu import splash_attention as splash

from grader import specs, studies
from grader.catalog import Kata, katas
from grader.loading import loaded
from grader.tpu import Prediction, predictions
from grader.tpu.chips import CHIPS, named
from grader.tpu.compiler import xla_cycles
from grader.tpu.units import bytes_of, time_of

ROOT = Path(__file__).parents[2]
BLOCK = 512
TILING = (512, 1024, 1024)
# The package has a function of the module's name.
megablox: Any = importlib.import_module("jax.experimental.pallas.ops.tpu.megablox.gmm")

Function = Callable[..., Any]
#: By name: the same job done by a kernel that ships in JAX, and by XLA where the spec is naive.
SHIPPED: dict[str, tuple[Function, str]] = {}
BY_XLA: dict[str, Function] = {}

ATTENTION = {"B": 1, "N": 8, "T": 4096, "S": 4096, "H": 128, "bq": BLOCK, "bkv": BLOCK}
GROUPED = dict(zip(("tm", "tk", "tn"), TILING, strict=True)) | {"G": 8, "K": 2048, "N": 2048}


@dataclass(frozen=True)
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
        """Time, HBM bytes and VMEM."""
        if self.trouble:
            return [self.trouble, "", ""]
        seconds = self.seconds
        told = [k.unknown or (k.failure.message if k.failure else "") for k in self.kernels]
        used = max((k.vmem.used for k in self.kernels if k.vmem), default=0)
        moved = sum(kernel.bytes for kernel in self.kernels)
        first = time_of(seconds) if seconds is not None else next(filter(None, told), "–")
        return [first, bytes_of(moved), bytes_of(used)]


def sizes_of(exercise: Kata) -> dict[str, int]:
    """The production size: those of its names that the key's cases have."""
    wanted = ATTENTION if exercise.track == "3_attention" else GROUPED
    return {name: size for name, size in wanted.items() if name in exercise.key.choices}


def side(function: Function, args: Sequence[Any], chip: str, **keywords: Any) -> Side:
    try:
        return Side(predictions(function, *args, chip=chip, **keywords))
    except Exception as error:
        return Side(trouble=f"{type(error).__name__}: {str(error).partition(chr(10))[0][:80]}")


def by_xla(function: Function, args: Sequence[Any], chip: str, **keywords: Any) -> str:
    """XLA's estimate, or why there is none."""
    found = xla_cycles(function, args, named(chip), **keywords)
    return time_of(found.cycles / named(chip).clock) if found.cycles else found.missing


def rows(exercise: Kata, chip: str) -> Iterator[list[str]]:
    given = {name: str(size) for name, size in sizes_of(exercise).items()}
    case = studies.case_of(exercise, 0, 0, given | {"dtype": "bfloat16"})
    solution = loaded(exercise.solution)
    reference = specs.reference(solution, exercise.name, case, evaluated=False)
    spec, keywords = specs.spec_of(solution, exercise.name, case)
    inputs = [specs.argument(array) for array in reference.inputs]
    own = side(getattr(solution, exercise.name), inputs, chip, **reference.keywords)
    other = SHIPPED.get(exercise.name)
    shipped = side(other, inputs, chip) if other else Side(trouble="–")
    estimate = by_xla(BY_XLA.get(exercise.name, functools.partial(spec, **keywords)), inputs, chip)
    ratio = f"{own.seconds / shipped.seconds:.2f}" if own.seconds and shipped.seconds else "–"
    yield [f"{exercise.number} {exercise.name}", chip, *own.cells, *shipped.cells, ratio, estimate]


# ---- the same jobs, as JAX does them ----


def shipped(name: str, kernels: str = "") -> Callable[[Function], Function]:
    """Register what JAX ships for a kata's job: of its kernels those whose names end so."""

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
    sizes = splash.BlockSizes(**{f"block_{edge}": BLOCK for edge in edges})
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
