"""Hooks of the interpreter that record manual DMA for dma_hazards: which kernels, Refs, accesses.

Only kernels whose bodies start copies are recorded; all others run without hooks.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import jax
import numpy as np
from jax.extend import core

from pallascope.kernels.dma_hazards import (
    MOST_FAULTS,
    BufferPart,
    Fault,
    Moment,
    OutstandingDma,
    OutstandingDmas,
    span_of,
)
from pallascope.kernels.jax_internals import UnsupportedJax
from pallascope.kernels.jaxprs import IN_HBM, primitives
from pallascope.kernels.refs import RefNames, scoped_names
from pallascope.kernels.source_lines import source_line
from pallascope.model import (
    DmaFault,
    LastWait,
    ManualCopy,
    SourceFile,
    SourceLine,
)


class CopyWatch:
    """The findings so far, in the order in which kernels ran."""

    def __init__(self, source: SourceFile | None = None) -> None:
        self.source = source
        self.faults: list[DmaFault] = []
        self.unfinished: list[Recorder] = []

    def finish(self) -> None:
        """Hand over the findings in kernels that didn't end."""
        for recorder in self.unfinished:
            recorder.finish()


class Recorder:
    """The record of one kernel from the interpreter's callbacks, for each of its runs."""

    def __init__(
        self,
        watch: CopyWatch,
        interpreter: Any,
        names: RefNames,
        scoped: dict[int, tuple[core.Jaxpr, tuple[str, ...]]],
        grid: tuple[Any, ...],
    ) -> None:
        self._many_steps = any(size != 1 for size in grid)
        self._watch = watch
        self._interpreter = interpreter
        self._static = names
        self._scoped = scoped
        self._lines: dict[int, tuple[Any, SourceLine | None]] = {}
        self._begin()

    def _begin(self) -> None:
        self._names = self._static.copy()
        self._cores: dict[tuple[int, int], OutstandingDmas] = {}
        self._steps: dict[int, tuple[int, ...]] = {}
        self._turns: dict[tuple[Any, ...], int] = {}

    def step(self, token: Any, point: Any, core_index: Any) -> Any:
        """A grid step begins."""
        if self._many_steps:
            self._steps[int(core_index)] = tuple(int(at) for at in np.ravel(point))
        return token

    def replacements(self) -> dict[str, Any]:
        """The replacements of the interpreter's functions while this kernel is traced."""
        before = {
            "dma_start": self._start,
            "dma_wait": self._wait,
            "get": functools.partial(self._access, OutstandingDmas.read),
            "store": functools.partial(self._access, OutstandingDmas.write),
            "swap": functools.partial(self._access, OutstandingDmas.write),
            "_deallocate_buffer": self._ceases,
            "_validate": self._end,
        }
        found: dict[str, Any] = {
            name: self._preceded(getattr(self._interpreter, name), by)
            for name, by in before.items()
        }
        found["_interpret_jaxpr"] = self._named(self._interpreter._interpret_jaxpr)
        return found

    def _preceded(self, usual: Any, by: Callable[..., None]) -> Callable[..., Any]:
        def called(token: Any, *args: Any, **params: Any) -> Any:
            by(*args, **params)
            # jax's own copies have no token: their calls must not report exceptions.
            return (usual if token is not None else usual.__wrapped__)(token, *args, **params)

        return self._interpreter.fail_on_exception(functools.wraps(usual)(called))

    def _named(self, usual: Callable[..., Any]) -> Callable[..., Any]:
        """Record the names of a run_scoped's buffers when they are allocated."""
        from pallascope.kernels.jax_internals import callback

        def interpreted(jaxpr: Any, *args: Any, ctx: Any, token: Any) -> Any:
            if found := self._scoped.get(id(jaxpr)):
                given = args[len(args) - len(found[1]) :]
                names = functools.partial(self._exist, jaxpr.invars, found[1])
                where = token, ctx.device_id, ctx.local_core_id
                token = callback.io_callback(
                    names, self._interpreter.TOKEN_SHAPE_DTYPE, *where, *given
                )
            return usual(jaxpr, *args, ctx=ctx, token=token)

        return interpreted

    def _exist(
        self,
        variables: Any,
        names: tuple[str, ...],
        token: Any,
        device: Any,
        local: Any,
        *ids: Any,
    ) -> Any:
        core = self._core(device, local)
        for variable, name, numbers in zip(variables, names, ids, strict=True):
            if self._names.add(variable, name, np.asarray(numbers)):
                core.holds_garbage(int(np.ravel(numbers)[0]), tuple(variable.aval.shape))
        return token

    def _core(self, device: Any, local: Any) -> OutstandingDmas:
        key = int(device), int(local)
        if key not in self._cores:
            core = self._cores[key] = OutstandingDmas()
            for buffer, shape in self._static.garbage.items():
                core.holds_garbage(buffer, shape)
        return self._cores[key]

    def _moment(
        self, doing: str, device: Any, local: Any, source_info: Any, buffer: int = 0
    ) -> Moment:
        line = self._line(source_info)
        key = (doing, int(device), int(local), id(source_info), buffer)
        self._turns[key] = self._turns.get(key, 0) + 1
        return Moment(line, self._steps.get(int(local), ()), self._turns[key])

    def _line(self, source_info: Any) -> SourceLine | None:
        if source_info is None or self._watch.source is None:
            return None
        if id(source_info) not in self._lines:
            line = source_line(source_info, self._watch.source)
            self._lines[id(source_info)] = source_info, line
        return self._lines[id(source_info)][1]

    def _space(self, number: Any) -> str:
        return self._interpreter.TPU_MEMORY_SPACE_NAMES[int(number)]

    def _allocated(self, device: Any, local: Any, space: Any, buffer: Any) -> Any:
        """The interpreter's entry for a buffer."""
        name = self._space(space)
        key = name, int(buffer), int(device), 0 if name in IN_HBM else int(local)
        return self._interpreter._get_shared_memory().mem[key]

    def _part(
        self, device: Any, local: Any, space: Any, buffer: Any, transforms: Any
    ) -> BufferPart:
        from pallascope.kernels.jax_internals import to_range

        shape = tuple(self._allocated(device, local, space, buffer).logical_shape)
        within = to_range(jax.tree.map(int, transforms))
        return BufferPart(int(buffer), span_of(within, shape), shape)

    def _start(
        self, device: Any, local: Any, from_space: Any, from_id: Any, from_part: Any,
        to_space: Any, to_id: Any, to_part: Any, semaphore: Any, sending: Any, other: Any,
        *more: Any, source_info: Any = None, **_: Any,
    ) -> None:  # fmt: skip
        core = self._core(device, local)
        if sending is not None or other is not None or any(one is not None for one in more):
            core.leave_alone()
        source = self._part(device, local, from_space, from_id, from_part)
        target = self._part(device, local, to_space, to_id, to_part)
        item = self._allocated(device, local, from_space, from_id).dtype.itemsize
        size = source.elements * int(item)
        moment = self._moment("start", device, local, source_info)
        core.start(OutstandingDma(source, target, int(semaphore), size, moment))

    def _wait(
        self, device: Any, local: Any, semaphore: Any, size: Any, source_info: Any = None
    ) -> None:
        moment = self._moment("wait", device, local, source_info)
        self._core(device, local).wait(int(semaphore), int(size), moment)

    def _access(
        self, doing: Any, device: Any, local: Any, space: Any, buffer: Any, transforms: Any,
        *_: Any, source_info: Any = None, **__: Any,
    ) -> None:  # fmt: skip
        if self._space(space) in IN_HBM:
            return
        part = self._part(device, local, space, buffer, transforms)
        moment = self._moment(doing.__name__, device, local, source_info, int(buffer))
        doing(self._core(device, local), part, moment)

    def _ceases(self, device: Any, local: Any, _space: Any, buffer: Any, **__: Any) -> None:
        self._core(device, local).end(int(buffer))

    def _end(self, device: Any, *_: Any, **__: Any) -> None:
        of = [key for key in self._cores if key[0] == int(device)]
        for key in of:
            self._cores[key].end()
        self._hand_over(of)

    def finish(self) -> None:
        """Hand over the findings in a kernel that didn't end."""
        self._hand_over(list(self._cores))

    def _hand_over(self, keys: Sequence[tuple[int, int]]) -> None:
        found = [fault for key in keys for fault in self._cores.pop(key).seen()]
        room = MOST_FAULTS - len(self._watch.faults)
        self._watch.faults.extend(map(self._told, found[: max(room, 0)]))
        if not self._cores:
            self._begin()

    def _told(self, fault: Fault) -> DmaFault:
        semaphore, last = fault.semaphore, fault.last_wait
        return DmaFault(
            fault.hazard,
            self._names.part(fault.part) if fault.part else "",
            fault.moment.line,
            fault.moment.step,
            fault.moment.turn,
            self._copy(fault.flight, fault.sharing) if fault.flight else None,
            self._copy(fault.another) if fault.another else None,
            "" if semaphore is None else self._names.semaphore(semaphore),
            fault.size,
            fault.coming,
            tuple(map(self._copy, fault.elsewhere[:4])),
            fault.number,
            fault.started,
            bool(fault.flight and fault.flight.replaces),
            self._last_wait(*last) if last else None,
            fault.part.shape if fault.part else (),
        )

    def _last_wait(self, semaphore: int, moment: Moment) -> LastWait:
        return LastWait(self._names.semaphore(semaphore), moment.line)

    def _copy(self, flight: OutstandingDma, sharing: int = 0) -> ManualCopy:
        return ManualCopy(
            flight.start.line,
            self._names.part(flight.source),
            self._names.part(flight.target),
            self._names.semaphore(flight.semaphore),
            flight.size,
            flight.start.step,
            flight.start.turn,
            sharing,
            flight.waits,
        )


