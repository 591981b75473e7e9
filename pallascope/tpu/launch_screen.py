"""A launch on a terminal: its predicted cost next to par's and XLA's, and advice.

It only draws predictions that were made elsewhere. It is readable from 40 columns on and without
colour.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pallascope.model import Baseline, Collective, Measured, busiest_link_bytes
from pallascope.tools.text import format_bytes, format_time
from pallascope.tpu import kernel_screen
from pallascope.tpu.bottlenecks import bottlenecks, hbm_is_saturated
from pallascope.tpu.chips import Chip, named
from pallascope.tpu.compiler import Estimate
from pallascope.tpu.excess_traffic import Bottleneck
from pallascope.tpu.kernel_screen import FirstThatFits, kernel_block, labelled_paragraphs
from pallascope.tpu.libtpu import not_checked_message
from pallascope.tpu.prediction import Prediction, roofline, routes_of_kernels


def baselines_screen(measured: Measured, name: str, drawn: str, chip: str) -> RenderableType:
    """A table for each program of a kata, with XLA's own estimate of its time."""
    parts: list[RenderableType] = [
        Text.assemble((name, "bold"), f" on a TPU {chip}: XLA's own programs, without Pallas\n"),
        Text(drawn, "dim"),
    ]
    for program in measured.programs:
        parts += ["", *_program(program.name, program.baseline or Baseline(missing="not asked"))]
    parts += ["", Text(f"This doesn't check correctness. Run pytest -k {name} for that.", "dim")]
    return Group(*parts)


def _program(name: str, baseline: Baseline) -> list[RenderableType]:
    if baseline.missing:
        return [Text.assemble((name, "bold"), f": {baseline.missing}")]
    seconds = f", {format_time(baseline.seconds)} by XLA's estimate" if baseline.seconds else ""
    heading = Text.assemble((name, "bold"), f": {format_bytes(baseline.bytes)} moved{seconds}")
    table = Table(box=None, pad_edge=False)
    for column in ("  instruction", "read", "written"):
        table.add_column(column, justify="left" if column.startswith(" ") else "right")
    for step in baseline.steps:
        table.add_row(f"  {step.name}", format_bytes(step.read), format_bytes(step.written))
    return [heading, table]


MAX_ADVICE = 3
_MIN_SHARE = 0.04  # of the time; smaller causes are left out
UNKNOWN = "–"


@dataclass(frozen=True, slots=True)
class Side:
    """One launch on a screen: its kernels, in program order.

    `trouble` is the reason if there are none (short for par). `refusals` align with `kernels`: the
    compiler's reason if it refuses one. `todo`: the launch is still to be written. `collectives`
    are the collective operations around the kernels.
    """

    title: str
    kernels: tuple[Prediction, ...] = ()
    trouble: str = ""
    refusals: tuple[str, ...] = ()
    todo: bool = False
    collectives: tuple[Collective, ...] = ()

    @property
    def seconds(self) -> float | None:
        """The time of all kernels together; None if one has no schedule."""
        known = [k.seconds for k in self.kernels if k.seconds is not None]
        return sum(known) if self.kernels and len(known) == len(self.kernels) else None

    @property
    def least(self) -> bool:
        """Whether `seconds` is only a lower bound."""
        return any(kernel.least for kernel in self.kernels)

    @property
    def bytes(self) -> int:
        """The HBM traffic of all kernels together."""
        return sum(kernel.bytes for kernel in self.kernels)


@dataclass(frozen=True, slots=True)
class Launch:
    """The content of a screen. `drawn` describes the sizes and dtype; `notes` come last.

    `par` is a launch of the same computation, and `xla` XLA's estimate for it without Pallas.
    """

    name: str
    drawn: str
    chip: str
    own: Side
    par: Side | None = None
    xla: Estimate | None = None
    notes: tuple[str, ...] = ()


def screen(launch: Launch) -> RenderableType:
    """A launch compared with par and XLA, then kernel by kernel, then advice."""
    own, par = launch.own, launch.par
    parts: list[RenderableType] = [_title(launch)]
    if own.trouble:
        parts += [labelled_paragraphs(own.trouble, "yellow" if own.todo else "red"), Text()]
    if own.kernels or (par and par.kernels):
        parts += [FirstThatFits(_compared(launch), _compared(launch, narrow=True)), Text()]
    several = len(own.kernels) > 1
    for position, kernel in enumerate(own.kernels):
        refused = own.refusals[position] if position < len(own.refusals) else ""
        parts += [kernel_block(kernel, refused, own.seconds if several else None), Text()]
    parts += _to_try(own, par)
    parts += [Text(note, "dim") for note in _notes(launch)]
    return Group(*parts)


def _title(launch: Launch) -> Text:
    return Text.assemble(
        (launch.name, "bold"),
        f" on a TPU {launch.chip}, predicted: nothing was run\n",
        (launch.drawn, "dim"),
        "\n",
    )


# ---- side by side ----


