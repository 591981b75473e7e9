"""Runs a GPU launch in Mosaic GPU's interpreter on the CPU.

A race is recorded as a text that begins with "RACE DETECTED" and names both lines; jax 0.12 raises
it, jax 0.10 prints it and goes on. The backend has to be known (`carrier`).

jax 0.10 runs one block after another and assumes that order, so it doesn't find blocks that write
the same elements; `between_blocks` finds them. jax 0.12 knows that a GPU's blocks have no order.

jax 0.10's interpreter has no tensor memory, which a Blackwell's products need. There, tensor memory
becomes shared memory, a product ends where it begins, and a load is a read. Correct kernels stay
correct, and unwritten memory is NaN. The results don't show a use of a product before it has ended:
`thread_block` finds that in the trace.

Neither version's interpreter takes a `pl.run_state` of accumulators, or a wgmma whose left operand
is in registers. The first becomes a `pl.run_scoped`, and the operand is stored to a Ref of its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.extend import core
from jax.ref import set as ref_set
from jax.typing import ArrayLike

from pallascope.gpu.operations import accumulating
from pallascope.kernels.interpreter import UnwrittenMemory
from pallascope.kernels.jaxprs import Rewriter, memory_space, sites
from pallascope.kernels.serialization import with_interpret
from pallascope.kernels.traced_launch import TracedLaunch

_GLOBAL_MEMORY = 0
#: The attribute of a kernel's memory that holds each block's writes, by allocation.
_WRITTEN = "_written_by_blocks"


@contextlib.contextmanager
def between_blocks(note: Callable[[str], object]) -> Iterator[None]:
    """Records as a race the first part to which two blocks of a kernel write."""
    if (found := _memory_of_blocks_in_turn()) is None:
        yield
        return
    memory, meet = found
    store, swap = memory.store_buffer_content, memory.swap_buffer_content

    def look(kept: Any, key: Any, part: Any, info: Any) -> None:
        if info is None or key.memory_space_id != _GLOBAL_MEMORY:
            return
        frame = _frame(info.source_info)
        with kept.lock:
            written = vars(kept).setdefault(_WRITTEN, {}).setdefault(key, [])
            others = (one for one in written if one[0] != info.grid_point_coords)
            earlier = next((one for one in others if meet(one[1], part)), None)
            written.append((info.grid_point_coords, part, frame))
        if earlier:
            block, its_part, its_frame = earlier
            note(
                f"RACE DETECTED\n"
                f"  write of {key}[{part}] from block {info.grid_point_coords}, {frame}\n"
                f"  write of {key}[{its_part}] from block {block}, {its_frame}\n"
            )

    def stored(kept: Any, key: Any, part: Any, *rest: Any, **named: Any) -> Any:
        look(kept, key, part, named.get("logging_info"))
        return store(kept, key, part, *rest, **named)

    def swapped(kept: Any, key: Any, part: Any, value: Any, mask: Any, *rest: Any, **named: Any):
        if mask is None:
            look(kept, key, part, named.get("logging_info"))
        return swap(kept, key, part, value, mask, *rest, **named)

    memory.store_buffer_content, memory.swap_buffer_content = stored, swapped
    try:
        yield
    finally:
        memory.store_buffer_content, memory.swap_buffer_content = store, swap


def _memory_of_blocks_in_turn() -> tuple[Any, Callable[..., bool]] | None:
    """The interpreter's class of memory, and a test whether two parts overlap; None from jax 0.12
    on."""
    from pallascope.kernels.jax_internals import gpu_callbacks, gpu_shared_memory, ranges_overlap

    if "grid_point_coords" not in gpu_callbacks._swap.__code__.co_varnames:
        return None
    return gpu_shared_memory.GPUSharedMemory, ranges_overlap


def _frame(source_info: Any) -> str:
    from pallascope.kernels.jax_internals import summarize

    return summarize(source_info) if source_info is not None else "a kernel"


Stand = Callable[..., Sequence[Any]]


def run_by_interpreter() -> bool:
    """Whether Mosaic GPU's interpreter has its own tensor memory, as jax 0.12's has."""
    from pallascope.kernels.jax_internals import gpu_callbacks

    return hasattr(gpu_callbacks, "tcgen05_mma")


def interpretable(closed: core.ClosedJaxpr) -> core.ClosedJaxpr:
    """The launch without operations that the interpreter doesn't take; the same launch if it has
    none.

    A product with scales, of sparse matrices or over several blocks stays unchanged: the
    interpreter refuses it.
    """
    rewriter = _StandInRewriter(tensor_memory=not run_by_interpreter())
    rewritten = rewriter.value(closed)
    return rewritten if rewriter.found else closed


class _StandInRewriter(Rewriter):
    """Replaces tensor memory with shared memory, and operations by their stand-ins."""

    def __init__(self, tensor_memory: bool) -> None:
        super().__init__()
        self.found = False
        self._vars: dict[Any, Any] = {}
        self._tensor_memory = tensor_memory
        self._stand_ins = {**_ALWAYS, **(_STAND_INS if tensor_memory else {})}

    def rebuilt(self, jaxpr: Any, eqns: list[core.JaxprEqn]) -> Any:
        changed: dict[str, Any] = {"eqns": eqns}
        for name in ("constvars", "invars", "outvars"):
            atoms = self._all(getattr(jaxpr, name))
            if atoms != list(getattr(jaxpr, name)):  # new constvars would have no constants
                changed[name] = atoms
        return jaxpr.replace(**changed)

    def _all(self, atoms: Sequence[Any]) -> list[Any]:
        return [self._atom(atom) for atom in atoms]

    def _atom(self, atom: Any) -> Any:
        if not (
            self._tensor_memory
            and isinstance(atom, core.Var)
            and type(atom.aval).__name__ == "AbstractTMEMRef"
        ):
            return atom
        if atom not in self._vars:
            self.found = True
            self._vars[atom] = core.Var(_shared(atom.aval))
        return self._vars[atom]

    def equation(self, eqn: core.JaxprEqn) -> Sequence[core.JaxprEqn]:
        invars = self._all(eqn.invars)
        stand_in = self._stand_ins.get(eqn.primitive.name)
        if stand_in is None or not _is_plain(eqn):
            return [eqn.replace(invars=invars, params=self.params(eqn))]
        self.found = True
        given = [atom for atom in invars if isinstance(atom, core.Var)]
        traced = _traced(lambda *refs: stand_in(_Operands(invars, given, refs, eqn, self)), given)
        places = dict(zip(traced.invars, given, strict=True))
        made = [var for var in eqn.outvars if not hasattr(var.aval, "inner_aval")]
        places |= dict(zip(traced.outvars, made, strict=True))
        return [
            each.replace(
                invars=[places.get(a, a) if isinstance(a, core.Var) else a for a in each.invars],
                outvars=[places.get(var, var) for var in each.outvars],
                source_info=eqn.source_info,
            )
            for each, *_ in sites(traced, lambda _: [])
        ]


class _Operands:
    """An equation's operands while its replacement is traced: Refs, values, their transforms."""

    def __init__(
        self,
        atoms: Sequence[Any],
        given: Sequence[Any],
        traced: Sequence[Any],
        eqn: core.JaxprEqn,
        rewriter: Rewriter,
    ) -> None:
        by_atom = dict(zip(given, traced, strict=True))
        self._left = [by_atom[a] if isinstance(a, core.Var) else a.val for a in atoms]
        self.eqn, self.params, self.rewriter = eqn, eqn.params, rewriter

    def take(self) -> Any:
        return self._left.pop(0)

    def rest(self) -> list[Any]:
        return self._left

    def transformed(self, ref: Any, name: str) -> Any:
        """A Ref with the transforms of this parameter, whose leaves come next."""
        tree = self.params.get(name)
        if tree is None:
            return ref
        leaves, self._left = self._left[: tree.num_leaves], self._left[tree.num_leaves :]
        from pallascope.kernels.jax_internals import TransformedRef

        return TransformedRef(ref, tuple(tree.unflatten(leaves)))


