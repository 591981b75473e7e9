"""The predicted timeline as a trace for Perfetto.

Each kernel is a process. Its lanes are the grid steps, the core (computing or waiting), the HBM
bus, and one or more for each operand and direction, where a slice is a DMA from its start to its
arrival. Slices on one lane never overlap: if a DMA starts before an earlier one of its operand has
arrived, it gets another lane. With manual DMA, each slot of a buffer has a lane (`slot_lanes`).

Format: the "Trace Event Format", JSON object form, with only complete events ("X") and metadata
("M"). Times are in µs from the launch's beginning, to three digits.
"""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pallascope.tpu.chips import named
from pallascope.tpu.dma_buffers import manual_transfers, slot_lanes
from pallascope.tpu.prediction import Prediction
from pallascope.tpu.schedule import Schedule, Stall, Transfer

#: The number of a kernel's transfers, stalls and steps in a trace: about 8 MB of JSON.
MAX_EVENTS = 20_000

STEPS, CORE, BUS = "grid steps", "core", "HBM"
SETUP, FIRST, LAST = "setup", "first blocks move in", "last blocks move out"
Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Slice:
    """A slice from `start` to `end`, in cycles of its kernel."""

    name: str
    start: float
    end: float
    about: dict[str, Any] = field(default_factory=dict)


Lanes = dict[str, list[Slice]]


def trace(
    launches: Iterable[tuple[str, Sequence[Prediction]]], max_events: int = MAX_EVENTS
) -> str:
    """The timelines of launches, each with its title, as one JSON text.

    `max_events` is the number of events that the predictions kept. Kernels of a launch
    follow one another; those without a schedule are left out.
    """
    events: list[Event] = []
    names: Counter[str] = Counter()
    for title, kernels in launches:
        start = 0.0
        for kernel in kernels:
            if kernel.schedule is None:
                continue
            name = f"{kernel.chip} {title}: {kernel.call.name}"
            if kernel.runs.times > 1:
                name += f", one of {kernel.runs.times:,} runs"
            names[name] += 1
            number = f" ({names[name]})" if names[name] > 1 else ""
            events += _process(names.total(), name + number, kernel, start, max_events)
            start += kernel.schedule.cycles / named(kernel.chip).clock
    notice = "predicted from the TPU compiler's schedule; nothing was run"
    content = {"traceEvents": events, "displayTimeUnit": "ns", "otherData": {"notice": notice}}
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False) + "\n"


def _process(
    process: int, name: str, kernel: Prediction, offset: float, max_events: int
) -> Iterator[Event]:
    clock = named(kernel.chip).clock

    def nanoseconds(cycles: float) -> int:
        return round((offset + cycles / clock) * 1e9)

    yield _metadata("process_name", process, 0, name=name)
    yield _metadata("process_sort_index", process, 0, sort_index=process)
    for thread, (lane, slices) in enumerate(lanes(kernel, max_events).items(), 1):
        yield _metadata("thread_name", process, thread, name=lane)
        yield _metadata("thread_sort_index", process, thread, sort_index=thread)
        for slice_ in slices:
            start, end = nanoseconds(slice_.start), nanoseconds(slice_.end)
            yield {
                "ph": "X",
                "name": slice_.name,
                "pid": process,
                "tid": thread,
                "ts": start / 1000,
                "dur": (end - start) / 1000,
                "args": {"cycles": round(slice_.end - slice_.start), **slice_.about},
            }


def _metadata(name: str, process: int, thread: int, /, **args: Any) -> Event:
    return {"ph": "M", "name": name, "pid": process, "tid": thread, "args": args}


def lanes(kernel: Prediction, max_events: int = MAX_EVENTS) -> Lanes:
    """The slices of one kernel's trace by lane, in order of time.

    The first lane covers all of the kernel's cycles. If more events happened than were kept, the
    lanes end where the first list of events ends, and one more slice stands for the rest.
    """
    schedule = kernel.schedule
    assert schedule is not None
    end = last_complete_cycle(schedule, max_events)
    transfers = [t for t in schedule.transfers if t.start < end]
    by_hand = [copy for copy in manual_transfers(kernel) if copy.transfer.start < end]
    slots = {(copy.transfer.operand, copy.transfer.end): copy.slot for copy in by_hand}
    by_lane = {
        STEPS: list(_step_slices(kernel, schedule, end)),
        CORE: list(_core_slices(schedule.stalls, end, slots)),
        BUS: list(_bus_slices(transfers, kernel)),
    }
    by_hand_operands = {copy.transfer.operand for copy in by_hand}
    for lane, group in _by_lane(t for t in transfers if t.operand not in by_hand_operands).items():
        for number, slices in enumerate(_non_overlapping_lanes(group), 1):
            by_lane[f"{lane} ({number})" if number > 1 else lane] = slices
    for lane, phases in slot_lanes(by_hand, end).items():
        by_lane[lane] = [
            Slice(copy.name, copy.start, copy.end, {"bytes": copy.size} if copy.size else {})
            for copy in phases
        ]
    return {name: slices for name, slices in by_lane.items() if slices}


