"""What goes over the links between chips, as rows and notes of a screen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from grader.model import Collective, Route, busiest, carried, sent_by
from grader.tpu.chips import Chip
from grader.tpu.prediction import Prediction
from grader.tpu.units import bytes_of, time_of, way_of

NO_TIME = (
    "time: not predicted for copies between chips, since there are no published times to compare "
    "with. Stars are for bytes, to HBM and over the links"
)


def sent(kernels: Sequence[Prediction], collectives: tuple[Collective, ...]) -> int | None:
    """What one chip sends to others, in bytes; None where nobody can tell."""
    sizes = [*(kernel.sent_bytes for kernel in kernels), sent_by(collectives)]
    return None if None in sizes else sum(filter(None, sizes))


def least_time(routes: Sequence[Route] | None, chip: Chip) -> str:
    """How long the busiest link takes at its full bandwidth, in words; "" where unknown."""
    return f"≥ {time_of(busiest(routes) / chip.link)}" if routes and chip.link else ""


def told(title: str, routes: Sequence[Route] | None) -> Iterator[str]:
    """A line for each way."""
    for route in routes or ():
        yield f"{title}: each chip sends {bytes_of(route.bytes)} {way_of(route)}"
    if routes and any(route.hops > 1 for route in routes):
        yield f"{title}: links carry {bytes_of(carried(routes))}, bytes times hops"
