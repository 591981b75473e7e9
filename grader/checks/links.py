"""Does a launch send more to other chips than par does? By its kernels, and by what is around them.

The time of this is not predicted, so bytes alone are judged, as they are to and from HBM.
"""

from __future__ import annotations

from dataclasses import dataclass

from grader.checks.collectives import advice, dearest, lines, named
from grader.checks.parts import LargerPart, in_words, larger_parts
from grader.checks.prose import allowed, multiple, paragraph
from grader.model import Check, Collective, Finding, carried_by, sent_by
from grader.tpu import Prediction
from grader.tpu.prediction import routes_of
from grader.tpu.units import bytes_of, way_of


@dataclass(frozen=True, slots=True)
class Sender:
    """A launch on one chip of several: its kernels there, and the collectives around them."""

    kernels: tuple[Prediction, ...]
    collectives: tuple[Collective, ...]

    @property
    def sent(self) -> int | None:
        """What it sends to other chips, in bytes; None where nobody can tell."""
        sent = [*(kernel.sent_bytes for kernel in self.kernels), sent_by(self.collectives)]
        return None if None in sent else sum(filter(None, sent))

    @property
    def carried(self) -> int | None:
        """What links carry of that: bytes times hops. None where nobody can tell."""
        sizes = [*(one.carried_bytes for one in self.kernels), carried_by(self.collectives)]
        return None if None in sizes else sum(filter(None, sizes))

    @property
    def farthest(self) -> int:
        """The most links that some copy of a kernel passes over."""
        routes = (route for kernel in self.kernels for route in kernel.routes or ())
        return max((route.hops for route in routes), default=0)

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
    if sent is None or least is None or sent <= least * (1 + slack):
        return None
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


def _compared(own: Sender, par: Sender) -> tuple[int | None, int | None]:
    """The bytes of both: times hops, or as they are sent where the ways are not known."""
    carried = own.carried, par.carried
    return (own.sent, par.sent) if None in carried else carried


def _carries(own: Sender, carried: int) -> str:
    if own.sent is None or own.sent == carried:
        return f"each chip sends {bytes_of(carried)} to others"
    return (
        f"each chip sends {bytes_of(own.sent)} to others, for which links carry "
        f"{bytes_of(carried)}, since not all go to a neighbour"
    )


def _par_carries(par: Sender, sent: int, least: int, slack: float) -> str:
    if not least:
        return "par sends nothing"
    verb = "sends" if par.sent == least else "makes them carry"
    return f"par {verb} {bytes_of(least)} ({allowed(sent / least, slack)})"


def _ways(own: Sender) -> list[str]:
    """How much goes which way."""
    return [f"{bytes_of(route.bytes)} {way_of(route)}" for route in routes_of(own.kernels) or ()]


_FAR = (
    "A copy to a chip that is not a neighbour passes over every link between, and what goes over "
    "one link waits there for what goes over it already. Send to neighbours alone, and let each "
    "pass on what it got."
)
_HOPS = (
    "Count the hops: in a ring of n chips, what starts on one has reached all others after n - 1. "
    "A last hop that brings a block back to where it began is not needed. Send what the neighbour "
    "lacks, and nothing twice."
)


def _untold(one: Collective) -> Finding:
    """A loop whose turns nobody can count, around a collective."""
    reason = f"a loop around {named(one)} makes as many turns as is known only at run time"
    parts = [
        "What it would cost on a TPU can't be predicted.",
        *lines([one]),
        paragraph("try", "Let the loop make as many turns as follows from sizes alone."),
    ]
    return Finding(Check.COST, f"no verdict: {reason}", "\n".join(parts))
