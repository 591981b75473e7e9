"""Whether a trace that was read says of itself what is true: JAX's own check, kernels included.

The interpreter computes with values, Mosaic with the types that are written beside them. Bytes made
by hand could say one thing to each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import jax
from jax.extend import core

from grader.kernels.carrier.errors import CarrierError
from grader.kernels.jax_internals import JaxprTypeError, check_jaxpr, extend_axis_env_nd
from grader.kernels.jaxprs import inner_jaxprs
from grader.kernels.pallas_params import block_size
from grader.kernels.sharding import axes_of


def checked(closed: core.ClosedJaxpr) -> core.ClosedJaxpr:
    """The trace, if every variable in it has the type that its equation gives it.

    Call it within `for_chip`, as the trace was made. Raises CarrierError. Takes about as long as
    reading the bytes.
    """
    try:
        check_jaxpr(closed.jaxpr)
        _check_constants(closed)
        for eqn, axes in _pallas_calls(closed.jaxpr, {}):
            mapping = eqn.params["grid_mapping"]
            with extend_axis_env_nd(list(axes.items())):
                with mapping.trace_env():
                    check_jaxpr(eqn.params["jaxpr"])
                for block in mapping.block_mappings:
                    check_jaxpr(block.index_map_jaxpr.jaxpr)
            _check_blocks(eqn, mapping)
        return closed
    except JaxprTypeError as error:
        reason = str(error).partition("\n")[0]
    except Exception as error:
        reason = type(error).__name__
    raise CarrierError(f"a trace whose types do not fit: {reason}")


def _check_constants(closed: core.ClosedJaxpr) -> None:
    """Whether each constant, here and further inside, has the type of its variable.

    Some of jax 0.12's are left out where an equation is given them too: these are None. Raises
    JaxprTypeError.
    """
    for var, value in zip(closed.jaxpr.constvars, closed.consts, strict=True):
        _demand(value is None or _array(jax.typeof(value)) == _array(var.aval), "a constant")
    for eqn in closed.jaxpr.eqns:
        for param in eqn.params.values():
            for one in param if isinstance(param, (tuple, list)) else (param,):
                if isinstance(one, core.ClosedJaxpr):
                    _check_constants(one)


def _check_blocks(eqn: core.JaxprEqn, mapping: Any) -> None:
    """Whether operands, blocks and Refs have one type each, which they all name.

    The interpreter asks the operands and the BlockSpecs, Mosaic also the types that are written
    beside these. Raises JaxprTypeError.
    """
    bounds = sum(not isinstance(size, int) for size in mapping.grid)
    prefetch, first = mapping.num_index_operands, bounds + mapping.num_index_operands
    blocks, refs = mapping.block_mappings, eqn.params["jaxpr"].invars
    arrays = [*eqn.invars[first:], *eqn.outvars]
    blocked, scratch = refs[prefetch:][: len(blocks)], refs[prefetch + len(blocks) :]
    _demand(len(blocks) == mapping.num_inputs + mapping.num_outputs == len(arrays), "a grid")
    for block, array, ref in zip(blocks, arrays, blocked, strict=True):
        _demand(_array(block.array_aval) == _array(array.aval), "the array of a block")
        _demand(block.ref_aval == ref.aval or bool(block.transforms), "the Ref of a block")
        sizes = (block_size(size) for size in block.block_shape)
        shape = tuple(size for size in sizes if size is not None)
        _demand(bool(block.transforms) or shape == block.ref_aval.shape, "the shape of a block")
        _demand(not block.index_map_jaxpr.consts, "an index map without constants")
    scratch_types = [var.aval for var in scratch]
    _demand(scratch_types == list(mapping.scratch_avals), "scratch")


def _array(aval: Any) -> tuple[Any, ...]:
    return aval.shape, aval.dtype


def _demand(holds: bool, what: str) -> None:
    if not holds:
        raise JaxprTypeError(f"{what} has another type in the kernel")


def _pallas_calls(
    jaxpr: core.Jaxpr, axes: Mapping[str, int]
) -> Iterator[tuple[core.JaxprEqn, Mapping[str, int]]]:
    """Each with the axes of devices that have a name where it stands, and their sizes."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "pallas_call":
            yield eqn, axes
        else:
            within = {**axes, **axes_of(eqn)}
            for inner in inner_jaxprs(eqn):
                yield from _pallas_calls(inner, within)
