"""The forms of what makes up a jaxpr, and of classes that need more care than their attributes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

from jax.extend import core as public

from grader.kernels.carrier import arrays, trees
from grader.kernels.carrier.errors import NotCarried
from grader.kernels.carrier.forms import Form, constructed, filled, found, named, single
from grader.kernels.carrier.left_behind import Behind, stand_in, stand_in_for_rule
from grader.kernels.carrier.limits import MOST_GRID_DIMENSIONS
from grader.kernels.carrier.operations import home_of, primitive_at
from grader.kernels.jaxprs import UnsupportedJax

try:
    from jax._src import core, mesh, named_sharding, partition_spec, source_info_util
    from jax._src.linear_util import DebugInfo
    from jax._src.literals import TypedFloat, TypedInt
    from jax._src.pallas import core as pallas
    from jax._src.pallas.mosaic import core as mosaic
    from jax._src.state.types import AbstractRef  # noqa: F401
except ImportError:
    raise UnsupportedJax("jax._src.core, or the core of Pallas") from None

_SINGLES = {
    "jax._src.callback": "_IOEffect _OrderedIOEffect",
    "jax._src.core": "array_ref_effect abstract_token",
    "jax._src.debugging": "debug_effect ordered_debug_effect",
    "jax._src.lax.lax": "no_dce_effect",
    "jax._src.layout": "AutoLayout",
    "jax._src.lax.parallel": "single_side_collective_effect",
    "jax._src.named_sharding": "UNSPECIFIED",
    "jax._src.partition_spec": "_UNCONSTRAINED_PARTITION",
    "jax._src.pallas.core": "comms_effect dynamic_grid_dim",
    "jax._src.pallas.mosaic.primitives": "prng_effect trace_effect mxu_effect",
    "jax._src.pallas.primitives": "sem_effect delay_effect",
}


def forms() -> Iterator[Form]:
    """The forms of containers, jaxprs, and what equations refer to."""
    yield from _containers()
    yield from arrays.forms()
    yield from trees.forms()
    yield from _jaxprs()
    yield from _types()
    for module, names in _SINGLES.items():
        for name in names.split():
            yield from (single(f"{module[9:]}.{name}", one) for one in found(module, name))


def _containers() -> Iterator[Form]:
    yield Form("tuple", tuple, tuple, lambda *parts: parts)
    yield Form("list", list, list, lambda *parts: list(parts))
    yield Form("set", set, _in_order, lambda *parts: set(parts))
    yield Form("frozenset", frozenset, _in_order, lambda *parts: frozenset(parts))
    yield Form("dict", dict, _pairs, _dict)
    yield Form("slice", slice, lambda one: (one.start, one.stop, one.step), slice)
    yield Form("ellipsis", type(...), lambda _: (), lambda: ...)
    for kind in found("jax._src.frozen_dict", "FrozenDict"):
        yield Form(named(kind), kind, _pairs, lambda *parts, kind=kind: kind(_dict(*parts)))


def _in_order(members: Iterable[Any]) -> list[Any]:
    return sorted(members, key=repr)


def _pairs(mapping: Any) -> list[Any]:
    return [part for pair in mapping.items() for part in pair]


def _dict(*parts: Any) -> dict[Any, Any]:
    return dict(zip(parts[::2], parts[1::2], strict=True))


def _jaxprs() -> Iterator[Form]:
    yield Form("Var", core.Var, _var, core.Var)
    yield constructed(core.Literal, ("val", "aval"), "Literal")
    yield Form("eqn", core.JaxprEqn, _equation, _checked_equation)
    yield Form("SourceInfo", source_info_util.SourceInfo, _source, source_info_util.SourceInfo)
    yield _interned(core.JaxprEqnContext, _CONTEXT)
    yield Form("primitive", core.Primitive, _home, primitive_at)
    yield Form("DebugInfo", DebugInfo, _debug_info, DebugInfo)
    yield Form("left behind", Behind, lambda one: (one.name, one.debug_info), _stand_in)
    names = ["constvars", "invars", "outvars", "eqns", "effects", "debug_info", "is_high"]
    if public.ClosedJaxpr is core.Jaxpr:  # jax 0.12: a jaxpr holds the values of its constants
        names.append("consts")
    else:
        yield constructed(public.ClosedJaxpr, ("jaxpr", "consts"), "ClosedJaxpr")
    form = constructed(core.Jaxpr, names, "Jaxpr")
    yield dataclasses.replace(form, parts=lambda one: map(_no_tracers, form.parts(one)))


def _no_tracers(part: Any) -> Any:
    """Constants that the equation is given as well, jax 0.12 keeps as what they were in tracing."""
    if isinstance(part, list) and any(isinstance(one, core.Tracer) for one in part):
        return [None if isinstance(one, core.Tracer) else one for one in part]
    return part


_CONTEXT = (
    "compute_type",
    "threefry_partitionable",
    "cur_abstract_mesh",
    "cur_layout_mode",
    "remove_size_one_mesh_axis",
    "no_collectives",
    "xla_metadata",
)


def _var(var: Any) -> tuple[Any]:
    if getattr(var, "initial_qdd", None) is not None:
        raise NotCarried("a value whose type changes while it is used")
    return (var.aval,)


def _equation(eqn: Any) -> tuple[Any, ...]:
    return (
        eqn.invars,
        eqn.outvars,
        eqn.primitive,
        eqn.params,
        eqn.effects,
        eqn.source_info,
        eqn.ctx,
    )


def _checked_equation(*parts: Any) -> Any:
    eqn = core.JaxprEqn(*parts)
    kinds = (list, list, core.Primitive, dict, (set, frozenset), source_info_util.SourceInfo)
    for part, kind in zip(parts, kinds, strict=False):
        if not isinstance(part, kind):
            raise TypeError(f"an equation needs {kind}, not {type(part)}")
    if not isinstance(eqn.ctx, core.JaxprEqnContext):
        raise TypeError("an equation needs its context")
    return eqn


def _source(info: Any) -> tuple[Any, ...]:
    return info.traceback, info.name_stack


def _home(primitive: Any) -> tuple[str, str]:
    if (home := home_of(primitive)) is None:
        raise NotCarried(f"the operation {primitive.name}, which is not one of JAX's own")
    return home


def _debug_info(info: Any) -> tuple[Any, ...]:
    paths = info.result_paths
    return *info[:3], paths if isinstance(paths, tuple) else None


def _stand_in(name: str, debug_info: Any) -> Any:
    return stand_in(name) if debug_info is None else stand_in_for_rule(name, debug_info)


def _interned(kind: Any, names: Iterable[str]) -> Form:
    """A class of which JAX keeps one object for each set of attributes."""
    names = [name for name in names if name in kind.__slots__]

    def parts(one: Any) -> list[Any]:
        return [getattr(one, name) for name in names]

    def build(*parts: Any) -> Any:
        attributes = dict(zip(names, parts, strict=True))
        if attributes.get("xla_metadata") is not None:
            attributes["xla_metadata"] = tuple(sorted(attributes["xla_metadata"].items()))
        return kind._create(*attributes.values())

    return Form(named(kind), kind, parts, build)


_ARRAY = (
    "shape",
    "dtype",
    "weak_type",
    "sharding",
    "manual_axis_type",
    "memory_space",
    "layout",
)


def _types() -> Iterator[Form]:
    yield _interned(core.ManualAxisType, ("varying", "unreduced", "reduced", "unreduced_kind"))
    yield _interned(core.ShapedArray, _ARRAY)
    yield Form("AbstractMesh", mesh.AbstractMesh, _abstract_mesh, _mesh)
    yield Form("Mesh", mesh.Mesh, _no_devices, lambda: mesh.empty_concrete_mesh)
    yield Form("NamedSharding", named_sharding.NamedSharding, _sharding, _named_sharding)
    spec: Any = partition_spec.PartitionSpec
    yield _interned(spec, ("_partitions", "unreduced", "reduced", "unreduced_kind"))
    yield _grid_mapping()
    yield _compiler_params()
    yield from _tensor_cores()
    for kind in (mosaic.DMASemaphore, pallas.Semaphore, pallas.BarrierSemaphore):
        yield filled(kind, ())
    yield from _flat_trees()


def _abstract_mesh(one: Any) -> tuple[Any, ...]:
    return one.axis_sizes, one.axis_names, one.axis_types, one.abstract_device


def _mesh(sizes: Any, names: Any, types: Any, device: Any) -> Any:
    return mesh.AbstractMesh(sizes, names, types, abstract_device=device)


def _no_devices(one: Any) -> tuple[()]:
    if not one.empty:
        raise NotCarried("a mesh of devices that exist")
    return ()


def _sharding(one: Any) -> tuple[Any, ...]:
    return one.mesh, one.spec, one.memory_kind


def _named_sharding(on: Any, spec: Any, memory_kind: Any) -> Any:
    return named_sharding.NamedSharding(on, spec, memory_kind=memory_kind)


def _grid_mapping() -> Form:
    form = filled(pallas.GridMapping)

    def build(*parts: Any) -> Any:
        mapping = form.build(*parts)
        if len(mapping.grid) > MOST_GRID_DIMENSIONS:
            raise ValueError(f"a grid of {len(mapping.grid)} dimensions")
        return mapping

    return dataclasses.replace(form, build=build)


def _compiler_params() -> Form:
    form = filled(mosaic.CompilerParams)

    def parts(params: Any) -> Iterable[Any]:
        if params.flags:
            raise NotCarried("the flags of CompilerParams")
        return form.parts(params)

    return dataclasses.replace(form, parts=parts)


def _tensor_cores() -> Iterator[Form]:
    for kind in found("jax._src.pallas.mosaic.core", "TensorCoreMesh"):
        if not hasattr(mosaic, "TensorCore"):  # jax 0.12
            yield filled(kind)
            continue

        def parts(one: Any) -> tuple[Any, ...]:
            return one.devices.shape, tuple(core.id for core in one.devices.flat), one.axis_names

        yield Form(named(kind), kind, parts, _cores)


def _cores(shape: Any, ids: Any, names: Any) -> Any:
    devices = arrays.objects([mosaic.TensorCore(number) for number in ids], shape)
    return mosaic.TensorCoreMesh(devices, names)


def _flat_trees() -> Iterator[Form]:
    """How jax 0.12 keeps nested arguments."""
    table = {
        "FTDict": ("keys", "_vals"),
        "FTPyTree": ("xs", "tree"),
        "FTSingleton": ("val",),
        "FTStatic": ("val",),
        "FTFiltered": ("val",),
    }
    for name, names in table.items():
        for kind in found("jax._src.flattree", name):
            yield _by_position(kind, names)
    for kind in found("jax._src.flattree", "FTTuple"):
        yield Form(named(kind), kind, lambda one: one.elts, kind)
    for kind in found("jax._src.util", "Either"):
        yield _by_position(kind, ("is_right", "val"))


def _by_position(kind: Any, names: tuple[str, ...]) -> Form:
    return Form(named(kind), kind, lambda one: [getattr(one, name) for name in names], kind)
