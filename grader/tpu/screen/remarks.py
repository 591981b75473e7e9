"""What a reader has to know of one kernel before its numbers: what they leave out or take in."""

from __future__ import annotations

from collections.abc import Iterator

from grader.model import Role, Runs
from grader.tpu.prediction import Prediction
from grader.tpu.units import bytes_of


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


def loops(runs: Runs) -> Iterator[str]:
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
