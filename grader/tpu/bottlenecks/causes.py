"""All that makes a launch slow, as far as it is known."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from grader.tpu.bottlenecks.bottleneck import Bottleneck
from grader.tpu.bottlenecks.moved import moved
from grader.tpu.bottlenecks.waits import steps, waits
from grader.tpu.bottlenecks.work import work
from grader.tpu.predict import Prediction
from grader.tpu.roofline import roofline

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
        for each in _causes(mine, pars)
    ]
    return tuple(sorted(found, key=lambda each: -each.cycles))


def _causes(own: Prediction, par: Prediction | None) -> Iterator[Bottleneck]:
    found = [*moved(own, par), *waits(own, par)]
    computed = [*steps(own, par), *work(own, par)]
    line = roofline(own)
    if own.schedule is None or line is None:
        yield from (*found, *computed)
        return
    # However little is computed, the bytes take their time.
    room = own.schedule.cycles * max(0.0, 1 - line.memory / line.total)
    found += (dataclasses.replace(one, cycles=min(one.cycles, room)) for one in computed)
    worth = _WORTH * own.schedule.cycles
    yield from (each for each in found if each.cycles > worth or each.size)
