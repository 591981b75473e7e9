"""One kernel on a terminal: its bound, time, traffic, VMEM.

`kernel_block` draws a prediction at any width of at least 40 columns. `launch_screen` combines the
kernels of a launch.
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
    busiest_link_bytes,
    collective_sent_bytes,
    total_link_bytes,
)
from pallascope.tools.text import format_bytes, format_route, format_time, format_times
from pallascope.tpu.chips import Chip
from pallascope.tpu.libtpu_errors import LibtpuRefusal, LibtpuRefusalKind
from pallascope.tpu.prediction import Prediction, Roofline, roofline
from pallascope.tpu.schedule import Unit
from pallascope.tpu.traffic import OUTSIDE, OperandTraffic
from pallascope.tpu.vmem import Use, smaller_blocks


class FirstThatFits:
    """The first of several renderables, widest first, that fits the width; otherwise the last.

    `probes` are measured instead of renderables that may wrap.
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
_INDENT_COLUMNS = 9  # the indentation of a paragraph's further lines


def labelled_paragraphs(message: str, style: str = "") -> RenderableType:
    """A finding's message as a table of labels and paragraphs, which wraps at any width.

    The lines before the first label have the style `style`. Lines that are indented more than
    their paragraph, such as code, are not joined.
    """
    head: list[str] = []
    parts: list[tuple[str, list[str]]] = []
    for line in message.splitlines():
        if match := _LABEL.match(line):
            parts.append((match[1], [line[match.end() :]]))
        elif not parts:
            head.append(line)
        elif line[: _INDENT_COLUMNS + 1].strip():
            parts[-1][1][-1] += f" {line.strip()}"
        else:
            parts[-1][1].append(line[_INDENT_COLUMNS:])
    renderables: list[RenderableType] = [Text("\n".join(head), style)]
    if parts:
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(style="dim", no_wrap=True)
        table.add_column()
        for label, lines in parts:
            table.add_row(f"  {label}", Text("\n".join(lines)))
        renderables.append(table)
    return Group(*renderables)


NO_TIME = (
    'time: not predicted for kernels that copy to other chips. "link time" is the range for the '
    "busiest link: its published rate, and the slowest published transfers between neighbours. "
    "Stars are for bytes: to HBM, over all links, and over the busiest one"
)


def sent_bytes(kernels: Sequence[Prediction], collectives: tuple[Collective, ...]) -> int | None:
    """The bytes that one chip sends to others; None if unknown."""
    sizes = [*(kernel.sent_bytes for kernel in kernels), collective_sent_bytes(collectives)]
    return None if None in sizes else sum(filter(None, sizes))


def link_time(routes: Sequence[Route] | None, chip: Chip) -> str:
    """The range of times that the busiest link needs: "252 to 298 µs"; "" if unknown."""
    if not routes or not chip.link:
        return ""
    return format_times(*chip.link_times(busiest_link_bytes(routes)))


def route_lines(title: str, routes: Sequence[Route] | None) -> Iterator[str]:
    """A line for each route."""
    for route in routes or ():
        yield f"{title}: each chip sends {format_bytes(route.bytes)} {format_route(route)}"
    if routes and any(route.hops > 1 for route in routes):
        yield f"{title}: links carry {format_bytes(total_link_bytes(routes))}, bytes times hops"


def kernel_notes(kernel: Prediction) -> Iterator[str]:
    """Notes that a reader needs before the kernel's numbers."""
    yield from unwritten_notes(kernel)
    yield from run_count_notes(kernel.runs, differ=kernel.mean is not None)
    yield from xla_copy_notes(kernel)
    if kernel.least:
        yield (
            f"its time is a lower bound ({kernel.least}): reads and writes of such a DMA are "
            "counted at HBM's full bandwidth"
        )
    if kernel.sharing > 1:
        shared = "work" if kernel.beside else "grid"
        yield (
            f"{kernel.sharing} TensorCores share its {shared}: the numbers below are for the core "
            f"with the most work, with 1/{kernel.sharing} of the chip's bandwidth"
        )


