"""Causes of a launch's cost, and advice: waits, steps, units, spills.

`bottlenecks` ranks all causes, with those of `excess_traffic`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence

from pallascope.model import Lint, Role
from pallascope.tools.text import format_time
from pallascope.tpu.chips import named
from pallascope.tpu.excess_traffic import Bottleneck, excess_bytes, xla_copies
from pallascope.tpu.prediction import Bound, Prediction, Roofline, roofline
from pallascope.tpu.schedule import OperandDmas, Schedule, Unit


def many_steps(own: Prediction, par: Prediction | None) -> Iterator[Bottleneck]:
    """Many small steps, each with its overhead."""
    mine, pars = _grid_steps(own), _grid_steps(par) if par else 1
    if not own.schedule or mine <= 1.5 * pars:
        return
    step_cycles = own.schedule.cycles / mine
    if step_cycles > _SMALL_STEP:
        return
    chip = named(own.chip)
    more = f"; par has {pars:,}" if par else ""
    yield Bottleneck(
        f"{mine:,} grid steps{f' where par has {pars:,}' if par else ''}",
        f"{mine:,} grid steps of {format_time(step_cycles / chip.clock)} each{more}. Every step "
        "sets up its DMAs and waits for them: one takes "
        f"{format_time(chip.dma_latency)} to arrive, however small.",
        _FEWER if par and _same_blocks(own, par) else _LARGER,
        (mine - pars) * min(step_cycles, _STEP_OVERHEAD),
    )


_LARGER = "Use larger blocks: fewer steps, each with more work."
_FEWER = (
    "The blocks are as large as par's, so some of the steps are unnecessary: leave them out of the "
    "grid. The size of a grid dimension may be a value that is known only at run time."
)


def _same_blocks(own: Prediction, par: Prediction) -> bool:
    """Whether the kernel's inputs and outputs have blocks of par's sizes."""
    mine, pars = (
        [(o.array, o.block) for o in one.call.role(Role.INPUT, Role.OUTPUT)] for one in (own, par)
    )
    return mine == pars


#: A step's overhead in cycles, and the cycles up to which a step counts as small: about twice the
#: latency of a DMA.
_STEP_OVERHEAD, _SMALL_STEP = 300, 1500


def _grid_steps(prediction: Prediction | None) -> int:
    grid = prediction.traffic.grid if prediction else ()
    return math.prod(size or 1 for size in grid)


#: From this fraction of the time on, HBM counts as saturated: only fewer bytes help.
_SATURATED_SHARE = 0.75


def hbm_is_saturated(line: Roofline) -> bool:
    """Whether HBM is busy for nearly all of the time, so that only fewer bytes help."""
    return line.bound is Bound.HBM and line.memory >= _SATURATED_SHARE * line.total


def hbm_waits(own: Prediction, par: Prediction | None, max_cycles: float) -> Iterator[Bottleneck]:
    """Waits for a saturated HBM, whichever block the core waits for. At most `max_cycles`."""
    line = roofline(own)
    if own.schedule is None or line is None or not hbm_is_saturated(line):
        return
    least = par is not None and own.bytes <= par.bytes
    pars = par.schedule.stalled if par and par.schedule else 0.0
    yield Bottleneck(
        "waits for HBM",
        f"Moving its bytes keeps HBM busy for {line.memory / line.total:.0%} of the time, and the "
        f"core waits for {format_time(line.waiting)}.",
        _AT_PARS if least else _FEWER_BYTES,
        min(max_cycles, own.schedule.stalled - pars),
    )


def dma_waits(own: Prediction, par: Prediction | None) -> Iterator[Bottleneck]:
    """Waits beyond par's, by operand and direction, if HBM isn't saturated."""
    line = roofline(own)
    if own.schedule is None or line is None or hbm_is_saturated(line):
        return
    for dmas in own.schedule.moved:
        cycles = dmas.stalled - _stalled(par, dmas)
        waited = format_time(dmas.stalled / named(own.chip).clock)
        awaited = _awaited_object(own, dmas.operand)
        way = "to arrive" if dmas.inward else "to be written back"
        yield Bottleneck(
            f"waits for {awaited}",
            f"The core waits for {awaited} {way}, {waited} in all.",
            _remedy(own, dmas.operand, dmas.inward),
            cycles,
        )


_STARTED_EARLY = (
    "A copy that the kernel makes itself overlaps with nothing unless it starts early: start the "
    "next part's copy before you compute with this part, and wait for it only then."
)
_AWAITED_LATE = (
    "A copy that the kernel makes itself overlaps with nothing unless you wait for it late: "
    "compute the next part in another slot, and wait only before you write to the slot again."
)


def _remedy(own: Prediction, label: str, inward: bool) -> str:
    if label not in own.labels:  # not an operand
        return "Signal earlier, or wait later."
    position = own.labels.index(label)
    kept = own.reuse[position]
    if own.call.operands[position].buffers == 1 and kept and kept.axis is not None:
        return (
            "It has a single buffer, so no block can move during compute: leave "
            "out pipeline_mode=pl.Buffered(1)."
        )
    if own.traffic.operands[position].by_hand:
        return _STARTED_EARLY if inward else _AWAITED_LATE
    if _grid_steps(own) == 1:
        return (
            "With a single grid step, no compute overlaps with the moves: cut the arrays "
            "into blocks, so that one moves while you compute with another."
        )
    if kept is not None and kept.axis is None:
        return "It moves once, and compute can't start until it arrives: use a smaller block."
    return (
        "The next block moves during this step's compute, and the core waits if the move takes "
        "longer: give each step more work for the bytes that it moves, or move fewer bytes."
    )


def _awaited_object(own: Prediction, label: str) -> str:
    pairs = zip(own.labels, own.traffic.operands, strict=True)
    if any(name == label and row.by_hand for name, row in pairs):
        return f"a copy of {label}"
    return f"{label}'s block" if label else "a semaphore"


_FEWER_BYTES = (
    "Only fewer bytes help: blocks that stay for more steps, a narrower dtype, or one kernel "
    "instead of two, so that the array between them stays in VMEM."
)
_AT_PARS = "It moves no more bytes than par does: this is the limit."


def _stalled(par: Prediction | None, dmas: OperandDmas) -> float:
    schedule = par.schedule if par else None
    if schedule is None:
        return 0.0
    stalls = (
        o.stalled for o in schedule.moved if (o.operand, o.inward) == (dmas.operand, dmas.inward)
    )
    return next(stalls, 0.0)


#: Without par, a unit is reported from this fraction of the time on.
_BUSY_SHARE = 0.25

_UNITS = {
    Unit.MXU: (
        "the matrix units",
        "Look for products that are computed twice, for blocks that are computed and then masked "
        "away, and for operands in float32 that were bfloat16.",
    ),
    Unit.XLU: (
        "the cross-lane unit",
        "Transposes, rotations and reductions along lanes go through it, one register at a time. "
        "Send little data through it, and only once.",
    ),
    Unit.EUP: (
        "the unit for transcendental functions",
        "exp, log, tanh, rsqrt and reciprocals: compute each value once, at the smallest shape "
        "from which it can be broadcast.",
    ),
    Unit.VPU: (
        "vector arithmetic",
        "Look for work that each step repeats although it doesn't change, and for casts back and "
        "forth.",
    ),
    Unit.VMEM: (
        "loads and stores",
        "Every ref[...] is a load and every assignment a store: load once, compute in values, "
        "store once.",
    ),
    Unit.SCALAR: (
        "the scalar core",
        "It runs the grid, the DMAs and the loops, so it is busy if steps or loop iterations are "
        "many and small: take larger blocks, and more rows in an iteration. For lax.fori_loop, "
        "unroll=8 merges eight iterations into one.",
    ),
}
_TRANSPOSED_REDUCTION = (
    "A sum along the lanes, jnp.sum(x, axis=1), leaves one number for each sublane; to make a "
    "row of them, each has to cross the lanes again. Transpose first and sum along the "
    "sublanes, jnp.sum(x.T, axis=0, keepdims=True), which gives the row at once; or stay with "
    "the column, keepdims=True."
)
#: More specific advice for a lint that the kernel has and par doesn't, the most telling first.
_REMEDY_BY_LINT: tuple[tuple[Unit, Lint, str], ...] = (
    (
        Unit.MXU,
        Lint.PRECISE_PRODUCT,
        "A higher precision= than the default takes several passes: leave it out if the operands "
        "are bfloat16 or the result doesn't have to be exact.",
    ),
    (
        Unit.MXU,
        Lint.NARROW_PRODUCT,
        "A matrix fed in slices narrower than 128 leaves the rest of the array idle: multiply "
        "whole blocks.",
    ),
    *((unit, Lint.TURNED_COLUMN, _TRANSPOSED_REDUCTION) for unit in (Unit.XLU, Unit.VPU)),
    (
        Unit.XLU,
        Lint.TRANSPOSE,
        "A transpose takes each register through it: transpose the smaller operand, once instead "
        "of on every step, or not at all. dot_general contracts any dimension, and an index map "
        "can exchange the blocks.",
    ),
    (
        Unit.XLU,
        Lint.LANE_REDUCTION,
        "A reduction along the lanes takes each register through it: add up registers first, over "
        "grid steps or slices of 128 lanes, and reduce along the lanes once, at the end.",
    ),
)
_FEWER_REGISTERS = (
    "Compute in smaller pieces (a fori_loop over rows), or use smaller blocks: all values that are "
    "alive at the same time share 64 vector registers of 4 KiB."
)


def busy_units(own: Prediction, par: Prediction | None) -> Iterator[Bottleneck]:
    """Units that are busier than in par, and register spills."""
    schedule, base = own.schedule, par.schedule if par else None
    if schedule is None:
        return
    spilled = schedule.spills - (base.spills if base else 0)
    if spilled > 0:
        yield Bottleneck(
            f"spills vector registers {schedule.spills:,} times",
            f"Vector registers are saved to VMEM or fetched back {schedule.spills:,} times: more "
            "values are alive at once than there are registers.",
            _FEWER_REGISTERS,
            spilled / 2,  # a load or a store shares its bundle with other work
        )
    clock = named(own.chip).clock
    if base is None:
        yield from _busiest(own, schedule, clock)
        return
    for unit, (name, remedy) in _UNITS.items():
        own_cycles, par_cycles = schedule.busy.get(unit.value, 0), base.busy.get(unit.value, 0)
        if own_cycles > par_cycles:
            taken, less = format_time(own_cycles / clock), format_time(par_cycles / clock)
            yield Bottleneck(
                f"keeps {name} busy for {taken} where par takes {less}",
                f"Bundles that need {name} take {taken}, in par {less}.",
                _remedy_by_lint(unit, own, par) or remedy,
                own_cycles - par_cycles,
            )


def _remedy_by_lint(unit: Unit, own: Prediction, par: Prediction | None) -> str:
    """Advice on a lint of the kernel that par doesn't have; "" if there is none."""
    habits = set(own.call.lints) - set(par.call.lints if par else ())
    return next((text for at, habit, text in _REMEDY_BY_LINT if at is unit and habit in habits), "")


