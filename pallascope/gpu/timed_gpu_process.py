"""The child process that runs and times a program on the GPU.

`local_gpu` starts it. The process sends a message before each stage, since a faulty kernel may end
it.

If a launch doesn't return, the kind of failure is found in the output of jax, XLA and the driver.
The names are those of CUDA's driver API.

Two launches are timed in turns, so that anything that slows the GPU down slows both. Clocks stay as
they are: the result is the ratio of two medians of one run. A host can't time a single launch, so a
sample is as many launches, enqueued one after the other, as take a millisecond.

Guards are arrays with a pattern, put on the GPU before, between and after a launch's buffers. jax
doesn't let us choose an array's place, so a guard isn't certain to be next to a buffer. Arrays that
are allocated one after the other mostly are neighbours, and jax gives their addresses: a side of a
buffer counts as guarded if a guard begins or ends there, up to the allocator's rounding. A store
that leaves its buffer, and hits neither guard nor input, isn't found here: memcheck finds it.

Results go to the memory of donated arrays, so they are between guards, and hold NaN wherever
nothing is stored. The compiled program shows whether XLA writes them there directly or copies them.
"""

from __future__ import annotations

import dataclasses
import enum
import os
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pallascope.gpu.toolchain import (
    NotInstalled,
    cuda_folder,
    runtime_library,
    tools,
)
from pallascope.model import Array, GpuCrash, Times
from pallascope.tools import codec
from pallascope.tools.arrays import dtype_of, from_numpy, to_numpy
from pallascope.tools.child_process import ParentConnection
from pallascope.tpu.hlo import LoweredProgram, export_from_program


@dataclass(frozen=True, slots=True)
class RunQuestion:
    """Run `own` once on these inputs; with `par`, compare the results and time both.

    Inputs without contents are generated on the GPU, from `seed`.
    """

    own: LoweredProgram
    inputs: tuple[Array, ...]
    seed: int = 0
    par: LoweredProgram | None = None


class GpuRunStage(enum.Enum):
    """The stages of the process; it sends each one before it begins."""

    STARTING = "starting"
    COMPILING = "compiling"
    RUNNING = "running"
    PAR = "running par"
    TIMING = "timing"


@dataclass(frozen=True, slots=True)
class GpuRunFailure:
    """The last output or exception in one line, and the whole output in `text`."""

    crash: GpuCrash
    stage: GpuRunStage
    said: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class GpuRunResult:
    """The result of a run on the GPU that jax calls `device`.

    `changed` are the positions of inputs that have changed; `trampled` describes the guards that
    have ("4 bytes right after result 0"). `guarded` is the number of the `sides` of all buffers
    that had a guard next to them. With par there are no `outputs`, but `far`: the distance from
    par's results as a share of par's largest element, infinite if only one side has NaN.
    `floor` is the time of a launch that does nothing.
    """

    device: str = ""
    outputs: tuple[Array, ...] = ()
    changed: tuple[int, ...] = ()
    trampled: tuple[str, ...] = ()
    guarded: int = 0
    sides: int = 0
    far: float = 0.0
    own: Times | None = None
    par: Times | None = None
    floor: float = 0.0
    failure: GpuRunFailure | None = None


#: Signs of each failure; the first match counts. Once a kernel has failed, later calls fail too.
_CRASH_SIGNS = (
    ("ILLEGAL_ADDRESS", GpuCrash.ADDRESS),
    ("illegal memory access", GpuCrash.ADDRESS),
    ("MISALIGNED_ADDRESS", GpuCrash.MISALIGNED),
    ("misaligned address", GpuCrash.MISALIGNED),
    ("ILLEGAL_INSTRUCTION", GpuCrash.INSTRUCTION),
    ("illegal instruction", GpuCrash.INSTRUCTION),
    ("CUDA_ERROR_LAUNCH_TIMEOUT", GpuCrash.HANG),
    ("CUDA_ERROR_LAUNCH_FAILED", GpuCrash.LAUNCH),
    ("unspecified launch failure", GpuCrash.LAUNCH),
    ("CUDA_ERROR_HARDWARE_STACK_ERROR", GpuCrash.LAUNCH),
    ("CUDA_ERROR_INVALID_PC", GpuCrash.LAUNCH),
    ("CUDA_ERROR_ASSERT", GpuCrash.LAUNCH),
    ("RESOURCE_EXHAUSTED", GpuCrash.MEMORY),
    ("CUDA_ERROR_OUT_OF_MEMORY", GpuCrash.MEMORY),
)


