"""Constant folding: values known before a kernel runs, also in shard_map.

These are sizes of dynamic grids, scalar prefetch, and tables that a kernel's scalar core or its
threads read. They are computed on the host from a launch's arguments. JAX removes the part of the
program that they don't depend on, so that no large matrices are multiplied for four group sizes.

The body of a `shard_map` is vmapped over the axes of the mesh, under their names, so that
collectives mean the same as on devices.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core
from jax.sharding import AbstractMesh
from jax.typing import ArrayLike

from pallascope.kernels.calls import is_for_gpus
from pallascope.kernels.evaluator import Env, Evaluator, bind
from pallascope.kernels.jaxprs import (
    Atom,
    Shaped,
    called,
    has_effects,
    inner_jaxprs,
    is_identity,
    is_scalar,
    loop_carried,
    loop_constants,
    memory_space,
    primitives,
    unchanged,
)
from pallascope.kernels.manual_dma import copied_into_smem
from pallascope.kernels.pallas_params import (
    KERNELS,
    body,
    grid_mapping,
    is_pallas_call,
)
from pallascope.kernels.sharding import SHARD_MAP, axes_of
from pallascope.model import Axes


def mesh_of(eqn: core.JaxprEqn) -> Axes:
    """The axes that a `shard_map` makes, in the mesh's order."""
    named = axes_of(eqn)
    return tuple((name, size) for name, size in eqn.params["mesh"].shape.items() if name in named)


def _parts(array: jax.Array, spec: Any, mesh: Axes) -> jax.Array:
    """A whole array, cut by a spec: the parts of all devices, with the mesh's axes first."""
    parts = []
    for place in itertools.product(*(range(size) for _, size in mesh)):
        at = dict(zip((name for name, _ in mesh), place, strict=True))
        part = array
        for dimension, entry in enumerate(spec):
            names = entry if isinstance(entry, tuple) else (entry,) * (entry is not None)
            for name in names:
                size = part.shape[dimension] // dict(mesh)[name]
                first = at[name] * size
                part = jax.lax.slice_in_dim(part, first, first + size, axis=dimension)
        parts.append(part)
    return jnp.stack(parts).reshape(*(size for _, size in mesh), *parts[0].shape)


#: These programs run once, on a few numbers, so most of their time is compilation. Halves it.
_QUICKLY = {"xla_backend_optimization_level": 0}


@contextlib.contextmanager
def on_host() -> Iterator[None]:
    """Compute on the CPU, even within `for_chip`, whose TPU doesn't exist here."""
    cpu = jax.local_devices(backend="cpu")[0]
    with jax.default_device(cpu), jax.sharding.use_abstract_mesh(AbstractMesh((), ())):
        yield


def computed(
    function: Callable[..., Sequence[jax.Array]], *args: ArrayLike
) -> list[np.ndarray] | None:
    """The results of `function` on host arrays, compiled as a whole; None on failure.

    An expression may need a TPU or a mesh of devices. That isn't an error of the launch: its value
    is unknown, whatever exception jax raises.
    """
    try:
        with on_host():
            program = jax.jit(function, compiler_options=_QUICKLY)
            return [np.asarray(result) for result in program(*args)]
    except Exception:
        return None


#: A larger array of whole numbers isn't a table.
_MAX_TABLE = 65_536
#: More runs of a kernel in loops aren't looked at one by one.
_MAX_TURNS = 4096
_LEAVES_THE_DEVICE = ("pure_callback", "io_callback", "debug_callback")