def _busiest(own: Prediction, schedule: Schedule, clock: float) -> Iterator[Bottleneck]:
    """The unit that most bundles need; nothing for the MXU, which is supposed to be busy."""
    unit = max(_UNITS, key=lambda unit: schedule.busy.get(unit.value, 0))
    cycles = schedule.busy.get(unit.value, 0)
    if unit is Unit.MXU or cycles < _BUSY_SHARE * schedule.cycles:
        return
    name, remedy = _UNITS[unit]
    part = f"{cycles / schedule.cycles:.0%} of the time"
    why = f"Bundles that need {name} take {format_time(cycles / clock)}, {part}."
    yield Bottleneck(
        f"keeps {name} busy for {part}", why, _remedy_by_lint(unit, own, None) or remedy, cycles
    )


#: Causes of less than this fraction of a kernel's cycles are left out.
_MIN_SHARE = 0.04


def bottlenecks(
    own: Sequence[Prediction], par: Sequence[Prediction] = ()
) -> tuple[Bottleneck, ...]:
    """The causes of the cost of a launch's kernels, costliest first.

    `par` are the kernels of a launch of the same computation, paired in program order.
    """
    paired: Sequence[Prediction | None] = par if len(own) == len(par) else [None] * len(own)
    causes = [
        dataclasses.replace(cause, why=f"{mine.call.name}: {cause.why}") if len(own) > 1 else cause
        for mine, pars in zip(own, paired, strict=True)
        for cause in _capped_causes(mine, pars)
    ]
    return tuple(sorted(causes, key=lambda cause: -cause.cycles))


