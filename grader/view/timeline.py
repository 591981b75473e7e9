"""The predicted schedule for the page: lanes of slices, and when each grid step computes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from grader.tpu import Prediction
from grader.tpu.chips import named
from grader.tpu.perfetto import STEPS, Slice, lanes, shown_until, step_spans
from grader.tpu.schedule import Schedule
from grader.tpu.slots import ByHand, Overlap, copies_by_hand, most_at_once, overlap
from grader.view.document import Copied, Lane, Timeline, differences

#: How many transfers and stalls are asked for: those of some 10,000 grid steps.
EVENTS = 24_000


def timeline(kernel: Prediction) -> Timeline | None:
    """The timeline of a kernel whose schedule kept up to EVENTS of each kind; None without one."""
    if kernel.schedule is None:
        return None
    found = {name: slices for name, slices in lanes(kernel, EVENTS).items() if name != STEPS}
    copies, until = copies_by_hand(kernel), shown_until(kernel.schedule, EVENTS)
    both = overlap(kernel, copies, until) if copies else Overlap(0.0, 0.0)
    steps = step_spans(kernel, EVENTS)
    return Timeline(
        cycles=round(kernel.schedule.cycles),
        until=round(until),
        clock=named(kernel.chip).clock,
        steps=differences([round(time) for time in steps]),
        turns=differences([round(time) for time in _turns(kernel.schedule, steps)]),
        lanes=tuple(_lane(name, slices) for name, slices in found.items()),
        by_hand=_copied(copies),
        computing=round(both.computing),
        hidden=round(both.hidden),
        waiting=round(_waiting(kernel.schedule, copies)),
    )


def _turns(schedule: Schedule, steps: Sequence[float]) -> Sequence[float]:
    """Those of a loop in the body: with one step, the grid has none."""
    return schedule.turns if len(steps) <= 2 and len(schedule.turns) > 1 else ()


def _waiting(schedule: Schedule, copies: Sequence[ByHand]) -> float:
    own = {one.transfer.operand for one in copies}
    return sum(stall.end - stall.start for stall in schedule.stalls if stall.operand in own)


def _copied(copies: Sequence[ByHand]) -> tuple[Copied, ...]:
    groups: dict[tuple[str, bool], list[ByHand]] = {}
    for one in copies:
        groups.setdefault((one.transfer.operand, one.transfer.inward), []).append(one)
    return tuple(
        Copied(
            operand,
            inward,
            copies=len(group),
            size=sum(one.transfer.size for one in group),
            slots=_distinct(one.slot for one in group),
            semaphores=_distinct(one.semaphore for one in group),
            most=most_at_once(group),
        )
        for (operand, inward), group in groups.items()
    )


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({name for name in names if name}, key=lambda name: (len(name), name)))


def _lane(name: str, slices: Sequence[Slice]) -> Lane:
    kinds = list(dict.fromkeys(one.name for one in slices))
    number = {kind: position for position, kind in enumerate(kinds)}
    flat: list[int] = []
    now = 0
    for one in slices:
        start, end = round(one.start), round(one.end)
        flat += (start - now, end - start, number[one.name])
        now = end
    return Lane(name, tuple(kinds), tuple(flat))