def _is_plain(eqn: core.JaxprEqn) -> bool:
    named = ("collective_axis", "scaled", "sparse", "has_user_predicate", "reduce")
    if eqn.primitive.name == "wgmma_ref":
        return not hasattr(eqn.invars[1].aval, "inner_aval")  # its left operand is in registers
    return not any(eqn.params.get(name) for name in named)


def _multiplied(of: _Operands) -> Sequence[Any]:
    from jax.experimental.pallas import mosaic_gpu as plgpu

    acc, a, b, accumulate = (of.take() for _ in range(4))
    barrier = of.take() if of.params["arrive"] else None
    acc, a, b = (
        of.transformed(ref, f"{name}_transforms_tree")
        for ref, name in ((acc, "acc"), (a, "a"), (b, "b"))
    )
    product = jnp.dot(a[...], b[...], preferred_element_type=jnp.float32)
    # The contents of an accumulator that isn't added to are ignored.
    before = lax.select(
        jnp.broadcast_to(accumulate, product.shape),
        acc[...].astype(jnp.float32),
        jnp.zeros_like(product),
    )
    acc[...] = (before + product).astype(acc.dtype)
    if barrier is not None:
        plgpu.barrier_arrive(of.transformed(barrier, "barrier_transforms_tree"))
    return []


