"""Measures launches on the TPU of this machine, and shows the times next to the predicted ones.

A child process uses the TPU (`LocalTpu`, `main`): jax uses the TPU from one process at a time, and
a faulty kernel may end that process. It gets a launch as the bytes of its trace, never as code.

Times come from the TPU's events in a trace of jax's profiler. If the profiler records none, they
are wall times of single calls, less that of an empty call. The authors have no TPU: only tests
with a stand-in for it have run this module.
"""

from __future__ import annotations

import datetime
import enum
import json
import os
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pallascope.model import Array
from pallascope.tools import codec
from pallascope.tools.child_process import ChildEnded, ChildProcess, ChildTimeout, ParentConnection
from pallascope.tools.text import format_time, format_times
from pallascope.tools.versions import versions
from pallascope.tpu.chips import CHIPS, Chip
from pallascope.tpu.launch_screen import Side

if TYPE_CHECKING:
    from pallascope.kernels import TracedLaunch

#: Calls that aren't counted, and the most and the fewest that are.
WARM_UP, MOST, FEWEST = 3, 50, 5
BUDGET = 10.0  # seconds for all counted calls of one launch
#: Seconds to start the process, and to compile and measure one launch.
START_SECONDS, LAUNCH_SECONDS = 120.0, 300.0


class Method(enum.Enum):
    """The source of measured times."""

    KERNELS = "the kernels' events in the profiler's trace"
    PROGRAM = "the whole program's events in the profiler's trace"
    WALL = "wall time of one call, less that of an empty call"

    @property
    def short(self) -> str:
        """ "profiler" or "wall"."""
        return "wall" if self is Method.WALL else "profiler"


@dataclass(frozen=True, slots=True)
class MeasureQuestion:
    """Measure the launch in `trace`. Each input repeats the values of its array in `contents`."""

    trace: bytes
    contents: tuple[Array, ...]


@dataclass(frozen=True, slots=True)
class MeasuredTimes:
    """The `seconds` of each repetition. `empty` is the time of an empty call, for wall times."""

    seconds: tuple[float, ...]
    method: Method
    empty: float = 0.0

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def quartiles(self) -> tuple[float, float]:
        """The first and the third."""
        first, _, third = statistics.quantiles(self.seconds, n=4, method="inclusive")
        return first, third


@dataclass(frozen=True, slots=True)
class MeasureFailure:
    """The launch wasn't measured; `message` has the reason in one line."""

    message: str


@dataclass(frozen=True, slots=True)
class TpuFound:
    """The TPU, as jax's `device_kind`; or `why_not`."""

    kind: str = ""
    why_not: str = ""


# ---- in the process that uses the TPU ----

#: Calls a compiled launch once, and waits for its results.
Run = Callable[[], object]


@dataclass(frozen=True, slots=True)
class DeviceEvent:
    """An event in a line of the TPU's plane. `kernel`: it is the run of a Pallas kernel."""

    line: str
    start: float  # ns
    seconds: float
    kernel: bool = False


class TimedDevice(Protocol):
    """A device that launches are measured on. Tests have a stand-in."""

    @property
    def kind(self) -> str:
        """jax's `device_kind`."""
        ...

    def compiled(self, launch: TracedLaunch, arrays: Sequence[Any]) -> Run:
        """The launch, compiled for the device, with its inputs there."""
        ...

    def empty(self) -> Run:
        """A program that does next to nothing."""
        ...

    def clocked(self, run: Run) -> float:
        """The wall time of one call, in seconds."""
        ...

    def profiled(self, run: Run, repetitions: int) -> Sequence[DeviceEvent]:
        """The device's events during that many calls; none if the profiler records none."""
        ...


