"""A stand-in for a TPU, on the CPU: it really compiles and runs launches, and invents the times.

`main` is that of a process of `LocalTpu`. The environment chooses the stand-in: STAND_IN_TPU is
"profiler" (the default), "wall" without events of a profiler, or "none" without a TPU.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pallascope.tpu import measure
from pallascope.tpu.measure import MODULES, OPERATIONS, DeviceEvent, Run

if TYPE_CHECKING:  # jax reads JAX_PLATFORMS when it is imported
    from pallascope.kernels import TracedLaunch

#: Seconds of the first call of a kernel; each later one takes STEP more.
KERNEL, STEP = 10e-6, 1e-6
#: Wall times of a launch and of an empty call.
WALL, EMPTY = 150e-6, 100e-6
KIND = "TPU v5 lite"


def kernel_events(repetitions: int, each: int = 1) -> list[DeviceEvent]:
    """The events of a launch of `each` kernels, with a copy before each kernel."""
    found: list[DeviceEvent] = []
    for number in range(repetitions):
        start = 1e6 * number
        found.append(DeviceEvent(MODULES, start, 1e-3))
        for kernel in range(each):
            found.append(DeviceEvent(OPERATIONS, start + 10 * kernel, 5e-6))
            seconds = KERNEL + STEP * number
            found.append(DeviceEvent(OPERATIONS, start + 10 * kernel + 5, seconds, True))
    return found


class StandInTpu:
    """Runs launches in Pallas's plain interpreter.

    It refuses those that compute a hyperbolic sine; those of a hyperbolic cosine end the process.
    """

    kind = KIND

    def __init__(
        self, events: Callable[[int], Sequence[DeviceEvent]] = kernel_events, wall: float = WALL
    ) -> None:
        self._events, self._wall = events, wall
        self.results: list[Any] = []
        self._empty: Run = lambda: None

    def compiled(self, launch: TracedLaunch, arrays: Sequence[Any]) -> Run:
        if " cosh " in str(launch.closed):
            os._exit(3)
        if " sinh " in str(launch.closed):
            raise RuntimeError("RESOURCE_EXHAUSTED: Ran out of memory in memory space vmem.\nMore.")
        run = launch.compiled(arrays, True)

        def called() -> None:
            self.results = run(arrays)

        return called

    def empty(self) -> Run:
        return self._empty

    def clocked(self, run: Run) -> float:
        run()
        return EMPTY if run is self._empty else self._wall

    def profiled(self, run: Run, repetitions: int) -> Sequence[DeviceEvent]:
        for _ in range(repetitions):
            run()
        return self._events(repetitions)


def _chosen() -> StandInTpu:
    how = os.environ.get("STAND_IN_TPU", "profiler")
    if how == "none":
        raise RuntimeError("Unable to initialize backend 'tpu': none (set JAX_PLATFORMS='' to …)")
    return StandInTpu(kernel_events if how == "profiler" else lambda _: ())


def main() -> None:
    """Serve a parent as `measure.main` does, on the CPU."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    measure.main(_chosen)