def _compared(launch: Launch, narrow: bool = False) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_edge=False)
    sides = [side for side in (launch.own, launch.par) if side and side.kernels]
    table.add_column("", style="dim")
    for side in sides:
        table.add_column(side.title, justify="right", no_wrap=not narrow)
    both = len(sides) == 2 and not narrow
    if both:
        table.add_column("ratio", justify="right", style="bold")
    if launch.xla:
        table.add_column("XLA", justify="right")
    for name, values, ratio, of_xla in _rows(sides, launch):
        more = [ratio] * both + [of_xla] * bool(launch.xla)
        table.add_row(name, *values, *more)
    return table


Row = tuple[str, list[str], str, str]

_AT_PAR = "at par; to go beyond it"
#: For kernels without a predicted time.
_BYTES_AT_PAR = "its bytes are at par; to go beyond them"


def _rows(sides: Sequence[Side], launch: Launch) -> Iterator[Row]:
    times = [side.seconds for side in sides]
    yield (
        "time",
        [
            UNKNOWN if seconds is None else _at_least(side) + format_time(seconds)
            for side, seconds in zip(sides, times, strict=True)
        ],
        _ratio_of_times(sides),
        _least_xla_time(launch.xla, named(launch.chip)),
    )
    sizes = [side.bytes for side in sides]
    moved = format_bytes(launch.xla.moved) if launch.xla and launch.xla.moved else ""
    yield "HBM bytes", [format_bytes(size) for size in sizes], _ratio(sizes), moved
    yield from _link_rows(sides, named(launch.chip))
    vmem = [max(_vmem(k) for k in side.kernels) for side in sides]
    yield "VMEM", [format_bytes(size) for size in vmem], "", ""
    if any(times):
        yield "bandwidth", [_bandwidth(side) for side in sides], "", ""
        yield "waiting", [_waiting(side) for side in sides], "", ""
        yield "spills", [_spills(side) for side in sides], "", ""
        yield "bound by", [_bound_of_longest(side) for side in sides], "", ""


def _link_rows(sides: Sequence[Side], chip: Chip) -> Iterator[Row]:
    """Rows for the bytes that one chip sends, and the time that its busiest link takes."""
    sent = [kernel_screen.sent_bytes(side.kernels, side.collectives) for side in sides]
    if not any(sent) and None not in sent:
        return
    sizes = [UNKNOWN if size is None else format_bytes(size) for size in sent]
    yield "link bytes", sizes, _ratio(sent), ""
    routes = [routes_of_kernels(side.kernels) for side in sides]
    times = [kernel_screen.link_time(each, chip) for each in routes]
    if any(times) and not any(side.collectives for side in sides):
        busiest = [busiest_link_bytes(each) if each else None for each in routes]
        yield "link time", [time or UNKNOWN for time in times], _ratio(busiest), ""
    hidden = [_overlap(side) for side in sides]
    if set(hidden) != {UNKNOWN}:
        yield "overlap", hidden, "", ""


def _overlap(side: Side) -> str:
    """The share of the matrix products that overlaps with copies from another chip."""
    covered = [kernel.covered for kernel in side.kernels if kernel.covered is not None]
    return f"{min(covered):.0%}" if covered else UNKNOWN


def _least_xla_time(xla: Estimate | None, chip: Chip) -> str:
    return f"≥ {format_time(floor)}" if xla and (floor := xla.floor(chip)) else UNKNOWN


def _xla_notes(xla: Estimate, chip: Chip) -> Iterator[str]:
    """Notes on XLA's column, and XLA's own estimate."""
    program = "XLA: the same in jax.numpy, without Pallas"
    if xla.moved:
        moving, computing = format_time(xla.moved / (chip.bandwidth * chip.cores)), xla.computing
        operations = f" and {format_time(computing)} for its operations" if computing else ""
        yield (
            f"{program}. It takes at least {moving} for its bytes{operations}, at the chip's "
            "bandwidth and peaks"
        )
    elif not xla.missing or xla.cycles:
        yield f"{program}. Its bytes, and so the least time for them, are unknown"
    else:
        yield f"{program}: {xla.missing}"
        return
    if xla.cycles:
        estimate = format_time(xla.cycles / chip.clock)
        yield f"XLA's own estimate of its time is {estimate}; such estimates are rough"
    else:
        yield f"XLA's own estimate of its time: none ({xla.missing})"


def _ratio(values: Sequence[float | None]) -> str:
    if len(values) < 2 or values[0] is None or not values[1]:
        return ""
    return f"{values[0] / values[1]:.2f}×"


def _ratio_of_times(sides: Sequence[Side]) -> str:
    """The ratio of the times: a lower bound if the launch's time is one, none if par's is."""
    if any(side.least for side in sides[1:]):
        return ""
    ratio = _ratio([side.seconds for side in sides])
    return _at_least(sides[0]) + ratio if ratio else ""


def _at_least(side: Side) -> str:
    return "≥ " if side.least else ""


