"""`kata cost` of a launch for GPUs: what its compiler says that it takes, beside the solution's.

Where such a GPU is here, both are also timed.
"""

from __future__ import annotations

import argparse
import math

from rich.console import Console, Group, RenderableType
from rich.text import Text

from grader.checks.on_gpu import compiled_of, missing
from grader.checks.outcome import in_full, problem_finding
from grader.commands.launches import named_launch
from grader.exercise.catalog import Kata
from grader.gpu.screen import kernels_of, measured
from grader.grading import studies
from grader.model import Accident, GpuTimes, OnGpu, Reference
from grader.tools.arrays import dtype_of
from grader.tools.rendering import show

WITHOUT = (
    "No time is known without a GPU, and none is guessed. With one, both would be timed in turns, "
    "and this would show the median, its spread, and the share of peak FLOP/s and of HBM's "
    "bandwidth."
)


def run(options: argparse.Namespace, kata: Kata, console: Console) -> int:
    """Compile the learner's launch and the solution's; time both on a GPU. Raises NoStudy."""
    if options.sweep:
        raise studies.NoStudy("--sweep predicts for TPUs; no time on a GPU is predicted")
    if lacking := missing():
        raise studies.NoStudy(lacking.why)
    with named_launch(options, kata, for_gpus=True) as (asking, case):
        reference = asking.inputs(kata, case)
        own = asking.own_on_gpu(kata, reference, studies.PATIENCE)
        par = asking.par_on_gpu(kata, reference)
        chip = asking.gpu_of(kata)
        times = asking.timed_on_gpu(kata, case, reference, lambda: own)
        timed = times is not None and times.own.runs > 0
        operations = asking.spec_flops(kata, case) if timed else 0
    file, _ = kata.where()
    told = "and run on the one that is here" if timed else "nothing was run"
    head = Text.assemble(
        (kata.name, "bold"), f" compiled for a GPU {chip}: {told}\n", (f"{case}\n", "dim")
    )
    sides = (_side("yours", own, file), _side("par", par, ""))
    measured = _measured(times, reference, operations)
    asked = f"Right or wrong is not asked here: pytest -k {kata.name}"
    show(Group(head, *sides, *measured, Text(asked, "dim")), console)
    return 0 if _whole(own) else 1


def _measured(
    times: GpuTimes | None, reference: Reference, operations: int
) -> list[RenderableType]:
    if times is None:
        return [Text(WITHOUT, "dim")]
    arrays = [*reference.inputs, *reference.results]
    moved = sum(math.prod(a.shape) * dtype_of(a.dtype).itemsize for a in arrays)
    tensor = all(a.dtype in ("bfloat16", "float16") for a in reference.inputs)
    return [*measured(times, moved, operations if tensor else 0), Text()]


def _whole(side: OnGpu | Accident) -> bool:
    """Whether nothing is wrong with a launch, as far as it could be looked at."""
    if isinstance(side, Accident) or (side.problem and not side.problem.todo):
        return False
    compiled = compiled_of(side)
    return compiled is None or compiled.failure is None


def _side(title: str, side: OnGpu | Accident, file: str) -> RenderableType:
    return Group(Text(title, "bold"), *_told(side, file), Text())


def _told(side: OnGpu | Accident, file: str) -> list[RenderableType]:
    if isinstance(side, Accident):
        return [Text(side.message)]
    if side.problem:
        todo = side.problem.todo
        return [Text("Still to do." if todo else in_full(problem_finding(side.problem, file)))]
    if (compiled := compiled_of(side)) is None:
        lowered = "jax lowers it" if side.lowered else "nothing is known of it"
        return [Text(f"{lowered}; not compiled: {side.not_compiled}")]
    return list(kernels_of(compiled, side.buffers))
