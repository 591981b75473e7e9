"""A launch on a terminal beside another one, and XLA's instructions.

XLA's programs on a terminal: their instructions, one after another, and what each moves.

One screen for a launch: what its kernels would take on a TPU, and what to try.
Draws predictions, asks for none: all that is said here was found out elsewhere. Reads well from 40
columns on, and without colour.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pallascope.model import Baseline, Collective, Measured
from pallascope.tpu import kernel_screen
from pallascope.tpu.bottlenecks import bottlenecks, full
from pallascope.tpu.chips import Chip, named
from pallascope.tpu.compiler import Estimate
from pallascope.tpu.excess_traffic import Bottleneck
from pallascope.tpu.kernel_screen import FirstThatFits, kernel_block, labelled
from pallascope.tpu.libtpu import not_checked
from pallascope.tpu.prediction import Prediction, roofline, routes_of
from pallascope.tpu.units import bytes_of, time_of


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


MOST_ADVICE = 3
_WORTH = 0.04  # of the time; what is less is not worth a word
NONE = "–"


@dataclass(frozen=True, slots=True)
class Side:
    """One launch on a screen: its kernels, in program order, or what kept it from having any.

    `trouble` says that in words (of par, in few), and so do `refusals` for kernels that the
    compiler refuses; they align with `kernels`. `todo`: there is nothing yet, by no fault.
    `collectives` are what devices send to each other around the kernels.
    """

    title: str
    kernels: tuple[Prediction, ...] = ()
    trouble: str = ""
    refusals: tuple[str, ...] = ()
    todo: bool = False
    collectives: tuple[Collective, ...] = ()

    @property
    def seconds(self) -> float | None:
        """Of all kernels together; None where one has no schedule."""
        known = [k.seconds for k in self.kernels if k.seconds is not None]
        return sum(known) if self.kernels and len(known) == len(self.kernels) else None

    @property
    def least(self) -> bool:
        """Whether `seconds` are no more than a lower bound."""
        return any(kernel.least for kernel in self.kernels)

    @property
    def bytes(self) -> int:
        """To and from HBM, of all kernels together."""
        return sum(kernel.bytes for kernel in self.kernels)


@dataclass(frozen=True, slots=True)
class Launch:
    """What a screen is about. `drawn` are sizes and dtype in words; `notes` stand at its end.

    `par` is a launch that does the same, and `xla` what XLA makes of it without Pallas.
    """

    name: str
    drawn: str
    chip: str
    own: Side
    par: Side | None = None
    xla: Estimate | None = None
    notes: tuple[str, ...] = ()


def screen(launch: Launch) -> RenderableType:
    """All of a launch: beside par and XLA, kernel by kernel, and what to try."""
    own, par = launch.own, launch.par
    parts: list[RenderableType] = [_title(launch)]
    if own.trouble:
        parts += [labelled(own.trouble, "yellow" if own.todo else "red"), Text()]
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
#: Of kernels that have no time.
_BYTES_AT_PAR = "its bytes are at par; to go beyond them"


def _rows(sides: Sequence[Side], launch: Launch) -> Iterator[Row]:
    times = [side.seconds for side in sides]
    yield (
        "time",
        [
            NONE if one is None else _at_least(side) + time_of(one)
            for side, one in zip(sides, times, strict=True)
        ],
        _ratio_of_times(sides),
        _floor_of(launch.xla, named(launch.chip)),
    )
    sizes = [side.bytes for side in sides]
    moved = bytes_of(launch.xla.moved) if launch.xla and launch.xla.moved else ""
    yield "HBM bytes", [bytes_of(size) for size in sizes], _ratio(sizes), moved
    yield from _link_rows(sides, named(launch.chip))
    vmem = [max(_vmem(k) for k in side.kernels) for side in sides]
    yield "VMEM", [bytes_of(size) for size in vmem], "", ""
    if any(times):
        yield "bandwidth", [_bandwidth(side) for side in sides], "", ""
        yield "waiting", [_waiting(side) for side in sides], "", ""
        yield "spills", [_spills(side) for side in sides], "", ""
        yield "bound by", [_bounds(side) for side in sides], "", ""


def _link_rows(sides: Sequence[Side], chip: Chip) -> Iterator[Row]:
    """What one chip sends to others, and how long its links are busy with it at least."""
    sent = [kernel_screen.sent(side.kernels, side.collectives) for side in sides]
    if not any(sent) and None not in sent:
        return
    told = [NONE if size is None else bytes_of(size) for size in sent]
    yield "link bytes", told, _ratio(sent), ""
    least = [kernel_screen.least_time(routes_of(side.kernels), chip) for side in sides]
    if any(least) and not any(side.collectives for side in sides):
        yield "link time", [one or NONE for one in least], "", ""
    hidden = [_overlap(side) for side in sides]
    if set(hidden) != {NONE}:
        yield "overlap", hidden, "", ""


def _overlap(side: Side) -> str:
    """Which part of its products is computed while something comes from another chip."""
    covered = [kernel.covered for kernel in side.kernels if kernel.covered is not None]
    return f"{min(covered):.0%}" if covered else NONE


def _floor_of(xla: Estimate | None, chip: Chip) -> str:
    return f"≥ {time_of(floor)}" if xla and (floor := xla.floor(chip)) else NONE


def _of_xla(xla: Estimate, chip: Chip) -> Iterator[str]:
    """What its column stands for, and its own estimate."""
    program = "XLA: the same in jax.numpy, without Pallas"
    if xla.moved:
        moving, computing = time_of(xla.moved / (chip.bandwidth * chip.cores)), xla.computing
        operations = f" and {time_of(computing)} for its operations" if computing else ""
        yield (
            f"{program}. It takes at least {moving} for its bytes{operations}, at the chip's "
            "bandwidth and peaks"
        )
    elif not xla.missing or xla.cycles:
        yield f"{program}. Its bytes, and so the least time for them, are not known"
    else:
        yield f"{program}: {xla.missing}"
        return
    if xla.cycles:
        estimate = time_of(xla.cycles / chip.clock)
        yield f"XLA's own estimate of its time is {estimate}; such estimates are rough"
    else:
        yield f"XLA's own estimate of its time: none ({xla.missing})"


def _ratio(values: Sequence[float | None]) -> str:
    if len(values) < 2 or values[0] is None or not values[1]:
        return ""
    return f"{values[0] / values[1]:.2f}×"


def _ratio_of_times(sides: Sequence[Side]) -> str:
    """Beside a lower bound there is none; a lower bound beside a time is one of the ratio."""
    if any(side.least for side in sides[1:]):
        return ""
    ratio = _ratio([side.seconds for side in sides])
    return _at_least(sides[0]) + ratio if ratio else ""


def _at_least(side: Side) -> str:
    return "≥ " if side.least else ""


def _vmem(kernel: Prediction) -> int:
    return kernel.vmem.used if kernel.vmem else kernel.traffic.vmem


def _bandwidth(side: Side) -> str:
    """The share of HBM's bandwidth that the bytes of all kernels reach over their time."""
    if not side.seconds:
        return NONE
    moving = sum(kernel.bytes / kernel.sharing / kernel.bandwidth for kernel in side.kernels)
    return f"{moving / side.seconds:.0%}"


