"""The events of Mosaic GPU's operations, and tables that threads look up.

Reads the operands of Mosaic GPU's equations, in the order of the primitive on jax 0.10 and 0.12, as
events on memory and barriers. A thread may also look up its group, its block or its count in a
table: an array of whole numbers that the launch passes to the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jax.extend import core

from pallascope.gpu.thread_events import (
    Event,
    GpuEventKind,
    GpuMemory,
    MemoryBox,
    part_of,
    resolved,
)
from pallascope.kernels.evaluator import NotKnown
from pallascope.kernels.jaxprs import discharged, memory_space
from pallascope.kernels.source_lines import line_of


@dataclass(frozen=True, slots=True)
class LookupTable:
    """An array of whole numbers in global memory, with its contents at the kernel's start."""

    numbers: np.ndarray

    def at(self, transforms: Sequence[Any], value: Callable[[Any], int | None]) -> int | None:
        """The number that is read, if it is a single one; `value` resolves its indices."""
        indexers = [each for each in transforms if hasattr(each, "indices")]
        if len(indexers) != 1:
            return None
        index = tuple(value(each) for each in indexers[0].indices if not hasattr(each, "size"))
        if len(index) != self.numbers.ndim or None in index:
            return None
        inside = all(
            0 <= i < n for i, n in zip(index, self.numbers.shape, strict=True) if i is not None
        )
        return int(self.numbers[index]) if inside else None


def accumulating(run_state: core.JaxprEqn) -> tuple[core.ClosedJaxpr, list[bool]]:
    """The body of a `pl.run_state`, and for each of its arguments whether it is a plain value.

    JAX passes all values from around the body as Refs. Here, only shared memory and accumulators
    are Refs. The results are the new contents of the others, in order.
    """
    body = run_state.params["jaxpr"]
    plain = [memory_space(var.aval) == "default" for var in body.invars]
    return discharged(core.ClosedJaxpr(body, ()), plain), plain


_STORES = ("swap", "addupdate", "store")
_DEREFS = ("wgmma_accumulator_deref_p", "wgmma_accumulator_deref")


def has_events(name: str) -> bool:
    """Whether equations of the primitive with this name have events."""
    return name in _EVENTS


def events_of(read: Reading) -> list[Event]:
    """The events of an equation for which `has_events`. Raises NotKnown."""
    return _EVENTS[read.name](read)


class Reading:
    """An equation of Mosaic GPU: its operands and their transforms, one after another."""

    def __init__(self, eqn: core.JaxprEqn, env: dict[Any, Any], file: str) -> None:
        self.name, self.params, self._env = eqn.primitive.name, eqn.params, env
        self.line = line_of(eqn.source_info, file)
        self._atoms = list(eqn.invars)

    def value(self, atom: Any) -> int | None:
        found = resolved(self._env, atom)
        return None if found is None or isinstance(found, (GpuMemory, LookupTable)) else int(found)

    def entry(self) -> int | None:
        """The number that is read from a table; None if it is unknown, or more than one."""
        table = resolved(self._env, self.take())
        transforms = self.transforms("tree")
        return table.at(transforms, self.value)

    def take(self) -> Any:
        return self._atoms.pop(0)

    def transforms(self, name: str) -> list[Any]:
        tree = self.params.get(name)
        if tree is None:
            return []
        leaves, self._atoms = self._atoms[: tree.num_leaves], self._atoms[tree.num_leaves :]
        return list(tree.unflatten(leaves))

    def part(self, atom: Any, transforms: list[Any]) -> MemoryBox | None:
        """The part of shared memory to which an operand refers; None for anything else."""
        memory = resolved(self._env, atom)
        if not isinstance(memory, GpuMemory):
            return None
        return part_of(memory, transforms, self.value)

    def wanted(self) -> bool:
        """Whether the predicate, which comes last if there is one, is true."""
        if not self.params.get("has_user_predicate"):
            return True
        if (value := self.value(self._atoms[-1])) is None:
            raise NotKnown("a predicate that depends on data")
        return bool(value)

    def barrier(self, atom: Any, transforms: list[Any]) -> MemoryBox:
        found = self.part(atom, transforms)
        if found is None or not found.memory.arrivals:
            raise NotKnown("a barrier of another kind")
        if found.box is None and not found.whole:
            raise NotKnown("a barrier with an unknown number")
        return found

    def count(self) -> int:
        """The number that may remain: a parameter on jax 0.12, an operand on 0.10."""
        value = self.params.get("n", self.params.get("wait_n"))
        if value is None and self._atoms:
            value = self.value(self._atoms[-1])
        if value is None:
            raise NotKnown("a wait for a number that depends on data")
        return int(value)


def _stored(read: Reading) -> list[Event]:
    ref = read.take()
    if read.name != "store":
        if read.name == "swap" or read.name == "addupdate":
            read.take()
        part = read.part(ref, read.transforms("tree"))
    else:
        part = read.part(ref, [])
        part = part and MemoryBox(part.memory)  # the elements are ignored
    return [Event(GpuEventKind.STORE, (part,), read.line)] if part else []