def known_values(
    closed: core.ClosedJaxpr, args: Sequence[ArrayLike | jax.ShapeDtypeStruct | None]
) -> list[list[np.ndarray | None]]:
    """For each kernel, its grid bounds, scalar prefetch, and inputs in SMEM or copied into it; or
    the tables of a kernel for GPUs. Unknown ones are None.

    `closed` is the trace of a launch, `args` its inputs: arrays, or a ShapeDtypeStruct or None
    if the contents are unknown. In program order, as `OutsideReader` gathers the kernels.
    """
    unknown = [arg is None or isinstance(arg, jax.ShapeDtypeStruct) for arg in args]
    known: list[Any] = list(itertools.compress(args, map(operator.not_, unknown)))
    reader = ValueReader()

    def program(*arrays: jax.Array) -> list[jax.Array]:
        rest = iter(arrays)
        reader.evaluate(closed, [None if is_unknown else next(rest) for is_unknown in unknown])
        return reader.values

    with on_host():
        traced = core.jaxpr_as_fun(jax.make_jaxpr(program)(*known))
    values: Sequence[np.ndarray | None] | None = computed(traced, *known) if reader.values else []
    if values is None:  # then one by one, because some of them fail
        numbers = range(len(reader.values))
        one_by_one = [computed(lambda *given, n=n: [traced(*given)[n]], *known) for n in numbers]
        values = [one[0] if one else None for one in one_by_one]
    return [[None if n is None else values[n] for n in read] for _, read in reader.kernels]


def values_of_turns(
    closed: core.ClosedJaxpr, args: Sequence[ArrayLike | jax.ShapeDtypeStruct | None]
) -> list[list[list[np.ndarray | None]]]:
    """For each kernel in loops of known length, the values of `known_values` for each of its runs.

    `jax.vmap` over a table is such a loop. Large arrays count as unknown, except those of whole
    numbers. A kernel without loops around it, or with too many runs, has an empty list. Empty if
    jax can't compute the values.
    """
    arrays = (np.ndarray, np.generic, jax.Array)
    known = [arg if isinstance(arg, arrays) and _is_for_tables(arg) else None for arg in args]
    reader = TurnReader()

    def program(*arrays: jax.Array) -> list[jax.Array]:
        rest = iter(arrays)
        reader.evaluate(closed, [None if arg is None else next(rest) for arg in known])
        return reader.values

    found = computed(program, *(arg for arg in known if arg is not None))
    if found is None:
        return []
    turns: list[list[list[np.ndarray | None]]] = []
    for (_, read), lengths in zip(reader.kernels, reader.lengths, strict=True):
        count = math.prod(lengths)
        if not lengths or count > _MAX_TURNS:
            turns.append([])
            continue
        each = [
            None if n is None else found[n].reshape(count, *found[n].shape[len(lengths) :])
            for n in read
        ]
        turns.append([[None if one is None else one[at] for one in each] for at in range(count)])
    return turns


def _is_for_tables(array: Any) -> bool:
    """Whether a table may depend on an array: one of whole numbers, or a small one."""
    dtype = getattr(array, "dtype", None)
    if dtype is None:
        return isinstance(array, (int, float))
    if jnp.issubdtype(dtype, jnp.integer) or jnp.issubdtype(dtype, jnp.bool_):
        return True
    return jnp.issubdtype(dtype, jnp.number) and math.prod(array.shape) <= _MAX_TABLE


