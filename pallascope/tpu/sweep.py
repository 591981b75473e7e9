"""A table of predicted times over block sizes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pallascope.model import Role
from pallascope.tools.text import format_bytes, format_time
from pallascope.tpu.kernel_screen import FirstThatFits
from pallascope.tpu.prediction import Prediction, roofline

_TITLES = ("time", "HBM bytes", "VMEM", "bound by")
_MIN_NOTE_WIDTH = 20  # the smallest width of a remark, in columns


@dataclass(frozen=True, slots=True)
class SweepRow:
    """One combination of sizes: the launch's kernels, or a few words if there are none."""

    sizes: Mapping[str, int]
    kernels: tuple[Prediction, ...] = ()
    trouble: str = ""

    @property
    def seconds(self) -> float | None:
        """The time of all kernels together; None if one has no schedule."""
        known = [k.seconds for k in self.kernels if k.seconds is not None]
        return sum(known) if self.kernels and len(known) == len(self.kernels) else None

    @property
    def bytes(self) -> int:
        return sum(k.bytes for k in self.kernels)

    @property
    def vmem(self) -> int:
        return max((k.vmem.used if k.vmem else k.traffic.vmem for k in self.kernels), default=0)


@dataclass(frozen=True, slots=True)
class _Row:
    sizes: tuple[str, ...]
    numbers: tuple[str, ...]
    remark: str
    style: str


def table(rows: Sequence[SweepRow]) -> RenderableType:
    """All combinations in the given order. At least one."""
    required = _required_shares(rows)
    reasons = [_rejection(row, required) for row in rows]
    accepted = [row for row, reason in zip(rows, reasons, strict=True) if not reason]
    best, title = _best(accepted)
    table_rows = [
        _row(row, reason, title if row is best else "")
        for row, reason in zip(rows, reasons, strict=True)
    ]
    names = tuple(rows[0].sizes)
    probe = [dataclasses.replace(row, remark=row.remark[:_MIN_NOTE_WIDTH]) for row in table_rows]
    drawn = FirstThatFits(
        _wide(names, table_rows), _narrow(names, table_rows), probes=[_wide(names, probe)]
    )
    return Group(drawn, *_sweep_notes(rows, best, title))


def _best(good: Sequence[SweepRow]) -> tuple[SweepRow | None, str]:
    """The fastest; if no times are known, the one that moves the fewest bytes."""
    timed = [row for row in good if row.seconds is not None]
    if timed:
        return min(timed, key=lambda row: row.seconds or 0.0), "fastest"
    return min(good, key=lambda row: row.bytes, default=None), "fewest bytes"


def _row(row: SweepRow, reason: str, best: str) -> _Row:
    remark = f"← {best}" if best else reason
    style = "bold green" if best else "dim" if reason else ""
    return _Row(tuple(map(str, row.sizes.values())), _numbers(row), remark, style)


def _numbers(row: SweepRow) -> tuple[str, ...]:
    if not row.kernels:
        return ("–",) * len(_TITLES)
    least = any(kernel.least for kernel in row.kernels)
    time = "–" if row.seconds is None else f"{'≥ ' * least}{format_time(row.seconds)}"
    return time, format_bytes(row.bytes), format_bytes(row.vmem), _bound(row)


def _bound(row: SweepRow) -> str:
    bounds = [(k.cycles, line.bound.value) for k in row.kernels if (line := roofline(k))]
    return max(bounds)[1] if bounds else "–"


def _wide(names: Sequence[str], rows: Sequence[_Row]) -> Table:
    shown = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for title in (*names, *_TITLES):
        left = title == _TITLES[-1]
        shown.add_column(title, justify="left" if left else "right", no_wrap=True)
    shown.add_column("")
    for row in rows:
        shown.add_row(*row.sizes, *row.numbers, row.remark, style=row.style)
    return shown


def _narrow(names: Sequence[str], rows: Sequence[_Row]) -> Group:
    parts: list[RenderableType] = []
    for row in rows:
        sizes = " ".join(f"{name}={size}" for name, size in zip(names, row.sizes, strict=True))
        pairs = zip(_TITLES, row.numbers, strict=True)
        numbers = [f"{title} {number}" for title, number in pairs if number != "–"]
        text = ", ".join([*numbers, *([row.remark] if row.remark else [])])
        parts += [Text(sizes, row.style), Padding(Text(text, row.style), (0, 0, 0, 2))]
    return Group(*parts)


def _sweep_notes(rows: Sequence[SweepRow], best: SweepRow | None, title: str) -> Iterator[Text]:
    if best:
        sizes = " ".join(f"{name}={size}" for name, size in best.sizes.items())
        yield Text.assemble(f"\n{title}: ", (sizes, "bold"))
    kernels = (kernel for row in rows for kernel in row.kernels)
    if reason := next((k.unknown for k in kernels if not k.compiled and not k.failure), ""):
        yield Text(f"not checked: times, and whether it fits into VMEM ({reason})", "dim")


# ---- rejected combinations ----


def _rejection(row: SweepRow, required: Mapping[tuple[int, str], float]) -> str:
    """The reason in a few words if a combination can't be used, otherwise ""."""
    if row.trouble:
        return row.trouble
    for kernel in row.kernels:
        if kernel.failure:
            wanted, limit = kernel.failure.wanted, kernel.failure.limit
            if wanted and limit:
                return f"needs {format_bytes(wanted)} of {kernel.failure.kind.value.upper()}"
            return kernel.failure.message
        if kernel.outside:
            return f"the block of {kernel.outside[0].partition(':')[0]} is not within its array"
    missed = [
        (role is not Role.OUTPUT, f"{verb} {part:.0%} of {label}")
        for position, kernel in enumerate(row.kernels)
        for (label, role), part in _moved_shares(kernel).items()
        if part < required[position, label] - 1e-9
        for verb in ("writes" if role is Role.OUTPUT else "reads",)
    ]
    if missed:
        return min(missed)[1]
    return next((k.unknown for k in row.kernels if k.unknown and k.compiled), "")


def _moved_shares(kernel: Prediction) -> dict[tuple[str, Role], float]:
    """The part of each operand that moves at least once; no inputs if a table chooses blocks."""
    chosen = bool(kernel.call.role(Role.PREFETCH))
    rows = zip(kernel.traffic.operands, kernel.labels, strict=True)
    return {
        (label, r.role): min(r.least / r.stored, 1)
        for r, label in rows
        if r.least and r.stored and not (chosen and r.role is Role.INPUT)
    }


def _required_shares(rows: Sequence[SweepRow]) -> dict[tuple[int, str], float]:
    """The part of each operand that has to move: all of an output, and of an input the largest
    part that any combination reads."""
    most: dict[tuple[int, str], float] = {}
    for row in rows:
        for position, kernel in enumerate(row.kernels):
            for (label, role), part in _moved_shares(kernel).items():
                wanted = 1.0 if role is Role.OUTPUT else part
                most[position, label] = max(most.get((position, label), 0.0), wanted)
    return most
