"""Hooks of the interpreter that record devices' actions: signals, barriers, wrong devices, bounds.

The strict interpreter runs a kernel on all devices of a mesh. Their actions are recorded, and
judged at the kernel's end: not by this run's order, but by all possible orders. Two faults are
reported at once: a device that the mesh doesn't have, and devices that wait for each other without
end. The latter ends the wait, and names each semaphore.
"""

from __future__ import annotations

import contextlib
import functools
import math
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp

from pallascope.kernels.dma_hazards import BufferPart, span_of
from pallascope.kernels.happens_before import (
    Area,
    Core,
    DeviceAccess,
    DeviceCopy,
    DeviceEventLog,
    Signal,
    Wait,
    fault_of,
    left_over,
    only_axis,
    unbegun,
    unordered,
)
from pallascope.kernels.jax_internals import UnsupportedJax
from pallascope.kernels.jaxprs import IN_HBM, primitives
from pallascope.kernels.race_detection import at_the_beginning
from pallascope.kernels.refs import FIRST_SEMAPHORE, RefNames
from pallascope.kernels.source_lines import WaitLines, source_line
from pallascope.model import (
    Axes,
    DeviceFault,
    DeviceHazard,
    LeftOver,
    SourceFile,
    SourceLine,
    mesh_size,
)

#: After this time without an event, while each device waits or has ended, they are deadlocked.
PATIENCE = 2.0
BARRIER = "the barrier semaphore"
#: Marks a device whose number along an axis isn't in the mesh, and by how much.
OUTSIDE, PER_AXIS = 1 << 24, 1 << 16


class Deadlock(RuntimeError):
    """Every device waits for another, or has ended."""


class NoSuchDevice(IndexError):
    """A copy or a signal to a device that the mesh doesn't have."""


class DeviceFaultLog:
    """The devices' actions on each other in one launch, and the faults so far."""

    def __init__(self, source: SourceFile, axes: Axes) -> None:
        self.faults: list[DeviceFault] = []
        self._source, self._axes, self._devices = source, axes, mesh_size(axes)
        self._names, self._wait_lines = RefNames(), WaitLines()
        self._begins_together = False
        self._next = self._names, self._wait_lines, self._begins_together
        self._lock = threading.Lock()
        self._lines: dict[int, tuple[Any, SourceLine | None]] = {}
        self._begin()

    def _begin(self) -> None:
        self._latest = time.monotonic()
        self._exchange = DeviceEventLog()
        self._waiting = dict[Core, tuple[str, SourceLine | None]]()
        self._ended = set[int]()

    def kernel(self, names: RefNames, wait_lines: WaitLines, begins_together: bool) -> None:
        """A device begins a kernel; `begins_together`: libtpu makes the devices begin together."""
        with self._lock:
            self._next = names, wait_lines, begins_together
            if not self._ended:  # otherwise others may still be in the last one
                self._names, self._wait_lines, self._begins_together = self._next

    def _happens(self, device: int) -> None:
        self._latest = time.monotonic()
        if device in self._ended:  # the next kernel: no device acts in it before all have ended
            self._finish_kernel()
            self._names, self._wait_lines, self._begins_together = self._next

    def _finish_kernel(self) -> None:
        exchange = self._exchange
        exchange.complete = len(self._ended) == self._devices
        if any(copy.remote for copy in exchange.copies()) or not exchange.complete:
            judges = (left_over, unordered)
            for judge in judges if self._begins_together else (unbegun, *judges):
                for wrong in judge(exchange, FIRST_SEMAPHORE):
                    self._note(fault_of(wrong, exchange, self._named, self._names, self._axes))
            if axis := only_axis(exchange, self._axes):
                self._note(DeviceFault(DeviceHazard.ONE_AXIS, 0, why=axis, mesh=self._axes))
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

    def _place(self, source_info: Any) -> SourceLine | None:
        if source_info is None:
            return None
        if id(source_info) not in self._lines:
            self._lines[id(source_info)] = source_info, source_line(source_info, self._source)
        return self._lines[id(source_info)][1]

    def _note(self, fault: DeviceFault) -> None:
        if not any(fault.hazard is seen.hazard for seen in self.faults):
            self.faults.append(fault)

    def _reaches(self, device: int, other: int, line: SourceLine | None) -> None:
        """Raises NoSuchDevice."""
        if 0 <= other < self._devices:
            return
        axis, wrong = "", other
        if other >= OUTSIDE:
            number, wrong = divmod(other - OUTSIDE, PER_AXIS)
            axis, wrong = self._axes[number][0], wrong - PER_AXIS // 2
        self._note(
            DeviceFault(
                DeviceHazard.NO_SUCH_DEVICE,
                device,
                wrong,
                self._devices,
                line=line,
                why=axis,
                mesh=self._axes,
            )
        )
        raise NoSuchDevice(f"device {device} names device {wrong} of {self._devices}")

    def _within(self, device: int, other: int, area: Area, line: SourceLine | None) -> None:
        if area.part.outside:
            part, shape = self._names.part(area.part), " ".join(map(str, area.part.shape))
            self._note(
                DeviceFault(
                    DeviceHazard.OUTSIDE,
                    device,
                    other,
                    self._devices,
                    line=line,
                    part=part,
                    why=shape,
                )
            )

    # ---- called before the interpreter's callbacks ----

    def starts(
        self, core: Core, source: Area, target: Area, came: int, left: int | None,
        other: int | None, size: int, source_info: Any,
    ) -> None:  # fmt: skip
        """A copy starts. `target` is an area of this device's until its owner is known."""
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
                DeviceCopy(core, at, source, to, (there, came), sending, size, line)
            )  # fmt: skip

    def signals(
        self, device: Any, local: Any, semaphore: Any, count: Any, other: Any,
        *_: Any, source_info: Any = None,
    ) -> None:  # fmt: skip
        """A semaphore is signalled, here or on another device."""
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
        """A core reads or writes its own memory."""
        with self._lock:
            self._happens(core[0])
            at = self._exchange.at(core)
            self._exchange.touches[
                DeviceAccess(core, at, area, writes, self._place(source_info))
            ] = None

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

    def _source_line(self, semaphore: str) -> SourceLine | None:
        """jax 0.10 doesn't say on which line a wait is."""
        return self._wait_lines.of(semaphore, self._source)

    def has_waited(self, device: Any, local: Any, *_: Any, **__: Any) -> None:
        """The core's wait has ended."""
        with self._lock:
            self._latest = time.monotonic()
            self._waiting.pop((int(device), int(local)), None)

    def ends(self, device: Any, *_: Any, **__: Any) -> None:
        """A device's kernel ends."""
        with self._lock:
            self._latest = time.monotonic()
            self._ended.add(int(device))

    def demand_progress(self) -> None:
        """Raises Deadlock; waiting cores call it repeatedly."""
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
                    DeviceHazard.DEADLOCK,
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
        """A semaphore isn't zero at the end of a kernel."""
        name, count = self._named(over.semaphore), over.count
        fault = DeviceFault(
            DeviceHazard.LEFT_OVER, over.device, devices=self._devices, semaphore=name, count=count
        )
        self._note(fault)


