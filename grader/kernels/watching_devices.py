"""Has the strict interpreter say what the devices of a mesh do to each other."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp

from grader.kernels.exchange import Area
from grader.kernels.flights import Part, span_of
from grader.kernels.jax_internals import UnsupportedJax
from grader.kernels.jaxprs import IN_HBM, primitives
from grader.kernels.meetings import BARRIER, OUTSIDE, PER_AXIS, Meetings
from grader.kernels.ref_names import RefNames
from grader.kernels.wait_lines import WaitLines


@contextlib.contextmanager
def watching_devices(meetings: Meetings) -> Iterator[None]:
    """Note what happens between the devices of kernels that run in this context, within `running`.

    Where jax keeps the interpreter elsewhere, nothing is noted.
    """
    try:
        from grader.kernels.jax_internals import SharedMemory
        from grader.kernels.jax_internals import tpu_interpreter as interpreter
        from grader.kernels.jax_internals import tpu_interpreter_utils as utils
    except UnsupportedJax:
        yield
        return
    watch = _Watch(interpreter, utils, meetings)
    by = {
        "dma_start": watch.around("dma_start", watch.starts),
        "semaphore_signal": watch.around("semaphore_signal", meetings.signals),
        "_validate": watch.around("_validate", meetings.ends),
        "interpret_pallas_call": watch.naming(),
        "get": watch.around("get", functools.partial(watch.touches, False)),
        "store": watch.around("store", functools.partial(watch.touches, True)),
        "swap": watch.around("swap", functools.partial(watch.touches, True)),
    }
    for name in ("dma_wait", "semaphore_wait"):
        by[name] = watch.around(name, meetings.begins_to_wait, meetings.has_waited)
    checked = SharedMemory.check_failed

    def check_failed(memory: Any) -> None:
        checked(memory)
        meetings.demand_progress()

    with contextlib.ExitStack() as stack:
        for name, value in by.items():
            _replaced(stack, interpreter, name, value)
        of_coordinates = "device_coords_to_logical_id"
        _replaced(stack, utils, of_coordinates, within_axes(getattr(utils, of_coordinates)))
        stack.callback(meetings.finish)
        _replaced(stack, SharedMemory, "check_failed", check_failed)
        yield


def _replaced(stack: contextlib.ExitStack, of: Any, name: str, by: object) -> None:
    """Put something in the place of an attribute, which may be inherited, until the end."""
    if name in vars(of):
        stack.callback(setattr, of, name, vars(of)[name])
    else:
        stack.callback(delattr, of, name)
    setattr(of, name, by)


def within_axes(usual: Callable[..., Any]) -> Callable[..., Any]:
    """Has a number that an axis does not have stay wrong, where it would mean another device."""

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
    def __init__(self, interpreter: Any, utils: Any, meetings: Meetings) -> None:
        self._interpreter, self._utils, self._meetings = interpreter, utils, meetings
        self._communicates = False

    def around(
        self, name: str, before: Callable[..., None], after: Callable[..., None] | None = None
    ) -> Callable[..., Any]:
        usual = getattr(self._interpreter, name)

        def called(token: Any, *args: Any, **params: Any) -> Any:
            """What jax's own copies call has no token, and no device that would fail with it."""
            before(*args, **params)
            result = (usual if token is not None else usual.__wrapped__)(token, *args, **params)
            if after:
                after(*args, **params)
            return result

        return self._interpreter.fail_on_exception(functools.wraps(usual)(called))

    def naming(self) -> Callable[..., Any]:
        usual = self._interpreter.interpret_pallas_call

        @functools.wraps(usual)  # jax names it where it fails
        def interpreted(*args: Any, jaxpr: Any, grid_mapping: Any, **others: Any) -> Any:
            aliases = others.get("input_output_aliases", ())
            names = RefNames.of(jaxpr, grid_mapping, aliases)
            used = set(primitives(jaxpr))
            self._communicates = not used.isdisjoint({"dma_start", "semaphore_signal"})
            asked = getattr(others.get("compiler_params"), "collective_id", None)
            together = asked is None and "get_barrier_semaphore" not in used
            lines = WaitLines.in_kernel(jaxpr, BARRIER)
            self._meetings.kernel(names, lines, together)
            return usual(*args, jaxpr=jaxpr, grid_mapping=grid_mapping, **others)

        return interpreted

    def starts(
        self, device: Any, local: Any, from_space: Any, from_id: Any, from_part: Any,
        to_space: Any, to_id: Any, to_part: Any, came: Any, left: Any, other: Any,
        *_: Any, source_info: Any = None, **__: Any,
    ) -> None:  # fmt: skip
        """A copy is started, on jax 0.12 to a core of the other device."""
        core = int(device), int(local)
        source, item = self._area(core, from_space, from_id, from_part)
        target, _item = self._area(core, to_space, to_id, to_part)
        sending, there = (None if one is None else int(one) for one in (left, other))
        size = source.part.elements * item
        self._meetings.starts(core, source, target, int(came), sending, there, size, source_info)

    def touches(
        self, writes: bool, device: Any, local: Any, space: Any, buffer: Any, transforms: Any,
        *_: Any, src_device_id: Any = None, source_info: Any = None, **__: Any,
    ) -> None:  # fmt: skip
        """Memory is read or written, by a core of the device and not by a copy."""
        if src_device_id is not None or not self._communicates:
            return
        core = int(device), int(local)
        area = self._area(core, space, buffer, transforms)[0]
        self._meetings.touches(core, area, writes, source_info)

    def _area(
        self, core: tuple[int, int], space: Any, buffer: Any, transforms: Any
    ) -> tuple[Area, int]:
        """A part of a buffer, and how many bytes an element of it takes."""
        name = self._interpreter.TPU_MEMORY_SPACE_NAMES[int(space)]
        owner = core[0], 0 if name in IN_HBM else core[1]
        kept: Any = self._interpreter._get_shared_memory().mem[(name, int(buffer), *owner)]
        shape = tuple(kept.logical_shape)
        within = self._utils.to_range(jax.tree.map(int, transforms))
        part = Part(int(buffer), span_of(within, shape), shape)
        return Area(owner, part), math.ceil(kept.dtype.itemsize)
