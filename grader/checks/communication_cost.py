"""★★★ Bytes over links, shard sizes, overlap: compared with the solution.

No time is predicted for communication, so this compares bytes: those that kernels send, those of
the collectives around them, and those on the busiest link of each chip. The order of copies, waits
and matrix products is known, so it also compares the share of the products that overlaps with
copies.

A kernel that sends less than the solution's is refused altogether: then XLA sends the data.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from grader.checks.evidence import TpuEvidence
from pallascope.checks.phrasing import allowed, listed, multiple, paragraph
from pallascope.model import (
    RESHARDING,
    Accident,
    ArrayType,
    Check,
    Collective,
    Finding,
    KernelCall,
    Role,
    collective_link_bytes,
    collective_sent_bytes,
    link_loads,
)
from pallascope.tools.text import format_bytes, format_route
from pallascope.tpu import Prediction
from pallascope.tpu.prediction import routes_of_kernels

_MOST = 3  # collectives in a message


def dearest(own: Sequence[Collective], par: Sequence[Collective]) -> tuple[Collective, ...]:
    """The collectives of `own` that par does not have, those that send most first."""
    left = Counter(map(_kind, par))
    more = []
    for one in own:
        if left[_kind(one)]:
            left[_kind(one)] -= 1
        else:
            more.append(one)
    return tuple(sorted(more, key=lambda one: -(one.bytes or 0)))


def named(one: Collective) -> str:
    """A collective and its axes: `psum over "model"`."""
    return f"{one.name} over {listed(_quoted(one))}"


def lines(collectives: Sequence[Collective]) -> list[str]:
    """A paragraph: the bytes and the line of each of the first few."""
    if not collectives:
        return []
    more = len(collectives) - _MOST
    rest = [f"and {more} more"] if more > 0 else []
    return [paragraph("of it", "\n".join([*map(_told, collectives[:_MOST]), *rest]))]


def advice(one: Collective) -> str:
    """A remedy for a collective that sends too much."""
    if one.name == RESHARDING:
        return (
            "One step shards the array differently from how the next needs it, so XLA moves it in "
            "between. Give out_specs and the next in_specs the same axes, or do both steps within "
            "one shard_map."
        )
    return _INSTEAD.get(one.name, _ONLY)


_ONLY = (
    "Send a device only the data that it lacks. Let in_specs give each device the part that it "
    "works on, and communicate once, as late as the sums allow."
)
_INSTEAD = {
    "psum": (
        "Add up only over axes along which a sum is cut, and add up the smallest array: after the "
        "product, not before it. If each device goes on with a part of the sum, psum_scatter sends "
        "half as much."
    ),
    "all_gather": (
        "A device that gathers all parts works on all of them. Let it work on its own part, and "
        "add up the results, or let in_specs split another dimension."
    ),
}


def _kind(one: Collective) -> tuple[str, frozenset[str], int | None]:
    return one.name, frozenset(one.axes), one.bytes


def _quoted(one: Collective) -> list[str]:
    return [f'"{axis}"' for axis in one.axes]


def _told(one: Collective) -> str:
    where = f", line {one.line}" if one.line else ""
    arrays = listed(map(str, one.arrays), 2)
    size = "an unknown number of bytes" if one.bytes is None else format_bytes(one.bytes)
    return f"{named(one)} ({one.devices} devices) of {arrays}{where}: {size}"


_MAX_PARTS = 3  # parts in a message


@dataclass(frozen=True, slots=True)
class LargerPart:
    """An operand of a kernel whose array is larger, on each device, than in par's kernel."""

    kernel: str
    operand: str
    own: ArrayType
    par: ArrayType

    @property
    def ratio(self) -> float:
        """How many times as many elements it has."""
        return _size(self.own) / max(_size(self.par), 1)

    def __str__(self) -> str:
        return f"{self.operand} of {self.kernel} is {self.own}, par's is {self.par}"


def larger_parts(own: Sequence[KernelCall], par: Sequence[KernelCall]) -> tuple[LargerPart, ...]:
    """The operands that have the same names in both launches, those with most elements first."""
    return tuple(sorted(_larger(own, par), key=lambda part: -_size(part.own)))


def in_words(parts: Sequence[LargerPart]) -> tuple[str, list[str]]:
    """The end of a phrase, and paragraphs: the larger arrays, why they cost, and a remedy."""
    first = parts[0]
    names = listed(dict.fromkeys(part.operand for part in parts[:_MAX_PARTS]))
    phrase = f"each chip works on {first.ratio:.1f}× par's part of {first.operand}"
    return phrase, [
        paragraph("parts", "\n".join(map(str, parts[:_MAX_PARTS]))),
        paragraph(
            "why",
            "If in_specs doesn't name an axis, all chips along it get the same part: each reads "
            "it, and does the same work as the others.",
        ),
        paragraph("try", f"Let in_specs cut {names} along an axis that isn't named for them yet."),
    ]


