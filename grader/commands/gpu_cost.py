"""`kata cost` of a launch for GPUs: what its compiler says that it takes, beside the solution's."""

from __future__ import annotations

import argparse

from rich.console import Console, Group, RenderableType
from rich.text import Text

from grader.checks.on_gpu import compiled_of, missing
from grader.checks.outcome import in_full, problem_finding
from grader.commands.launches import named_launch
from grader.exercise.catalog import Kata
from grader.gpu.screen import kernels_of
from grader.grading import studies
from grader.model import Accident, OnGpu
from grader.tools.rendering import show


def run(options: argparse.Namespace, kata: Kata, console: Console) -> int:
    """Compile the learner's launch and the solution's; run nothing. Raises NoStudy."""
    if options.sweep:
        raise studies.NoStudy("--sweep predicts for TPUs; no time on a GPU is predicted")
    if lacking := missing():
        raise studies.NoStudy(lacking.why)
    with named_launch(options, kata, for_gpus=True) as (asking, case):
        reference = asking.inputs(kata, case)
        own = asking.own_on_gpu(kata, reference, studies.PATIENCE)
        par = asking.par_on_gpu(kata, reference)
        chip = asking.gpu_of(kata)
    file, _ = kata.where()
    head = Text.assemble(
        (kata.name, "bold"), f" compiled for a GPU {chip}: nothing was run\n", (f"{case}\n", "dim")
    )
    notes = Text(
        "No time is known without a GPU, and none is guessed. Right or wrong is not asked here: "
        f"pytest -k {kata.name}",
        "dim",
    )
    show(Group(head, _side("yours", own, file), _side("par", par, ""), notes), console)
    return 0 if _whole(own) else 1


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