class JaxTpu:
    """The first TPU that jax finds. Raises RuntimeError if it finds none."""

    def __init__(self) -> None:
        import jax

        self._device = jax.devices("tpu")[0]

    @property
    def kind(self) -> str:
        return self._device.device_kind

    def compiled(self, launch: TracedLaunch, arrays: Sequence[Any]) -> Run:
        return self._run(launch.function(), arrays)

    def empty(self) -> Run:
        import numpy as np

        return self._run(lambda x: x + 1, [np.zeros(1, np.float32)])

    def _run(self, function: Callable[..., object], arrays: Sequence[Any]) -> Run:
        import jax

        placed = [jax.device_put(array, self._device) for array in arrays]
        # Without arguments, only out_shardings names the device.
        sharding = jax.sharding.SingleDeviceSharding(self._device)
        compiled = jax.jit(function, out_shardings=sharding).lower(*placed).compile()
        return lambda: jax.block_until_ready(compiled(*placed))

    def clocked(self, run: Run) -> float:
        begun = time.perf_counter()
        run()
        return time.perf_counter() - begun

    def profiled(self, run: Run, repetitions: int) -> Sequence[DeviceEvent]:
        import jax

        with tempfile.TemporaryDirectory() as folder:
            try:
                with jax.profiler.trace(folder):
                    for _ in range(repetitions):
                        run()
            except RuntimeError:  # the profiler's; a kernel's would have come in the warm-up
                return ()
            return events_below(Path(folder))


PLANE = re.compile(r"/device:TPU:\d+")
OPERATIONS, MODULES = "XLA Ops", "XLA Modules"
#: XLA's name for a Pallas kernel's instruction, in the event's name or in one of its statistics.
_KERNEL = re.compile(r"tpu_custom_call|\bcustom-call\b")


def events_below(folder: Path) -> tuple[DeviceEvent, ...]:
    """The TPU's events in the traces that jax's profiler has written below a folder."""
    import jax

    files = sorted(folder.rglob("*.xplane.pb"))
    profiles = [jax.profiler.ProfileData.from_file(str(file)) for file in files]
    return tuple(event for profile in profiles for event in _events(profile))


def _events(profile: Any) -> Iterator[DeviceEvent]:
    for plane in profile.planes:
        for line in plane.lines if PLANE.fullmatch(plane.name) else ():
            for event in line.events if line.name in (OPERATIONS, MODULES) else ():
                texts = (event.name, *(value for _, value in event.stats if isinstance(value, str)))
                kernel = any(map(_KERNEL.search, texts))
                yield DeviceEvent(line.name, event.start_ns, event.duration_ns / 1e9, kernel)


def measured(question: MeasureQuestion, device: TimedDevice) -> MeasuredTimes:
    """Measure a launch. Propagates the exceptions of reading, compiling and running it."""
    import numpy as np

    from pallascope.kernels import TracedLaunch
    from pallascope.tools.arrays import to_numpy

    launch = TracedLaunch.carried(question.trace)
    pairs = zip(question.contents, launch.closed.in_avals, strict=True)
    run = device.compiled(launch, [np.resize(to_numpy(own), aval.shape) for own, aval in pairs])
    for _ in range(WARM_UP):
        run()
    once = device.clocked(run)
    repetitions = int(min(max(BUDGET / once, FEWEST), MOST)) if once > 0 else MOST
    if found := event_times(device.profiled(run, repetitions), repetitions):
        return found
    nothing = device.empty()
    for _ in range(WARM_UP):
        nothing()
    empty = statistics.median(device.clocked(nothing) for _ in range(repetitions))
    walls = [device.clocked(run) for _ in range(repetitions)]
    return MeasuredTimes(tuple(max(wall - empty, 0.0) for wall in walls), Method.WALL, empty)


def event_times(events: Iterable[DeviceEvent], repetitions: int) -> MeasuredTimes | None:
    """The time of each repetition: of its kernels together, or else of its whole program.

    None if no events are equally many in each repetition.
    """
    ordered = sorted(events, key=lambda event: event.start)
    kernels = [event for event in ordered if event.line == OPERATIONS and event.kernel]
    programs = [event for event in ordered if event.line == MODULES]
    for method, own in ((Method.KERNELS, kernels), (Method.PROGRAM, programs)):
        each, rest = divmod(len(own), repetitions)
        if each and not rest:
            groups = (own[start : start + each] for start in range(0, len(own), each))
            return MeasuredTimes(tuple(sum(e.seconds for e in group) for group in groups), method)
    return None


