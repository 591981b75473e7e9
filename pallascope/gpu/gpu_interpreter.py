"""Runs a GPU launch in Mosaic GPU's interpreter on the CPU.

A race is recorded as a text that begins with "RACE DETECTED" and names both lines; jax 0.12 raises
it, jax 0.10 prints it and goes on. The backend has to be known (`carrier`).

jax 0.10 runs one block after another and assumes that order, so it doesn't find blocks that write
the same elements; `between_blocks` finds them. jax 0.12 knows that a GPU's blocks have no order.

jax 0.10's interpreter has no tensor memory, which a Blackwell's products need. There, tensor memory
becomes shared memory, a product ends where it begins, and a load is a read. Correct kernels stay
correct, and unwritten memory is NaN. The results don't show a use of a product before it has ended:
`thread_block` finds that in the trace.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core
from jax.typing import ArrayLike

from pallascope.kernels.jaxprs import Rewriter, sites
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


def in_shared_memory(closed: core.ClosedJaxpr) -> core.ClosedJaxpr:
    """The launch without tensor memory; the same launch if it has none.

    A product with scales, of sparse matrices or over several blocks stays unchanged: the
    interpreter refuses it.
    """
    rewriter = _TensorMemoryRewriter()
    rewritten = rewriter.value(closed)
    return rewritten if rewriter.found else closed


class _TensorMemoryRewriter(Rewriter):
    """Replaces tensor memory with shared memory, and the operations on it."""

    def __init__(self) -> None:
        super().__init__()
        self.found = False
        self._vars: dict[Any, Any] = {}

    def rebuilt(self, jaxpr: Any, eqns: list[core.JaxprEqn]) -> Any:
        return jaxpr.replace(
            constvars=self._all(jaxpr.constvars),
            invars=self._all(jaxpr.invars),
            outvars=self._all(jaxpr.outvars),
            eqns=eqns,
        )

    def _all(self, atoms: Sequence[Any]) -> list[Any]:
        return [self._atom(atom) for atom in atoms]

    def _atom(self, atom: Any) -> Any:
        if not isinstance(atom, core.Var) or type(atom.aval).__name__ != "AbstractTMEMRef":
            return atom
        if atom not in self._vars:
            self.found = True
            self._vars[atom] = core.Var(_shared(atom.aval))
        return self._vars[atom]

    def equation(self, eqn: core.JaxprEqn) -> Sequence[core.JaxprEqn]:
        invars = self._all(eqn.invars)
        stand_in = _STAND_INS.get(eqn.primitive.name)
        if stand_in is None or not _is_plain(eqn):
            return [eqn.replace(invars=invars, params=self.params(eqn))]
        given = [atom for atom in invars if isinstance(atom, core.Var)]
        traced = _traced(lambda *refs: stand_in(_Operands(invars, given, refs, eqn.params)), given)
        places = dict(zip(traced.invars, given, strict=True))
        places |= dict(zip(traced.outvars, eqn.outvars, strict=True))
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
        self, atoms: Sequence[Any], given: Sequence[Any], traced: Sequence[Any], params: Any
    ) -> None:
        by_atom = dict(zip(given, traced, strict=True))
        self._left = [by_atom[a] if isinstance(a, core.Var) else a.val for a in atoms]
        self.params = params

    def take(self) -> Any:
        return self._left.pop(0)

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
    launch: TracedLaunch, noted: list[str]
) -> Iterator[Callable[[Sequence[ArrayLike]], list[np.ndarray]]]:
    """Yields the launch as a function of its inputs, which is compiled at its first call."""
    _keep_layouts_to_the_gpu()
    closed = launch.closed if run_by_interpreter() else in_shared_memory(launch.closed)
    program = jax.jit(core.jaxpr_as_fun(with_interpret(closed, _params())))
    with (
        jax.default_device(jax.devices("cpu")[0]),
        _noting_races(noted),
        between_blocks(noted.append),
        _phases_may_be_left(),
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
