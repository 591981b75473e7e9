"""One thread of a kernel for GPUs, followed through its trace: its events, in order.

Only whole numbers are computed, by which a kernel decides where it is and what it does next. What
depends on data, or on an operation that is not known here, is not followed: NotFollowed.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jax.extend import core

from grader.kernels.gpu_events import Does, Event, Memory, Part, part_of, resolved
from grader.kernels.gpu_scalars import Number, computed
from grader.kernels.gpu_tables import Table
from grader.kernels.jaxprs import inner_jaxprs
from grader.kernels.loops import carried, loop_constants
from grader.kernels.source_lines import line_of

#: Equations of one thread that are looked at; more are not followed.
MOST = 60_000

Events = Generator[Event, None, list[Any]]
_CALLS = ("jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "remat2")
#: What touches Refs and has no say in the order of things.
_LOADS = ("get", "load")
_HARMLESS = (*_LOADS, "set_max_registers", "set_max_registers_p", "async_prefetch")
_STORES = ("swap", "addupdate", "store")
_DEREFS = ("wgmma_accumulator_deref_p", "wgmma_accumulator_deref")


class NotFollowed(Exception):
    """What a thread does can't be told from its trace alone."""


@dataclass(slots=True)
class Thread:
    """One thread: where it is, by axis, and what it has allocated so far."""

    number: int
    axes: Mapping[Any, int]
    file: str
    left: int = MOST
    shared: int = 0
    own: int = 0

    def follow(self, jaxpr: core.Jaxpr, given: list[Any]) -> Events:
        """The events of a jaxpr with these inputs, constants first. Returns what comes out."""
        env: dict[core.Var, Any] = dict(zip([*jaxpr.constvars, *jaxpr.invars], given, strict=True))
        for eqn in jaxpr.eqns:
            self.left -= 1
            if self.left < 0:
                raise NotFollowed("too long")
            operands = [resolved(env, atom) for atom in eqn.invars]
            results = yield from self._equation(eqn, operands, env)
            env.update(zip(eqn.outvars, results, strict=True))
        return [resolved(env, atom) for atom in jaxpr.outvars]

    def _equation(self, eqn: core.JaxprEqn, operands: list[Any], env: dict[Any, Any]) -> Events:
        name = eqn.primitive.name
        unknown = [None] * len(eqn.outvars)
        if name == "axis_index":
            return [self.axes.get(eqn.params["axis_name"])]
        if name == "program_id":
            sizes = list(self.axes.values())
            axis = eqn.params["axis"]
            return [sizes[axis] if axis < len(sizes) else None]
        if name in _CALLS:
            (inner,) = inner_jaxprs(eqn)
            return (yield from self.follow(inner, operands[len(operands) - len(inner.invars) :]))
        if name == "run_scoped":
            return (yield from self._scope(eqn, operands))
        if name == "cond":
            return (yield from self._cond(eqn, operands))
        if name == "scan":
            return (yield from self._scan(eqn, operands))
        if name == "while":
            return (yield from self._while(eqn, operands))
        if inner_jaxprs(eqn):
            if _is_quiet(eqn):
                return unknown
            raise NotFollowed(name)
        if name in _LOADS and operands and isinstance(operands[0], Table):
            return [_Read(eqn, env, self.file).entry()]
        events = self._events(eqn, env)
        if events is not None:
            yield from events
            return unknown
        if any(isinstance(value, Memory) for value in operands) and name not in _HARMLESS:
            raise NotFollowed(name)
        if eqn.effects and name not in _HARMLESS and not name.startswith("debug"):
            raise NotFollowed(name)
        numbers: list[Number | None] = [
            None if isinstance(v, (Memory, Table)) else v for v in operands
        ]
        return [computed(eqn, numbers)] if len(eqn.outvars) == 1 else unknown

    def _scope(self, eqn: core.JaxprEqn, operands: list[Any]) -> Events:
        body: Any = eqn.params["jaxpr"]
        body = getattr(body, "jaxpr", body)
        collective = bool(eqn.params.get("collective_axes"))
        names = getattr(body.debug_info, "arg_names", None) or ()
        made: list[Any] = []
        for position, var in enumerate(body.invars):
            if collective:
                self.shared += 1
                key: tuple[Any, ...] = ("shared", self.shared)
            else:
                self.own += 1
                key = ("own", self.number, self.own)
            given = str(names[position]) if position < len(names) else ""
            made.append(Memory(key, given or str(var.aval), _arrivals(var.aval)))
        return (yield from self.follow(body, [*operands, *made]))

    def _cond(self, eqn: core.JaxprEqn, operands: list[Any]) -> Events:
        branches = [getattr(branch, "jaxpr", branch) for branch in eqn.params["branches"]]
        which, *rest = operands
        if which is None:
            if _is_quiet(eqn):
                return [None] * len(eqn.outvars)
            raise NotFollowed("a branch that depends on data")
        chosen = branches[min(max(int(which), 0), len(branches) - 1)]
        return (yield from self.follow(chosen, rest))

    def _scan(self, eqn: core.JaxprEqn, operands: list[Any]) -> Events:
        (body,) = inner_jaxprs(eqn)
        fixed, kept = loop_constants(eqn), carried(eqn)
        constants, carry = operands[:fixed], operands[fixed : fixed + kept]
        columns = [None] * (len(operands) - fixed - kept)
        for _ in range(int(eqn.params["length"])):
            results = yield from self.follow(body, [*constants, *carry, *columns])
            carry = results[:kept]
        return [*carry, *[None] * (len(eqn.outvars) - kept)]

    def _while(self, eqn: core.JaxprEqn, operands: list[Any]) -> Events:
        stop, body = eqn.params["cond_jaxpr"].jaxpr, eqn.params["body_jaxpr"].jaxpr
        before, fixed = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
        asked, constants = operands[:before], operands[before : before + fixed]
        carry = operands[before + fixed :]
        while True:
            (on,) = yield from self.follow(stop, [*asked, *carry])
            if on is None:
                if _is_quiet(eqn):
                    return [None] * len(eqn.outvars)
                raise NotFollowed("a loop that depends on data")
            if not on:
                return carry
            carry = yield from self.follow(body, [*constants, *carry])

    # ---- what matters to others ----

    def _events(self, eqn: core.JaxprEqn, env: dict[Any, Any]) -> Iterator[Event] | None:
        """The events of an equation that is one of Mosaic GPU's; None of all others."""
        made = _EVENTS.get(eqn.primitive.name)
        return None if made is None else iter(made(self, _Read(eqn, env, self.file)))