def _larger(own: Sequence[KernelCall], par: Sequence[KernelCall]) -> Iterator[LargerPart]:
    of_par = {call.name: {o.name: o.array for o in call.operands} for call in par}
    for call in own:
        for operand in call.role(Role.INPUT, Role.OUTPUT):
            array = of_par.get(call.name, {}).get(operand.name)
            if array is not None and _size(operand.array) > _size(array):
                yield LargerPart(call.name, operand.name, operand.array, array)


def _size(array: ArrayType) -> int:
    return math.prod(array.shape)


@dataclass(frozen=True, slots=True)
class Sender:
    """A launch on one chip of several: its kernels there, and the collectives around them."""

    kernels: tuple[Prediction, ...]
    collectives: tuple[Collective, ...]

    @property
    def sent(self) -> int | None:
        """The bytes that it sends to other chips; None if unknown."""
        sent = [
            *(kernel.sent_bytes for kernel in self.kernels),
            collective_sent_bytes(self.collectives),
        ]
        return None if None in sent else sum(filter(None, sent))

    @property
    def carried(self) -> int | None:
        """The bytes that links carry: those sent times hops. None if unknown."""
        sizes = [*(one.link_bytes for one in self.kernels), collective_link_bytes(self.collectives)]
        return None if None in sizes else sum(filter(None, sizes))

    @property
    def farthest(self) -> int:
        """The most links that some copy of a kernel passes over."""
        routes = (route for kernel in self.kernels for route in kernel.routes or ())
        return max((route.hops for route in routes), default=0)

    @property
    def loads(self) -> dict[tuple[str, int], int] | None:
        """The bytes on each link out of a chip; None if unknown, as for collectives."""
        routes = None if self.collectives else routes_of_kernels(self.kernels)
        return None if routes is None else link_loads(routes)

    def larger_than(self, par: Sender) -> tuple[LargerPart, ...]:
        """The arrays of which this one's kernels have larger parts than those of `par`."""
        own, theirs = ([kernel.call for kernel in side.kernels] for side in (self, par))
        return larger_parts(own, theirs)


def links_finding(own: Sender, par: Sender, slack: float) -> Finding | None:
    """Reject a launch that sends more than the slack of par allows, as a fraction."""
    sent, least = _compared(own, par)
    untold = [one for one in own.collectives if one.bytes is None]
    if untold and least is not None:
        return _untold(untold[0])
    if sent is None or least is None:
        return None
    if sent <= least * (1 + slack):
        return _busiest_link_finding(own, par, slack)
    over = "bytes over the links"
    over = f"{multiple(sent / least)} par's {over}" if least else f"{over}, and par needs none"
    more = dearest(own.collectives, par.collectives)
    far = not more and own.farthest > par.farthest
    parts = [
        "It would keep the links between chips busy for longer than it needs to.",
        paragraph("links", f"{_carries(own, sent)}; {_par_carries(par, sent, least, slack)}"),
        *(paragraph("way", one) for one in _ways(own) * far),
        *lines(more),
    ]
    phrase = f"{over}: {named(more[0])}" if more else over
    if far:
        phrase = f"{over}: copies that pass over {own.farthest} links"
    if more and (larger := own.larger_than(par)):
        in_short, explained = in_words(larger)
        return Finding(Check.COST, f"{phrase}, as {in_short}", "\n".join([*parts, *explained]))
    parts.append(paragraph("try", advice(more[0]) if more else _FAR if far else _HOPS))
    return Finding(Check.COST, phrase, "\n".join(parts))


def _busiest_link_finding(own: Sender, par: Sender, slack: float) -> Finding | None:
    """Reject a launch that sends as much as par does, but more of it over one of a chip's links."""
    loads, theirs = own.loads, par.loads
    if not loads or not theirs:
        return None
    (axis, way), most = max(loads.items(), key=lambda load: load[1])
    least = max(theirs.values())
    if most <= least * (1 + slack):
        return None
    back = loads.get((axis, -way), 0)
    parts = [
        "The other links of a chip would be idle while this one is still busy.",
        paragraph(
            "links",
            f'Each chip\'s link to {_place(way)} chip along "{axis}" carries '
            f"{format_bytes(most)}, and its link to {_place(-way)} one "
            f"{format_bytes(back) if back else 'nothing'}. Par's busiest link carries "
            f"{format_bytes(least)} ({allowed(most / least, slack)}).",
        ),
        *(paragraph("way", one) for one in _ways(own)),
        paragraph("try", _BALANCE),
    ]
    phrase = f"{multiple(most / least)} par's bytes on the busiest link, to {_place(way)} chip"
    return Finding(Check.COST, phrase, "\n".join(parts))


def _place(way: int) -> str:
    return "the next" if way > 0 else "the previous"


#: The part of the bytes of par's kernels that a launch's kernels have to send at least.
LEAST_SENT = 0.5


