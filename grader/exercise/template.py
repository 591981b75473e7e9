"""The texts of a new kata: a small solution that earns its stars, to be written over."""

from __future__ import annotations

import json

from grader.exercise.keys import HINTS

_SOLUTION = '''"""Say in one imperative line what the kernel does.

Goal
    What the kernel must do, in the reader's terms.

Concept
    The one new idea: why it exists, what the hardware does, with a picture where space or time is
    involved and true numbers. 20 to 60 lines for the whole docstring; no spoiler.

Shapes
    name     dtype[dims]     memory space   block
    x_ref    x.dtype[M, N]   VMEM           (bm, N)
    o_ref    x.dtype[M, N]   VMEM           (bm, N)

Try
    pytest -k NAME          stuck?  kata hint NAME
"""

import jax
from jax.experimental import pallas as pl
from jaxtyping import Array, Float


def NAME_spec(x: Float[Array, "M N"]) -> Float[Array, "M N"]:
    """What the kernel must compute, in plain jax.numpy."""
    return x * 2


def NAME_kernel(x_ref, o_ref):
    # BEGIN SOLUTION
    o_ref[...] = x_ref[...] * 2
    # END SOLUTION


def NAME(x: Float[Array, "M N"], *, bm: int = 128) -> Float[Array, "M N"]:
    """Launch: one grid step for each block of bm rows."""
    rows = pl.BlockSpec((bm, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        NAME_kernel,
        grid=(x.shape[0] // bm,),
        in_specs=[rows],
        out_specs=rows,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
    )(x)


def test_NAME(hidden_case):
    hidden_case.grade(NAME)
'''

_KEY = """title = "NAME"
concept = "the one new idea"
todo = ["say what to do here, without saying how"]
hints = HINTS

[cases]
bm = [64, 128]
M = ["2*bm", "3*bm"]
N = [128, 256]
dtype = ["float32", "bfloat16"]

# At least three; each must be rejected by the named check, with the named words.
[[mistakes]]
title = "multiplies by another number"
old = "x_ref[...] * 2"
new = "x_ref[...] * 3"
caught = "values"
says = "off by the same factor"
"""


def solution(name: str) -> str:
    """The solution file of a new kata called `name`."""
    return _SOLUTION.replace("NAME", name)


def key(name: str) -> str:
    """The answer key of a new kata called `name`."""
    return _KEY.replace("NAME", name).replace("HINTS", json.dumps(HINTS))