def main(device: Callable[[], TimedDevice] = JaxTpu) -> None:
    """Tell the parent the TPU's kind, then measure launches until the parent ends."""
    parent = ParentConnection()
    try:
        found = device()
    except RuntimeError as error:
        parent.send(codec.pack(TpuFound(why_not=_first_line(error))))
        parent.receive()  # never returns: the parent ends this process
        return
    parent.send(codec.pack(TpuFound(found.kind)))
    while True:
        question = codec.unpack(MeasureQuestion, parent.receive())
        try:
            answer = measured(question, found)
        except Exception as error:
            answer = MeasureFailure(f"{type(error).__name__}: {_first_line(error)}")
        parent.send(codec.pack(answer))


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or ["without a message"])[0][:500]


# ---- in the process of the command ----


class NoTpu(ValueError):
    """jax can't use a TPU on this machine; the message is jax's reason."""


class LocalTpu:
    """The TPU of this machine, in a child process that runs `main` of `module`.

    If a launch ends the process or takes too long, the next launch gets a new process.
    """

    def __init__(self, module: str = __name__) -> None:
        self._module = module
        self._child: ChildProcess | None = None
        self._kind = ""

    @property
    def kind(self) -> str:
        """jax's `device_kind`. Raises NoTpu."""
        self._started()
        return self._kind

    def measure(self, trace: bytes, contents: Sequence[Array]) -> MeasuredTimes | MeasureFailure:
        """Measure a launch, given as in `MeasureQuestion`. Raises NoTpu."""
        child = self._started()
        child.send(MeasureQuestion(trace, tuple(contents)))
        try:
            return child.answer(MeasuredTimes | MeasureFailure, LAUNCH_SECONDS)
        except (ChildEnded, ChildTimeout) as error:
            self._child = None
            return MeasureFailure(f"while it was measured on the TPU: {error}")

    def _started(self) -> ChildProcess:
        if self._child is not None:
            return self._child
        # The TPU is requested by name, so that jax gives the reason if it can't be used.
        environ = {**os.environ, "JAX_PLATFORMS": "tpu,cpu", "TF_CPP_MIN_LOG_LEVEL": "3"}
        child = ChildProcess.running(self._module, environ)
        try:
            found = child.answer(TpuFound, START_SECONDS)
        except (ChildEnded, ChildTimeout) as error:
            found = TpuFound(why_not=str(error))
        if found.why_not:
            child.close()
            raise NoTpu(found.why_not.partition(" (set JAX_PLATFORMS")[0])
        self._child, self._kind = child, found.kind
        return child

    def close(self) -> None:
        """End the process, so that others can use the TPU."""
        if self._child is not None:
            self._child.close()
            self._child = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def chip_of_kind(kind: str) -> Chip:
    """The chip that jax calls `kind`. Raises ValueError for one that can't be predicted."""
    for chip in CHIPS.values():
        if kind in (chip.kind, f"TPU {chip.name}"):
            return chip
    raise ValueError(f"this machine has a {kind}; times are predicted for {', '.join(CHIPS)} only")


# ---- the result ----


@dataclass(frozen=True, slots=True)
class MeasuredSide:
    """One launch: its measured times, or the `trouble`; and its predicted time in seconds.

    The predicted time is None if it is unknown; `least`: it is only a lower bound. `todo`: the
    launch is still to be written.
    """

    title: str
    times: MeasuredTimes | None = None
    predicted: float | None = None
    least: bool = False
    trouble: str = ""
    todo: bool = False

    @classmethod
    def of(cls, side: Side, found: MeasuredTimes | MeasureFailure) -> Self:
        """A side with a predicted time, and the result of measuring it."""
        if isinstance(found, MeasureFailure):
            return cls(side.title, None, side.seconds, side.least, found.message)
        return cls(side.title, found, side.seconds, side.least)