def _vmem(kernel: Prediction) -> int:
    return kernel.vmem.used if kernel.vmem else kernel.traffic.vmem


def _bandwidth(side: Side) -> str:
    """The share of HBM's bandwidth that all kernels use."""
    if not side.seconds:
        return UNKNOWN
    moving = sum(kernel.bytes / kernel.sharing / kernel.bandwidth for kernel in side.kernels)
    return f"{moving / side.seconds:.0%}"


def _waiting(side: Side) -> str:
    if side.seconds is None:
        return UNKNOWN
    stalled = sum(k.schedule.stalled * k.runs.times for k in side.kernels if k.schedule)
    return f"{stalled / sum(k.cycles for k in side.kernels):.0%}"


def _spills(side: Side) -> str:
    if side.seconds is None:
        return UNKNOWN
    return f"{sum(k.schedule.spills * k.runs.times for k in side.kernels if k.schedule):,}"


def _bound_of_longest(side: Side) -> str:
    """The bound of the kernel that takes longest."""
    bounds = [(k.cycles, line.bound.value) for k in side.kernels if (line := roofline(k))]
    return max(bounds)[1] if bounds else UNKNOWN


# ---- advice and notes ----


def _to_try(own: Side, par: Side | None) -> list[RenderableType]:
    if not own.kernels or any(k.failure for k in own.kernels):
        return []
    par_kernels = par.kernels if par and not any(k.failure for k in par.kernels) else ()
    causes, title = bottlenecks(own.kernels, par_kernels), "what costs most, and what to try"
    if par_kernels and not causes:
        causes, title = bottlenecks(own.kernels), _AT_PAR if own.seconds else _BYTES_AT_PAR
    whole = sum(k.cycles for k in own.kernels)
    causes = [cause for cause in causes if cause.size or cause.cycles >= _MIN_SHARE * whole]
    if not causes:
        return [Text(_AT_THE_LIMIT), Text()] if _hbm_is_saturated(own) else []
    parts: list[RenderableType] = [Text(title, "bold")]
    remedies: set[str] = set()
    for number, cause in enumerate(causes[:MAX_ADVICE], 1):
        parts.append(_advice(number, cause, whole, cause.remedy in remedies))
        remedies.add(cause.remedy)
    return [*parts, Text()]


_AT_THE_LIMIT = (
    "Nothing to save: HBM is busy nearly all of the time, and hardly any byte moves twice. Only "
    "different arrays would take less time: a narrower dtype, or one kernel instead of two, so "
    "that the arrays between them stay in VMEM."
)


def _hbm_is_saturated(side: Side) -> bool:
    """Whether HBM is saturated in all of the launch's kernels."""
    lines = [roofline(kernel) for kernel in side.kernels]
    return all(line is not None and hbm_is_saturated(line) for line in lines)


def _advice(number: int, cause: Bottleneck, whole: float, repeated: bool) -> RenderableType:
    text = Text(cause.why)
    if whole:
        text.append(f" (up to {min(cause.cycles / whole, 1):.0%} of the time)", "dim")
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_row(f"{number}.", text)
    table.add_row("", Text.assemble(("try: ", "bold"), "the same." if repeated else cause.remedy))
    return table


def _collective_notes(side: Side | None) -> Iterator[str]:
    """A line for each collective around the kernels."""
    for collective in side.collectives if side else ():
        axes = " and ".join(f'"{axis}"' for axis in collective.axes)
        arrays = ", ".join(map(str, collective.arrays))
        size = UNKNOWN if collective.bytes is None else format_bytes(collective.bytes)
        where = f", line {collective.line}" if collective.line else ""
        links = f"{size} over the links of each chip"
        yield f"{collective.name} over {axes} of {arrays}: {links}{where}"
    if side and side.collectives and side.seconds:
        yield "time: of the kernels alone; the collectives between them take extra time"


def _notes(launch: Launch) -> Iterator[str]:
    sides = [side for side in (launch.own, launch.par) if side and side.kernels]
    unchecked = (k.unknown for s in sides for k in s.kernels if not k.compiled and not k.failure)
    if reason := next(unchecked, ""):
        yield not_checked_message(reason, "its time and spills")
    elif sides:
        several = any(kernel.sent_bytes != 0 for side in sides for kernel in side.kernels)
        if several:
            yield kernel_screen.NO_TIME
        elif times := [side.seconds for side in sides if side.seconds is not None]:
            yield f"{launch.chip}: {named(launch.chip).accuracy_of(times[0])}"
    for side in sides:
        yield from kernel_screen.route_lines(side.title, routes_of_kernels(side.kernels))
    yield from _collective_notes(launch.own if launch.own.kernels else launch.par)
    if launch.own.seconds and launch.par and launch.par.seconds:
        yield "par: on the same chip, so most errors of a prediction are in both times"
    if launch.par and launch.par.trouble:
        yield f"par: {launch.par.trouble}"
    if sides and launch.xla:
        yield from _xla_notes(launch.xla, named(launch.chip))
    yield from launch.notes