def copies_by_hand(kernel: core.Jaxpr) -> bool:
    """Whether a kernel's body starts copies or waits for them, including JAX's own pipelines."""
    return not {"dma_start", "dma_wait"}.isdisjoint(primitives(kernel))


@contextlib.contextmanager
def watching_copies(watch: CopyWatch) -> Iterator[None]:
    """Record faults of the copies of kernels that run in this context.

    A wait that would never end raises. If jax keeps the interpreter elsewhere, nothing is recorded.
    """
    try:
        from pallascope.kernels.jax_internals import race_detection_state
        from pallascope.kernels.jax_internals import tpu_interpreter as interpreter

        usual = interpreter.interpret_pallas_call
        names = _CALLBACKS
        missing = [name for name in names if not hasattr(interpreter, name)]
    except (UnsupportedJax, AttributeError):
        yield
        return
    if missing:
        yield
        return

    @functools.wraps(usual)  # jax uses its name if it fails
    def interpreted(*args: Any, jaxpr: core.Jaxpr, grid_mapping: Any, **others: Any) -> Any:
        if not copies_by_hand(jaxpr):
            return usual(*args, jaxpr=jaxpr, grid_mapping=grid_mapping, **others)
        names = RefNames.of(jaxpr, grid_mapping, others.get("input_output_aliases", ()))
        recorder = Recorder(watch, interpreter, names, scoped_names(jaxpr), grid_mapping.grid)
        watch.unfinished.append(recorder)
        params = others.pop("interpret_params")
        told: dict[str, Any] = {"grid_point_recorder": recorder.step}
        if hasattr(params, "on_race"):
            told["on_race"] = "warn"
        others["interpret_params"] = dataclasses.replace(params, **told)
        with _replacing(interpreter, recorder.replacements()):
            return usual(*args, jaxpr=jaxpr, grid_mapping=grid_mapping, **others)

    silent = SimpleNamespace(warning=lambda *_, **__: None)
    quiet = {n: silent for n in ("logger", "logging") if hasattr(race_detection_state, n)}
    with (
        _replacing(interpreter, {"interpret_pallas_call": interpreted}),
        _replacing(race_detection_state, quiet),
    ):
        try:
            yield
        finally:
            watch.finish()
            watch.unfinished.clear()


_CALLBACKS = (
    "dma_start",
    "dma_wait",
    "get",
    "store",
    "swap",
    "_deallocate_buffer",
    "_validate",
    "_interpret_jaxpr",
)


@contextlib.contextmanager
def _replacing(module: ModuleType, by: dict[str, Any]) -> Iterator[None]:
    originals = {name: getattr(module, name) for name in by}
    for name, value in by.items():
        setattr(module, name, value)
    try:
        yield
    finally:
        for name, value in originals.items():
            setattr(module, name, value)