class _Read:
    """An equation of Mosaic GPU's: its operands and their transforms, one after another."""

    def __init__(self, eqn: core.JaxprEqn, env: dict[Any, Any], file: str) -> None:
        self.name, self.params, self._env = eqn.primitive.name, eqn.params, env
        self.line = line_of(eqn.source_info, file)
        self._atoms = list(eqn.invars)

    def value(self, atom: Any) -> int | None:
        found = resolved(self._env, atom)
        return None if found is None or isinstance(found, (Memory, Table)) else int(found)

    def entry(self) -> int | None:
        """The number that is read of a table; None where more is read, or which is not known."""
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

    def part(self, atom: Any, transforms: list[Any]) -> Part | None:
        """The part of shared memory that an operand stands for; None of anything else."""
        memory = resolved(self._env, atom)
        if not isinstance(memory, Memory):
            return None
        return part_of(memory, transforms, self.value)

    def wanted(self) -> bool:
        """Whether the predicate that comes last, if there is one, lets it happen."""
        if not self.params.get("has_user_predicate"):
            return True
        if (value := self.value(self._atoms[-1])) is None:
            raise NotFollowed("a predicate that depends on data")
        return bool(value)

    def barrier(self, atom: Any, transforms: list[Any]) -> Part:
        found = self.part(atom, transforms)
        if found is None or not found.memory.arrivals:
            raise NotFollowed("a barrier of another kind")
        if found.box is None and not found.whole:
            raise NotFollowed("a barrier whose number is not known")
        return found

    def count(self) -> int:
        """How many may be left: a parameter on jax 0.12, an operand on 0.10."""
        value = self.params.get("n", self.params.get("wait_n"))
        if value is None and self._atoms:
            value = self.value(self._atoms[-1])
        if value is None:
            raise NotFollowed("a wait for a number that depends on data")
        return int(value)


def _stored(_: Thread, read: _Read) -> list[Event]:
    ref = read.take()
    if read.name != "store":
        if read.name == "swap" or read.name == "addupdate":
            read.take()
        part = read.part(ref, read.transforms("tree"))
    else:
        part = read.part(ref, [])
        part = part and Part(part.memory)  # which elements is not looked at
    return [Event(Does.STORE, (part,), read.line)] if part else []


def _copied_in(_: Thread, read: _Read) -> list[Event]:
    if read.params.get("collective_axes") or not read.params.get("has_barrier", True):
        raise NotFollowed("a copy for several blocks")
    wanted = read.wanted()
    _, target, barrier = read.take(), read.take(), read.take()
    read.transforms("src_transforms_treedef")
    part = read.part(target, read.transforms("dst_transforms_treedef"))
    at = read.barrier(barrier, read.transforms("barrier_transforms_treedef"))
    if part is None:
        raise NotFollowed("a copy to something else")
    return [Event(Does.COPY_IN, (part,), read.line, barrier=at)] if wanted else []


