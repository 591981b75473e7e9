"""Whether a kernel has to do with other chips: copies, signals, its own place among them."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import jax
from jax.extend import core

from grader.kernels.copies import is_remote
from grader.kernels.jaxprs import inner_jaxprs

OTHER_CHIPS = (
    "it communicates with other chips, and what that takes is not predicted: each kernel is "
    "compiled alone, for one chip"
)


def meets_other_chips(kernel: core.Jaxpr, own_axes: Collection[object]) -> bool:
    """Whether a kernel's body does. `own_axes` are the axes of its grid or mesh, by name."""
    return any(_is_among_chips(eqn, own_axes) for eqn in _equations(kernel))


def _equations(jaxpr: core.Jaxpr) -> Iterator[core.JaxprEqn]:
    for eqn in jaxpr.eqns:
        yield eqn
        for inner in inner_jaxprs(eqn):
            yield from _equations(inner)


def _is_among_chips(eqn: core.JaxprEqn, own_axes: Collection[object]) -> bool:
    match eqn.primitive.name:
        case "dma_start":
            return is_remote(eqn)
        case "semaphore_signal":
            *_, device, _core = jax.tree.unflatten(eqn.params["args_tree"], eqn.invars)
            return device is not None
        case "axis_index":
            name = eqn.params["axis_name"]
            names = name if isinstance(name, tuple) else (name,)
            return any(one not in own_axes for one in names)
        case "get_barrier_semaphore":
            return True
    return False
