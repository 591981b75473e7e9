"""How the devices of a mesh meet, while the strict interpreter runs a kernel on all of them.

Three things are noted that no result tells of, or not in time. A copy to a device that need not
have begun its kernel: on a TPU it would write into memory that still belongs to something else, and
the interpreter has every device begin before any goes on. A device that the mesh does not have. And
devices that wait for each other without end: the wait is ended, and each semaphore named.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from grader.kernels.ref_names import FIRST_SEMAPHORE, RefNames
from grader.kernels.source_lines import line_of
from grader.model import Between, DeviceFault, LeftOver, Place, Source

#: So long nothing may happen on any device while each waits, or has ended.
PATIENCE = 2.0
BARRIER = "the barrier semaphore"


class Deadlock(RuntimeError):
    """Every device waits for another, or has ended."""


class NoSuchDevice(IndexError):
    """A copy or a signal to a device that the mesh does not have."""


class Meetings:
    """What the devices of one launch do to each other, and the faults so far."""

    def __init__(self, source: Source, devices: int) -> None:
        self.faults: list[DeviceFault] = []
        self._source, self._devices = source, devices
        self._names = RefNames()
        self._lock = threading.Lock()
        self._latest = time.monotonic()
        self._begin()

    def _begin(self) -> None:
        self._known = {device: {device} for device in range(self._devices)}
        self._told = defaultdict[tuple[int, int], set[int]](set)
        self._waiting = dict[tuple[int, int], tuple[str, Place | None]]()
        self._ended = set[int]()
        self._copied = dict[tuple[int, int], Place | None]()
        self._awaited = set[tuple[int, int]]()

    def kernel(self, names: RefNames) -> None:
        """The names of the kernel that is traced next."""
        self._names = names

    def _happens(self, device: int) -> None:
        self._latest = time.monotonic()
        if device in self._ended:  # the next kernel: no device begins it before all have ended
            self._finish_kernel()

    def _finish_kernel(self) -> None:
        missing = sorted(set(self._copied) - self._awaited)
        if missing and len(self._ended) == self._devices:
            device, semaphore = missing[0]
            self._note(
                DeviceFault(
                    Between.NEVER_AWAITED,
                    device,
                    devices=self._devices,
                    semaphore=self._named(semaphore),
                    line=self._copied[missing[0]],
                )
            )
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
        line = line_of(source_info, self._source.file) if source_info is not None else 0
        return self._source.place(line) if line else None

    def _note(self, fault: DeviceFault) -> None:
        if not any(fault.hazard is seen.hazard for seen in self.faults):
            self.faults.append(fault)

    def _reaches(self, device: int, other: int, line: Place | None) -> None:
        """Raises NoSuchDevice."""
        if 0 <= other < self._devices:
            return
        fault = DeviceFault(Between.NO_SUCH_DEVICE, device, other, self._devices, line=line)
        self._note(fault)
        raise NoSuchDevice(f"device {device} names device {other} of {self._devices}")

    # ---- what the interpreter's callbacks do first ----

    def starts(self, device: Any, *rest: Any, source_info: Any = None, **_: Any) -> None:
        """A copy is started; `rest` ends with the other device's number, on jax 0.12 and a core."""
        here, semaphore, other = int(device), int(rest[7]), rest[9]
        with self._lock:
            self._happens(here)
            if other is None:
                return
            there, line = int(other), self._place(source_info)
            self._reaches(here, there, line)
            if there not in self._known[here]:
                self._note(DeviceFault(Between.NO_BARRIER, here, there, self._devices, line=line))
            self._told[there, semaphore] |= self._known[here]
            self._copied.setdefault((there, semaphore), line)
            if rest[8] is not None:
                self._copied.setdefault((here, int(rest[8])), line)

    def signals(
        self, device: Any, _local: Any, semaphore: Any, _inc: Any, other: Any,
        *_: Any, source_info: Any = None,
    ) -> None:  # fmt: skip
        """A semaphore is raised, here or on another device."""
        here, there = int(device), int(device if other is None else other)
        with self._lock:
            self._happens(here)
            self._reaches(here, there, self._place(source_info))
            self._told[there, int(semaphore)] |= self._known[here]

    def begins_to_wait(
        self, device: Any, local: Any, semaphore: Any, *_: Any, source_info: Any = None
    ) -> None:
        """A core waits until `has_waited`."""
        with self._lock:
            self._happens(int(device))
            name = self._named(int(semaphore))
            self._waiting[int(device), int(local)] = name, self._place(source_info)

    def has_waited(self, device: Any, local: Any, semaphore: Any, *_: Any, **__: Any) -> None:
        """It goes on, and knows what those knew who have raised the semaphore."""
        here = int(device)
        with self._lock:
            self._latest = time.monotonic()
            self._waiting.pop((here, int(local)), None)
            self._known[here] |= self._told[here, int(semaphore)]
            self._awaited.add((here, int(semaphore)))

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


@contextlib.contextmanager
def watching_devices(meetings: Meetings) -> Iterator[None]:
    """Note what happens between the devices of kernels that run in this context, within `running`.

    Where jax keeps the interpreter elsewhere, nothing is noted.
    """
    try:
        from jax._src.pallas.mosaic.interpret import interpret_pallas_call as interpreter
        from jax._src.pallas.mosaic.interpret.shared_memory import SharedMemory
    except ImportError:
        yield
        return
    by = {
        "dma_start": _around(interpreter, "dma_start", meetings.starts),
        "semaphore_signal": _around(interpreter, "semaphore_signal", meetings.signals),
        "_validate": _around(interpreter, "_validate", meetings.ends),
        "interpret_pallas_call": _naming(interpreter.interpret_pallas_call, meetings),
    }
    for name in ("dma_wait", "semaphore_wait"):
        by[name] = _around(interpreter, name, meetings.begins_to_wait, meetings.has_waited)
    checked = SharedMemory.check_failed

    def check_failed(memory: Any) -> None:
        checked(memory)
        meetings.demand_progress()

    with contextlib.ExitStack() as stack:
        for name, value in by.items():
            stack.callback(setattr, interpreter, name, getattr(interpreter, name))
            setattr(interpreter, name, value)
        inherited = "check_failed" not in vars(SharedMemory)
        stack.callback(meetings.finish)
        if inherited:
            stack.callback(delattr, SharedMemory, "check_failed")
        else:
            stack.callback(setattr, SharedMemory, "check_failed", checked)
        setattr(SharedMemory, "check_failed", check_failed)  # noqa: B010
        yield


def _around(
    interpreter: Any,
    name: str,
    before: Callable[..., None],
    after: Callable[..., None] | None = None,
) -> Callable[..., Any]:
    usual = getattr(interpreter, name)

    def called(token: Any, *args: Any, **params: Any) -> Any:
        before(*args, **params)
        result = usual(token, *args, **params)
        if after:
            after(*args, **params)
        return result

    return interpreter.fail_on_exception(functools.wraps(usual)(called))


def _naming(usual: Callable[..., Any], meetings: Meetings) -> Callable[..., Any]:
    @functools.wraps(usual)  # jax names it where it fails
    def interpreted(*args: Any, jaxpr: Any, grid_mapping: Any, **others: Any) -> Any:
        aliases = others.get("input_output_aliases", ())
        meetings.kernel(RefNames.of(jaxpr, grid_mapping, aliases))
        return usual(*args, jaxpr=jaxpr, grid_mapping=grid_mapping, **others)

    return interpreted
