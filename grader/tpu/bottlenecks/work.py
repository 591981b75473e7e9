"""Units that are busier than need be, and registers that do not suffice."""

from __future__ import annotations

from collections.abc import Iterator

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
        "A matrix that is fed in slices narrower than the array leaves the rest of it idle, and a "
        "higher precision= than the default takes several passes.",
    ),
    Unit.XLU: (
        "the cross-lane unit",
        "Transposes, rotations and reductions along lanes go through it, one register at a time: "
        "reduce along sublanes or grid steps first, along lanes once at the end.",
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
        "small: take larger blocks, and more rows in a turn.",
    ),
}
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
        yield from _busiest(schedule, clock)
        return
    for unit, (name, remedy) in _UNITS.items():
        mine, pars = schedule.busy.get(unit.value, 0), base.busy.get(unit.value, 0)
        if mine > pars:
            taken, less = time_of(mine / clock), time_of(pars / clock)
            yield Bottleneck(
                f"keeps {name} busy for {taken} where par takes {less}",
                f"Bundles that need {name} take {taken}, in par {less}.",
                remedy,
                mine - pars,
            )


def _busiest(schedule: Schedule, clock: float) -> Iterator[Bottleneck]:
    """The unit that most bundles need. Of a kernel that multiplies matrices most, that is right."""
    unit = max(_UNITS, key=lambda unit: schedule.busy.get(unit.value, 0))
    cycles = schedule.busy.get(unit.value, 0)
    if unit is Unit.MXU or cycles < _MUCH * schedule.cycles:
        return
    name, remedy = _UNITS[unit]
    part = f"{cycles / schedule.cycles:.0%} of the time"
    why = f"Bundles that need {name} take {time_of(cycles / clock)}, {part}."
    yield Bottleneck(f"keeps {name} busy for {part}", why, remedy, cycles)
