"""The process that runs one program on the GPU: `apart` starts it.

It reads the question from its standard input, and writes to files how far it has come and what it
found. A kernel that goes wrong may take the process with it.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from grader.gpu.running.crashes import read_failure
from grader.gpu.running.guards import Extent, Layout, extent_of, filled, lay_out
from grader.gpu.running.messages import Question, Ran, Stage
from grader.gpu.toolchain import NotInstalled, cuda_folder, runtime_library, tools
from grader.model import Array
from grader.tools import codec
from grader.tools.arrays import dtype_of, from_numpy

ANSWER, STAGE = "answer", "stage"
TOOLKIT = "/usr/local/cuda"


def main(folder: str, platform: str = "cuda") -> None:
    """Answer the one question, within a folder that is empty, on jax's first such device."""
    question = codec.unpack(Question, sys.stdin.buffer.read())
    prepare(Path(folder))
    reached = [Stage.STARTING]

    def reach(stage: Stage) -> None:
        reached.append(stage)
        Path(folder, STAGE).write_text(stage.value)

    try:
        import jax

        answer = run(question, jax.devices(platform)[0], platform, reach)
    except Exception as error:
        answer = Ran(failure=read_failure(f"{type(error).__name__}: {error}", reached[-1]))
    Path(folder, ANSWER).write_bytes(codec.pack(answer))
    sys.stdout.flush()
    os._exit(0)  # after a kernel's fault, the driver's own clean-up would fail


def prepare(folder: Path) -> None:
    """Set this process up to compile and to launch, before jax is imported.

    jax sets the library itself where a kernel is traced, which is not done here.
    """
    if library := runtime_library():
        os.environ["MOSAIC_GPU_RUNTIME_LIB_PATH"] = str(library)
    try:
        root = cuda_folder(folder, tools())
    except NotInstalled:  # then there may be a CUDA toolkit
        os.environ.setdefault("MOSAIC_GPU_CUDA_ROOT", os.environ.get("CUDA_HOME", TOOLKIT))
        return
    os.environ.update(
        CUDA_ROOT=str(root),
        MOSAIC_GPU_CUDA_ROOT=str(root),
        XLA_FLAGS=f"--xla_gpu_cuda_data_dir={root}",
        PATH=f"{root / 'bin'}:{os.environ.get('PATH', '')}",
    )


def run(
    question: Question,
    device: Any,
    platform: str,
    reach: Callable[[Stage], None],
    extent: Callable[[Any], Extent] = extent_of,
) -> Ran:
    """What comes of it on a device of jax's platform. Raises what jax raises."""
    import jax

    from grader.gpu.running import launches

    reach(Stage.COMPILING)
    values = launches.contents(question.inputs, question.seed)
    with jax.default_device(device):
        launch, straight = launches.donated(question.own, platform)
        layout = lay_out(_named(question, values), device, extent)
        inputs, spares = layout.arrays[: len(values)], layout.arrays[len(values) :]
        reach(Stage.RUNNING)
        results = list(jax.block_until_ready(launch(spares, *inputs)))
        moved = [
            extent(result) != buffer.extent
            for result, buffer in zip(results, layout.buffers[len(values) :], strict=True)
        ]
        found = _seen(question, device, layout, values, straight and not any(moved))
        if question.par is None:
            return dataclasses.replace(found, outputs=tuple(map(_carried, results)))
        return _beside_par(question, found, inputs, results, platform, reach)


def _named(question: Question, values: Sequence[np.ndarray]) -> list[tuple[str, np.ndarray]]:
    outputs = question.own.outputs
    named = [(f"input {number}", value) for number, value in enumerate(values)]
    spares = [filled(t.shape, dtype_of(t.dtype)) for t in outputs]
    return named + [(f"result {number}", spare) for number, spare in enumerate(spares)]


def _seen(
    question: Question, device: Any, layout: Layout, values: Sequence[np.ndarray], straight: bool
) -> Ran:
    """Inputs and guards after the launch."""
    held = layout.arrays[: len(values)]
    pairs = enumerate(zip(held, values, strict=True))
    changed = [number for number, (array, value) in pairs if not _same(np.asarray(array), value)]
    seen = layout if straight else _of_inputs(layout, len(values))
    sides = 2 * (len(values) + len(question.own.outputs))
    return Ran(device.device_kind, (), tuple(changed), layout.trampled(), seen.guarded(), sides)


def _of_inputs(layout: Layout, inputs: int) -> Layout:
    return Layout(layout.arrays, layout.buffers[:inputs], layout.guards, layout.extents)


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two arrays hold the same bits."""
    return np.ascontiguousarray(one).tobytes() == np.ascontiguousarray(other).tobytes()


def _beside_par(
    question: Question,
    found: Ran,
    inputs: Sequence[Any],
    results: Sequence[Any],
    platform: str,
    reach: Callable[[Stage], None],
) -> Ran:
    import jax

    from grader.gpu.running import launches
    from grader.gpu.running.timing import SAMPLE, enough, interleaved

    assert question.par
    reach(Stage.PAR)
    own, par = (launches.plain(side, platform) for side in (question.own, question.par))
    expected = jax.block_until_ready(par(*inputs))
    far = max(map(launches.distance, results, expected), default=0.0)
    reach(Stage.TIMING)
    idle = launches.floor(inputs[0].devices().pop() if inputs else jax.devices()[0])
    many = enough(idle, SAMPLE)
    floor = min(idle(many) for _ in range(5)) / many
    of_own, of_par = interleaved(launches.batch_of(own, inputs), launches.batch_of(par, inputs))
    return dataclasses.replace(found, far=far, own=of_own, par=of_par, floor=floor)


def _carried(result: Any) -> Array:
    return from_numpy(np.asarray(result))