def last_complete_cycle(schedule: Schedule, max_events: int = MAX_EVENTS) -> float:
    """The cycle at which a list of events becomes incomplete; otherwise the schedule's end."""
    ends = [schedule.cycles]
    if len(schedule.turns) >= max_events:
        ends.append(schedule.turns[-1])
    if len(schedule.transfers) >= max_events:
        ends.append(schedule.transfers[-1].start)
    if len(schedule.stalls) >= max_events:
        ends.append(schedule.stalls[-1].end)
    return min(ends)


# ---- the grid ----


def _step_slices(kernel: Prediction, schedule: Schedule, end: float) -> Iterator[Slice]:
    """One slice after another, from the first cycle to the last."""
    complete = end == schedule.cycles
    turns = [turn for turn in schedule.turns if turn < end]
    if not turns and complete:
        yield Slice(kernel.call.name, 0.0, end)
        return
    # An iteration that the events don't cover to its end is part of the rest.
    bounds = [0.0, *turns, *([end] if complete else [])]
    names = itertools.chain([SETUP], _step_names(kernel, len(turns) if complete else None))
    for (start, stop), name in zip(itertools.pairwise(bounds), names, strict=False):
        if stop > start:
            yield Slice(name, start, stop)
    if not complete:
        yield Slice("the rest, not shown", bounds[-1], schedule.cycles)


def step_spans(kernel: Prediction, max_events: int = MAX_EVENTS) -> tuple[float, ...]:
    """The cycles at which each grid step begins to compute, then the end of the last step.

    Covers the first `max_events` events. Empty if the schedule's iterations aren't grid steps.
    """
    schedule = kernel.schedule
    assert schedule is not None
    steps = _number_of_steps(kernel)
    if steps == 1:
        return 0.0, schedule.cycles
    turns = schedule.turns[:max_events]
    complete = len(schedule.turns) < max_events
    if steps == 0 or (complete and len(turns) != steps + 2):
        return ()
    return tuple(turns[1 : steps + 2])


def _number_of_steps(kernel: Prediction) -> int:
    return math.prod(size or 0 for size in kernel.traffic.grid)


def _step_names(kernel: Prediction, turns: int | None) -> Iterator[str]:
    """A name for each iteration of the outermost loop; `turns` is their number if it is known.

    A grid of more than one step takes two more iterations: step n computes in iteration n + 1.
    """
    grid = [size or 0 for size in kernel.traffic.grid]
    steps = _number_of_steps(kernel)
    if steps > 1 and turns in (steps + 2, None):
        yield FIRST
        for number, index in enumerate(itertools.product(*map(range, grid))):
            yield f"step {number} {index}" if len(index) > 1 else f"step {number}"
        yield LAST
    else:
        yield from (f"turn {number}" for number in itertools.count())


def _core_slices(
    stalls: Iterable[Stall], end: float, slots: Mapping[tuple[str, float], str]
) -> Iterator[Slice]:
    """The core computes when it doesn't wait; `slots` by operand and arrival time."""
    now = 0.0
    for stall in stalls:
        if stall.end > end:
            break
        if stall.start > now:
            yield Slice("computes", now, stall.start)
        slot = slots.get((stall.operand, stall.end), "")
        awaited = f"{stall.operand or 'a semaphore'}{f' ({slot})' if slot else ''}"
        yield Slice(f"waits for {awaited}", stall.start, stall.end)
        now = stall.end
    if end > now:
        yield Slice("computes", now, end)


# ---- transfers ----


def _bus_slices(transfers: Iterable[Transfer], kernel: Prediction) -> Iterator[Slice]:
    """The transfers' time on the bus, one after another; each arrives later, after the latency."""
    bytes_per_cycle = kernel.bandwidth / named(kernel.chip).clock
    for transfer in transfers:
        name = f"{transfer.operand} {_direction(transfer.inward)}"
        end = transfer.start + transfer.size / bytes_per_cycle
        yield Slice(name, transfer.start, end, {"bytes": transfer.size})


def _by_lane(transfers: Iterable[Transfer]) -> dict[str, list[Transfer]]:
    by_lane: dict[str, list[Transfer]] = {}
    for transfer in transfers:
        by_lane.setdefault(f"{transfer.operand} {_direction(transfer.inward)}", []).append(transfer)
    return by_lane


def _non_overlapping_lanes(transfers: Iterable[Transfer]) -> list[list[Slice]]:
    """The transfers of one operand, in the smallest number of lanes without overlaps."""
    lanes: list[list[Slice]] = []
    for transfer in transfers:
        about = {"bytes": transfer.size}
        drawn = Slice(
            f"{transfer.operand} {_direction(transfer.inward)}", transfer.start, transfer.end, about
        )
        free = next((lane for lane in lanes if lane[-1].end <= transfer.start), None)
        if free is None:
            lanes.append([drawn])
        else:
            free.append(drawn)
    return lanes


def _direction(inward: bool) -> str:
    return "in" if inward else "out"