def _capped_causes(own: Prediction, par: Prediction | None) -> Iterator[Bottleneck]:
    """The causes in one kernel. None costs more than the time that HBM leaves to save."""
    max_cycles = _cycles_to_save(own, par)
    for cause in (
        *_loop_around(own, par),
        *_idle_cores(own, par),
        *_in_all_runs(own, par, max_cycles),
    ):
        yield dataclasses.replace(cause, cycles=min(cause.cycles, max_cycles))


def _cycles_to_save(own: Prediction, par: Prediction | None) -> float:
    """The cycles beyond HBM's time for the fewest sufficient bytes: distinct blocks, or par's."""
    if own.schedule is None:
        return math.inf
    rows = own.traffic.operands
    known = all(row.bytes is not None for row in rows if row.role is not Role.SCRATCH)
    once = sum(row.least or row.bytes or 0 for row in rows) * own.runs.times
    needed = min(once if known else own.bytes, own.bytes, par.bytes if par else own.bytes)
    chip, cores = named(own.chip), max(own.sharing, par.sharing if par else 1)
    moving = needed / (chip.bandwidth_of_each(cores) * cores) * chip.clock
    return max(0.0, own.cycles - moving)


def _loop_around(own: Prediction, par: Prediction | None) -> Iterator[Bottleneck]:
    """A loop around a kernel that par doesn't have, or that has fewer iterations in par."""
    least = par.runs.times if par else 1
    more = own.runs.times - least
    if more <= 0:
        return
    runs = f"{own.runs.times:,} runs of {own.call.name}"
    yield Bottleneck(
        f"{runs}, by a loop around it",
        f"{runs}, by a loop around it{f'; par makes {least:,}' if par else ''}. Each run waits for "
        "its first and its last blocks, and keeps nothing in VMEM for the next run.",
        "Make the loop a grid axis: one launch with one more grid axis.",
        more * _startup_cycles(own) if par is None else more * (own.cycles / own.runs.times),
        more * own.bytes // own.runs.times if par else 0,
    )