def xla_copy_notes(kernel: Prediction) -> Iterator[str]:
    """A note on XLA's copies before and after a kernel."""
    if kernel.copied:
        names = ", ".join(dict.fromkeys(kernel.labels[each.operand] for each in kernel.copied))
        yield (
            f"XLA copies {names}: {format_bytes(kernel.copied_bytes)} are read and written around "
            "the kernel, and count in the launch's time and bytes"
        )


def run_count_notes(runs: RunCount, differ: bool = False) -> Iterator[str]:
    """Notes on the loops and branches around a kernel, whose runs may `differ`."""
    if runs.times != 1:
        one = "the longest run: the loop changes its tables" if differ else "one run"
        yield (
            f"a loop around it runs it {runs.times:,} times; the numbers below are for {one}, "
            "the launch's time and bytes for all runs"
        )
    if runs.untold:
        yield (
            "the loop around it has a length that is known only at run time: the launch's time "
            "and bytes are for one iteration"
        )
    if runs.conditional:
        yield (
            "it is in a branch of lax.cond: the launch's time and bytes count every branch as taken"
        )


def unwritten_notes(kernel: Prediction) -> Iterator[str]:
    """Notes on outputs that the grid writes only in part."""
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
        yield f"  needs  {format_bytes(failure.wanted)}, of {format_bytes(failure.limit)}"
    for allocation in sorted(failure.allocations, key=lambda allocation: -allocation.size):
        name = allocation.name or allocation.use.value
        shape = (
            f"{allocation.buffers} × {allocation.shape}"
            if allocation.buffers > 1
            else allocation.shape
        )
        yield f"           {name}  {shape}  {format_bytes(allocation.size)}"
    if failure.kind is LibtpuRefusalKind.VMEM and (
        fits := smaller_blocks(call, failure.limit, failure.wanted)
    ):
        yield f"  fits   {', '.join(f'{fit.block} of {fit.name}' for fit in fits)}"
    if failure.place:
        yield f"  line   {failure.file}:{failure.place.line}\n           {failure.place.text}"


BAR = 24
_MIN_SHARE = 0.005  # of the time: smaller shares round to 0 %
_INDENT = (0, 0, 0, 2)
_UNKNOWN = "–"
_BY_HAND = "by hand"
_WAITING, _LAUNCH = "waiting", "launch"
_NAMES = {Unit.VMEM: "loads, stores", Unit.SCALAR: "scalar core"}
_ROLES = {Role.PREFETCH: "prefetch", Role.INPUT: "in", Role.OUTPUT: "out", Role.SCRATCH: "scratch"}


def kernel_block(
    kernel: Prediction, refused: str = "", whole: float | None = None
) -> RenderableType:
    """One kernel. `refused` is the compiler's reason to refuse it; `whole` the launch's seconds."""
    inside: list[RenderableType] = []
    if kernel.failure:
        inside.append(labelled_paragraphs(refused or refusal(kernel.call, kernel.failure), "red"))
    elif kernel.unknown and (kernel.compiled or kernel.call.unknown):
        inside.append(Text(f"no predicted time: {kernel.unknown}", "yellow"))
    inside += [Text(f"{text}.", "red") for text in kernel.outside]
    inside += [Text(text, "yellow") for text in kernel_notes(kernel)]
    if line := roofline(kernel):
        inside += [_bound(line), Text(), _Time(line)]
    inside += [Text(), _operand_view(kernel), *_operand_notes(kernel), *_vmem(kernel)]
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
        text.append(f", {format_time(kernel.seconds)} ({kernel.seconds / whole:.0%} of the launch)")
    return text


def _bound(line: Roofline) -> Text:
    return Text.assemble("bound by ", (line.bound.value, "bold"), f": {line.why}")


class _Time:
    """Bars for the time of each unit, waiting and the launch, as wide as the terminal allows."""

    def __init__(self, line: Roofline) -> None:
        self._line = line

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        total = self._line.total
        rows = [(_NAMES.get(unit, unit.value), taken) for unit, taken in self._line.units]
        rows += [(_WAITING, self._line.waiting), (_LAUNCH, self._line.launch)]
        bar = min(BAR, options.max_width - 30)
        table = Table.grid(padding=(0, 2, 0, 0))
        for justify in ("left", "right", "right", "left"):
            table.add_column(justify=justify, no_wrap=True)
        rows = [row for row in rows if row[1] >= _MIN_SHARE * total]
        for name, taken in sorted(rows, key=lambda row: -row[1]):
            colour = "yellow" if name in (_WAITING, _LAUNCH) else "green"
            drawn = Text("█" * round(bar * taken / total), colour)
            table.add_row(name, format_time(taken), f"{taken / total:.0%}", drawn)
        yield table


