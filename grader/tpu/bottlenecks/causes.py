"""All that makes a launch slow, as far as it is known."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence

from grader.model import Role
from grader.tpu.bottlenecks.bottleneck import Bottleneck
from grader.tpu.bottlenecks.copied import copied
from grader.tpu.bottlenecks.moved import moved
from grader.tpu.bottlenecks.waits import for_hbm, steps, waits
from grader.tpu.bottlenecks.work import work
from grader.tpu.chips import named
from grader.tpu.prediction import Prediction
from grader.tpu.roofline import roofline
from grader.tpu.schedule import Schedule
from grader.tpu.units import time_of

#: Less than this part of a kernel's cycles is not worth a word.
_WORTH = 0.04


def bottlenecks(
    own: Sequence[Prediction], par: Sequence[Prediction] = ()
) -> tuple[Bottleneck, ...]:
    """The causes found in a launch's kernels, costliest first.

    `par` are the kernels of a launch that does the same; they are paired in program order.
    """
    paired: Sequence[Prediction | None] = par if len(own) == len(par) else [None] * len(own)
    found = [
        dataclasses.replace(each, why=f"{mine.call.name}: {each.why}") if len(own) > 1 else each
        for mine, pars in zip(own, paired, strict=True)
        for each in _possible(mine, pars)
    ]
    return tuple(sorted(found, key=lambda each: -each.cycles))


def _possible(own: Prediction, par: Prediction | None) -> Iterator[Bottleneck]:
    """The causes in one kernel. None costs more than the time that HBM leaves to be saved."""
    most = _cycles_to_save(own, par)
    for each in (*_repeated(own, par), *_idle_cores(own, par), *_in_all_runs(own, par, most)):
        yield dataclasses.replace(each, cycles=min(each.cycles, most))


def _cycles_to_save(own: Prediction, par: Prediction | None) -> float:
    """What a kernel takes longer than HBM needs for the fewest bytes that are known to do: those
    that it moves at least once, or par's."""
    if own.schedule is None:
        return math.inf
    rows = own.traffic.operands
    known = all(row.bytes is not None for row in rows if row.role is not Role.SCRATCH)
    once = sum(row.least or row.bytes or 0 for row in rows) * own.runs.times
    needed = min(once if known else own.bytes, own.bytes, par.bytes if par else own.bytes)
    chip, cores = named(own.chip), max(own.sharing, par.sharing if par else 1)
    moving = needed / (chip.bandwidth_of_each(cores) * cores) * chip.clock
    return max(0.0, own.cycles - moving)


def _repeated(own: Prediction, par: Prediction | None) -> Iterator[Bottleneck]:
    """A loop around a kernel that par does without, or that makes fewer turns there."""
    least = par.runs.times if par else 1
    more = own.runs.times - least
    if more <= 0:
        return
    runs = f"{own.runs.times:,} runs of {own.call.name}"
    yield Bottleneck(
        f"{runs}, by a loop around it",
        f"{runs}, by a loop around it{f'; par makes {least:,}' if par else ''}. Each of them waits "
        "for its first blocks and for its last, and keeps nothing in VMEM for the next.",
        "Let the grid be the loop: one launch with one more grid axis.",
        more * _alone(own) if par is None else more * (own.cycles / own.runs.times),
        more * own.bytes // own.runs.times if par else 0,
    )


def _idle_cores(own: Prediction, par: Prediction | None) -> Iterator[Bottleneck]:
    """TensorCores of the chip that rest, where par gives them a part of the work."""
    if own.schedule and own.beside:
        yield from _uneven(own, own.schedule)
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
    "Give pl.kernel a mesh of all cores, and let each choose its part of the work by "
    "jax.lax.axis_index."
)


def _uneven(own: Prediction, longest: Schedule) -> Iterator[Bottleneck]:
    """The cores of a mesh whose part is much smaller than another's, which they wait for."""
    all_cores = (longest, *own.beside)
    least = min(one.cycles for one in own.beside)
    mean = sum(one.cycles for one in all_cores) / len(all_cores)
    if longest.cycles < 1.2 * mean:
        return
    clock = named(own.chip).clock
    busy, idle = time_of(longest.cycles / clock), time_of(least / clock)
    yield Bottleneck(
        "the cores share the work unevenly",
        f"One TensorCore has work for {busy}, another one for {idle}: the launch ends when the "
        "last one does.",
        "Give each core as many blocks as the other, or one more: core c of n takes the blocks c, "
        "c + n, c + 2n and so on.",
        (longest.cycles - mean) * own.runs.times,
    )


def _alone(own: Prediction) -> float:
    """About what a run takes longer than a part of a longer one: its first and last DMA."""
    if own.schedule is None:
        return 0.0
    chip = named(own.chip)
    return min(2 * chip.dma_latency * chip.clock, own.schedule.stalled)


def _in_all_runs(own: Prediction, par: Prediction | None, most: float) -> Iterator[Bottleneck]:
    """The causes within one run, with what they cost in all of them: `most` at the most."""
    times = own.runs.times
    for each in _causes(own, par, most / times):
        why = f"in each of {times:,} runs: {each.why}" if times > 1 else each.why
        yield dataclasses.replace(each, why=why, cycles=each.cycles * times, size=each.size * times)


def _causes(own: Prediction, par: Prediction | None, most: float) -> Iterator[Bottleneck]:
    yield from copied(own, par)
    fewer_bytes = [*moved(own, par), *for_hbm(own, par, most)]
    others = [*waits(own, par), *steps(own, par), *work(own, par)]
    line = roofline(own)
    if own.schedule is None or line is None:
        yield from (*fewer_bytes, *others)
        return
    # Without fewer bytes, the bytes take their time, however little is computed or waited for.
    room = min(most, own.schedule.cycles * max(0.0, 1 - line.memory / line.total))
    found = (
        *(dataclasses.replace(one, cycles=min(one.cycles, most)) for one in fewer_bytes),
        *(dataclasses.replace(one, cycles=min(one.cycles, room)) for one in others),
    )
    worth = _WORTH * own.schedule.cycles
    yield from (each for each in found if each.cycles > worth or each.size)
