"""What a kernel for a GPU leaves to chance: found by following its trace, thread by thread."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from grader.model.kernel import Array
from grader.model.places import Place


class Disorder(enum.Enum):
    """What happens before something that it depends on is known to have ended, or never."""

    NO_COMMIT = "what was stored is not committed before a unit reads it"
    READ_BY_WGMMA = "memory is written while wgmma may still be reading it"
    READ_BY_MMA = "memory is written while tcgen05_mma may still be reading it"
    NOT_MULTIPLIED = "an accumulator is loaded while products may still be added to it"
    STILL_LOADED = "a product begins in an accumulator that may still be loaded from"
    LEAVING = "memory is written while a copy may still be reading it"
    NOT_DRAINED = "the kernel ends before a copy out of its memory has"
    LAPPED = "a barrier completes twice before a wait on it"
    NEVER_ARRIVES = "a wait on a barrier at which too few arrive"


@dataclass(frozen=True, slots=True)
class GpuFault:
    """One thing that goes wrong: on which `line`, with which Ref, and since which other line.

    `reader` is what needs the memory: "wgmma", "tcgen05_mma" or "copy_smem_to_gmem". Of a wait,
    `ref` is the barrier, which has had `arrived` of `needed` arrivals since it last completed;
    `others` are the threads that wait as well, each with the barrier and the line.
    """

    disorder: Disorder
    ref: str
    line: Place | None = None
    since: Place | None = None
    reader: str = ""
    thread: int = 0
    arrived: int = 0
    needed: int = 0
    others: tuple[str, ...] = ()


class GpuCrash(enum.Enum):
    """How a launch on a GPU ends that does not return."""

    ADDRESS = "illegal address"
    MISALIGNED = "misaligned address"
    INSTRUCTION = "illegal instruction"
    LAUNCH = "launch failed"
    HANG = "hang"
    MEMORY = "out of memory"
    SLOW = "too slow to start or to compile"
    UNKNOWN = "unknown"

    @property
    def of_the_kernel(self) -> bool:
        """Whether the kernel itself does it: else nothing is known of it."""
        return self not in (GpuCrash.MEMORY, GpuCrash.SLOW, GpuCrash.UNKNOWN)


@dataclass(frozen=True, slots=True)
class GpuRun:
    """A launch run once on the GPU called `device` by jax.

    `changed` are the inputs, by position, that hold something else afterwards; `trampled` is memory
    beside buffers that does, and `strays` are accesses that memcheck reports, both in words. Where
    it does not return, `crash` says how, and `said` what the driver says. `why_not` says why
    nothing came of it that is the kernel's fault, "" where something did.
    """

    device: str = ""
    outputs: tuple[Array, ...] = ()
    changed: tuple[int, ...] = ()
    trampled: tuple[str, ...] = ()
    strays: tuple[str, ...] = ()
    crash: GpuCrash | None = None
    said: str = ""
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class Times:
    """Of one launch on a GPU, in seconds: the median of so many runs, and the ends."""

    median: float = 0.0
    lowest: float = 0.0
    highest: float = 0.0
    runs: int = 0


@dataclass(frozen=True, slots=True)
class GpuTimes:
    """A launch and the solution's, run in turn on one GPU, called `device` by jax.

    `why_not` says why there are no times; `wrong` what is wrong with the results, in words that
    end a sentence, "" for nothing.
    """

    device: str = ""
    own: Times = Times()
    par: Times = Times()
    wrong: str = ""
    why_not: str = ""
