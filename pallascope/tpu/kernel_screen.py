"""One kernel on a terminal: its bound, time, traffic, VMEM.

The same content drawn wide or narrow.

Messages with labelled paragraphs, laid out anew for another width.

What goes over the links between chips, as rows and notes of a screen.

What a reader has to know of one kernel before its numbers: what they leave out or take in.

Why the compiler refuses a kernel, for a screen that is given no better words.

One kernel on a screen: its bound, where its time goes, what moves, what takes VMEM.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pallascope.model import (
    Collective,
    KernelCall,
    Role,
    Route,
    RunCount,
    busiest,
    carried,
    sent_by,
)
from pallascope.tpu.chips import Chip
from pallascope.tpu.libtpu_errors import LibtpuRefusal, LibtpuRefusalKind
from pallascope.tpu.prediction import Prediction, Roofline, roofline
from pallascope.tpu.schedule import Unit
from pallascope.tpu.traffic import OUTSIDE, OperandTraffic
from pallascope.tpu.units import bytes_of, time_of, way_of
from pallascope.tpu.vmem import Use, fitting


class FirstThatFits:
    """Of several renderables, widest first, the first that fits uncut; else the last.

    `probes` are measured in place of what may take several lines.
    """

    def __init__(
        self, *choices: RenderableType, probes: Sequence[RenderableType] | None = None
    ) -> None:
        self._choices = choices
        self._probes = probes or choices

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        wide = options.update(max_width=10_000)
        for choice, probe in zip(self._choices[:-1], self._probes, strict=False):
            if console.measure(probe, options=wide).maximum <= options.max_width:
                yield choice
                return
        yield self._choices[-1]


_LABEL = re.compile(r" {2}(\w+) {1,6}(?=\S)")
_UNDER = 9  # columns that a paragraph's further lines are indented by


def labelled(message: str, style: str = "") -> RenderableType:
    """A message whose paragraphs stand beside their labels, as findings have them.

    The first lines, up to the first label, are in `style`. Lines that are indented further than
    their paragraph, such as code, are not joined.
    """
    head: list[str] = []
    parts: list[tuple[str, list[str]]] = []
    for line in message.splitlines():
        if found := _LABEL.match(line):
            parts.append((found[1], [line[found.end() :]]))
        elif not parts:
            head.append(line)
        elif line[: _UNDER + 1].strip():
            parts[-1][1][-1] += f" {line.strip()}"
        else:
            parts[-1][1].append(line[_UNDER:])
    shown: list[RenderableType] = [Text("\n".join(head), style)]
    if parts:
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(style="dim", no_wrap=True)
        table.add_column()
        for label, lines in parts:
            table.add_row(f"  {label}", Text("\n".join(lines)))
        shown.append(table)
    return Group(*shown)


NO_TIME = (
    "time: not predicted for copies between chips, since there are no published times to compare "
    "with. Stars are for bytes, to HBM and over the links"
)


def sent(kernels: Sequence[Prediction], collectives: tuple[Collective, ...]) -> int | None:
    """What one chip sends to others, in bytes; None where nobody can tell."""
    sizes = [*(kernel.sent_bytes for kernel in kernels), sent_by(collectives)]
    return None if None in sizes else sum(filter(None, sizes))


def least_time(routes: Sequence[Route] | None, chip: Chip) -> str:
    """How long the busiest link takes at its full bandwidth, in words; "" where unknown."""
    return f"≥ {time_of(busiest(routes) / chip.link)}" if routes and chip.link else ""


def told(title: str, routes: Sequence[Route] | None) -> Iterator[str]:
    """A line for each way."""
    for route in routes or ():
        yield f"{title}: each chip sends {bytes_of(route.bytes)} {way_of(route)}"
    if routes and any(route.hops > 1 for route in routes):
        yield f"{title}: links carry {bytes_of(carried(routes))}, bytes times hops"


def remarks(kernel: Prediction) -> Iterator[str]:
    """All of them, in words."""
    yield from uncovered(kernel)
    yield from loops(kernel.runs)
    yield from copies(kernel)
    if kernel.least:
        yield (
            f"its time is a lower bound ({kernel.least}): HBM's full bandwidth is counted for what "
            "such a DMA reads and for what it writes"
        )
    if kernel.sharing > 1:
        shared = "work" if kernel.beside else "grid"
        yield (
            f"{kernel.sharing} TensorCores share its {shared}: what follows is the part of the one "
            f"that has most of it, with 1/{kernel.sharing} of the chip's bandwidth"
        )


def copies(kernel: Prediction) -> Iterator[str]:
    """What XLA copies around a kernel, in words."""
    if kernel.copied:
        names = ", ".join(dict.fromkeys(kernel.labels[each.operand] for each in kernel.copied))
        yield (
            f"XLA copies {names}: {bytes_of(kernel.copied_bytes)} are read and written around "
            "the kernel, which are in the launch's time and bytes"
        )


def loops(runs: RunCount) -> Iterator[str]:
    """What the loops and branches around a kernel mean for the numbers, in words."""
    if runs.times != 1:
        yield (
            f"a loop around it makes {runs.times:,} runs of it; what follows is of one of them, "
            "and all of them are in the launch's time and bytes"
        )
    if runs.untold:
        yield (
            "how many turns the loop around it makes is known only at run time: the launch's time "
            "and bytes are those of one turn"
        )
    if runs.conditional:
        yield (
            "it stands in a branch of lax.cond: the launch's time and bytes are those where every "
            "branch is taken"
        )


def uncovered(kernel: Prediction) -> Iterator[str]:
    """Outputs of which the grid leaves a part unwritten, in words."""
    rows = zip(kernel.call.operands, kernel.traffic.operands, kernel.labels, strict=True)
    for operand, row, label in rows:
        if row.role is not Role.OUTPUT or operand.aliased or row.by_hand:
            continue
        if row.least and row.least < row.stored:
            part = row.least / row.stored
            yield f"the grid writes {part:.0%} of {label}: do the blocks divide its dimensions?"


def refusal(call: KernelCall, failure: LibtpuRefusal) -> str:
    """The compiler's reason as a message with labelled paragraphs."""
    return "\n".join([failure.message, *_paragraphs(call, failure)])


def _paragraphs(call: KernelCall, failure: LibtpuRefusal) -> Iterator[str]:
    if failure.wanted and failure.limit:
        yield f"  needs  {bytes_of(failure.wanted)}, of {bytes_of(failure.limit)}"
    for one in sorted(failure.allocations, key=lambda one: -one.size):
        name = one.name or one.use.value
        held = f"{one.buffers} × {one.shape}" if one.buffers > 1 else one.shape
        yield f"           {name}  {held}  {bytes_of(one.size)}"
    if failure.kind is LibtpuRefusalKind.VMEM and (
        fits := fitting(call, failure.limit, failure.wanted)
    ):
        yield f"  fits   {', '.join(f'{fit.block} of {fit.name}' for fit in fits)}"
    if failure.place:
        yield f"  line   {failure.file}:{failure.place.line}\n           {failure.place.text}"


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