def _copied_out(_: Thread, read: _Read) -> list[Event]:
    wanted = read.wanted()
    source, _target = read.take(), read.take()
    part = read.part(source, read.transforms("src_transforms_treedef"))
    if part is None:
        raise NotFollowed("a copy from something else")
    grouped = bool(read.params.get("commit_group", True))
    if not wanted:
        return [Event(Does.GROUP)] if grouped else []
    return [Event(Does.COPY_OUT, (part,), read.line, grouped=grouped)]


def _multiplied(_: Thread, read: _Read) -> list[Event]:
    _accumulator, left, right = read.take(), read.take(), read.take()
    read.transforms("acc_transforms_tree")
    parts = [read.part(left, read.transforms("a_transforms_tree"))]
    parts.append(read.part(right, read.transforms("b_transforms_tree")))
    return [Event(Does.WGMMA, tuple(part for part in parts if part), read.line)]


def _multiplied_into(_: Thread, read: _Read) -> list[Event]:
    """tcgen05_mma: its operands, the barrier if it has one, then the transforms of each."""
    if any(read.params.get(name) for name in ("collective_axis", "scaled", "sparse")):
        raise NotFollowed("a product of another kind")
    target, left, right, _adds = (read.take() for _ in range(4))
    arrives = read.take() if read.params["arrive"] else None
    into = read.part(target, read.transforms("acc_transforms_tree"))
    parts = [read.part(left, read.transforms("a_transforms_tree"))]
    parts.append(read.part(right, read.transforms("b_transforms_tree")))
    if into is None:
        raise NotFollowed("a product into something else")
    at = None
    if arrives is not None:
        at = read.barrier(arrives, read.transforms("barrier_transforms_tree"))
    kept = tuple(part for part in parts if part)
    return [Event(Does.MMA, kept, read.line, barrier=at, into=into)]


def _told(_: Thread, read: _Read) -> list[Event]:
    if read.params.get("collective_axis"):
        raise NotFollowed("products of several blocks")
    wanted = read.wanted()
    at = read.barrier(read.take(), read.transforms("barrier_transforms_tree"))
    return [Event(Does.TELL, (at,), read.line)] if wanted else []


def _loaded(_: Thread, read: _Read) -> list[Event]:
    part = read.part(read.take(), read.transforms("tree"))
    return [Event(Does.LOAD, (part,), read.line)] if part else []


def _at_barrier(does: tuple[Does, ...]) -> Any:
    def events(_: Thread, read: _Read) -> list[Event]:
        wanted = read.wanted()
        at = read.barrier(read.take(), read.transforms("transforms_treedef"))
        return [Event(each, (at,), read.line) for each in does if wanted]

    return events


def _waited(does: Does) -> Any:
    return lambda _, read: [Event(does, line=read.line, count=read.count())]


_EVENTS: Mapping[str, Any] = {
    **dict.fromkeys(_STORES, _stored),
    "commit_smem": lambda _, read: [Event(Does.COMMIT, line=read.line)],
    "copy_gmem_to_smem": _copied_in,
    "copy_smem_to_gmem": _copied_out,
    "commit_group": lambda _, read: [Event(Does.GROUP, line=read.line)],
    "wait_smem_to_gmem": _waited(Does.WAIT_OUT),
    "wgmma_ref": _multiplied,
    "wgmma_wait": _waited(Does.WAIT_WGMMA),
    **dict.fromkeys(_DEREFS, _waited(Does.WAIT_WGMMA)),
    "wgmma_accumulator_store": lambda _, read: [],
    "wgmma_accumulator_store_p": lambda _, read: [],
    "tcgen05_mma": _multiplied_into,
    "tcgen05_commit_arrive": _told,
    "async_load": _loaded,
    "wait_load_tmem": lambda _, read: [Event(Does.WAIT_LOAD, line=read.line)],
    "barrier_arrive": _at_barrier((Does.ARRIVE,)),
    "barrier_wait": _at_barrier((Does.WAIT,)),
    "barrier_arrive_and_wait": _at_barrier((Does.ARRIVE, Does.WAIT)),
}


def _is_quiet(eqn: core.JaxprEqn) -> bool:
    """Whether nothing inside an equation touches a Ref or a barrier, reads of Refs aside."""
    names = [each.primitive.name for inner in inner_jaxprs(eqn) for each in _every(inner)]
    return not any(name in _EVENTS or name == "run_scoped" for name in names) and not any(
        "barrier" in name or "semaphore" in name or "tcgen05" in name or "async" in name
        for name in names
    )


def _every(jaxpr: core.Jaxpr) -> Iterator[core.JaxprEqn]:
    for eqn in jaxpr.eqns:
        yield eqn
        for inner in inner_jaxprs(eqn):
            yield from _every(inner)


def _arrivals(aval: Any) -> int:
    dtype = getattr(getattr(aval, "inner_aval", aval), "dtype", None)
    if type(dtype).__name__ != "BarrierType":
        return 0
    return int(getattr(dtype, "num_arrivals", 0))
