"""What devices move between each other outside of kernels: collectives, and arrays laid anew."""

from __future__ import annotations

from dataclasses import dataclass

from grader.model.kernel import ArrayType, Runs

#: What stands for an array that two `shard_map`s cut in different ways.
RESHARDING = "resharding"

_ONCE = Runs()


@dataclass(frozen=True, slots=True)
class Collective:
    """One operation of devices with each other, by what jax.lax calls it, or RESHARDING.

    `axes` of the mesh are those that it goes over, `devices` how many take part together. `arrays`
    are what one device puts in; `sent` are the bytes that one device sends over its links in one of
    the `runs`, and `hops` over how many links each of these passes, on average. `line` is that of
    the learner's file; 0 where it is not known.
    """

    name: str
    axes: tuple[str, ...]
    devices: int
    arrays: tuple[ArrayType, ...]
    sent: int
    runs: Runs = _ONCE
    line: int = 0
    hops: float = 1.0

    @property
    def bytes(self) -> int | None:
        """What one device sends in all runs; None where nobody can tell how many there are."""
        return None if self.runs.untold else self.sent * self.runs.times

    @property
    def carried_bytes(self) -> int | None:
        """What links carry of that: bytes times hops. None where nobody can tell."""
        return None if self.bytes is None else round(self.bytes * self.hops)


def carried_by(collectives: tuple[Collective, ...]) -> int | None:
    """What links carry for all of these together, in bytes; None where nobody can tell."""
    sizes = [one.carried_bytes for one in collectives]
    return None if None in sizes else sum(filter(None, sizes))


def sent_by(collectives: tuple[Collective, ...]) -> int | None:
    """What one device sends in all of these together, in bytes; None where nobody can tell."""
    sizes = [one.bytes for one in collectives]
    return None if None in sizes else sum(filter(None, sizes))