def read_failure(text: str, stage: GpuRunStage) -> GpuRunFailure:
    """The failure of a process that has reached a stage, from its output or exception."""
    for line in text.splitlines():
        for sign, crash in _CRASH_SIGNS:
            if sign in line:
                return GpuRunFailure(crash, stage, line.strip()[:200], text)
    last = (text.strip().splitlines() or ["nothing was printed"])[-1]
    return GpuRunFailure(GpuCrash.UNKNOWN, stage, last.strip()[:200], text)


def stopped(seconds: float, stage: GpuRunStage, text: str) -> GpuRunFailure:
    """The failure of a process that was stopped: a launch hangs, or wasn't reached in time."""
    hangs = stage in (GpuRunStage.RUNNING, GpuRunStage.TIMING)
    crash = GpuCrash.HANG if hangs else GpuCrash.SLOW
    return GpuRunFailure(crash, stage, f"stopped after {seconds:g} seconds", text)


#: Seconds for this many launches together.
Batch = Callable[[int], float]

ROUNDS, FEWEST = 20, 3
BUDGET = 30.0  # seconds for all samples of both launches; slow ones get fewer samples
SAMPLE = 1e-3  # seconds, at least
MOST = 1 << 14  # launches in a sample


def interleaved(
    own: Batch, par: Batch, rounds: int = ROUNDS, sample: float = SAMPLE
) -> tuple[Times, Times]:
    """Both launches' times, with equally many samples; the order alternates between rounds.

    At most this many rounds; fewer if they would take longer than BUDGET.
    """
    sides = (own, par)
    launches = [enough(side, sample) for side in sides]
    one_round = sum(side(number) for side, number in zip(sides, launches, strict=True))
    rounds = min(rounds, max(FEWEST, int(BUDGET / one_round) if one_round else rounds))
    found: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds):
        for which in (0, 1) if number % 2 else (1, 0):
            found[which].append(sides[which](launches[which]) / launches[which])
    return times(found[0]), times(found[1])


def enough(batch: Batch, sample: float = SAMPLE) -> int:
    """The number of launches that take `sample` seconds, by doubling, which also warms up."""
    batch(1)
    number = 1
    while number < MOST and batch(number) < sample:
        number *= 2
    return number


def times(seconds: Sequence[float]) -> Times:
    """The median, lowest and highest of samples."""
    return Times(statistics.median(seconds), min(seconds), max(seconds), len(seconds))


SIZE = 1 << 16  # bytes of a guard
PATTERN = 0xA5
#: Allocations begin at multiples of this many bytes; the rounded-up rest is in no array.
GAP = 512
#: The initial contents of results: NaN in each floating dtype of 16 bits and more.
FILL = 0xFF

#: An array's first address and its bytes.
Extent = tuple[int, int]


@dataclass(frozen=True, slots=True)
class GuardedBuffer:
    """One input or result of a launch, and its initial place."""

    name: str
    extent: Extent


