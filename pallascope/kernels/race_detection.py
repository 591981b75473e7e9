"""Reads races and leftover semaphores from the interpreter's state.

jax 0.10 prints them, where a kata can swallow them; jax 0.12 prints the semaphores and raises for
a race. The interpreter keeps its state for only one kernel at a time, so they are recorded when
they are found.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

from pallascope.kernels.jax_internals import UnsupportedJax
from pallascope.kernels.refs import RefNames
from pallascope.model import Access, LeftOver, Race

#: An access in the interpreter's record: core and device, then clock, range and line.
_Entry = tuple[Any, ...]


class RaceWatch:
    """The findings so far, in order."""

    def __init__(self) -> None:
        self.races: list[Race] = []
        self.left_over: list[LeftOver] = []
        self.kernels = 0  # number of kernels that have begun
        self.copies = dict[int, tuple[int, int]]()  # the device and core that started each
        self.names = RefNames()  # of the kernel that runs

    @property
    def complaints(self) -> tuple[str, ...]:
        """All of them in the interpreter's words, races first."""
        return (*map(str, self.races), *map(str, self.left_over))


@contextlib.contextmanager
def watching() -> Iterator[RaceWatch]:
    """Record races and leftover semaphores of kernels that run in this context, within `running`.

    The interpreter then doesn't report them itself, except that jax 0.12 still raises for a race.
    Raises UnsupportedJax.
    """
    from pallascope.kernels.jax_internals import (
        SharedMemory,
        race_detection_state,
        ranges_overlap,
        tpu_interpreter,
    )

    try:
        detector = race_detection_state.RaceDetectionState
        leftovers = SharedMemory.get_sempahores_with_nonzero_count
        copies = tpu_interpreter.DMA
    except AttributeError as error:
        raise UnsupportedJax(f"the TPU interpreter's state ({error})") from None
    watch = RaceWatch()
    replaced = (
        (tpu_interpreter, "RaceDetectionState", _noting_races(watch, detector)),
        (tpu_interpreter, "DMA", _noting_copies(watch, copies)),
        (tpu_interpreter, "interpret_pallas_call", _noting_names(watch, tpu_interpreter)),
        (race_detection_state, "print", _silent),
        (race_detection_state, "_ranges_overlap", functools.partial(_of_elements, ranges_overlap)),
        (SharedMemory, "get_sempahores_with_nonzero_count", _noting_left_over(watch, leftovers)),
    )
    with contextlib.ExitStack() as stack:
        for of, name, by in replaced:
            stack.enter_context(_replaced(of, name, by))
        yield watch


def _silent(*_: object, **__: object) -> None:
    """Say nothing."""


def _noting_races(watch: RaceWatch, detector: Any) -> type:
    """A race detector that records unordered accesses in `watch`; one for each kernel."""

    reading = inspect.signature(detector.check_read)
    writing = inspect.signature(detector.check_write)

    class Noting(detector):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._kernel = watch.kernels
            watch.kernels += 1

        def check_read(self, *args: Any, **kwargs: Any) -> None:
            try:
                super().check_read(*args, **kwargs)
            finally:
                self._note("read", reading.bind(self, *args, **kwargs).arguments)

        def check_write(self, *args: Any, **kwargs: Any) -> None:
            try:
                super().check_write(*args, **kwargs)
            finally:
                self._note("write", writing.bind(self, *args, **kwargs).arguments)

        def _note(self, kind: str, arguments: Mapping[str, Any]) -> None:
            """Find the latest access with this clock, and those that it races with."""
            clock, buffer = arguments["clock"], arguments["buffer_key"]
            with self.lock:
                reads, writes = list(self.reads[buffer]), list(self.writes[buffer])
            of_kind = reads if kind == "read" else writes
            at = next((n for n in range(len(of_kind))[::-1] if of_kind[n][-3] is clock), None)
            if at is None:
                return
            before = writes if kind == "read" else writes[:at]
            others = [("write", entry) for entry in before]
            others += [("read", entry) for entry in (reads if kind == "write" else ())]
            for other_kind, other in others:
                if _unordered(of_kind[at], other):
                    mine = _access(kind, of_kind[at], watch.copies)
                    theirs = _access(other_kind, other, watch.copies)
                    name = watch.names.buffers.get(int(buffer[1]), "")
                    watch.races.append(Race(self._kernel, str(buffer), (mine, theirs), name))
                    return

    return Noting


