"""Solutions of 10_gpu beside JAX's own, timed on the GPU of this machine.

    python tools/benchmarks/gpu_tracks.py [--sizes 1024,4096] [--rounds 20] [--dry] [NAME …]

Needs a Hopper or a Blackwell, and jax with CUDA: each times the katas that are for it. "jax" is
what one would call without Pallas: XLA's matmul, the attention of `jax.nn.dot_product_attention` by
cuDNN, `jax.lax.ragged_dot`, or XLA's fusion, with arguments in the layout that suits it. Both sides
run in turns, the one that begins changing from round to round; a row gives their medians, with the
lowest and the highest, and the ratio of the medians (below 1: ours is quicker). A call is as many
launches, one after the other, as take about a millisecond, since a host can't time one. Clocks are
left as they are. `--dry` lists what would run, and runs nothing.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from grader.exercise.catalog import Kata, katas
from pallascope.gpu.gpus import (
    CHIPS,
    DEFAULT,
    GpuChip,
    named,
    traced_for,
)
from pallascope.tools.files import load_module

ROOT = Path(__file__).parents[2]
SIZES = (1024, 2048, 4096, 8192, 16384)
ROUNDS = 20
#: Seconds that a timed call should take at least.
CALL = 1e-3
#: Blocks that run at a time on an H100: of a launch whose grid is one for each SM.
SMS = 132

Function = Callable[..., Any]
Shapes = list[tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Job:
    """At one size: the shapes of the arguments, our keywords, and JAX's own way."""

    shapes: Shapes
    keywords: dict[str, Any]
    theirs: Function
    operations: float = 0.0  # 0 where bytes are what counts
    moved: float = 0.0
    #: Arguments behind the drawn ones, as they are.
    given: tuple[jax.Array, ...] = ()
    theirs_of: Callable[[list[jax.Array]], list[jax.Array]] = list  # their arguments, of ours


def _silu(size: int) -> Job:
    n = size * size
    return Job([(n,)], {"bn": 1024, "warpgroups": 4}, jax.nn.silu, moved=4.0 * n)


def _add(size: int) -> Job:
    return Job([(size, size)] * 2, {"bm": 64, "bn": 128}, jnp.add, moved=6.0 * size * size)