# ---- operands ----


@dataclass(frozen=True, slots=True)
class _Operand:
    """The cells of one operand's row; "" for an empty cell."""

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
_TEXT_COLUMNS = ("name", "role", "array", "block")
#: The columns that a narrow terminal drops first.
_OPTIONAL_COLUMNS = ("array", "role")


def _operands(kernel: Prediction) -> Iterator[_Operand]:
    waits: defaultdict[str, float] = defaultdict(float)
    moved: defaultdict[str, int] = defaultdict(int)
    schedule = kernel.schedule
    for dmas in schedule.moved if schedule else ():
        waits[dmas.operand] += dmas.stalled
        moved[dmas.operand] += dmas.size
    for row, label in zip(kernel.traffic.operands, kernel.labels, strict=True):
        if row.role is Role.SCRATCH and not row.vmem:
            continue  # semaphores, and scratch outside of VMEM
        size = moved[label] if row.bytes is None and schedule else row.bytes
        share = waits[label] / schedule.cycles if schedule else 0.0
        yield _operand(row, label, size, share)


def _operand(row: OperandTraffic, label: str, size: int | None, waits: float) -> _Operand:
    stays = row.role is Role.SCRATCH
    return _Operand(
        name=label,
        role=_ROLES[row.role],
        array=str(row.array),
        block=_BY_HAND if row.by_hand else _shape(row.block),
        moves="" if stays else _UNKNOWN if row.moves is None else f"{row.moves:,}",
        bytes="" if stays else _UNKNOWN if size is None else format_bytes(size),
        refetch=f"{row.refetch:.1f}×" if row.refetch else "",
        padding=f"{row.padding / row.bytes:.0%}" if row.padding and row.bytes else "",
        vmem=format_bytes(row.vmem) if row.vmem else "",
        waits=f"{waits:.0%}" if waits >= _MIN_SHARE else "",
    )


def _operand_view(kernel: Prediction) -> FirstThatFits:
    """A table with as many columns as fit, or a paragraph for each operand."""
    rows = list(_operands(kernel))
    columns = {t: f for t, f in _COLUMNS.items() if any(getattr(row, f) for row in rows)}
    tables = [
        _table(rows, {t: f for t, f in columns.items() if f not in _OPTIONAL_COLUMNS[:dropped]})
        for dropped in range(len(_OPTIONAL_COLUMNS) + 1)
    ]
    return FirstThatFits(*tables, _stacked(rows))


def _table(rows: Sequence[_Operand], columns: Mapping[str, str]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for title, field in columns.items():
        justify = "left" if field in _TEXT_COLUMNS else "right"
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
            if field not in _TEXT_COLUMNS and getattr(row, field)
        ]
        parts.append(Text.assemble((row.name, "bold"), f" {row.role} {row.block}"))
        parts.append(Padding(Text(", ".join(values)), _INDENT))
    return Group(*parts)


def _operand_notes(kernel: Prediction) -> Iterator[Text]:
    """Notes on operands whose counts need an explanation."""
    for row, label in zip(kernel.traffic.operands, kernel.labels, strict=True):
        already_noted = row.by_hand or (kernel.outside and row.note == OUTSIDE)
        if row.note and not already_noted and row.role is not Role.SCRATCH:
            yield Text(f"{label}: {row.note}", "dim")


def _vmem(kernel: Prediction) -> Iterator[Text]:
    if vmem := kernel.vmem:
        sums: defaultdict[Use, int] = defaultdict(int)
        for each in vmem.allocations:
            sums[each.use] += each.size
        uses = ", ".join(f"{_USES[use]} {format_bytes(size)}" for use, size in sums.items())
        text = f"VMEM: {format_bytes(vmem.used)} of {format_bytes(vmem.limit)}"
        yield Text(f"{text} ({uses})" if uses else text)
    elif not kernel.failure:
        yield Text(
            f"VMEM: {format_bytes(kernel.traffic.vmem)} for blocks and scratch, by their shapes"
        )
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