@dataclass(frozen=True, slots=True)
class MeasuredLaunch:
    """The sides of one function, with the same arguments, on a TPU that jax calls `kind`.

    `note` is the last line on the screen.
    """

    name: str
    arguments: str
    kind: str
    sides: tuple[MeasuredSide, ...]
    note: str = ""

    def rows(self, date: datetime.date) -> Iterator[dict[str, Any]]:
        """A row for each side that was measured, as builtins; times in seconds."""
        installed = versions()
        for side in self.sides:
            if side.times:
                yield {
                    "function": self.name,
                    "arguments": self.arguments,
                    "side": side.title,
                    "median_seconds": side.times.median,
                    "seconds": list(side.times.seconds),
                    "method": side.times.method.short,
                    "events": side.times.method.name.lower(),
                    "predicted_seconds": side.predicted,
                    "device_kind": self.kind,
                    "jax": installed["jax"],
                    "libtpu": installed["libtpu"],
                    "date": date.isoformat(),
                }


def append_rows(file: Path, launch: MeasuredLaunch) -> None:
    """Append a launch's rows to a file, as JSON lines. Raises OSError."""
    rows = launch.rows(datetime.date.today())
    with file.open("a", encoding="utf-8") as opened:
        opened.writelines(f"{json.dumps(row)}\n" for row in rows)


def measured_screen(launch: MeasuredLaunch) -> RenderableType:
    """The measured times next to the predicted ones, and the method; then each side's trouble."""
    head = Text.assemble(
        (launch.name, "bold"), f" measured on a {launch.kind}\n", (f"{launch.arguments}\n", "dim")
    )
    parts: list[RenderableType] = [head]
    if timed := [(side, side.times) for side in launch.sides if side.times]:
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_edge=False)
        table.add_column("", style="dim")
        for side, _ in timed:
            table.add_column(side.title, justify="right")
        columns = [_column(side, times) for side, times in timed]
        for cells in zip(_LABELS, *columns, strict=True):
            table.add_row(*cells)
        parts += [table, Text()]
    for side in launch.sides:
        if side.trouble:
            parts += [Text.assemble((f"{side.title}: ", "bold"), side.trouble), Text()]
    for method in dict.fromkeys(times.method for _, times in timed):
        empty = ", ".join(format_time(t.empty) for _, t in timed if t.method is method and t.empty)
        parts.append(Text(f"{method.short}: {method.value}{empty and f' ({empty})'}", "dim"))
    return Group(*parts, *([Text(launch.note, "dim")] if launch.note else []))


_LABELS = (
    *("measured (median)", "quartiles", "lowest to highest", "repetitions", "method"),
    *("predicted", "predicted / measured"),
)


def _column(side: MeasuredSide, times: MeasuredTimes) -> tuple[str, ...]:
    """The cells of one side, as in _LABELS."""
    known = side.predicted
    return (
        format_time(times.median),
        format_times(*times.quartiles),
        format_times(min(times.seconds), max(times.seconds)),
        str(len(times.seconds)),
        times.method.short,
        f"{'≥ ' * side.least}{format_time(known)}" if known else "–",
        f"{'≥ ' * side.least}{known / times.median:.2f}×" if known and times.median else "–",
    )


def contents_of(case_arrays: Iterable[Any]) -> tuple[Array, ...]:
    """Contents for arguments given as arrays or `jax.ShapeDtypeStruct`s.

    Those without contents repeat normally distributed numbers, or hold zeros if they are integers:
    other integers may be indices out of bounds.
    """
    import numpy as np

    from pallascope.tools.arrays import PERIOD, from_numpy

    random = np.random.default_rng(0)

    def contents(given: Any) -> Array:
        if not hasattr(given, "sharding"):  # not a ShapeDtypeStruct
            return from_numpy(given)
        dtype = np.dtype(given.dtype)
        drawn = random.standard_normal(PERIOD) if "float" in dtype.name else np.zeros(1)
        return from_numpy(drawn.astype(dtype))

    return tuple(map(contents, case_arrays))
