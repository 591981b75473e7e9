"""What jax refuses of a launch for GPUs already while it is traced, in words."""

from __future__ import annotations

from grader.checks.on_gpu.refused import ADVICE
from grader.checks.prose import at, paragraph
from grader.gpu.refusals import Kind, read_text
from grader.model import Check, Finding, Problem


def trace_finding(problem: Problem, file: str) -> Finding | None:
    """What Mosaic GPU refuses already while a launch is traced; None of all else."""
    said, kind = refused_while_traced(problem)
    if not said:
        return None
    why, advice = ADVICE.get(Kind(kind), ("", ""))
    parts = [f"The launch cannot be traced: {said}."]
    if place := problem.within or problem.place:
        parts.append(paragraph("line", at(file, place)))
    if why:
        parts += [paragraph("why", why), paragraph("try", advice)]
    return Finding(Check.RUNS, said, "\n".join(parts), problem.traceback)


def refused_while_traced(problem: Problem) -> tuple[str, str]:
    """A phrase and what it means, where Mosaic GPU refuses a launch as it is traced; else ""."""
    if failure := read_text(problem.message):
        return failure.message, failure.kind.value
    lines = [line.strip() for line in problem.traceback.splitlines() if line.strip()]
    asserted = problem.kind == "AssertionError" and not problem.message
    if asserted and any("tiling" in line for line in lines[-4:]):
        return "a tiling that does not divide the last axes of what it is for", "layout"
    return "", ""