def _pipelined(size: int) -> Job:
    rows, columns = 64, 256
    steps = max(4, size * size // (rows * columns * SMS))
    shape = (rows * SMS * steps, columns)
    keywords = {"bm": rows, "blocks": SMS, "slots": 3}
    return Job([shape], keywords, _relu_squared, moved=4.0 * shape[0] * columns)


def _relu_squared(x: jax.Array) -> jax.Array:
    return jnp.square(jnp.maximum(x, 0))


def _matmul(size: int, **keywords: int) -> Job:
    return Job([(size, size)] * 2, dict(keywords), jnp.matmul, operations=2.0 * size**3)


def _attention(size: int, causal: bool) -> Job:
    heads, width, batch = 16, 128, max(1, 16384 // size)
    theirs = functools.partial(_cudnn, causal=causal)
    visible = 0.5 if causal else 1.0
    operations = 4.0 * batch * heads * size * size * width * visible
    rows = (batch * heads, size, width)
    shapes = [rows, (batch * heads, width, size), rows]
    keywords = {"causal": causal, "bq": 64, "bk": 128}
    return Job(shapes, keywords, theirs, operations, theirs_of=_with_keys_in_rows)


def _with_keys_in_rows(args: list[jax.Array]) -> list[jax.Array]:
    q, k, v = args
    return [q, jnp.swapaxes(k, 1, 2), v]


def _cudnn(q: jax.Array, k: jax.Array, v: jax.Array, *, causal: bool) -> jax.Array:
    """[H, T, D] each, as one batch per head, which spares it a transpose."""
    q, k, v = (x[:, :, None, :] for x in (q, k, v))
    o = jax.nn.dot_product_attention(q, k, v, is_causal=causal, implementation="cudnn")
    return o[:, :, 0]


def _ragged(size: int, skewed: bool) -> Job:
    """`size` rows for eight experts: of a router that is even, or gives one of them half."""
    experts, width = 8, 4096
    shares = [1 / experts] * experts
    if skewed:
        shares = [0.5, 0.0, *[0.5 / (experts - 2)] * (experts - 2)]
    sizes = [int(share * size) | 1 if share else 0 for share in shares[:-1]]
    sizes.append(size - sum(sizes))
    shapes = [(size, width), (experts, width, width)]
    keywords = {"bm": 128, "bn": 128, "bk": 64, "slots": 4}
    given = (jnp.array(sizes, jnp.int32),)
    return Job(shapes, keywords, jax.lax.ragged_dot, 2.0 * size * width * width, given=given)


#: By kata, its rows: what is added to the name, and the job at a size.
JOBS: dict[str, dict[str, Callable[[int], Job]]] = {
    "threads_and_grids": {"": _silu},
    "tma_copy": {"": _add},
    "pipelined_copy": {"": _pipelined},
    "wgmma_matmul": {"": functools.partial(_matmul, bm=128, bn=128, bk=64)},
    "warp_specialised_matmul": {"": functools.partial(_matmul, bm=64, bn=256, bk=64, slots=3)},
    "blackwell_tcgen05": {"": functools.partial(_matmul, bm=128, bn=256, bk=64, slots=3)},
    "persistent_collective_matmul": {
        "": functools.partial(_matmul, bm=128, bn=128, bk=64, slots=4, pair=2, clusters=74)
    },
    "flash_attention_hopper": {
        "": functools.partial(_attention, causal=False),
        ", causal": functools.partial(_attention, causal=True),
    },
    "ragged_dot_gpu": {
        "": functools.partial(_ragged, skewed=False),
        ", half for one": functools.partial(_ragged, skewed=True),
    },
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Time each solution at each size, and print the table."""
    options = _parser().parse_args(arguments)
    known = [
        kata
        for kata in katas(ROOT, "solutions")
        if kata.key.target.name == "gpu" and kata.name in JOBS
    ]
    chosen = [kata for kata in known if not options.names or kata.name in options.names]
    sizes = [int(size) for size in options.sizes.split(",")]
    if not options.dry:
        if reason := why_not():
            raise SystemExit(f"gpu_tracks: {reason}; --dry lists what would run")
        chosen = [kata for kata in chosen if chip_of(kata).capability[0] == generation()]
    print(f"jax {jax.__version__}, {jax.devices()[0].device_kind}\n")
    print("| kata | size | ours, µs | jax, µs | ours / jax | ours |")
    print("|---|---|---|---|---|---|")
    for kata in chosen:
        for title, make in JOBS[kata.name].items():
            for size in sizes:
                print(row(kata, title, size, make(size), options), flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Time the solutions of 10_gpu beside JAX's own.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="katas; default: all")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="(default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="(default: %(default)s)")
    parser.add_argument("--dry", action="store_true", help="list what would run")
    return parser


def why_not() -> str:
    """Why nothing can be timed here; "" where it can."""
    device = jax.devices()[0]
    if device.platform != "gpu":
        return f"no GPU here: jax has {device.device_kind!r}"
    if generation() not in {chip.capability[0] for chip in CHIPS.values()}:
        return f"these kernels are for a Hopper or a Blackwell, and {device.device_kind} is none"
    return ""


def generation() -> int:
    """Of the GPU that is here, what its compute capability begins with."""
    return int(float(getattr(jax.devices()[0], "compute_capability", 0)))


def chip_of(kata: Kata) -> GpuChip:
    """The GPU that a kata is for."""
    return named(kata.key.target.chips(1, (), DEFAULT)[0])


def row(kata: Kata, title: str, size: int, job: Job, options: argparse.Namespace) -> str:
    """One line of the table; what a side raises is told in its place."""
    name = f"| {kata.name}{title} | {size} |"
    launch = getattr(load_module(kata.solution), kata.name)
    ours = jax.jit(functools.partial(launch, **job.keywords))
    if options.dry:
        with traced_for(chip_of(kata)):
            return f"{name} not run: {_lowered(ours, job)} | | | |"
    keys = jax.random.split(jax.random.key(0), len(job.shapes))
    args = [jax.random.normal(k, s, jnp.bfloat16) for k, s in zip(keys, job.shapes, strict=True)]
    args += job.given
    try:
        theirs = functools.partial(jax.jit(job.theirs), *job.theirs_of(args))
        sides = functools.partial(ours, *args), theirs
        far = distance(*(side() for side in sides))
        times = timed(sides, options.rounds)
    except Exception as error:  # one size that does not fit shouldn't cost the others
        return f"{name} {type(error).__name__}: {str(error).splitlines()[0][:80]} | | | |"
    cells = [_cell(side) for side in times]
    medians = [statistics.median(side) for side in times]
    wrong = f"; differs by {far:.1%}" if far > 0.02 else ""
    ratio = f"{medians[0] / medians[1]:.2f}{wrong}"
    return f"{name} {' | '.join(cells)} | {ratio} | {_speed(job, medians[0])} |"


def _lowered(ours: Any, job: Job) -> str:
    """Whether jax lowers a launch for a GPU, which needs none."""
    shapes = [jax.ShapeDtypeStruct(shape, jnp.bfloat16) for shape in job.shapes]
    try:
        ours.trace(*shapes, *job.given).lower(lowering_platforms=("cuda",))
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:80]}"
    sizes = ", ".join("×".join(map(str, shape)) for shape in dict.fromkeys(job.shapes))
    return f"{len(shapes)} of {sizes}, lowered"


def distance(own: jax.Array, other: jax.Array) -> float:
    """The largest difference, as a share of the largest element."""
    a, b = own.astype(jnp.float32), other.astype(jnp.float32)
    return float(jnp.abs(a - b).max() / jnp.abs(b).max())


def timed(sides: Sequence[Function], rounds: int) -> list[list[float]]:
    """Seconds a launch, of each side in each round."""
    calls = [max(1, round(CALL / once(side, 3))) for side in sides]
    found: list[list[float]] = [[] for _ in sides]
    for number in range(rounds):
        order = range(len(sides))
        for one in order if number % 2 else reversed(order):
            found[one].append(once(sides[one], calls[one]))
    return found


def once(function: Function, launches: int) -> float:
    """Seconds a launch, of so many that are enqueued together."""
    jax.block_until_ready(function())
    begun = time.perf_counter()
    results = [function() for _ in range(launches)]
    jax.block_until_ready(results[-1])
    return (time.perf_counter() - begun) / launches


def _cell(seconds: Sequence[float]) -> str:
    middle, low, high = (
        1e6 * of for of in (statistics.median(seconds), min(seconds), max(seconds))
    )
    return f"{middle:.1f} ({low:.1f} to {high:.1f})"


def _speed(job: Job, seconds: float) -> str:
    if job.operations:
        return f"{job.operations / seconds / 1e12:.0f} TFLOP/s"
    return f"{job.moved / seconds / 1e9:.0f} GB/s"


if __name__ == "__main__":
    main()
