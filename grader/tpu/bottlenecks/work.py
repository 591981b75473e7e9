"""Units that are busier than need be, and registers that do not suffice."""

from __future__ import annotations

from collections.abc import Iterator

from grader.model import Habit
from grader.tpu.bottlenecks.bottleneck import Bottleneck
from grader.tpu.chips import named
from grader.tpu.prediction import Prediction
from grader.tpu.schedule import Schedule, Unit
from grader.tpu.units import time_of

#: From this part on, a unit is worth a word without par to compare with.
_MUCH = 0.25

_UNITS = {
    Unit.MXU: (
        "the matrix units",
        "Look for products that are computed twice, for blocks that are computed and then masked "
        "away, and for operands in float32 that were bfloat16.",
    ),
    Unit.XLU: (
        "the cross-lane unit",
        "Transposes, rotations and reductions along lanes go through it, one register at a time. "
        "What has to pass through it should be small, and pass once.",
    ),
    Unit.EUP: (
        "the unit for transcendental functions",
        "exp, log, tanh, rsqrt and reciprocals: compute each value once, at the smallest shape "
        "from which it can be broadcast.",
    ),
    Unit.VPU: (
        "vector arithmetic",
        "Look for work that is done again on every step though it does not change, and for casts "
        "back and forth.",
    ),
    Unit.VMEM: (
        "loads and stores",
        "Every ref[...] is a load and every assignment a store: load once, compute in values, "
        "store once.",
    ),
    Unit.SCALAR: (
        "the scalar core",
        "It runs the grid, the DMAs and the loops, so it is busy where steps or turns are many and "
        "small: take larger blocks, and more rows in a turn. For lax.fori_loop, unroll=8 makes one "
        "turn of eight.",
    ),
}
_TURNED = (
    "A sum along the lanes, jnp.sum(x, axis=1), leaves one number for each sublane; to make a "
    "row of them, each has to cross the lanes again. Transpose first and sum along the "
    "sublanes, jnp.sum(x.T, axis=0, keepdims=True), which gives the row at once; or stay with "
    "the column, keepdims=True."
)
#: Advice that fits better where the kernel does this and par does not, the most telling first.
_BY_HABIT: tuple[tuple[Unit, Habit, str], ...] = (
    (
        Unit.MXU,
        Habit.PRECISE_PRODUCT,
        "A higher precision= than the default takes several passes: leave it out where the "
        "operands are bfloat16, or need not be exact.",
    ),
    (
        Unit.MXU,
        Habit.NARROW_PRODUCT,
        "A matrix that is fed in slices narrower than 128 leaves the rest of the array idle: "
        "multiply whole blocks.",
    ),
    *((unit, Habit.TURNED_COLUMN, _TURNED) for unit in (Unit.XLU, Unit.VPU)),
    (
        Unit.XLU,
        Habit.TRANSPOSE,
        "A transpose takes each register through it: transpose the smaller operand, once instead "
        "of on every step, or not at all. dot_general contracts any dimension, and an index map "
        "can exchange the blocks.",
    ),
    (
        Unit.XLU,
        Habit.LANE_REDUCTION,
        "A reduction along the lanes takes each register through it: add up registers first, over "
        "grid steps or slices of 128 lanes, and reduce along the lanes once, at the end.",
    ),
)
_FEWER_REGISTERS = (
    "Compute in smaller pieces (a fori_loop over rows), or with smaller blocks: all values that "
    "are alive at a time share 64 vector registers of 4 KiB."
)


def work(own: Prediction, par: Prediction | None) -> Iterator[Bottleneck]:
    """Units that are busier than they are for par, and registers that did not suffice."""
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
        mine, pars = schedule.busy.get(unit.value, 0), base.busy.get(unit.value, 0)
        if mine > pars:
            taken, less = time_of(mine / clock), time_of(pars / clock)
            yield Bottleneck(
                f"keeps {name} busy for {taken} where par takes {less}",
                f"Bundles that need {name} take {taken}, in par {less}.",
                _fitting(unit, own, par) or remedy,
                mine - pars,
            )


def _fitting(unit: Unit, own: Prediction, par: Prediction | None) -> str:
    """What fits a kernel's habits, where par has others; "" where none of them is known."""
    habits = set(own.call.habits) - set(par.call.habits if par else ())
    return next((text for at, habit, text in _BY_HABIT if at is unit and habit in habits), "")


def _busiest(own: Prediction, schedule: Schedule, clock: float) -> Iterator[Bottleneck]:
    """The unit that most bundles need. Of a kernel that multiplies matrices most, that is right."""
    unit = max(_UNITS, key=lambda unit: schedule.busy.get(unit.value, 0))
    cycles = schedule.busy.get(unit.value, 0)
    if unit is Unit.MXU or cycles < _MUCH * schedule.cycles:
        return
    name, remedy = _UNITS[unit]
    part = f"{cycles / schedule.cycles:.0%} of the time"
    why = f"Bundles that need {name} take {time_of(cycles / clock)}, {part}."
    yield Bottleneck(
        f"keeps {name} busy for {part}", why, _fitting(unit, own, None) or remedy, cycles
    )