def check_sends(evidence: TpuEvidence) -> Finding | None:
    """Reject kernels that send less than the solution's do, or get what those send from XLA."""
    own, par = evidence.own_on_chips(), evidence.par_on_chips()
    if isinstance(own, Accident) or isinstance(par, Accident):
        return None
    sent, least = (_sent_by_kernels(side.on(evidence.chips[0])) for side in (own, par))
    if sent is None or not least:
        return None
    for name, mine, theirs in zip(evidence.reference.names, own.cuts, par.cuts, strict=False):
        if mine is not None and theirs is not None and mine != theirs and any(theirs):
            return _other_parts(name)
    if sent >= LEAST_SENT * least:
        return None
    bytes_sent = format_bytes(sent) if sent else "nothing"
    parts = [
        f"At production size, the kernel sends {bytes_sent} from each chip; the solution's sends "
        f"{format_bytes(least)}.",
        *lines(dearest(own.collectives, par.collectives)),
        paragraph(
            "why",
            "XLA sends the rest: for a collective, or because in_specs, out_specs or a sharding "
            "constraint give a device data that another one has. This kata's kernel is to send it.",
        ),
        paragraph(
            "try",
            "Let in_specs give each device its own part alone. Copy the others' parts in the "
            "kernel, with pltpu.make_async_remote_copy.",
        ),
    ]
    phrase = f"the kernel sends {sent / least:.0%} of the solution's bytes"
    return Finding(Check.PALLAS_USED, phrase, "\n".join(parts))


def _other_parts(name: str) -> Finding:
    parts = [
        f"in_specs gives each chip another part of {name} than the solution does.",
        paragraph(
            "why",
            f"Each chip begins with its own part of {name}. XLA sends the parts of others that "
            "in_specs asks for. This kata's kernel is to send them.",
        ),
        paragraph("try", "Leave in_specs as it was given, and send in the kernel."),
    ]
    return Finding(Check.PALLAS_USED, f"XLA sends parts of {name}", "\n".join(parts))


def _sent_by_kernels(kernels: Sequence[Prediction]) -> int | None:
    """The bytes that kernels send to other chips; None if unknown."""
    sent = [kernel.sent_bytes for kernel in kernels]
    return None if None in sent else sum(filter(None, sent))


def _compared(own: Sender, par: Sender) -> tuple[int | None, int | None]:
    """The bytes of both: times hops, or as they are sent if the routes are unknown."""
    carried = own.carried, par.carried
    return (own.sent, par.sent) if None in carried else carried


def _carries(own: Sender, carried: int) -> str:
    if own.sent is None or own.sent == carried:
        return f"each chip sends {format_bytes(carried)} to others"
    return (
        f"each chip sends {format_bytes(own.sent)} to others, and links carry "
        f"{format_bytes(carried)}, since not all go to a neighbour"
    )


def _par_carries(par: Sender, sent: int, least: int, slack: float) -> str:
    if not least:
        return "par sends nothing"
    verb = "sends" if par.sent == least else "makes them carry"
    return f"par {verb} {format_bytes(least)} ({allowed(sent / least, slack)})"


def _ways(own: Sender) -> list[str]:
    """The bytes on each route."""
    return [
        f"{format_bytes(route.bytes)} {format_route(route)}"
        for route in routes_of_kernels(own.kernels) or ()
    ]


_FAR = (
    "A copy to a chip that isn't a neighbour passes over every link between, and on each it waits "
    "for copies that are already there. Send only to neighbours, and let each pass the data on."
)
_HOPS = (
    "Count the hops: in a ring of n chips, a block has reached all others after n - 1. A last hop "
    "that brings a block back to its origin is not needed. Send only data that the neighbour "
    "lacks, and nothing twice."
)


_BALANCE = (
    "A ring's links carry data in both directions at the same time. Send to both neighbours, and "
    "let data that is equally far either way come in two parts, one from each side."
)


def _untold(one: Collective) -> Finding:
    """A loop with an unknown number of iterations, around a collective."""
    reason = f"the number of iterations of a loop around {named(one)} is known only at run time"
    parts = [
        "Its cost on a TPU can't be predicted.",
        *lines([one]),
        paragraph("try", "Let the number of iterations follow from sizes alone."),
    ]
    return Finding(Check.COST, f"no verdict: {reason}", "\n".join(parts))


#: If par covers less than this, its products are not meant to hide copies.
WORTH_HIDING = 0.25
#: The part of par's coverage that is enough.
ENOUGH = 0.5


def waits_first(own: Sequence[Prediction], par: Sequence[Prediction]) -> Finding | None:
    """Reject a launch that multiplies before copies start or after they arrive, if par overlaps
    them."""
    mine, best = _covered(own), _covered(par)
    if mine is None or best is None or best < WORTH_HIDING or mine >= best * ENOUGH:
        return None
    part = f"{mine:.0%} of its matrix products are" if mine else "No matrix product is"
    lines = [
        "The links would be idle while the chip multiplies, and the chip while they are busy.",
        paragraph(
            "why",
            f"{part} computed between the start of a copy from another chip and the wait for it; "
            f"in par, {best:.0%} are.",
        ),
        paragraph(
            "try",
            "Start the copy, then multiply the data that is already here, and wait only when you "
            "need the copied data.",
        ),
    ]
    much = "little" if mine else "nothing"
    return Finding(
        Check.COST, f"{much} is multiplied while blocks are on their way", "\n".join(lines)
    )


def _covered(side: Sequence[Prediction]) -> float | None:
    """The least of these kernels; None if it is unknown for all."""
    return min((one.covered for one in side if one.covered is not None), default=None)