def _arrived(of: _Operands) -> Sequence[Any]:
    from jax.experimental.pallas import mosaic_gpu as plgpu

    plgpu.barrier_arrive(of.transformed(of.take(), "barrier_transforms_tree"))
    return []


def _loaded(of: _Operands) -> Sequence[Any]:
    ref = of.take()
    return [of.transformed(ref, "tree")[...]]


def _stored(of: _Operands) -> Sequence[Any]:
    ref, value = of.take(), of.take()
    of.transformed(ref, "tree")[...] = value
    return []


def _nothing(_: _Operands) -> Sequence[Any]:
    return []


def _accumulated(of: _Operands) -> Sequence[Any]:
    """The results of a `pl.run_state` that aren't Refs; accumulators begin with their values."""
    from jax.experimental.pallas.mosaic_gpu import ACC  # pyright: ignore[reportPrivateImportUsage]

    body, plain = accumulating(of.eqn)
    run: Any = core.jaxpr_as_fun(of.rewriter.value(body))
    starts = {
        place: value
        for place, (value, var) in enumerate(zip(of.rest(), body.jaxpr.invars, strict=True))
        if memory_space(var.aval) == "regs"
    }

    def inside(*accumulators: Any) -> Sequence[Any]:
        given = list(of.rest())
        for (place, start), acc in zip(starts.items(), accumulators, strict=True):
            ref_set(acc, (), start)
            given[place] = acc
        values = iter(run(*given))
        return [
            next(values) if is_plain else given[place][...]
            for place, is_plain in enumerate(plain)
            if is_plain or place in starts
        ]

    kinds = [ACC(start.shape, start.dtype) for start in starts.values()]
    return pl.run_scoped(inside, *kinds)


def _multiplied_from_registers(of: _Operands) -> Sequence[Any]:
    from jax.experimental.pallas.mosaic_gpu import ACC  # pyright: ignore[reportPrivateImportUsage]

    acc, left, *rest = of.rest()

    def inside(ref: Any) -> None:
        ref_set(ref, (), left)
        of.eqn.primitive.bind(acc, ref, *rest, **of.params)

    pl.run_scoped(inside, ACC(left.shape, left.dtype))
    return []


def _set(of: _Operands) -> Sequence[Any]:
    ref_set(of.take(), (), of.take())
    return []


#: Stand-ins on all versions of jax.
_ALWAYS: dict[str, Stand] = {
    "run_state": _accumulated,
    "wgmma_ref": _multiplied_from_registers,
    "wgmma_accumulator_store": _set,
    "wgmma_accumulator_store_p": _set,
}
#: Stand-ins where the interpreter has no tensor memory.
_STAND_INS: dict[str, Stand] = {
    "tcgen05_mma": _multiplied,
    "tcgen05_commit_arrive": _arrived,
    "async_load": _loaded,
    "async_store_tmem": _stored,
    "wait_load_tmem": _nothing,
    "commit_tmem": _nothing,
}


def _shared(aval: Any) -> Any:
    from jax.experimental.pallas import mosaic_gpu as plgpu

    from pallascope.kernels.jax_internals import AbstractRef

    return AbstractRef(aval.inner_aval, plgpu.SMEM)


def _traced(stand_in: Stand, given: Sequence[Any]) -> Any:
    """The jaxpr of a function of Refs and values."""
    from pallascope.kernels.jax_internals import debug_info, linear_util, trace_to_jaxpr_dynamic

    told = debug_info("stand_in", stand_in, given, {})
    wrapped = linear_util.wrap_init(stand_in, debug_info=told)
    traced, _, consts = trace_to_jaxpr_dynamic(wrapped, [var.aval for var in given])
    assert not consts, "a stand-in closes over arrays"
    return traced