@dataclass(frozen=True, slots=True)
class GuardLayout:
    """Arrays on the device in order of allocation: a guard first, and one after each buffer."""

    arrays: list[Any]
    buffers: tuple[GuardedBuffer, ...]
    guards: list[Any]
    extents: tuple[Extent, ...]  # of the guards

    def guarded(self) -> int:
        """The number of sides of all buffers with a guard next to them."""
        ends = sum(any(_meet(b.extent, g) for g in self.extents) for b in self.buffers)
        starts = sum(any(_meet(g, b.extent) for g in self.extents) for b in self.buffers)
        return ends + starts

    def trampled(self) -> tuple[str, ...]:
        """Descriptions of the guards whose contents have changed."""
        found = []
        for guard, extent in zip(self.guards, self.extents, strict=True):
            changed = np.flatnonzero(np.asarray(guard) != PATTERN)
            if changed.size:
                found.append(self._where(extent, int(changed[0]), changed.size))
        return tuple(found)

    def _where(self, guard: Extent, first: int, many: int) -> str:
        """The side that is nearer to the first changed byte."""
        before = [b.name for b in self.buffers if _meet(b.extent, guard)]
        after = [b.name for b in self.buffers if _meet(guard, b.extent)]
        told = f"{many} byte{'' if many == 1 else 's'}"
        if before and (first < guard[1] // 2 or not after):
            return f"{told} right after {before[0]}"
        if after:
            return f"{told} right before {after[0]}"
        return f"{told} of memory that no input or result holds"


def lay_out(
    values: Sequence[tuple[str, np.ndarray]], device: Any, extent: Callable[[Any], Extent]
) -> GuardLayout:
    """Put arrays on the device, each by its name, with guards around them."""
    import jax

    def put(value: np.ndarray) -> Any:
        return jax.block_until_ready(jax.device_put(value.copy(), device))

    pattern = np.full(SIZE, PATTERN, np.uint8)
    arrays, guards = [], [put(pattern)]
    for _, value in values:
        arrays.append(put(value))
        guards.append(put(pattern))
    names = [name for name, _ in values]
    buffers = tuple(GuardedBuffer(n, extent(a)) for n, a in zip(names, arrays, strict=True))
    return GuardLayout(arrays, buffers, guards, tuple(map(extent, guards)))


def extent_of(array: Any) -> Extent:
    """The address and size of an array on one device, from jax."""
    return array.unsafe_buffer_pointer(), array.nbytes


def filled(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """A result's initial contents, which reveal elements that are never written."""
    size = int(np.prod(shape)) * dtype.itemsize
    if dtype == np.bool_:
        return np.zeros(shape, dtype)
    return np.full(size, FILL, np.uint8).view(dtype).reshape(shape)


def _meet(first: Extent, second: Extent) -> bool:
    """Whether the second begins where the first ends."""
    return 0 <= second[0] - (first[0] + first[1]) < GAP


_COPY = re.compile(r"= [^=\n]+? copy(?:-start)?\(")


def donated(program: LoweredProgram, platform: str) -> tuple[Callable[..., list[Any]], bool]:
    """A compiled function of arrays to be overwritten, then of the inputs.

    Also whether the kernels themselves store the results there.
    """
    import jax

    exported = export_from_program(program, platform)

    def into(spares: list[Any], *inputs: Any) -> list[Any]:
        return list(exported.call(*inputs))

    def structs(types: Sequence[Any]) -> list[Any]:
        return [jax.ShapeDtypeStruct(t.shape, dtype_of(t.dtype)) for t in types]

    launched = jax.jit(into, donate_argnums=0, keep_unused=True)
    compiled = launched.lower(structs(program.outputs), *structs(program.inputs)).compile()
    text = compiled.as_text() or ""
    return compiled, bool(text) and not _COPY.search(text)


def plain(program: LoweredProgram, platform: str) -> Callable[..., list[Any]]:
    """The program as jax calls it."""
    import jax

    return jax.jit(export_from_program(program, platform).call)


def contents(inputs: Sequence[Array], seed: int) -> list[np.ndarray]:
    """The inputs' values; without contents, normal deviates or small integers."""
    random = np.random.default_rng(seed)
    return [_contents(array, random) for array in inputs]


def _contents(array: Array, random: np.random.Generator) -> np.ndarray:
    if array.data or 0 in array.shape:
        return to_numpy(array)
    dtype = dtype_of(array.dtype)
    if dtype.kind in "iu":
        return random.integers(0, 100, array.shape).astype(dtype)
    return random.standard_normal(array.shape, np.float32).astype(dtype)


def batch_of(function: Callable[..., Any], inputs: Sequence[Any]) -> Batch:
    """Enqueue many launches and wait for the last; other results are freed as they end."""
    import jax

    def run(launches: int) -> float:
        begun = time.perf_counter()
        result: Any = None
        for _ in range(launches):
            result = function(*inputs)
        jax.block_until_ready(result)
        return time.perf_counter() - begun

    return run


def timing_floor(device: Any) -> Batch:
    """The same for a program that does next to nothing: the time to enqueue one launch."""
    import jax

    one = jax.device_put(np.zeros(1, np.float32), device)
    return batch_of(jax.jit(lambda x: x + 1), [one])


def distance(own: Any, par: Any) -> float:
    """The largest difference, as a share of par's largest element; infinite if only one side is
    NaN."""
    import jax

    return float(jax.jit(_distance)(own, par)) if own.size else 0.0


def _distance(own: Any, par: Any) -> Any:
    import jax.numpy as jnp

    a, b = own.astype(jnp.float32), par.astype(jnp.float32)
    strange = jnp.isnan(a) != jnp.isnan(b)
    apart = jnp.where(jnp.isnan(a) | (a == b), 0, jnp.abs(a - b))
    largest = jnp.max(jnp.where(jnp.isfinite(b), jnp.abs(b), 0))
    share = jnp.max(apart) / jnp.where(largest > 0, largest, 1)
    return jnp.where(jnp.any(strange), jnp.inf, share)


TOOLKIT = "/usr/local/cuda"


def main(platform: str = "cuda") -> None:
    """Answer the question on jax's first device of `platform`, with a message per stage."""
    parent = ParentConnection()
    question = codec.unpack(RunQuestion, parent.receive())
    prepare(Path(tempfile.gettempdir()))
    reached = [GpuRunStage.STARTING]

    def reach(stage: GpuRunStage) -> None:
        reached.append(stage)
        parent.send(codec.pack(stage))

    try:
        import jax

        answer = run(question, jax.devices(platform)[0], platform, reach)
    except Exception as error:
        answer = GpuRunResult(failure=read_failure(f"{type(error).__name__}: {error}", reached[-1]))
    parent.send(codec.pack(answer))
    os._exit(0)  # after a kernel's fault, the driver's own cleanup would fail


def prepare(folder: Path) -> None:
    """Set this process up to compile and to launch, before jax is imported.

    jax sets the library's path only when it traces a kernel, which isn't done here.
    """
    if library := runtime_library():
        os.environ["MOSAIC_GPU_RUNTIME_LIB_PATH"] = str(library)
    try:
        root = cuda_folder(folder, tools())
    except NotInstalled:  # there may be a CUDA toolkit
        os.environ.setdefault("MOSAIC_GPU_CUDA_ROOT", os.environ.get("CUDA_HOME", TOOLKIT))
        return
    os.environ.update(
        CUDA_ROOT=str(root),
        MOSAIC_GPU_CUDA_ROOT=str(root),
        XLA_FLAGS=f"--xla_gpu_cuda_data_dir={root}",
        PATH=f"{root / 'bin'}:{os.environ.get('PATH', '')}",
    )


def run(
    question: RunQuestion,
    device: Any,
    platform: str,
    reach: Callable[[GpuRunStage], None],
    extent: Callable[[Any], Extent] = extent_of,
) -> GpuRunResult:
    """The result of a run on a device of jax's platform. Propagates exceptions from jax."""
    import jax

    reach(GpuRunStage.COMPILING)
    values = contents(question.inputs, question.seed)
    with jax.default_device(device):
        launch, straight = donated(question.own, platform)
        layout = lay_out(_named(question, values), device, extent)
        inputs, spares = layout.arrays[: len(values)], layout.arrays[len(values) :]
        reach(GpuRunStage.RUNNING)
        results = list(jax.block_until_ready(launch(spares, *inputs)))
        moved = [
            extent(result) != buffer.extent
            for result, buffer in zip(results, layout.buffers[len(values) :], strict=True)
        ]
        found = _seen(question, device, layout, values, straight and not any(moved))
        if question.par is None:
            return dataclasses.replace(found, outputs=tuple(map(_carried, results)))
        return _beside_par(question, found, inputs, results, platform, reach)


def _named(question: RunQuestion, values: Sequence[np.ndarray]) -> list[tuple[str, np.ndarray]]:
    outputs = question.own.outputs
    named = [(f"input {number}", value) for number, value in enumerate(values)]
    spares = [filled(t.shape, dtype_of(t.dtype)) for t in outputs]
    return named + [(f"result {number}", spare) for number, spare in enumerate(spares)]


def _seen(
    question: RunQuestion,
    device: Any,
    layout: GuardLayout,
    values: Sequence[np.ndarray],
    straight: bool,
) -> GpuRunResult:
    """The inputs and guards after the launch."""
    held = layout.arrays[: len(values)]
    pairs = enumerate(zip(held, values, strict=True))
    changed = [number for number, (array, value) in pairs if not _same(np.asarray(array), value)]
    seen = layout if straight else _of_inputs(layout, len(values))
    sides = 2 * (len(values) + len(question.own.outputs))
    return GpuRunResult(
        device.device_kind, (), tuple(changed), layout.trampled(), seen.guarded(), sides
    )


def _of_inputs(layout: GuardLayout, inputs: int) -> GuardLayout:
    return GuardLayout(layout.arrays, layout.buffers[:inputs], layout.guards, layout.extents)


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two arrays have the same bits."""
    return np.ascontiguousarray(one).tobytes() == np.ascontiguousarray(other).tobytes()


def _beside_par(
    question: RunQuestion,
    found: GpuRunResult,
    inputs: Sequence[Any],
    results: Sequence[Any],
    platform: str,
    reach: Callable[[GpuRunStage], None],
) -> GpuRunResult:
    import jax

    assert question.par
    reach(GpuRunStage.PAR)
    own, par = (plain(side, platform) for side in (question.own, question.par))
    expected = jax.block_until_ready(par(*inputs))
    far = max(map(distance, results, expected), default=0.0)
    reach(GpuRunStage.TIMING)
    idle = timing_floor(inputs[0].devices().pop() if inputs else jax.devices()[0])
    many = enough(idle, SAMPLE)
    floor = min(idle(many) for _ in range(5)) / many
    of_own, of_par = interleaved(batch_of(own, inputs), batch_of(par, inputs))
    return dataclasses.replace(found, far=far, own=of_own, par=of_par, floor=floor)


def _carried(result: Any) -> Array:
    return from_numpy(np.asarray(result))