def _waiting(side: Side) -> str:
    if side.seconds is None:
        return NONE
    stalled = sum(k.schedule.stalled * k.runs.times for k in side.kernels if k.schedule)
    return f"{stalled / sum(k.cycles for k in side.kernels):.0%}"


def _spills(side: Side) -> str:
    if side.seconds is None:
        return NONE
    return f"{sum(k.schedule.spills * k.runs.times for k in side.kernels if k.schedule):,}"


def _bounds(side: Side) -> str:
    """The bound of the kernel that takes longest."""
    found = [(k.cycles, line.bound.value) for k in side.kernels if (line := roofline(k))]
    return max(found)[1] if found else NONE


# ---- what to try, and what has to be said ----


def _to_try(own: Side, par: Side | None) -> list[RenderableType]:
    if not own.kernels or any(k.failure for k in own.kernels):
        return []
    beside = par.kernels if par and not any(k.failure for k in par.kernels) else ()
    found, title = bottlenecks(own.kernels, beside), "what costs most, and what to try"
    if beside and not found:
        found, title = bottlenecks(own.kernels), _AT_PAR if own.seconds else _BYTES_AT_PAR
    whole = sum(k.cycles for k in own.kernels)
    found = [each for each in found if each.size or each.cycles >= _WORTH * whole]
    if not found:
        return [Text(_AT_THE_LIMIT), Text()] if _full(own) else []
    parts: list[RenderableType] = [Text(title, "bold")]
    told: set[str] = set()
    for number, each in enumerate(found[:MOST_ADVICE], 1):
        parts.append(_advised(number, each, whole, each.remedy in told))
        told.add(each.remedy)
    return [*parts, Text()]


_AT_THE_LIMIT = (
    "Nothing to save: HBM is busy nearly all of the time, and hardly any byte moves twice. Only "
    "other arrays would take less time: a narrower dtype, or one kernel instead of two, so that "
    "the arrays between them stay in VMEM."
)


def _full(side: Side) -> bool:
    """Whether HBM has no time left in any of the launch's kernels."""
    lines = [roofline(kernel) for kernel in side.kernels]
    return all(line is not None and full(line) for line in lines)


def _advised(number: int, each: Bottleneck, whole: float, told: bool) -> RenderableType:
    text = Text(each.why)
    if whole:
        text.append(f" (up to {min(each.cycles / whole, 1):.0%} of the time)", "dim")
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_row(f"{number}.", text)
    table.add_row("", Text.assemble(("try: ", "bold"), "the same." if told else each.remedy))
    return table


def _around(side: Side | None) -> Iterator[str]:
    """What the devices send to each other around the kernels, one by one."""
    for one in side.collectives if side else ():
        axes = " and ".join(f'"{axis}"' for axis in one.axes)
        arrays = ", ".join(map(str, one.arrays))
        size = NONE if one.bytes is None else bytes_of(one.bytes)
        where = f", line {one.line}" if one.line else ""
        yield f"{one.name} over {axes} of {arrays}: {size} over the links of each chip{where}"
    if side and side.collectives and side.seconds:
        yield "time: of the kernels alone; what is sent between them comes on top"


def _notes(launch: Launch) -> Iterator[str]:
    asked = [side for side in (launch.own, launch.par) if side and side.kernels]
    unchecked = (k.unknown for s in asked for k in s.kernels if not k.compiled and not k.failure)
    if reason := next(unchecked, ""):
        yield not_checked(reason, "its time and spills")
    elif asked:
        several = any(kernel.sent_bytes != 0 for side in asked for kernel in side.kernels)
        if several:
            yield kernel_screen.NO_TIME
        elif times := [side.seconds for side in asked if side.seconds is not None]:
            yield f"{launch.chip}: {named(launch.chip).accuracy_of(times[0])}"
    for side in asked:
        yield from kernel_screen.told(side.title, routes_of(side.kernels))
    yield from _around(launch.own if launch.own.kernels else launch.par)
    if launch.own.seconds and launch.par and launch.par.seconds:
        yield "par: on the same chip, so most errors of a prediction are in both times"
    if launch.par and launch.par.trouble:
        yield f"par: {launch.par.trouble}"
    if asked and launch.xla:
        yield from _of_xla(launch.xla, named(launch.chip))
    yield from launch.notes
