"""What a kernel promises to the compiler holds in the interpreter too, which looks at no promises.

`pl.multiple_of(i, 128)` lets Mosaic leave out what it needs for any other i. JAX's interpreter goes
on with i as it is, so that a kernel whose promise is wrong would be right in it. Here i is rounded
down to what was promised: a promise that is kept changes nothing, one that isn't shows in the
values.
"""

from __future__ import annotations

from collections.abc import Sequence

from jax import lax
from jax.typing import ArrayLike

from grader.kernels.jax_internals import mlir, multiple_of_p


def keep_promises() -> None:
    """Have what this process runs on the CPU take promises at their word, from now on."""
    rule = mlir.lower_fun(_as_promised, multiple_results=False)
    mlir.register_lowering(multiple_of_p, rule, platform="cpu")


def _as_promised(index: ArrayLike, *, values: Sequence[int]) -> ArrayLike:
    """An index, rounded down. The promise for an array has a number for each dimension."""
    if len(values) != 1:
        return index
    return lax.sub(index, lax.rem(index, lax.full_like(index, values[0])))