@contextlib.contextmanager
def watching_devices(device_log: DeviceFaultLog) -> Iterator[None]:
    """Record the devices' actions in kernels that run in this context, within `running`.

    If jax keeps the interpreter elsewhere, nothing is recorded.
    """
    try:
        from pallascope.kernels.jax_internals import SharedMemory
        from pallascope.kernels.jax_internals import tpu_interpreter as interpreter
        from pallascope.kernels.jax_internals import tpu_interpreter_utils as utils
    except UnsupportedJax:
        yield
        return
    watch = _Watch(interpreter, utils, device_log)
    by = {
        "dma_start": watch.around("dma_start", watch.starts),
        "semaphore_signal": watch.around("semaphore_signal", device_log.signals),
        "_validate": watch.around("_validate", device_log.ends),
        "interpret_pallas_call": watch.naming(),
        "get": watch.around("get", functools.partial(watch.touches, False)),
        "store": watch.around("store", functools.partial(watch.touches, True)),
        "swap": watch.around("swap", functools.partial(watch.touches, True)),
    }
    for name in ("dma_wait", "semaphore_wait"):
        by[name] = watch.around(name, device_log.begins_to_wait, device_log.has_waited)
    checked = SharedMemory.check_failed

    def check_failed(memory: Any) -> None:
        checked(memory)
        device_log.demand_progress()

    with contextlib.ExitStack() as stack:
        for name, value in by.items():
            _replaced(stack, interpreter, name, value)
        of_coordinates = "device_coords_to_logical_id"
        _replaced(stack, utils, of_coordinates, within_axes(getattr(utils, of_coordinates)))
        stack.callback(device_log.finish)
        _replaced(stack, SharedMemory, "check_failed", check_failed)
        yield


def _replaced(stack: contextlib.ExitStack, of: Any, name: str, by: object) -> None:
    """Replace an attribute, which may be inherited, until the end of the context."""
    if name in vars(of):
        stack.callback(setattr, of, name, vars(of)[name])
    else:
        stack.callback(delattr, of, name)
    setattr(of, name, by)


