"""How the devices of a mesh meet, while the strict interpreter runs a kernel on all of them.

Everything that they do to each other is noted, and judged when the kernel has ended: not by how it
went this time, but by all ways in which it may go. Two things can't wait so long. A device that the
mesh does not have. And devices that wait for each other without end: the wait is ended, and each
semaphore named.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from grader.kernels.exchange import Area, Copy, Core, Exchange, Signal, Touch, Wait
from grader.kernels.exchange_faults import left_over, unbegun, unordered
from grader.kernels.exchange_told import fault_of, only_axis
from grader.kernels.ref_names import FIRST_SEMAPHORE, RefNames
from grader.kernels.source_lines import line_of
from grader.kernels.wait_lines import WaitLines
from grader.model import Axes, Between, DeviceFault, LeftOver, Place, Source, devices_of

#: So long nothing may happen on any device while each waits, or has ended.
PATIENCE = 2.0
BARRIER = "the barrier semaphore"
#: What stands for a device whose number along an axis is not of the mesh, and by how much.
OUTSIDE, PER_AXIS = 1 << 24, 1 << 16


class Deadlock(RuntimeError):
    """Every device waits for another, or has ended."""


class NoSuchDevice(IndexError):
    """A copy or a signal to a device that the mesh does not have."""


class Meetings:
    """What the devices of one launch do to each other, and the faults so far."""

    def __init__(self, source: Source, axes: Axes) -> None:
        self.faults: list[DeviceFault] = []
        self._source, self._axes, self._devices = source, axes, devices_of(axes)
        self._names, self._wait_lines = RefNames(), WaitLines()
        self._begins_together = False
        self._lock = threading.Lock()
        self._lines: dict[int, tuple[Any, Place | None]] = {}
        self._begin()

    def _begin(self) -> None:
        self._latest = time.monotonic()
        self._exchange = Exchange()
        self._waiting = dict[Core, tuple[str, Place | None]]()
        self._ended = set[int]()

    def kernel(self, names: RefNames, wait_lines: WaitLines, begins_together: bool) -> None:
        """The kernel that is traced next; whether libtpu has its devices begin together."""
        self._names, self._wait_lines = names, wait_lines
        self._begins_together = begins_together

    def _happens(self, device: int) -> None:
        self._latest = time.monotonic()
        if device in self._ended:  # the next kernel: no device begins it before all have ended
            self._finish_kernel()

    def _finish_kernel(self) -> None:
        exchange = self._exchange
        exchange.complete = len(self._ended) == self._devices
        if any(copy.remote for copy in exchange.copies()) or not exchange.complete:
            judges = (left_over, unordered)
            for judge in judges if self._begins_together else (unbegun, *judges):
                for wrong in judge(exchange, FIRST_SEMAPHORE):
                    self._note(fault_of(wrong, exchange, self._named, self._names, self._axes))
            if axis := only_axis(exchange, self._axes):
                self._note(DeviceFault(Between.ONE_AXIS, 0, why=axis, mesh=self._axes))
        self._begin()

    def finish(self) -> None:
        """The launch has ended."""
        with self._lock:
            self._finish_kernel()

    def _named(self, semaphore: int) -> str:
        """A barrier semaphore's number is its collective_id, and those of a kernel are large."""
        known = self._names.semaphores.get(semaphore)
        return known or (
            BARRIER if semaphore < FIRST_SEMAPHORE else "a semaphore of an inner scope"
        )

    def _place(self, source_info: Any) -> Place | None:
        if source_info is None:
            return None
        if id(source_info) not in self._lines:
            line = line_of(source_info, self._source.file)
            self._lines[id(source_info)] = source_info, self._source.place(line) if line else None
        return self._lines[id(source_info)][1]

    def _note(self, fault: DeviceFault) -> None:
        if not any(fault.hazard is seen.hazard for seen in self.faults):
            self.faults.append(fault)

    def _reaches(self, device: int, other: int, line: Place | None) -> None:
        """Raises NoSuchDevice."""
        if 0 <= other < self._devices:
            return
        axis, wrong = "", other
        if other >= OUTSIDE:
            number, wrong = divmod(other - OUTSIDE, PER_AXIS)
            axis, wrong = self._axes[number][0], wrong - PER_AXIS // 2
        self._note(
            DeviceFault(
                Between.NO_SUCH_DEVICE,
                device,
                wrong,
                self._devices,
                line=line,
                why=axis,
                mesh=self._axes,
            )
        )
        raise NoSuchDevice(f"device {device} names device {wrong} of {self._devices}")

    def _within(self, device: int, other: int, area: Area, line: Place | None) -> None:
        if area.part.outside:
            part, shape = self._names.part(area.part), " ".join(map(str, area.part.shape))
            self._note(
                DeviceFault(
                    Between.OUTSIDE, device, other, self._devices, line=line, part=part, why=shape
                )
            )

    # ---- what the interpreter's callbacks do first ----

    def starts(
        self, core: Core, source: Area, target: Area, came: int, left: int | None,
        other: int | None, size: int, source_info: Any,
    ) -> None:  # fmt: skip
        """A copy is started. `target` is an area of this device's until it is known which."""
        with self._lock:
            self._happens(core[0])
            line = self._place(source_info)
            there = core[0] if other is None else other
            self._reaches(core[0], there, line)
            for area in (source, target) if left is not None else ():
                self._within(core[0], there, area, line)
            to = Area((there, target.of[1]), target.part)
            sending = None if left is None else (core[0], left)
            at = self._exchange.at(core)
            self._exchange.add(
                Copy(core, at, source, to, (there, came), sending, size, line)
            )  # fmt: skip

    def signals(
        self, device: Any, local: Any, semaphore: Any, count: Any, other: Any,
        *_: Any, source_info: Any = None,
    ) -> None:  # fmt: skip
        """A semaphore is raised, here or on another device."""
        core = int(device), int(local)
        there = core[0] if other is None else int(other)
        with self._lock:
            self._happens(core[0])
            line = self._place(source_info)
            self._reaches(core[0], there, line)
            at = self._exchange.at(core)
            to = there, int(semaphore)
            self._exchange.add(Signal(core, at, to, int(count), line))

    def touches(self, core: Core, area: Area, writes: bool, source_info: Any) -> None:
        """A core reads or writes memory of its own."""
        with self._lock:
            self._happens(core[0])
            at = self._exchange.at(core)
            self._exchange.touches[Touch(core, at, area, writes, self._place(source_info))] = None

    def begins_to_wait(
        self, device: Any, local: Any, semaphore: Any, count: Any, *_: Any, source_info: Any = None
    ) -> None:
        """A core waits until `has_waited`."""
        core, number = (int(device), int(local)), int(semaphore)
        with self._lock:
            self._happens(core[0])
            name = self._named(number)
            line = self._place(source_info) or self._source_line(name)
            self._waiting[core] = name, line
            at = self._exchange.at(core)
            self._exchange.add(Wait(core, at, (core[0], number), int(count), line))

    def _source_line(self, semaphore: str) -> Place | None:
        """jax 0.10 does not say on which line a wait stands."""
        line = self._wait_lines.of(semaphore, self._source.file)
        return self._source.place(line) if line else None

    def has_waited(self, device: Any, local: Any, *_: Any, **__: Any) -> None:
        """It goes on."""
        with self._lock:
            self._latest = time.monotonic()
            self._waiting.pop((int(device), int(local)), None)

    def ends(self, device: Any, *_: Any, **__: Any) -> None:
        """A device's kernel ends."""
        with self._lock:
            self._latest = time.monotonic()
            self._ended.add(int(device))

    def demand_progress(self) -> None:
        """Raises Deadlock, called again and again by whoever waits."""
        with self._lock:
            waiting = {device for device, _ in self._waiting}
            if len(waiting | self._ended) < self._devices or not waiting:
                return
            if time.monotonic() - self._latest < PATIENCE:
                return
            waits = tuple((core[0], told[0]) for core, told in sorted(self._waiting.items()))
            device, semaphore = waits[0]
            line = next((told[1] for told in self._waiting.values() if told[1]), None)
            self._note(
                DeviceFault(
                    Between.DEADLOCK,
                    device,
                    devices=self._devices,
                    semaphore=semaphore,
                    line=line,
                    waits=waits,
                    ended=tuple(sorted(self._ended - waiting)),
                )
            )
        raise Deadlock(f"every device waits, or has ended: {waits}")

    def left(self, over: LeftOver) -> None:
        """A semaphore is not zero at the end of a kernel."""
        name, count = self._named(over.semaphore), over.count
        fault = DeviceFault(
            Between.LEFT_OVER, over.device, devices=self._devices, semaphore=name, count=count
        )
        self._note(fault)
