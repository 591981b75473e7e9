"""Steps that are many and small, and waiting: for HBM, for DMAs, for semaphores."""

from __future__ import annotations

import math
from collections.abc import Iterator

from grader.model import Role
from grader.tpu.bottlenecks.bottleneck import Bottleneck
from grader.tpu.chips import named
from grader.tpu.prediction import Prediction
from grader.tpu.roofline import Bound, Roofline, roofline
from grader.tpu.schedule import Moved
from grader.tpu.units import time_of


def steps(own: Prediction, par: Prediction | None) -> Iterator[Bottleneck]:
    """Many small steps: each has its own overhead, whatever it computes."""
    mine, pars = _count(own), _count(par) if par else 1
    if not own.schedule or mine <= 1.5 * pars:
        return
    each = own.schedule.cycles / mine
    if each > _SMALL_STEP:
        return
    chip = named(own.chip)
    more = f" where par has {pars:,}" if par else ""
    yield Bottleneck(
        f"{mine:,} grid steps{more}",
        f"{mine:,} grid steps{more}, of {time_of(each / chip.clock)} each. Every step sets up its "
        f"DMAs and waits for them: one takes {time_of(chip.dma_latency)} to arrive, however small.",
        _FEWER if par and _same_blocks(own, par) else _LARGER,
        (mine - pars) * min(each, _STEP_OVERHEAD),
    )


_LARGER = "Larger blocks, so that there are fewer steps and each has more to do."
_FEWER = (
    "The blocks are as large as par's, so some of the steps are of no use: leave them out of the "
    "grid. The size of a grid dimension may be a value that is known only at run time."
)


def _same_blocks(own: Prediction, par: Prediction) -> bool:
    """Whether the kernel's inputs and outputs are cut into blocks of par's sizes."""
    mine, pars = (
        [(o.array, o.block) for o in one.call.role(Role.INPUT, Role.OUTPUT)] for one in (own, par)
    )
    return mine == pars


#: Cycles that a step takes for its own sake, and those up to which it counts as small: about twice
#: the latency of a DMA.
_STEP_OVERHEAD, _SMALL_STEP = 300, 1500


def _count(prediction: Prediction | None) -> int:
    grid = prediction.traffic.grid if prediction else ()
    return math.prod(size or 1 for size in grid)


#: The part of the time from which on HBM is so busy that nothing but fewer bytes would help.
_NO_TIME_LEFT = 0.75


def full(line: Roofline) -> bool:
    """Whether HBM has hardly any time left, so that only fewer bytes would help."""
    return line.bound is Bound.HBM and line.memory >= _NO_TIME_LEFT * line.total


def for_hbm(own: Prediction, par: Prediction | None, most: float) -> Iterator[Bottleneck]:
    """Waiting for an HBM that has no time left: whose block is waited for does not matter.

    It costs `most` at the most, in cycles.
    """
    line = roofline(own)
    if own.schedule is None or line is None or not full(line):
        return
    least = par is not None and own.bytes <= par.bytes
    pars = par.schedule.stalled if par and par.schedule else 0.0
    yield Bottleneck(
        "waits for HBM",
        f"Moving its bytes keeps HBM busy for {line.memory / line.total:.0%} of the time, and the "
        f"core waits for {time_of(line.waiting)}.",
        _AT_PARS if least else _FEWER_BYTES,
        min(most, own.schedule.stalled - pars),
    )


def waits(own: Prediction, par: Prediction | None) -> Iterator[Bottleneck]:
    """Waiting that par does not do, for each operand and direction, where HBM has time left."""
    line = roofline(own)
    if own.schedule is None or line is None or full(line):
        return
    for one in own.schedule.moved:
        cycles = one.stalled - _stalled(par, one)
        waited = time_of(one.stalled / named(own.chip).clock)
        what = _awaited(own, one.operand)
        way = "to arrive" if one.inward else "to be written back"
        yield Bottleneck(
            f"waits for {what}",
            f"The core waits for {what} {way}, {waited} in all.",
            _remedy(own, one.operand, one.inward),
            cycles,
        )


_STARTED_EARLY = (
    "A copy that the kernel makes itself overlaps with nothing unless it is started early: start "
    "that of the next part before computing with the present one, and wait for it only then."
)
_AWAITED_LATE = (
    "A copy that the kernel makes itself overlaps with nothing unless it is waited for late: "
    "compute the next part in another slot meanwhile, and wait only before a slot is written again."
)


def _remedy(own: Prediction, label: str, inward: bool) -> str:
    if label not in own.labels:  # no operand's
        return "Signal earlier, or wait later."
    position = own.labels.index(label)
    kept = own.reuse[position]
    if own.call.operands[position].buffers == 1 and kept and kept.axis is not None:
        return (
            "It has a single buffer, so no block can move while another is computed with: leave "
            "out pipeline_mode=pl.Buffered(1)."
        )
    if own.traffic.operands[position].by_hand:
        return _STARTED_EARLY if inward else _AWAITED_LATE
    if _count(own) == 1:
        return (
            "With a single grid step nothing is computed while its blocks move: cut the arrays "
            "into blocks, so that one can move while another is computed with."
        )
    if kept is not None and kept.axis is None:
        return "It moves once, and there is nothing to compute until it is there: a smaller block."
    return (
        "The next block moves while the present one is computed with, so long as there is enough "
        "to compute: give each step more work for the bytes that it moves, or move fewer bytes."
    )


def _awaited(own: Prediction, label: str) -> str:
    pairs = zip(own.labels, own.traffic.operands, strict=True)
    if any(name == label and row.by_hand for name, row in pairs):
        return f"a copy of {label}"
    return f"{label}'s block" if label else "a semaphore"


_FEWER_BYTES = (
    "Only fewer bytes help: blocks that stay for more steps, a narrower dtype, or one kernel in "
    "place of two, so that what passes between them stays in VMEM."
)
_AT_PARS = "It moves no more bytes than par does: this is the limit."


def _stalled(par: Prediction | None, one: Moved) -> float:
    schedule = par.schedule if par else None
    if schedule is None:
        return 0.0
    same = (o.stalled for o in schedule.moved if (o.operand, o.inward) == (one.operand, one.inward))
    return next(same, 0.0)
