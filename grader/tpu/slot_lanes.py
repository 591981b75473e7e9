"""What happens in each slot that a kernel copies to or from by itself, over time.

A slot that is filled is on its way, then there until the core has waited for it, then in use until
the next copy into it starts. One that is emptied is on its way, then gone, and may be written again
once the core has waited for that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from grader.tpu.slots import ByHand

#: Of an operand with more slots, such as one for each row of a gather, there is one lane for all.
MOST_SLOTS = 8


@dataclass(frozen=True, slots=True)
class Phase:
    """What a slot does from `start` to `end` (cycles), with the bytes that it moves meanwhile."""

    name: str
    start: float
    end: float
    size: int = 0


@dataclass(slots=True)
class _Flight:
    """Copies that are on their way to or from one slot together."""

    start: float
    end: float
    size: int
    awaited: float | None


def slot_lanes(copies: Sequence[ByHand], end: float) -> dict[str, list[Phase]]:
    """Up to a cycle, what each slot does, by "x_ref → came[0]" or "goes[0] → o_ref"."""
    by_way: dict[tuple[str, bool], dict[str, list[ByHand]]] = {}
    for one in copies:
        way = one.transfer.operand, one.transfer.inward
        by_way.setdefault(way, {}).setdefault(one.slot, []).append(one)
    lanes: dict[str, list[Phase]] = {}
    for (operand, inward), slots in by_way.items():
        if len(slots) > MOST_SLOTS:
            together = [one for one in copies if _way(one) == (operand, inward)]
            slots = {f"{len(slots)} places": together}
        for slot, group in sorted(slots.items(), key=lambda item: _natural(item[0])):
            name = f"{operand} → {slot}" if inward else f"{slot} → {operand}"
            name = name if slot else f"{operand} {'in' if inward else 'out'}"
            lanes[name] = list(_phases(operand, inward, _flights(group), end))
    return lanes


def _way(one: ByHand) -> tuple[str, bool]:
    return one.transfer.operand, one.transfer.inward


def _natural(name: str) -> tuple[int, str]:
    return len(name), name


def _flights(copies: Iterable[ByHand]) -> list[_Flight]:
    found: list[_Flight] = []
    for one in sorted(copies, key=lambda each: each.transfer.start):
        moved, awaited = one.transfer, one.awaited
        if found and moved.start < found[-1].end:
            last = found[-1]
            last.end, last.size = max(last.end, moved.end), last.size + moved.size
            known = None not in (last.awaited, awaited)
            last.awaited = max(last.awaited or 0.0, awaited or 0.0) if known else None
        else:
            found.append(_Flight(moved.start, moved.end, moved.size, awaited))
    return found


def _phases(operand: str, inward: bool, flights: Sequence[_Flight], end: float) -> Iterator[Phase]:
    way, there = ("in", "there") if inward else ("out", "gone")
    for number, one in enumerate(flights):
        until = flights[number + 1].start if number + 1 < len(flights) else end
        known = until if one.awaited is None else min(max(one.awaited, one.end), until)
        yield Phase(f"{operand} {way}", one.start, one.end, one.size)
        if known > one.end:
            yield Phase(f"{operand} {there}, not waited for yet", one.end, known)
        if inward and until > known:
            yield Phase(f"{operand} in use", known, until)