def _idle_cores(own: Prediction, par: Prediction | None) -> Iterator[Bottleneck]:
    """Idle TensorCores that par uses."""
    if own.schedule and own.beside:
        yield from _uneven_cores(own, own.schedule)
    if par is None or own.schedule is None or own.sharing >= par.sharing:
        return
    over_mesh = par.call.cores > 1
    yield Bottleneck(
        f"runs on {own.sharing} of {par.sharing} TensorCores",
        f"{own.call.name} runs on {own.sharing} TensorCore of a {own.chip}, and {par.sharing} "
        f"share par's {'work' if over_mesh else 'grid'}.",
        _MESH if over_mesh else _GRID,
        own.cycles * (1 - own.sharing / par.sharing),
    )


_GRID = (
    "Give the launch a grid with an axis whose steps don't depend on each other, and mark it: "
    'compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", …)). '
    "A pipeline inside a kernel stays on one core."
)
_MESH = (
    "Give pl.kernel a mesh of all cores, and let each core choose its part of the work by "
    "jax.lax.axis_index."
)


def _uneven_cores(own: Prediction, longest: Schedule) -> Iterator[Bottleneck]:
    """Cores of a mesh with much less work than another core, for which they wait."""
    all_cores = (longest, *own.beside)
    least = min(schedule.cycles for schedule in own.beside)
    mean = sum(schedule.cycles for schedule in all_cores) / len(all_cores)
    if longest.cycles < 1.2 * mean:
        return
    clock = named(own.chip).clock
    busy, idle = format_time(longest.cycles / clock), format_time(least / clock)
    yield Bottleneck(
        "the cores share the work unevenly",
        f"One TensorCore has work for {busy}, another one for {idle}: the launch ends when the "
        "last one does.",
        "Give each core as many blocks as the other, or one more: core c of n takes the blocks c, "
        "c + n, c + 2n and so on.",
        (longest.cycles - mean) * own.runs.times,
    )


def _startup_cycles(own: Prediction) -> float:
    """An estimate of a separate run's overhead: its launch, its first and last DMA."""
    if own.schedule is None:
        return 0.0
    chip = named(own.chip)
    waiting = min(2 * chip.dma_latency * chip.clock, own.schedule.stalled)
    return chip.launch * chip.clock + waiting


def _in_all_runs(
    own: Prediction, par: Prediction | None, max_cycles: float
) -> Iterator[Bottleneck]:
    """The causes within one run, with their costs in all runs; `max_cycles` is for all runs."""
    times = own.runs.times
    for cause in _causes(own, par, max_cycles / times):
        why = f"in each of {times:,} runs: {cause.why}" if times > 1 else cause.why
        yield dataclasses.replace(
            cause, why=why, cycles=cause.cycles * times, size=cause.size * times
        )


def _causes(own: Prediction, par: Prediction | None, max_cycles: float) -> Iterator[Bottleneck]:
    yield from xla_copies(own, par)
    fewer_bytes = [*excess_bytes(own, par), *hbm_waits(own, par, max_cycles)]
    others = [*dma_waits(own, par), *many_steps(own, par), *busy_units(own, par)]
    line = roofline(own)
    if own.schedule is None or line is None:
        yield from (*fewer_bytes, *others)
        return
    # The bytes take their time unless there are fewer of them; less compute or waiting won't help.
    max_saving = min(max_cycles, own.schedule.cycles * max(0.0, 1 - line.memory / line.total))
    causes = (
        *(
            dataclasses.replace(cause, cycles=min(cause.cycles, max_cycles))
            for cause in fewer_bytes
        ),
        *(dataclasses.replace(cause, cycles=min(cause.cycles, max_saving)) for cause in others),
    )
    worth = _MIN_SHARE * own.schedule.cycles
    yield from (cause for cause in causes if cause.cycles > worth or cause.size)
