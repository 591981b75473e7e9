"""Does a launch send more to other chips than par does? By its kernels, and by what is around them.

The time of this is not predicted, so bytes alone are judged, as they are to and from HBM.
"""

from __future__ import annotations

from dataclasses import dataclass

from grader.checks.collectives import advice, dearest, lines, named
from grader.checks.prose import allowed, multiple, paragraph
from grader.model import Check, Collective, Finding, sent_by
from grader.tpu import Prediction
from grader.tpu.units import bytes_of


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


def links_finding(own: Sender, par: Sender, slack: float) -> Finding | None:
    """Reject a launch that sends more than the slack of par allows, as a fraction."""
    sent, least = own.sent, par.sent
    untold = [one for one in own.collectives if one.bytes is None]
    if untold and least is not None:
        return _untold(untold[0])
    if sent is None or least is None or sent <= least * (1 + slack):
        return None
    over, told = "bytes over the links", "par sends nothing"
    if least:
        over = f"{multiple(sent / least)} par's {over}"
        told = f"par sends {bytes_of(least)} ({allowed(sent / least, slack)})"
    else:
        over = f"{over}, and par needs none"
    more = dearest(own.collectives, par.collectives)
    parts = [
        "It would keep the links between chips busy for longer than it needs to.",
        paragraph("links", f"each chip sends {bytes_of(sent)} to others; {told}"),
        *lines(more),
        paragraph("try", advice(more[0]) if more else _HOPS),
    ]
    phrase = f"{over}: {named(more[0])}" if more else over
    return Finding(Check.COST, phrase, "\n".join(parts))


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
