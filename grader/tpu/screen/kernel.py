"""One kernel on a screen: its bound, where its time goes, what moves, what takes VMEM."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from grader.model import Role
from grader.tpu.prediction import Prediction
from grader.tpu.roofline import Roofline, roofline
from grader.tpu.schedule import Unit
from grader.tpu.screen.labelled import labelled
from grader.tpu.screen.refused_kernel import refusal
from grader.tpu.screen.remarks import remarks
from grader.tpu.screen.widths import FirstThatFits
from grader.tpu.traffic import OUTSIDE, OperandTraffic
from grader.tpu.units import bytes_of, time_of
from grader.tpu.vmem import Use

BAR = 24
_SHOWN = 0.005  # of the time: less than that rounds to 0 %
_INDENT = (0, 0, 0, 2)
_NONE = "–"
_BY_HAND = "by hand"
_WAITING = "waiting"
_NAMES = {Unit.VMEM: "loads, stores", Unit.SCALAR: "scalar core"}
_ROLES = {Role.PREFETCH: "prefetch", Role.INPUT: "in", Role.OUTPUT: "out", Role.SCRATCH: "scratch"}


def kernel_block(
    kernel: Prediction, refused: str = "", whole: float | None = None
) -> RenderableType:
    """One kernel. `refused` is why the compiler refuses it; `whole` the launch's seconds."""
    inside: list[RenderableType] = []
    if kernel.failure:
        inside.append(labelled(refused or refusal(kernel.call, kernel.failure), "red"))
    elif kernel.unknown and (kernel.compiled or kernel.call.unknown):
        inside.append(Text(f"no time can be told: {kernel.unknown}", "yellow"))
    inside += [Text(f"{text}.", "red") for text in kernel.outside]
    inside += [Text(text, "yellow") for text in remarks(kernel)]
    if line := roofline(kernel):
        inside += [_bound(line), Text(), _Time(line)]
    inside += [Text(), _drawn(kernel), *_under(kernel), *_vmem(kernel)]
    return Group(_title(kernel, whole), Padding(Group(*inside), _INDENT))


def _title(kernel: Prediction, whole: float | None) -> Text:
    grid = kernel.traffic.grid
    text = Text.assemble(("kernel ", "dim"), (kernel.call.name, "bold"))
    if None in grid:
        text.append(", a grid whose size is known only at run time")
    elif grid:
        steps = math.prod(size or 1 for size in grid)
        text.append(f", grid {_shape(grid)}: {steps:,} step{'s' * (steps != 1)}")
    else:
        text.append(", no grid: one step")
    if kernel.runs.times > 1:
        text.append(f", {kernel.runs.times:,} runs")
    if whole and kernel.seconds is not None:
        text.append(f", {time_of(kernel.seconds)} ({kernel.seconds / whole:.0%} of the launch)")
    return text


def _bound(line: Roofline) -> Text:
    return Text.assemble("bound by ", (line.bound.value, "bold"), f": {line.why}")


class _Time:
    """Issue by unit, and waiting: together all of the time. Bars take what room there is."""

    def __init__(self, line: Roofline) -> None:
        self._line = line

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        total = self._line.total
        rows = [(_NAMES.get(unit, unit.value), taken) for unit, taken in self._line.units]
        rows.append((_WAITING, self._line.waiting))
        bar = min(BAR, options.max_width - 30)
        table = Table.grid(padding=(0, 2, 0, 0))
        for justify in ("left", "right", "right", "left"):
            table.add_column(justify=justify, no_wrap=True)
        rows = [row for row in rows if row[1] >= _SHOWN * total]
        for name, taken in sorted(rows, key=lambda row: -row[1]):
            colour = "yellow" if name == _WAITING else "green"
            drawn = Text("█" * round(bar * taken / total), colour)
            table.add_row(name, time_of(taken), f"{taken / total:.0%}", drawn)
        yield table


# ---- operands ----


@dataclass(frozen=True, slots=True)
class _Operand:
    """One row in words; nothing where there is nothing to say."""

    name: str
    role: str
    array: str
    block: str
    moves: str
    bytes: str
    refetch: str
    padding: str
    vmem: str
    waits: str


_COLUMNS = {
    "operand": "name",
    "": "role",
    "array": "array",
    "block": "block",
    "moves": "moves",
    "bytes": "bytes",
    "refetch": "refetch",
    "padding": "padding",
    "VMEM": "vmem",
    "waits": "waits",
}
_TEXTS = ("name", "role", "array", "block")
#: What is left out first where the terminal is narrow.
_LEAST = ("array", "role")