class ValueReader(Evaluator):
    """Evaluates a trace outside of its kernels, as far as its inputs are known.

    `kernels` are the kernels with their needed values: positions in `values`, or None.
    """

    def __init__(self, *, in_shard_map: bool = False) -> None:
        self.values: list[jax.Array] = []
        self.kernels: list[tuple[core.JaxprEqn, list[int | None]]] = []
        self._in_shard_map = in_shard_map

    def operation(self, eqn: core.JaxprEqn, inputs: list[Any], env: Env) -> Sequence[Any]:
        name, unknown = eqn.primitive.name, [None] * len(eqn.outvars)
        if name in KERNELS:
            self._note(eqn, _read_by_scalars(eqn, inputs))
            return unknown
        if name == SHARD_MAP and not self._in_shard_map:
            self._on_all_devices(eqn, inputs)
            return unknown
        if (jaxpr := called(eqn)) is not None:
            return self.evaluate(jaxpr, inputs)
        if is_identity(eqn):  # of several arrays, of which some may be unknown
            return inputs[: len(eqn.outvars)]
        inside = inner_jaxprs(eqn)
        if not all(map(set(KERNELS).isdisjoint, map(primitives, inside))):
            self._read_inside(eqn, inputs)
            return unknown
        if any(value is None for value in inputs) or has_effects(eqn) or _leaves_the_device(eqn):
            return unknown
        try:
            return bind(eqn, inputs)
        except Exception:  # jax raises any exception if only a TPU or a mesh can evaluate it
            return unknown

    def _read_inside(self, eqn: core.JaxprEqn, inputs: Sequence[Any]) -> None:
        """Read the jaxprs of a loop, or of other operations that contain kernels."""
        for jaxpr in inner_jaxprs(eqn):
            self.evaluate(jaxpr, _into(eqn, jaxpr, inputs))

    def _note(self, kernel: core.JaxprEqn, values: Sequence[Any]) -> None:
        known = [value for value in values if value is not None]
        numbers = itertools.count(len(self.values))
        self.kernels.append((kernel, [None if v is None else next(numbers) for v in values]))
        self.values.extend(map(jnp.asarray, known))

    def _on_all_devices(self, eqn: core.JaxprEqn, inputs: Sequence[Any]) -> None:
        """Evaluates the body of a shard_map on all devices, and keeps the busiest one's values."""
        mesh, (body,) = mesh_of(eqn), inner_jaxprs(eqn)
        sizes = [size for _, size in mesh]
        parts = [
            None if whole is None else _parts(jnp.asarray(whole), spec, mesh)
            for whole, spec in zip(inputs, eqn.params["in_specs"], strict=True)
        ]
        reader = ValueReader(in_shard_map=True)

        def on_one(_: jax.Array, *known: jax.Array) -> list[jax.Array]:
            rest = iter(known)
            reader.evaluate(body, [None if part is None else next(rest) for part in parts])
            return reader.values

        mapped = on_one
        for name, _ in reversed(mesh):
            mapped = jax.vmap(mapped, axis_name=name)
        stacked = mapped(jnp.zeros(sizes), *(part for part in parts if part is not None))
        for kernel, read in reader.kernels:
            values = [
                None if n is None else stacked[n].reshape(-1, *stacked[n].shape[len(sizes) :])
                for n in read
            ]
            steps = jnp.ones(math.prod(sizes), jnp.int32)
            for size in values[: _dynamic_sizes(kernel)]:
                steps = steps if size is None else steps * size.reshape(-1)
            busiest = jnp.argmax(steps)
            self._note(kernel, [None if each is None else each[busiest] for each in values])


class TurnReader(ValueReader):
    """The same, with the values of all iterations of each `lax.scan` around a kernel, stacked.

    `lengths` are those of the scans around each kernel, the outermost first; they are the first
    axes of its values.
    """

    def __init__(self) -> None:
        super().__init__()
        self.lengths: list[tuple[int, ...]] = []

    def _note(
        self, kernel: core.JaxprEqn, values: Sequence[Any], lengths: tuple[int, ...] = ()
    ) -> None:
        super()._note(kernel, values)
        self.lengths.append(lengths)

    def _read_inside(self, eqn: core.JaxprEqn, inputs: Sequence[Any]) -> None:
        if eqn.primitive.name != "scan":
            return super()._read_inside(eqn, inputs)
        whole = [None if x is None or not _is_for_tables(x) else jnp.asarray(x) for x in inputs]
        fixed, carried = loop_constants(eqn), loop_carried(eqn)
        constants, carry, rows = whole[:fixed], whole[fixed:], whole[fixed + carried :]
        carry = self._carried(eqn, constants, carry[:carried], rows)
        reader = TurnReader()

        def turn(state: Sequence[Any], row: Sequence[Any]) -> tuple[Sequence[Any], list[jax.Array]]:
            nonlocal reader
            reader = TurnReader()
            results = reader.evaluate(eqn.params["jaxpr"], [*constants, *state, *row])
            return _like(state, results), reader.values

        given = {"length": eqn.params["length"], "reverse": eqn.params["reverse"]}
        _, stacked = jax.lax.scan(turn, carry, rows, **given)
        for (kernel, read), lengths in zip(reader.kernels, reader.lengths, strict=True):
            values = [None if n is None else stacked[n] for n in read]
            self._note(kernel, values, (eqn.params["length"], *lengths))
        return None

    @staticmethod
    def _carried(
        eqn: core.JaxprEqn, constants: Sequence[Any], carry: list[Any], rows: Sequence[Any]
    ) -> list[Any]:
        """The carry before the first iteration, without arrays that become unknown in a later."""
        while True:
            given = [*constants, *carry, *(None if row is None else row[0] for row in rows)]
            results = TurnReader().evaluate(eqn.params["jaxpr"], given)
            known = [
                None if new is None else old
                for old, new in zip(carry, results[: len(carry)], strict=True)
            ]
            if [one is None for one in known] == [one is None for one in carry]:
                return known
            carry = known


