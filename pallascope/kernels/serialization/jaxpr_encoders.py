"""Encoders of jaxprs: variables, equations, contexts; refused operations and debug prints."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from jax.extend import core as public

from pallascope.kernels.jax_internals import (
    ArrayCopySemantics,
    DebugInfo,
    NameStack,
    SourceInfo,
    Traceback,
)
from pallascope.kernels.jax_internals import jax_core as core
from pallascope.kernels.serialization.encoding import (
    Form,
    NotSerializable,
    constructed,
    interned,
    member,
)
from pallascope.kernels.serialization.python_encoders import (
    REFUSED,
    FunctionName,
    home_of,
    peeks,
    primitive_at,
    stand_in,
    stand_in_for_rule,
)

_CONTEXT = (
    "compute_type",
    "threefry_partitionable",
    "cur_abstract_mesh",
    "cur_layout_mode",
    "remove_size_one_mesh_axis",
    "no_collectives",
    "xla_metadata",
)
_ATOMS = (core.Var, core.Literal)
_SETS = (set, frozenset)
#: jax 0.12 has one class of jaxprs, which holds the values of its constants.
_ONE_CLASS = public.ClosedJaxpr is core.Jaxpr


def equation_forms() -> Iterator[Form]:
    """The forms of jaxprs and of the objects to which equations refer."""
    yield Form("Var", core.Var, _var, core.Var)
    yield Form("DropVar", core.DropVar, _var, core.DropVar)
    yield constructed(core.Literal, ("val", "aval"), "Literal", _sound_literal)
    yield Form("equation", core.JaxprEqn, _equation_parts, _equation)
    yield Form("SourceInfo", SourceInfo, lambda one: (one.traceback, one.name_stack), _source)
    yield interned(core.JaxprEqnContext, _CONTEXT, _sound_context)
    yield Form("primitive", core.Primitive, _home, primitive_at)
    yield Form("DebugInfo", DebugInfo, _debug_info_parts, _debug_info)
    yield Form("left behind", FunctionName, lambda one: (one.name, one.debug_info), _stand_in)
    names = ("constvars", "invars", "outvars", "eqns", "effects", "debug_info", "is_high")
    if _ONE_CLASS:
        names = (*names, "consts")
    else:
        yield constructed(public.ClosedJaxpr, ("jaxpr", "consts"), "ClosedJaxpr", _sound_closed)
    yield member(ArrayCopySemantics)  # of a device_put
    form = constructed(core.Jaxpr, names, "Jaxpr", _sound_jaxpr)
    yield dataclasses.replace(form, parts=lambda one: map(_no_tracers, form.parts(one)))


def _all(members: Any, kind: type | tuple[type, ...], container: Any = list) -> None:
    """Raises TypeError unless `members` is a container of such objects."""
    if not isinstance(members, container) or not all(isinstance(one, kind) for one in members):
        raise TypeError(f"something other than {kind}")


def _var(var: Any) -> tuple[Any]:
    if getattr(var, "initial_qdd", None) is not None:
        raise NotSerializable("a value whose type changes while it is used")
    return (var.aval,)


def _sound_literal(literal: Any) -> None:
    _all([literal.aval], core.AbstractValue)


def _equation_parts(eqn: Any) -> tuple[Any, ...]:
    if peeks(eqn.primitive.name, eqn.params):
        raise NotSerializable("a debug print whose format looks into its values")
    if any(target is not None for target in eqn.params.get("devices") or ()):
        raise NotSerializable("a device_put to a device: call jax.device_put outside of the launch")
    where = eqn.source_info, eqn.ctx
    return eqn.invars, eqn.outvars, eqn.primitive, eqn.params, eqn.effects, *where


def _equation(*parts: Any) -> Any:
    eqn = core.JaxprEqn(*parts)
    _all(eqn.invars, _ATOMS)
    _all(eqn.outvars, core.Var)
    _all(eqn.effects, core.Effect, _SETS)
    _all(list(eqn.params), str)
    _all([eqn.primitive], core.Primitive)
    _all([eqn.source_info], SourceInfo)
    _all([eqn.ctx], core.JaxprEqnContext)
    if peeks(eqn.primitive.name, eqn.params):
        raise ValueError("a debug print whose format looks into its values")
    return eqn


def _source(traceback: Any, name_stack: Any) -> Any:
    _all([traceback], (Traceback, type(None)))
    _all([name_stack], NameStack)
    return SourceInfo(traceback, name_stack)


def _sound_context(*parts: Any) -> None:
    names = dict(zip(_CONTEXT, parts, strict=False))
    _all([names["compute_type"]], (str, type(None)))
    _all([names["threefry_partitionable"]], bool)


def _home(primitive: Any) -> tuple[str, str]:
    if (home := home_of(primitive)) is None:
        if primitive.name in REFUSED:
            raise NotSerializable(f"the operation {primitive.name}, {REFUSED[primitive.name]}")
        raise NotSerializable(f"the operation {primitive.name}, which is not one of JAX's own")
    return home


def _debug_info_parts(info: Any) -> tuple[Any, ...]:
    paths = info.result_paths
    return *info[:3], paths if isinstance(paths, tuple) else None


def _debug_info(*parts: Any) -> Any:
    info = DebugInfo(*parts)
    _all([info.traced_for, info.func_src_info], str)
    for texts in (info.arg_names, info.result_paths):
        _all(texts or (), str, tuple)
    return info


def _stand_in(name: str, debug_info: Any) -> Any:
    return stand_in(name) if debug_info is None else stand_in_for_rule(name, debug_info)


def _no_tracers(part: Any) -> Any:
    """Replaces constants that an equation is given as well, which jax 0.12 keeps as tracers."""
    if isinstance(part, list) and any(isinstance(one, core.Tracer) for one in part):
        return [None if isinstance(one, core.Tracer) else one for one in part]
    return part


def _sound_jaxpr(jaxpr: Any) -> None:
    _all(jaxpr.constvars, core.Var)
    _all(jaxpr.invars, core.Var)
    _all(jaxpr.outvars, _ATOMS)
    _all(jaxpr.eqns, core.JaxprEqn)
    _all(jaxpr.effects, core.Effect, _SETS)
    _all([jaxpr.debug_info], DebugInfo)


def _sound_closed(closed: Any) -> None:
    _all([closed.jaxpr], core.Jaxpr)


def constants_of(closed: Any) -> Sequence[tuple[Any, Any]]:
    """The constants of a trace, each with its variable."""
    return list(zip(closed.jaxpr.constvars, closed.consts, strict=True))