def _operands(kernel: Prediction) -> Iterator[_Operand]:
    waits: defaultdict[str, float] = defaultdict(float)
    moved: defaultdict[str, int] = defaultdict(int)
    schedule = kernel.schedule
    for one in schedule.moved if schedule else ():
        waits[one.operand] += one.stalled
        moved[one.operand] += one.size
    for row, label in zip(kernel.traffic.operands, kernel.labels, strict=True):
        if row.role is Role.SCRATCH and not row.vmem:
            continue  # semaphores, and scratch outside of VMEM
        size = moved[label] if row.bytes is None and schedule else row.bytes
        part = waits[label] / schedule.cycles if schedule else 0.0
        yield _operand(row, label, size, part)


def _operand(row: OperandTraffic, label: str, size: int | None, waits: float) -> _Operand:
    stays = row.role is Role.SCRATCH
    return _Operand(
        name=label,
        role=_ROLES[row.role],
        array=str(row.array),
        block=_BY_HAND if row.by_hand else _shape(row.block),
        moves="" if stays else _NONE if row.moves is None else f"{row.moves:,}",
        bytes="" if stays else _NONE if size is None else bytes_of(size),
        refetch=f"{row.refetch:.1f}×" if row.refetch else "",
        padding=f"{row.padding / row.bytes:.0%}" if row.padding and row.bytes else "",
        vmem=bytes_of(row.vmem) if row.vmem else "",
        waits=f"{waits:.0%}" if waits >= _SHOWN else "",
    )


def _drawn(kernel: Prediction) -> FirstThatFits:
    """A table with as many columns as there is room for, or a paragraph for each operand."""
    rows = list(_operands(kernel))
    used = {t: f for t, f in _COLUMNS.items() if any(getattr(row, f) for row in rows)}
    tables = [
        _table(rows, {t: f for t, f in used.items() if f not in _LEAST[:left_out]})
        for left_out in range(len(_LEAST) + 1)
    ]
    return FirstThatFits(*tables, _stacked(rows))


def _table(rows: Sequence[_Operand], columns: Mapping[str, str]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for title, field in columns.items():
        justify = "left" if field in _TEXTS else "right"
        table.add_column(title, justify=justify, no_wrap=True)
    for row in rows:
        table.add_row(*(getattr(row, field) for field in columns.values()))
    return table


def _stacked(rows: Sequence[_Operand]) -> RenderableType:
    parts: list[RenderableType] = []
    for row in rows:
        values = [
            f"{row.moves} moves" if title == "moves" else f"{title} {getattr(row, field)}"
            for title, field in _COLUMNS.items()
            if field not in _TEXTS and getattr(row, field)
        ]
        parts.append(Text.assemble((row.name, "bold"), f" {row.role} {row.block}"))
        parts.append(Padding(Text(", ".join(values)), _INDENT))
    return Group(*parts)


def _under(kernel: Prediction) -> Iterator[Text]:
    """What the counts do not tell by themselves."""
    for row, label in zip(kernel.traffic.operands, kernel.labels, strict=True):
        told = row.by_hand or (kernel.outside and row.note == OUTSIDE)
        if row.note and not told and row.role is not Role.SCRATCH:
            yield Text(f"{label}: {row.note}", "dim")


def _vmem(kernel: Prediction) -> Iterator[Text]:
    if vmem := kernel.vmem:
        sums: defaultdict[Use, int] = defaultdict(int)
        for each in vmem.allocations:
            sums[each.use] += each.size
        uses = ", ".join(f"{_USES[use]} {bytes_of(size)}" for use, size in sums.items())
        text = f"VMEM: {bytes_of(vmem.used)} of {bytes_of(vmem.limit)}"
        yield Text(f"{text} ({uses})" if uses else text)
    elif not kernel.failure:
        yield Text(f"VMEM: {bytes_of(kernel.traffic.vmem)} for blocks and scratch, by their shapes")
    if kernel.schedule and kernel.schedule.spills:
        yield Text(
            f"spills: vector registers are saved or fetched back {kernel.schedule.spills:,} times"
        )


_USES = {
    Use.WINDOW: "blocks",
    Use.SCRATCH: "scratch",
    Use.SPILL: "spills",
    Use.OTHER: "other",
}


def _shape(block: tuple[int | None, ...]) -> str:
    return f"({', '.join(map(str, block))}{',' * (len(block) == 1)})"
