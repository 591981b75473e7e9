"""The predicted schedule for the page: lanes of slices, and when each grid step computes."""

from __future__ import annotations

from collections.abc import Sequence

from grader.tpu import Prediction
from grader.tpu.chips import named
from grader.tpu.perfetto import STEPS, Slice, lanes, shown_until, step_spans
from grader.view.document import Lane, Timeline, differences

#: How many transfers and stalls are asked for: those of some 10,000 grid steps.
EVENTS = 24_000


def timeline(kernel: Prediction) -> Timeline | None:
    """The timeline of a kernel whose schedule kept up to EVENTS of each kind; None without one."""
    if kernel.schedule is None:
        return None
    found = {name: slices for name, slices in lanes(kernel, EVENTS).items() if name != STEPS}
    return Timeline(
        cycles=round(kernel.schedule.cycles),
        until=round(shown_until(kernel.schedule, EVENTS)),
        clock=named(kernel.chip).clock,
        steps=differences([round(time) for time in step_spans(kernel, EVENTS)]),
        lanes=tuple(_lane(name, slices) for name, slices in found.items()),
    )


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