def within_axes(usual: Callable[..., Any]) -> Callable[..., Any]:
    """Keep a number invalid that an axis doesn't have; jax would turn it into another device."""

    @functools.wraps(usual)
    def logical(coordinates: Any, axis_sizes: Any, axis_indices: Any, **others: Any) -> Any:
        result = usual(coordinates, axis_sizes, axis_indices, **others)
        if len(axis_sizes) < 2:
            return result
        device = result[0] if isinstance(result, tuple) else result
        for number, (name, size) in enumerate(axis_sizes.items()):
            if isinstance(coordinates, dict):
                at = coordinates.get(name, coordinates.get((name,), axis_indices[name]))
            else:
                at = coordinates[number]
            wrong = OUTSIDE + number * PER_AXIS + PER_AXIS // 2 + at
            device = jnp.where((at >= 0) & (at < size), device, wrong)
        return (device, *result[1:]) if isinstance(result, tuple) else device

    return logical


class _Watch:
    def __init__(self, interpreter: Any, utils: Any, device_log: DeviceFaultLog) -> None:
        self._interpreter, self._utils, self._device_log = interpreter, utils, device_log
        self._communicates = dict[int, bool]()  # the kernel that each device runs

    def around(
        self, name: str, before: Callable[..., None], after: Callable[..., None] | None = None
    ) -> Callable[..., Any]:
        usual = getattr(self._interpreter, name)

        def called(token: Any, *args: Any, **params: Any) -> Any:
            """Calls by jax's own copies have no token, and no device that would fail with them."""
            before(*args, **params)
            result = (usual if token is not None else usual.__wrapped__)(token, *args, **params)
            if after:
                after(*args, **params)
            return result

        return self._interpreter.fail_on_exception(functools.wraps(usual)(called))

    def naming(self) -> Callable[..., Any]:
        usual = self._interpreter.interpret_pallas_call

        @functools.wraps(usual)  # jax uses its name if it fails
        def interpreted(*args: Any, jaxpr: Any, grid_mapping: Any, **others: Any) -> Any:
            aliases = others.get("input_output_aliases", ())
            names = RefNames.of(jaxpr, grid_mapping, aliases)
            used = set(primitives(jaxpr))
            communicates = not used.isdisjoint({"dma_start", "semaphore_signal"})
            asked = getattr(others.get("compiler_params"), "collective_id", None)
            together = asked is None and "get_barrier_semaphore" not in used
            lines = WaitLines.in_kernel(jaxpr, BARRIER)

            def begins(device: int) -> None:
                self._communicates[device] = communicates
                self._device_log.kernel(names, lines, together)

            with at_the_beginning(self._interpreter, begins):
                return usual(*args, jaxpr=jaxpr, grid_mapping=grid_mapping, **others)

        return interpreted

    def starts(
        self, device: Any, local: Any, from_space: Any, from_id: Any, from_part: Any,
        to_space: Any, to_id: Any, to_part: Any, came: Any, left: Any, other: Any,
        *_: Any, source_info: Any = None, **__: Any,
    ) -> None:  # fmt: skip
        """A copy starts, on jax 0.12 to a core of the other device."""
        core = int(device), int(local)
        source, item = self._area(core, from_space, from_id, from_part)
        target, _item = self._area(core, to_space, to_id, to_part)
        sending, there = (None if one is None else int(one) for one in (left, other))
        size = source.part.elements * item
        self._device_log.starts(core, source, target, int(came), sending, there, size, source_info)

    def touches(
        self, writes: bool, device: Any, local: Any, space: Any, buffer: Any, transforms: Any,
        *_: Any, src_device_id: Any = None, source_info: Any = None, **__: Any,
    ) -> None:  # fmt: skip
        """A core of the device, not a copy, reads or writes memory."""
        if src_device_id is not None or not self._communicates.get(int(device)):
            return
        core = int(device), int(local)
        area = self._area(core, space, buffer, transforms)[0]
        self._device_log.touches(core, area, writes, source_info)

    def _area(
        self, core: tuple[int, int], space: Any, buffer: Any, transforms: Any
    ) -> tuple[Area, int]:
        """A part of a buffer, and the bytes of an element."""
        name = self._interpreter.TPU_MEMORY_SPACE_NAMES[int(space)]
        owner = core[0], 0 if name in IN_HBM else core[1]
        kept: Any = self._interpreter._get_shared_memory().mem[(name, int(buffer), *owner)]
        shape = tuple(kept.logical_shape)
        within = self._utils.to_range(jax.tree.map(int, transforms))
        part = BufferPart(int(buffer), span_of(within, shape), shape)
        return Area(owner, part), math.ceil(kept.dtype.itemsize)
