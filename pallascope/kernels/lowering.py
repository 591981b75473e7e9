"""Traces and lowers a launch for a chip that isn't here.

JAX's answers about devices are those of the chip for which a function is traced. Kernel libraries
choose block sizes, or a launch without a kernel, by `jax.devices()`, `jax.default_backend()` or
`jax.device_count()`. All of these functions, wherever they were imported from, ask one function of
JAX for the backend. Here, that function answers for the chip if the question comes from the traced
function. JAX itself asks the same function when it compiles and runs, and gets the real devices.

If Mosaic refuses to lower a kernel, the exception names the operation and its lines.
"""

from __future__ import annotations

import contextlib
import functools
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import jax
import numpy as np
from jax.extend import core
from jax.sharding import AbstractDevice, AbstractMesh, AxisType
from jax.typing import ArrayLike

from pallascope.kernels.aliases import alias_copies
from pallascope.kernels.calls import array_type, kernel_call
from pallascope.kernels.comm_timeline import comm_timeline
from pallascope.kernels.dma_events import copies_of_chips
from pallascope.kernels.evaluator import NotKnown, without_refs
from pallascope.kernels.host_values import known_values, values_of_turns
from pallascope.kernels.index_maps import BlockPositions, PrefetchRead, positions_of, prefetch_reads
from pallascope.kernels.jax_internals import (
    ASKED_THROUGH,
    ASKING_ON_BEHALF,
    UnsupportedJax,
    is_source,
)
from pallascope.kernels.jaxprs import Shaped, array_struct, sites
from pallascope.kernels.lints import OTHER_CHIPS
from pallascope.kernels.liveness import run_counts
from pallascope.kernels.manual_dma import Dmas, copies_of
from pallascope.kernels.outside_kernels import OutsideReader
from pallascope.kernels.pallas_params import KERNELS, axis_names, body
from pallascope.kernels.sharding import around_kernels, replicated, spread_over
from pallascope.model import (
    Axes,
    CommTimeline,
    KernelCall,
    Operation,
    Role,
    RunCount,
    XlaCopy,
    mesh_size,
)


@dataclass(frozen=True)
class ChipDevice:
    """A chip that may not be here, with the attributes of a `jax.Device`.

    JAX accepts it in a mesh and in `jax.device_put` while it traces. Nothing can run on it.
    """

    id: int
    client: Backend

    process_index = host_id = slice_index = core_on_chip = 0

    @property
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return jax.Device

    @property
    def platform(self) -> str:
        return self.client.platform

    @property
    def device_kind(self) -> str:
        return self.client.kind

    @property
    def num_cores(self) -> int:
        return self.client.cores

    @property
    def core_count(self) -> int:
        return self.client.cores

    @property
    def compute_capability(self) -> str:
        return self.client.compute_capability

    @property
    def local_hardware_id(self) -> int:
        return self.id

    @property
    def coords(self) -> list[int]:
        return [int(place) for place in np.unravel_index(self.id, _box(self.client.count))]

    def memory_stats(self) -> None:
        """JAX's answer for devices without statistics."""

    def __repr__(self) -> str:
        return f"Device(id={self.id}, device_kind={self.device_kind!r})"


@dataclass(frozen=True)
class Backend:
    """The chips for `jax.devices()` to return: `count` of them, all in one process."""

    platform: str
    kind: str
    cores: int
    count: int = 1
    compute_capability: str = ""
    platform_version: str = ""

    def devices(self) -> list[Any]:
        return [ChipDevice(number, self) for number in range(self.count)]

    local_devices = devices

    def device_count(self) -> int:
        return self.count

    local_device_count = device_count

    def process_index(self) -> int:
        return 0


def _box(count: int) -> tuple[int, ...]:
    """Three sizes, as even as possible, of a box with this many places: 4 is (2, 2, 1)."""
    sizes, factor = [1, 1, 1], 2
    while count > 1:
        if count % factor:
            factor += 1
            continue
        sizes[sizes.index(min(sizes))] *= factor
        count //= factor
    return tuple(sizes)


_TRACED_FOR: ContextVar[Backend | None] = ContextVar("traced_for", default=None)


def as_on_tpu(kind: str, cores: int, count: int = 1) -> contextlib.AbstractContextManager[None]:
    """As `count` TPUs with this `device_kind` and number of TensorCores: see `_answering`."""
    return _answering(Backend("tpu", kind, cores, count))


def as_on_gpu(kind: str, cores: int, capability: str) -> contextlib.AbstractContextManager[None]:
    """As a GPU with this number of multiprocessors and compute capability: see `_answering`."""
    return _answering(Backend("gpu", kind, cores, compute_capability=capability))