def _unordered(one: _Entry, other: _Entry) -> bool:
    """Whether two accesses overlap, and nothing orders them."""
    from pallascope.kernels.jax_internals import ranges_overlap, vector_clock

    first, second = other[-3], one[-3]
    compare: Any = getattr(first, "ordered", None)
    ordered = compare(second) if compare else vector_clock.ordered(first, second)
    return not ordered and _of_elements(ranges_overlap, one[-2], other[-2])


def _of_elements(usual: Callable[..., bool], one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Whether two parts of a buffer overlap; jax lets a part of no elements do so."""
    slices = [each for each in (*one, *other) if isinstance(each, slice)]
    if any(each.start == each.stop for each in slices if each.start is not None):
        return False
    return usual(one, other)


def _noting_names(watch: RaceWatch, interpreter: Any) -> Callable[..., Any]:
    """Record the names of a kernel's buffers when it begins to run."""
    usual = interpreter.interpret_pallas_call

    @functools.wraps(usual)  # jax uses its name if it fails
    def interpreted(*args: Any, jaxpr: Any, grid_mapping: Any, **others: Any) -> Any:
        names = RefNames.of(jaxpr, grid_mapping, others.get("input_output_aliases", ()))

        def begins(_: int) -> None:
            watch.names = names

        with at_the_beginning(interpreter, begins):
            return usual(*args, jaxpr=jaxpr, grid_mapping=grid_mapping, **others)

    return interpreted


@contextlib.contextmanager
def at_the_beginning(interpreter: Any, action: Callable[[int], None]) -> Iterator[None]:
    """Call this with a device's number when it begins a kernel that is translated in this context.

    All kernels of a launch are translated before the first one runs. If jax keeps the function
    elsewhere, it is called now.
    """
    usual = getattr(interpreter, "_initialize_shared_memory", None)
    if usual is None:
        action(0)
        yield
        return

    @functools.wraps(usual)
    def begun(token: Any, device: Any, *args: Any, **others: Any) -> Any:
        action(int(device))
        return usual(token, device, *args, **others)

    with _replaced(interpreter, "_initialize_shared_memory", begun):
        yield


def _noting_copies(watch: RaceWatch, usual: Callable[..., Any]) -> Callable[..., Any]:
    """Record copies: the interpreter's copies read and write under their own numbers."""

    def started(number: int, device: int, core: int, *args: Any, **kwargs: Any) -> Any:
        watch.copies[number] = device, core
        return usual(number, device, core, *args, **kwargs)

    return started


def _access(kind: str, entry: _Entry, copies: Mapping[int, tuple[int, int]]) -> Access:
    """A recorded access; for a copy, the interpreter only has its number."""
    by = ", ".join(map(str, entry[:-3]))
    (number, *_) = map(int, re.findall(r"\d+", by) or ["-1"])
    if started := copies.get(number):
        by = f"a copy by {started[0]}, {started[1]}"
    return Access(kind, str(entry[-2]), by, str(entry[-1] or ""))


def _noting_left_over(
    watch: RaceWatch, usual: Callable[..., Sequence[tuple[Any, int]]]
) -> Callable[..., Sequence[tuple[Any, int]]]:
    """Answers the interpreter's question at a kernel's end: there are no leftover semaphores."""

    def asked(memory: Any, device: int) -> Sequence[tuple[Any, int]]:
        for semaphore, core in usual(memory, device):
            count = int(semaphore.count_by_core[core])
            kernel = max(watch.kernels - 1, 0)
            watch.left_over.append(
                LeftOver(kernel, int(semaphore.id), int(device), int(core), count)
            )
        return []

    return asked


@contextlib.contextmanager
def _replaced(of: ModuleType | type, name: str, by: object) -> Iterator[None]:
    """Replace an attribute, which may be missing, in this context."""
    missing = object()
    original = vars(of).get(name, missing)
    setattr(of, name, by)
    try:
        yield
    finally:
        if original is missing:
            delattr(of, name)
        else:
            setattr(of, name, original)
