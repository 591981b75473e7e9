"""What is said of collectives around the kernels of a launch: what each sends, and what to try."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from grader.checks.prose import listed, paragraph
from grader.model import RESHARDING, Collective
from grader.tpu.units import bytes_of

_MOST = 3  # that are told


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
    """A paragraph that says what each of the first few sends, and where it stands."""
    if not collectives:
        return []
    more = len(collectives) - _MOST
    rest = [f"and {more} more"] if more > 0 else []
    return [paragraph("of it", "\n".join([*map(_told, collectives[:_MOST]), *rest]))]


def advice(one: Collective) -> str:
    """What may be done instead of what sends too much."""
    if one.name == RESHARDING:
        return (
            "The array lies on the devices in one way and is wanted in another, so XLA moves it in "
            "between. Give out_specs and the next in_specs the same axes, or do both steps within "
            "one shard_map."
        )
    return _INSTEAD.get(one.name, _ONLY)


_ONLY = (
    "Only what a device lacks has to come to it. Let in_specs give each device the part that it "
    "works on, and communicate once, as late as the sums allow."
)
_INSTEAD = {
    "psum": (
        "Add up over those axes alone along which a sum is cut, and add up the smallest array: "
        "after the product, not before it. Where each device goes on with a part of the sum, "
        "psum_scatter sends half as much."
    ),
    "all_gather": (
        "A device that gathers all parts works on all of them. Let it work on its own part, and "
        "add up what comes out, or let in_specs split another dimension."
    ),
}


def _kind(one: Collective) -> tuple[str, frozenset[str], int | None]:
    return one.name, frozenset(one.axes), one.bytes


def _quoted(one: Collective) -> list[str]:
    return [f'"{axis}"' for axis in one.axes]


def _told(one: Collective) -> str:
    where = f", line {one.line}" if one.line else ""
    arrays = listed(map(str, one.arrays), 2)
    size = "nobody can tell how much" if one.bytes is None else bytes_of(one.bytes)
    return f"{named(one)} ({one.devices} devices) of {arrays}{where}: {size}"