def _got(read: Reading) -> list[Event]:
    ref = read.take()
    part = read.part(ref, read.transforms("tree"))
    return [Event(GpuEventKind.GET, (part,), read.line)] if part else []


def _copied_in(read: Reading) -> list[Event]:
    if read.params.get("collective_axes") or not read.params.get("has_barrier", True):
        raise NotKnown("a copy for several blocks")
    wanted = read.wanted()
    _, target, barrier = read.take(), read.take(), read.take()
    read.transforms("src_transforms_treedef")
    part = read.part(target, read.transforms("dst_transforms_treedef"))
    at = read.barrier(barrier, read.transforms("barrier_transforms_treedef"))
    if part is None:
        raise NotKnown("a copy to something else")
    return [Event(GpuEventKind.COPY_IN, (part,), read.line, barrier=at)] if wanted else []


def _copied_out(read: Reading) -> list[Event]:
    wanted = read.wanted()
    source, _target = read.take(), read.take()
    part = read.part(source, read.transforms("src_transforms_treedef"))
    if part is None:
        raise NotKnown("a copy from something else")
    grouped = bool(read.params.get("commit_group", True))
    if not wanted:
        return [Event(GpuEventKind.GROUP)] if grouped else []
    return [Event(GpuEventKind.COPY_OUT, (part,), read.line, grouped=grouped)]


def _multiplied(read: Reading) -> list[Event]:
    _accumulator, left, right = read.take(), read.take(), read.take()
    read.transforms("acc_transforms_tree")
    parts = [read.part(left, read.transforms("a_transforms_tree"))]
    parts.append(read.part(right, read.transforms("b_transforms_tree")))
    return [Event(GpuEventKind.WGMMA, tuple(part for part in parts if part), read.line)]


def _multiplied_into(read: Reading) -> list[Event]:
    """tcgen05_mma: its operands, the barrier if it has one, then the transforms of each."""
    if any(read.params.get(name) for name in ("collective_axis", "scaled", "sparse")):
        raise NotKnown("a product of another kind")
    target, left, right, _adds = (read.take() for _ in range(4))
    arrives = read.take() if read.params["arrive"] else None
    into = read.part(target, read.transforms("acc_transforms_tree"))
    parts = [read.part(left, read.transforms("a_transforms_tree"))]
    parts.append(read.part(right, read.transforms("b_transforms_tree")))
    if into is None:
        raise NotKnown("a product into something else")
    at = None
    if arrives is not None:
        at = read.barrier(arrives, read.transforms("barrier_transforms_tree"))
    kept = tuple(part for part in parts if part)
    return [Event(GpuEventKind.MMA, kept, read.line, barrier=at, into=into)]


def _told(read: Reading) -> list[Event]:
    if read.params.get("collective_axis"):
        raise NotKnown("products of several blocks")
    wanted = read.wanted()
    at = read.barrier(read.take(), read.transforms("barrier_transforms_tree"))
    return [Event(GpuEventKind.TELL, (at,), read.line)] if wanted else []


def _loaded(read: Reading) -> list[Event]:
    part = read.part(read.take(), read.transforms("tree"))
    return [Event(GpuEventKind.LOAD, (part,), read.line)] if part else []


def _at_barrier(does: tuple[GpuEventKind, ...]) -> Callable[[Reading], list[Event]]:
    def events(read: Reading) -> list[Event]:
        wanted = read.wanted()
        at = read.barrier(read.take(), read.transforms("transforms_treedef"))
        return [Event(each, (at,), read.line) for each in does if wanted]

    return events


def _waited(does: GpuEventKind) -> Callable[[Reading], list[Event]]:
    return lambda read: [Event(does, line=read.line, count=read.count())]


_EVENTS: Mapping[str, Callable[[Reading], list[Event]]] = {
    **dict.fromkeys(_STORES, _stored),
    "get": _got,
    "commit_smem": lambda read: [Event(GpuEventKind.COMMIT, line=read.line)],
    "copy_gmem_to_smem": _copied_in,
    "copy_smem_to_gmem": _copied_out,
    "commit_group": lambda read: [Event(GpuEventKind.GROUP, line=read.line)],
    "wait_smem_to_gmem": _waited(GpuEventKind.WAIT_OUT),
    "wgmma_ref": _multiplied,
    "wgmma_wait": _waited(GpuEventKind.WAIT_WGMMA),
    **dict.fromkeys(_DEREFS, _waited(GpuEventKind.WAIT_WGMMA)),
    "wgmma_accumulator_store": lambda read: [],
    "wgmma_accumulator_store_p": lambda read: [],
    "tcgen05_mma": _multiplied_into,
    "tcgen05_commit_arrive": _told,
    "async_load": _loaded,
    "wait_load_tmem": lambda read: [Event(GpuEventKind.WAIT_LOAD, line=read.line)],
    "barrier_arrive": _at_barrier((GpuEventKind.ARRIVE,)),
    "barrier_wait": _at_barrier((GpuEventKind.WAIT,)),
    "barrier_arrive_and_wait": _at_barrier((GpuEventKind.ARRIVE, GpuEventKind.WAIT)),
}
