"""XLA's programs on a terminal: their instructions, one after another, and what each moves."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from grader.model import Baseline, Measured
from grader.tpu.units import bytes_of, time_of


def baselines(measured: Measured, name: str, drawn: str, chip: str) -> RenderableType:
    """A table for each program of a kata, with XLA's own estimate of its time."""
    parts: list[RenderableType] = [
        Text.assemble((name, "bold"), f" on a TPU {chip}: XLA's own programs, without Pallas\n"),
        Text(drawn, "dim"),
    ]
    for program in measured.programs:
        parts += ["", *_program(program.name, program.baseline or Baseline(missing="not asked"))]
    parts += ["", Text("right or wrong is not asked here: pytest -k " + name, "dim")]
    return Group(*parts)


def _program(name: str, baseline: Baseline) -> list[RenderableType]:
    if baseline.missing:
        return [Text.assemble((name, "bold"), f": {baseline.missing}")]
    seconds = f", {time_of(baseline.seconds)} by XLA's estimate" if baseline.seconds else ""
    heading = Text.assemble((name, "bold"), f": {bytes_of(baseline.bytes)} moved{seconds}")
    table = Table(box=None, pad_edge=False)
    for column in ("  instruction", "read", "written"):
        table.add_column(column, justify="left" if column.startswith(" ") else "right")
    for step in baseline.steps:
        table.add_row(f"  {step.name}", bytes_of(step.read), bytes_of(step.written))
    return [heading, table]