@contextlib.contextmanager
def _answering(backend: Backend) -> Iterator[None]:
    """Make JAX describe these chips to code that is imported or traced in this block and thread."""
    _install()
    token = _TRACED_FOR.set(backend)
    try:
        yield
    finally:
        _TRACED_FOR.reset(token)


@functools.cache
def _install() -> None:
    """Replace three functions of JAX for the life of the process. Raises UnsupportedJax.

    JAX caches the answers of two, so the replacements ask JAX only if the question isn't about a
    chip. The third traces a kernel, and the replacement gives its operations their own lines.
    """
    from jax.extend import backend

    from pallascope.kernels.jax_internals import pallas_call, xla_bridge

    for home, name, ours, others in (
        (xla_bridge, "get_backend", _get_backend, (backend,)),
        (xla_bridge, "local_devices", _local_devices, (jax,)),
        (pallas_call, "_trace_kernel_to_jaxpr", _with_own_lines, ()),
    ):
        if (usual := getattr(home, name, None)) is None:
            raise UnsupportedJax(f"{home.__name__}.{name}")
        replacement = functools.wraps(usual)(functools.partial(ours, usual))
        for module in (home, *others):
            setattr(module, name, replacement)


def _with_own_lines(usual: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Trace a kernel; each operation has its own line, also if JAX transposes the launch.

    Inside of `jax.vjp` of a function with a `custom_vjp`, JAX would give the line where that
    function is called to all operations of the backward kernels.
    """
    from pallascope.kernels.jax_internals import SourceInfo, source_info_context

    around = source_info_context.context
    if _TRACED_FOR.get() is None or around.traceback is None:
        return usual(*args, **kwargs)
    source_info_context.context = SourceInfo(None, around.name_stack)
    try:
        return usual(*args, **kwargs)
    finally:
        source_info_context.context = around


def _get_backend(usual: Callable[..., Any], platform: Any = None) -> Any:
    chip = _asked_for(platform)
    return usual(platform) if chip is None else chip


def _local_devices(
    usual: Callable[..., Any],
    process_index: int | None = None,
    backend: Any = None,
    host_id: int | None = None,
) -> Any:
    chip = None if process_index or host_id else _asked_for(backend)
    return usual(process_index, backend, host_id) if chip is None else chip.devices()


def _asked_for(platform: Any) -> Backend | None:
    """The chip that a question is about; None if it is about the real devices."""
    chip = _TRACED_FOR.get()
    if chip is None or isinstance(platform, Backend):
        return platform if isinstance(platform, Backend) else None
    names = {"gpu": ("gpu", "cuda")}.get(chip.platform, (chip.platform,))
    return chip if platform in (None, *names) and not _asked_by_jax() else None


def _asked_by_jax() -> bool:
    """Whether JAX itself asks, to compile or to run."""
    frame: Any = sys._getframe(1)
    while frame and frame.f_globals.get("__name__") in (*ASKED_THROUGH, __name__):
        frame = frame.f_back
    name = str(frame.f_globals.get("__name__")) if frame else ""
    return is_source(name) and name not in ASKING_ON_BEHALF


_LOCATION = re.compile(r'loc\("(?:[^"]*/)?([^"/:]+):?"')
_JITTED = ("jit", "pjit")
_LINE = re.compile(r'"([^"]+)":(\d+)')


class NotLowered(Exception):
    """Mosaic has refused a kernel.

    Its text is that of Mosaic's own exception (its cause), the class name first. `operation` is
    the one being lowered; None if Mosaic refuses the launch rather than an operation. `call` is the
    kernel. The traceback ends in the lines from which the operation was traced.
    """

    call: KernelCall | None = None

    def __init__(self, message: str, operation: Operation | None) -> None:
        super().__init__(message)
        self.operation = operation


def not_lowered(error: Exception, kernel: core.JaxprEqn) -> NotLowered:
    """Mosaic's exception while it lowered `kernel`, with the operation that it is about."""
    # From the outermost to the innermost: a launch, a loop, a jitted function, the operation.
    nested = [kernel, *_being_lowered(error)]
    if len(nested) == 1:
        nested += _verified(error, body(kernel))
    refused = NotLowered(f"{type(error).__name__}: {error}", _operation(nested[1:]))
    return refused.with_traceback(_lines(nested))


def _being_lowered(error: Exception) -> list[core.JaxprEqn]:
    """The equations of the kernel that were being lowered when the exception was raised."""
    local = (frame.f_locals.get("eqn") for frame, _ in traceback.walk_tb(error.__traceback__))
    eqns = {id(eqn): eqn for eqn in local if isinstance(eqn, core.JaxprEqn)}
    return [eqn for eqn in eqns.values() if eqn.primitive.name not in KERNELS]


def _verified(error: Exception, kernel: core.Jaxpr) -> list[core.JaxprEqn]:
    """The equations around the one whose lowered form the verifier of MLIR rejects."""
    text = _location(error)
    if not (name := _LOCATION.search(text)):
        return []
    line = _LINE.search(text)
    wanted = (line[1], int(line[2])) if line else None
    matching = (
        [*site.path, site.eqn]
        for site in sites(kernel)
        if site.eqn.primitive.name == name[1] and _own_line(site.eqn) == wanted
    )
    return next(matching, [])


def _location(error: BaseException | None) -> str:
    """MLIR's location of the error: primitive, and the user's lines; otherwise ""."""
    while error is not None:
        for diagnostic in getattr(error, "error_diagnostics", ()):
            return str(diagnostic.location)
        error = error.__cause__ or error.__context__
    return ""


def _own_line(eqn: core.JaxprEqn) -> tuple[str, int] | None:
    """File and line, outside of jax, of an equation; None in functions that jax itself jits."""
    from pallascope.kernels.jax_internals import user_frames

    frame = next(iter(user_frames(eqn.source_info.traceback)), None)
    return (frame.file_name, frame.start_line) if frame else None


def _operation(nested: list[core.JaxprEqn]) -> Operation | None:
    """The innermost equation, and jax's function that contains it, if there is one."""
    if not nested:
        return None
    own = [at for at, eqn in enumerate(nested) if _own_line(eqn)]
    inside = nested[own[-1] : -1] if own else []
    names = [_called(eqn) for eqn in inside if eqn.primitive.name in _JITTED]
    name = _called(nested[-1])
    types = (array_type(var.aval) for var in nested[-1].invars if isinstance(var.aval, Shaped))
    within = names[0] if names and names[0] != name else ""
    return Operation(name, tuple(types), within)


def _called(eqn: core.JaxprEqn) -> str:
    """The name of a jitted function, otherwise of the primitive."""
    jitted = eqn.primitive.name in _JITTED
    return str(eqn.params["name"]).strip("_") if jitted else eqn.primitive.name


def _lines(nested: list[core.JaxprEqn]) -> TracebackType | None:
    """One traceback from those of all equations, each below the one that contains it."""
    traces = [eqn.source_info.traceback for eqn in nested]
    joined = None
    for trace in reversed([t.as_python_traceback() for t in traces if t is not None]):
        frames = list(_links(trace))
        if frames:
            frames[-1].tb_next = joined
            joined = frames[0]
    return joined


def _links(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def abstract_mesh(axes: Axes, device: AbstractDevice) -> AbstractMesh:
    """A mesh of this many devices of a kind. XLA chooses the places of arrays."""
    names, sizes = tuple(name for name, _ in axes), tuple(size for _, size in axes)
    kinds = (AxisType.Auto,) * len(axes)
    return AbstractMesh(sizes, names, axis_types=kinds, abstract_device=device)


@contextlib.contextmanager
def for_chip(kind: str, cores: int, axes: Axes = ()) -> Iterator[None]:
    """Trace and lower as on a TPU with this `device_kind` and number of TensorCores.

    With `axes`, as on a mesh of such TPUs. A function that asks JAX for devices gets the answers of
    that TPU.

    Without this context, kernels that ask for the TPU's info (`emit_pipeline`, integer `//`, blocks
    of rank 1) fail on a CPU.
    """
    device = AbstractDevice(device_kind=kind, num_cores=cores, platform="tpu")
    with (
        as_on_tpu(kind, cores, mesh_size(axes)),
        jax.sharding.use_abstract_mesh(abstract_mesh(axes, device)),
    ):
        yield


@dataclass(frozen=True, slots=True)
class TracedKernel:
    """One kernel of a launch, ready to be lowered and compiled by itself.

    `function` launches it with `arguments`: sizes of dynamic grid dimensions, scalar prefetch,
    inputs. `values` are those of grid sizes and scalar prefetch, if known before any kernel has
    run; None for the others. If a loop around the kernel changes them, `turns` are those of each
    run. `copied` are XLA's copies around it, because outputs are to have the
    places of other arrays. `axes` are those of the mesh of devices that it communicates with: () if
    it doesn't, or if they are unknown. `undivided`: XLA would have to divide it among the devices
    of a mesh, because no `shard_map` does.
    """

    call: KernelCall
    function: Callable[..., Sequence[jax.Array]]
    arguments: tuple[jax.ShapeDtypeStruct, ...]
    values: tuple[np.ndarray | None, ...]
    equation: core.JaxprEqn
    runs: RunCount
    copied: tuple[XlaCopy, ...] = ()
    axes: Axes = ()
    undivided: bool = False
    turns: tuple[tuple[np.ndarray | None, ...], ...] = ()

    def block_positions(self) -> BlockPositions:
        """The concrete grid, and the start of each operand's block on each of its steps."""
        return positions_of(self.equation, self.values)

    def copies(self) -> Dmas:
        """The kernel's own copies: on one step of its grid, or, if `each_step` is False, on all."""
        kernel = body(self.equation)
        if self.axes and None not in (grid := self.block_positions().grid):
            steps = [size or 0 for size in grid]
            with contextlib.suppress(NotKnown):
                return copies_of_chips(kernel, steps, self.axes, axis_names(self.equation))
        return copies_of(kernel, alike=bool(self.axes))

    def comm_timeline(self) -> CommTimeline | None:
        """The actions of its mesh's chips; None if it has no mesh, or if they are unknown."""
        grid = [size for size in self.block_positions().grid if size is not None]
        if not self.axes or len(grid) < len(self.call.grid):
            return None
        return comm_timeline(body(self.equation), grid, self.axes, axis_names(self.equation))

    @property
    def tables(self) -> tuple[np.ndarray | None, ...]:
        """The contents of the scalar-prefetch operands, as far as known."""
        sizes = self.call.grid.count(None)
        return self.values[sizes : sizes + len(self.call.role(Role.PREFETCH))]

    def prefetch_reads(self, grid: Sequence[int], most: int) -> tuple[PrefetchRead, ...]:
        """The cells of the tables that the index maps read on the grid's first `most` steps."""
        return prefetch_reads(self.equation, grid, self.tables, most)


def kernels_in(
    closed: core.ClosedJaxpr, args: Sequence[ArrayLike | jax.ShapeDtypeStruct]
) -> tuple[TracedKernel, ...]:
    """The kernels of a launch that was traced `for_chip`, in program order, if XLA runs them.

    `args` are its arguments: arrays, or `jax.ShapeDtypeStruct`s for unknown contents. Within
    `for_chip`.
    """
    closed = without_refs(closed)
    kernels = OutsideReader(closed).kernels
    leaves = jax.tree.leaves(args)
    values = known_values(closed, leaves)
    runs = run_counts(closed)
    turns = _turns(closed, leaves, values, runs)
    around, axes = around_kernels(closed), jax.sharding.get_abstract_mesh().axis_names
    undivided = [not around.get(id(eqn), frozenset()).issuperset(axes) for eqn in kernels]
    copies = alias_copies(closed)
    found = map(_kernel, kernels, values, turns, runs, copies, undivided)
    return tuple(kernel for kernel in found if kernel.runs.times)


def _turns(
    closed: core.ClosedJaxpr,
    args: Sequence[Any],
    values: Sequence[Sequence[np.ndarray | None]],
    runs: Sequence[RunCount],
) -> list[list[list[np.ndarray | None]]]:
    """For each kernel, its values in each run, if a loop changes them; otherwise nothing."""
    in_loops = values_of_turns(closed, args) if any(each.times > 1 for each in runs) else []
    if not in_loops:
        return [[] for _ in values]
    found: list[list[list[np.ndarray | None]]] = []
    for once, turns in zip(values, in_loops, strict=True):
        merged = [
            [old if new is None else new for old, new in zip(once, turn, strict=True)]
            for turn in turns
        ]
        found.append(merged if merged and _known(merged[0]) > _known(once) else [])
    return found


def _known(values: Sequence[np.ndarray | None]) -> int:
    return sum(value is not None for value in values)


def _kernel(
    equation: core.JaxprEqn,
    known: Sequence[np.ndarray | None],
    turns: Sequence[Sequence[np.ndarray | None]],
    runs: RunCount,
    copied: tuple[XlaCopy, ...],
    undivided: bool,
) -> TracedKernel:
    def kernel(*arrays: jax.Array) -> Sequence[jax.Array]:
        return equation.primitive.bind(*arrays, **equation.params)

    arguments = tuple(map(array_struct, equation.invars))
    values, *each = ((*one, *[None] * (len(arguments) - len(one))) for one in (known, *turns))
    call = kernel_call(equation)
    axes = tuple(jax.sharding.get_abstract_mesh().shape.items())
    axes = axes if call.unknown == OTHER_CHIPS else ()
    return TracedKernel(
        call, kernel, arguments, values, equation, runs, copied, axes, undivided, tuple(each)
    )


def lower(kernel: TracedKernel) -> jax.stages.Lowered:
    """Lower one kernel through Mosaic, within `for_chip`. Raises NotLowered."""
    function, arguments = kernel.function, kernel.arguments
    try:
        if kernel.undivided:
            arguments = replicated(arguments)
        elif kernel.axes:
            function, arguments = spread_over(kernel.axes, function, arguments)
        return jax.jit(function).trace(*arguments).lower(lowering_platforms=("tpu",))
    except Exception as error:
        refused = not_lowered(error, kernel.equation)
        refused.call = kernel.call
        raise refused from error
