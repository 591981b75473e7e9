"""Operations that XLA only takes note of: they give the same bytes another shape.

A TPU keeps an array in tiles over its last two dimensions: 8 rows of 128 columns in 4-byte dtypes,
16 in 2-byte ones, 32 in 1-byte ones. As long as the columns stay and tiles stay whole, rows can be
regrouped where they are.
"""

from __future__ import annotations

import math
from typing import Any

from jax.dtypes import float0
from jax.extend import core

from grader.kernels.jaxprs import Shaped

_LANES = 128
_ONE_DIMENSION = 1024  # elements in a tile of an array of rank 1


def is_bitcast(eqn: core.JaxprEqn) -> bool:
    """Whether an operation around a kernel moves no byte on a TPU, or no more than one element."""
    if eqn.outvars and all(_has_no_bytes(var.aval) for var in eqn.outvars):
        return True
    arrays: list[Any] = [var.aval for var in (*eqn.invars[:1], *eqn.outvars)]
    if len(arrays) != 2 or not all(isinstance(array, Shaped) for array in arrays):
        return False
    given, made = (tuple(array.shape) for array in arrays)
    if not keeps_order(eqn, given) or math.prod(given) != math.prod(made):
        return False
    one_element = math.prod(made) == 1
    return (
        one_element
        or given == made
        or _same_tiles(given, made, 32 // max(arrays[0].dtype.itemsize, 1))
    )


def _has_no_bytes(array: Any) -> bool:
    """Whether it is the gradient of integers."""
    return isinstance(array, Shaped) and array.dtype == float0


def keeps_order(eqn: core.JaxprEqn, given: tuple[int, ...]) -> bool:
    """Whether it leaves the elements in their row-major order."""
    params: dict[str, Any] = eqn.params
    match eqn.primitive.name:
        case "reshape":
            return params.get("dimensions") is None
        case "squeeze" | "expand_dims":
            return True
        case "broadcast_in_dim":  # jnp.expand_dims and x[None]; a larger result is seen by its size
            return len(eqn.invars) == 1
        case "transpose":
            moved = [axis for axis in params["permutation"] if given[axis] != 1]
            return moved == sorted(moved)
    return False


def _same_tiles(given: tuple[int, ...], made: tuple[int, ...], rows: int) -> bool:
    if len(given) > len(made):
        given, made = made, given
    if len(given) == 1:
        whole = given[0] % _ONE_DIMENSION == 0
        return whole and len(made) > 1 and made[-1] == _LANES and made[-2] % rows == 0
    if not given or given[-1] != made[-1]:
        return False
    return given[-2] == made[-2] or not (given[-2] % rows or made[-2] % rows)