def run_interpreted(
    launch: TracedLaunch, args: Sequence[ArrayLike], noted: list[str]
) -> list[np.ndarray]:
    """The results as a flat list on the host; races go to `noted` when they are found.

    Propagates exceptions from the interpreter, and removes its state.
    """
    with interpreted(launch, noted) as program:
        return program(args)


@contextlib.contextmanager
def interpreted(
    launch: TracedLaunch, noted: list[str], memory: UnwrittenMemory | None = None
) -> Iterator[Callable[[Sequence[ArrayLike]], list[np.ndarray]]]:
    """Yields the launch as a function of its inputs, which is compiled at its first call.

    `memory` determines the contents of unwritten memory.
    """
    from pallascope.kernels.jax_internals import gpu_callbacks

    names = ("_allocate_buffer", "_allocate_buffer_for_all_threads")
    allocate = [getattr(gpu_callbacks, name, None) for name in names]
    _keep_layouts_to_the_gpu()
    closed = interpretable(launch.closed)
    program = jax.jit(core.jaxpr_as_fun(with_interpret(closed, _params())))
    with (
        jax.default_device(jax.devices("cpu")[0]),
        _noting_races(noted),
        between_blocks(noted.append),
        _phases_may_be_left(),
        (memory or UnwrittenMemory()).allocating(allocate, _reset()),
        _registers_have_no_races(),
        _afterwards_reset(),
    ):
        yield lambda args: [np.asarray(leaf) for leaf in program(*args)]


def _keep_layouts_to_the_gpu() -> None:
    """Let jax 0.10 run `layout_cast`, which moves values between registers without change."""
    from pallascope.kernels.jax_internals import layout_cast_p, mlir

    mlir.register_lowering(layout_cast_p, lambda _, x, **__: [x], platform="cpu")


def _params() -> Any:
    """Unwritten memory holds NaN; accesses out of bounds raise."""
    from jax.experimental.pallas import mosaic_gpu

    kind: Any = getattr(mosaic_gpu, "InterpretParams", None)
    if kind is None:
        from pallascope.kernels.jax_internals import InterpretGPUParams

        kind = InterpretGPUParams
    return kind(detect_races=True)


@contextlib.contextmanager
def _noting_races(noted: list[str]) -> Iterator[None]:
    """Keep what jax 0.10 prints about a race, and print nothing."""
    from pallascope.kernels.jax_internals import race_detection_state as module

    def note(*texts: object, **_: object) -> None:
        noted.append(" ".join(map(str, texts)).strip())

    module.print = note
    try:
        yield
    finally:
        del module.print


@contextlib.contextmanager
def _phases_may_be_left() -> Iterator[None]:
    """jax 0.10 requires a wait for each phase of a barrier, even the last. A GPU doesn't: the
    producer of a pipeline doesn't need to know when its last slot is free."""
    from pallascope.kernels.jax_internals import Barrier

    original = Barrier.deallocate
    if "phase" not in original.__code__.co_names:
        yield
        return

    def deallocate(barrier: Any) -> None:
        with barrier.cv:
            barrier.ref_count -= 1

    Barrier.deallocate = deallocate
    try:
        yield
    finally:
        Barrier.deallocate = original


@contextlib.contextmanager
def _registers_have_no_races() -> Iterator[None]:
    """jax 0.12 compares a store to an accumulator with that of an earlier block, which had another
    accumulator under the same key. Only one thread has access to either."""
    from pallascope.kernels.jax_internals import gpu_callbacks

    races: Any = getattr(gpu_callbacks, "GPURaceDetectionState", None)
    if races is None:
        yield
        return
    space = gpu_callbacks.memory.get_memory_space_idx(
        gpu_callbacks.mosaic_gpu_core.MemorySpace.REGS
    )
    original = races.check_write

    def check_write(found: Any, thread: Any, clock: Any, key: Any, *rest: Any, **more: Any) -> None:
        if key.memory_space_id != space:
            original(found, thread, clock, key, *rest, **more)

    races.check_write = check_write
    try:
        yield
    finally:
        races.check_write = original


@contextlib.contextmanager
def _afterwards_reset() -> Iterator[None]:
    """After an exception, frees this kernel's barriers, which the next kernel would find."""
    try:
        yield
    except BaseException:
        _reset()()
        raise


def _reset() -> Callable[[], None]:
    from pallascope.kernels.jax_internals import gpu_interpreter, runtime_tokens

    def both() -> None:
        gpu_interpreter.reset_gpu_interpret_mode_state()
        runtime_tokens.clear()

    return both
