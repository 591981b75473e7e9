"""Faults found while a kernel runs, as data, in order of importance: DMA, devices, GPU threads.

An interpreter finds the faults of manual DMA and those between devices while it runs a launch.
Those of GPU threads come from evaluating the trace thread by thread. `grader.checks` explains all
of them to the author.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from pallascope.model.launch import Array, Axes, SourceLine


class DmaHazard(enum.Enum):
    """A way in which a kernel's manual DMA is wrong; the value describes the kernel."""

    READ_EARLY = "reads memory at which a copy is still arriving"
    SENT_EARLY = "copies from memory at which another copy is still arriving"
    TWO_AT_ONCE = "starts a copy to memory at which another copy is still arriving"
    OVERWRITES_ARRIVING = "stores to memory at which a copy is still arriving"
    OVERWRITES_LEAVING = "writes to memory from which a copy is still reading"
    NO_START = "waits for a copy that was never started"
    TOO_MANY_BYTES = "waits for more bytes than the copies in flight bring"
    NEVER_AWAITED = "ends before its copies have ended"
    BYTES_LEFT = "waits for fewer bytes than its copies have brought"
    OUTSIDE = "copies memory outside of a Ref"
    NOTHING_THERE = "reads memory that was never written"


@dataclass(frozen=True, slots=True)
class ManualCopy:
    """A copy that a kernel has started. `line` is None if it isn't in the judged file.

    `source` and `target` are parts of Refs, such as "x_slots[1]". `size` is in bytes. Grid step
    `step` started it, in the `turn`-th execution of its line. `sharing` is the number of other
    copies on its semaphore at the time of the fault, and `waits` that of waits after the start.
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
    """The latest wait: its semaphore and its line."""

    semaphore: str
    line: SourceLine | None


@dataclass(frozen=True, slots=True)
class DmaFault:
    """A fault of manual DMA, with its line, its grid step and the part of a Ref.

    `copy` is the outstanding copy, and `another` the one that conflicts with it. A wait asks for
    `size` bytes on `semaphore`; outstanding copies bring `coming` bytes on it, and `elsewhere` are
    the copies on other semaphores. At the kernel's end, `number` of `started` copies have not been
    waited for. `unread`: `copy` overwrites data that had arrived and that nothing had read.
    `last_wait` is the latest wait, if it was for a copy into the same Ref on another semaphore.
    `shape` is the Ref's.
    """

    hazard: DmaHazard
    part: str = ""
    line: SourceLine | None = None
    step: tuple[int, ...] = ()
    turn: int = 1
    copy: ManualCopy | None = None
    another: ManualCopy | None = None
    semaphore: str = ""
    size: int = 0
    coming: int = 0
    elsewhere: tuple[ManualCopy, ...] = ()
    number: int = 0
    started: int = 0
    unread: bool = False
    last_wait: LastWait | None = None
    shape: tuple[int, ...] = ()


class DeviceHazard(enum.Enum):
    """A way in which a kernel on several devices is wrong. Earlier ones are reported first."""

    NO_SUCH_DEVICE = "it names a device that the mesh doesn't have"
    OUTSIDE = "a copy reaches beyond the end of a buffer"
    NO_BARRIER = "it writes to a device that may not have begun"
    DEADLOCK = "every device waits, or has ended"
    NEVER_AWAITED = "a copy between devices is never waited for"
    LEFT_OVER = "a semaphore isn't zero at the end"
    EARLY = "it uses data that a copy may not have brought yet"
    IN_USE = "a copy writes memory that another device may still read"
    SHARED = "a wait for one copy may have counted another"
    STILL_SENT = "it changes memory that a copy may still be reading"
    BOTH_WRITE = "two copies write the same place"
    ONE_AXIS = "all copies go along the same axis of the mesh"
    COPIES_DIFFER = "devices that should have equal values have different ones"


@dataclass(frozen=True, slots=True)
class DeviceFault:
    """A fault on `device` that involves the device `other`.

    `semaphore` is the one that was waited for, or that is left with `count`. `waits` has the
    semaphore of each device that still waits, and `ended` the devices that have ended. Copies
    differ along `axes` of the `mesh`. The line `use` reads or writes `part` without waiting for the
    copy or signal of `line`. `why` selects the check's explanation, and `hint` is a related line.
    The device was in the `turn`-th execution of the copy's line and, if `use` starts a copy too, in
    the `use_turn`-th of that. A copy that isn't `remote` stays on its device. Unknown numbers are
    -1, and unknown names "".
    """

    hazard: DeviceHazard
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


class GpuHazard(enum.Enum):
    """A missing synchronisation between the threads of a GPU kernel."""

    NO_COMMIT = "stored data isn't committed before a unit reads it"
    NOT_ARRIVED = "memory is read before the wait for the copy into it"
    TOO_EARLY = "the next copy into memory starts before the last one's data has been read"
    READ_BY_THREAD = "memory is written while another thread may still be reading it"
    READ_BY_WGMMA = "memory is written while wgmma may still be reading it"
    READ_BY_MMA = "memory is written while tcgen05_mma may still be reading it"
    NOT_MULTIPLIED = "an accumulator is loaded while products may still be added to it"
    STILL_LOADED = "a product begins in an accumulator that may still be loaded"
    LEAVING = "memory is written while a copy may still be reading it"
    NOT_DRAINED = "the kernel ends before a copy from its memory has ended"
    LAPPED = "a barrier completes twice before a wait on it"
    NEVER_ARRIVES = "a wait on a barrier with too few arrivals"
    NOTHING_AHEAD = "each copy into a memory is waited for before the next one starts"


@dataclass(frozen=True, slots=True)
class GpuFault:
    """A fault on `line` that concerns `ref`; the line `since` started the conflicting operation.

    `reader` is the operation that needs the memory: "wgmma", "tcgen05_mma" or "copy_smem_to_gmem".
    For a wait, `ref` is the barrier, which has `arrived` of `needed` arrivals since it last
    completed; `others` are the other waiting threads, each with its barrier and line.
    """

    hazard: GpuHazard
    ref: str
    line: SourceLine | None = None
    since: SourceLine | None = None
    reader: str = ""
    thread: int = 0
    arrived: int = 0
    needed: int = 0
    others: tuple[str, ...] = ()


class GpuCrash(enum.Enum):
    """How a launch on a GPU failed to return."""

    ADDRESS = "illegal address"
    MISALIGNED = "misaligned address"
    INSTRUCTION = "illegal instruction"
    LAUNCH = "launch failed"
    HANG = "hang"
    MEMORY = "out of memory"
    SLOW = "too slow to start or to compile"
    UNKNOWN = "unknown"

    @property
    def is_kernel_fault(self) -> bool:
        """Whether the kernel caused it. Otherwise the run says nothing about the kernel."""
        return self not in (GpuCrash.MEMORY, GpuCrash.SLOW, GpuCrash.UNKNOWN)


@dataclass(frozen=True, slots=True)
class GpuRun:
    """One run of a launch on a GPU. `device` is jax's name for it.

    `changed` are the positions of inputs that the launch has changed. `trampled` describes memory
    next to buffers that it has changed, and `strays` the invalid accesses that memcheck reports. If
    the launch doesn't return, `crash` is the kind of failure, and `said` the driver's message.
    `why_not` is the reason if the run says nothing about the kernel, otherwise "".
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
    """The times of one launch on a GPU, in seconds: median, lowest and highest of `runs`."""

    median: float = 0.0
    lowest: float = 0.0
    highest: float = 0.0
    runs: int = 0


@dataclass(frozen=True, slots=True)
class GpuTimes:
    """Times of a launch and of the solution's, run in turn on one GPU. `device` is jax's name.

    `why_not` is the reason if there are no times. `wrong` is the end of a sentence about the error
    in the results, "" if they are right.
    """

    device: str = ""
    own: Times = Times()
    par: Times = Times()
    wrong: str = ""
    why_not: str = ""