def _like(state: Sequence[Any], results: Sequence[Any]) -> list[Any]:
    """A loop's results as its next carry: the arrays that are known in `state`, in their dtypes."""
    pairs = zip(state, results[: len(state)], strict=True)
    return [None if old is None else jnp.asarray(new, old.dtype) for old, new in pairs]


def _read_by_scalars(kernel: core.JaxprEqn, inputs: Sequence[Any]) -> list[Any]:
    """Sizes of the grid, scalar prefetch, and inputs in SMEM or that the kernel copies into it; for
    a kernel for GPUs, tables of whole numbers. None for each other input."""
    if is_for_gpus(kernel):
        tables = map(_is_table, kernel.invars)
        return [value if table else None for value, table in zip(inputs, tables, strict=True)]
    copied = copied_into_smem(body(kernel))
    if not is_pallas_call(kernel):
        refs = body(kernel).invars[: len(inputs)]
        in_smem = [
            memory_space(ref.aval) == "smem" or is_scalar(ref) or position in copied
            for position, ref in enumerate(refs)
        ]
        return [source if smem else None for source, smem in zip(inputs, in_smem, strict=True)]
    mapping = grid_mapping(kernel)
    needed = _dynamic_sizes(kernel) + mapping.num_index_operands
    specs = mapping.block_mappings[: mapping.num_inputs]
    in_smem = [
        memory_space(spec.transformed_block_aval) == "smem" or position in copied
        for position, spec in enumerate(specs, mapping.num_index_operands)
    ]
    tables = zip(inputs[needed:], in_smem, strict=False)
    return [*inputs[:needed], *(source if smem else None for source, smem in tables)]


def _is_table(atom: Atom) -> bool:
    """Whether an array is small, and of whole numbers."""
    aval = atom.aval
    if not isinstance(aval, Shaped) or np.dtype(aval.dtype).kind not in "iub":
        return False
    return math.prod(aval.shape) <= _MAX_TABLE


def _dynamic_sizes(kernel: core.JaxprEqn) -> int:
    if not is_pallas_call(kernel):
        return 0
    return sum(not isinstance(size, int) for size in grid_mapping(kernel).grid)


def _into(eqn: core.JaxprEqn, inner: core.Jaxpr, inputs: Sequence[Any]) -> Sequence[Any]:
    """The known inputs of an inner jaxpr, without the carry of a loop that changes."""
    match eqn.primitive.name:
        case "cond":  # the first operand chooses the branch
            return inputs[1:]
        case "scan":
            fixed, carried = loop_constants(eqn), loop_carried(eqn)
            same = unchanged(inner, fixed, carried)
        case "while":
            first, fixed = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
            carry = inputs[first + fixed :]
            body = eqn.params["body_jaxpr"].jaxpr
            same = unchanged(body, fixed, len(carry))
            if inner is not body:
                kept = [value if one else None for value, one in zip(carry, same, strict=True)]
                return [*inputs[:first], *kept]
            inputs = inputs[first:]
        case _:
            return [None] * len(inner.invars)
    kept = zip(inputs[fixed : fixed + len(same)], same, strict=True)
    known = [*inputs[:fixed], *(value if one else None for value, one in kept)]
    return [*known, *[None] * (len(inner.invars) - len(known))]


def _leaves_the_device(eqn: core.JaxprEqn) -> bool:
    inner = (name for jaxpr in inner_jaxprs(eqn) for name in primitives(jaxpr))
    return any(name in _LEAVES_THE_DEVICE for name in (eqn.primitive.name, *inner))
