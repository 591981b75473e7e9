"""Faults found while a kernel runs: hand-started copies, devices, GPU threads.

What goes wrong with the copies that a kernel starts by hand, as it was seen while it ran.

What goes wrong between devices: found while a launch runs on several.

What a kernel for a GPU leaves to chance: found by following its trace, thread by thread.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from pallascope.model.launch import Array, Axes, SourceLine


class Hazard(enum.Enum):
    """What a kernel does before the copy that it depends on is known to have ended."""

    READ_EARLY = "reads where a copy is still arriving"
    SENT_EARLY = "copies on from where another copy is still arriving"
    TWO_AT_ONCE = "starts a copy to where another is still arriving"
    OVERWRITES_ARRIVING = "stores to where a copy is still arriving"
    OVERWRITES_LEAVING = "writes to where a copy is still reading"
    NO_START = "waits for what nothing has started"
    TOO_MANY_BYTES = "waits for more bytes than the copies under way bring"
    NEVER_AWAITED = "ends before its copies have"
    BYTES_LEFT = "waits for fewer bytes than its copies have brought"
    OUTSIDE = "copies what lies outside of a Ref"
    NOTHING_THERE = "reads what nothing has written"


@dataclass(frozen=True, slots=True)
class HandCopy:
    """A copy that a kernel has started. `line` is None where it is not in the learner's file.

    `source` and `target` say which part of which Ref: "x_slots[1]"; `size` is in bytes, and `step`
    the grid step that started it, the `turn`-th time that this line did so. `sharing` other copies
    counted on the same semaphore when something went wrong. `waits` come on it after the start.
    """

    line: SourceLine | None
    source: str
    target: str
    semaphore: str
    size: int
    step: tuple[int, ...]
    turn: int = 1
    sharing: int = 0
    waits: int = 0


@dataclass(frozen=True, slots=True)
class LastWait:
    """The wait that came last: on which semaphore, on which line."""

    semaphore: str
    line: SourceLine | None


@dataclass(frozen=True, slots=True)
class CopyFault:
    """One thing that went wrong, and where: on which line, at which grid step, with which Ref.

    `copy` is the one that had not ended; `another` the one that meets it. Of a wait, `size` bytes
    are waited for on `semaphore`, and those under way bring `coming`; `elsewhere` are the copies
    that are under way on others. At the kernel's end `number` of `started` copies have not been
    waited for. `unread`: what `copy` overwrites had arrived, and nothing had read it. `last_wait`
    is the one that came last, if it was for a copy into the same Ref on another semaphore. `shape`
    is that of the Ref.
    """

    hazard: Hazard
    part: str = ""
    line: SourceLine | None = None
    step: tuple[int, ...] = ()
    turn: int = 1
    copy: HandCopy | None = None
    another: HandCopy | None = None
    semaphore: str = ""
    size: int = 0
    coming: int = 0
    elsewhere: tuple[HandCopy, ...] = ()
    number: int = 0
    started: int = 0
    unread: bool = False
    last_wait: LastWait | None = None
    shape: tuple[int, ...] = ()


class Between(enum.Enum):
    """A way in which a kernel on several devices is wrong; one is told before what follows."""

    NO_SUCH_DEVICE = "it names a device that the mesh does not have"
    OUTSIDE = "a copy reaches beyond the end of a buffer"
    NO_BARRIER = "it writes to a device that may not have begun"
    DEADLOCK = "every device waits, or has ended"
    NEVER_AWAITED = "a copy between devices is not waited for"
    LEFT_OVER = "a semaphore is not zero at the end"
    EARLY = "it uses what a copy may not have brought yet"
    IN_USE = "a copy writes where another device may still read"
    SHARED = "a wait for one copy may have counted another"
    STILL_SENT = "it changes what a copy may still be reading"
    BOTH_WRITE = "two copies write the same place"
    ONE_AXIS = "all copies go along the same axis of the mesh"
    COPIES_DIFFER = "devices that should hold the same hold different values"


@dataclass(frozen=True, slots=True)
class DeviceFault:
    """One fault, as it was seen on `device`, which had to do with the device `other`.

    `semaphore` is the one that was waited for, or left with `count`; `waits` says for each device
    that still waits on which semaphore, and `ended` which have ended. `axes` of the `mesh` are
    those along which copies differ. `part` is what is read or written, at the line `use`, by what
    the copy or signal of `line` does not wait for. `why` says which of several reasons it is, in
    words for the check, and `hint` is a line that has to do with it. `turn` counts how often the
    device had come to the copy's line, `use_turn` the same of `use` where that starts a copy as
    well. A copy that is not `remote` stays on its device. Where a number or a name is not known, it
    is -1 or "".
    """

    hazard: Between
    device: int
    other: int = -1
    devices: int = 0
    semaphore: str = ""
    count: int = 0
    line: SourceLine | None = None
    waits: tuple[tuple[int, str], ...] = ()
    ended: tuple[int, ...] = ()
    part: str = ""
    use: SourceLine | None = None
    why: str = ""
    hint: SourceLine | None = None
    turn: int = 1
    use_turn: int = 0
    remote: bool = True
    mesh: Axes = ()
    axes: tuple[str, ...] = ()


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
    line: SourceLine | None = None
    since: SourceLine | None = None
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
