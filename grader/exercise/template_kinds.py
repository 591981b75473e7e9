"""What a new kata holds below its docstring, and its key below the hints, where it is of another
kind than a kernel's."""

from __future__ import annotations

from grader.exercise.keys import Kind

_TABLES = '''import jax.numpy as jnp
from jaxtyping import Array, Int32


def NAME_spec(x: Int32[Array, "G"]) -> Int32[Array, "G"]:
    """What to return, computed the long way."""
    # write over this
    return jnp.array([2], jnp.int32) * x


def NAME(x: Int32[Array, "G"]) -> Int32[Array, "G"]:
    """Return the table."""
    # BEGIN SOLUTION
    # write over this too
    return 2 * x
    # END SOLUTION


def test_NAME(hidden_case):
    hidden_case.grade(NAME)
'''
_PREDICTIONS = '''from typing import NamedTuple

import jax.numpy as jnp
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float32


def double(x: Float32[Array, "M N"]) -> Float32[Array, "M N"]:
    """A program in plain jax.numpy; the key names each of them."""
    # write over this
    return x * 2


class Prediction(NamedTuple):
    """The answers for one program, in the grader's order."""

    bytes: float
    flops: float
    best_us: float
    speedup: float


def predict_double(*, M: int, N: int) -> Prediction:
    # BEGIN SOLUTION
    # write over this too
    moved = 2 * 4 * M * N
    bandwidth = pltpu.get_tpu_info().mem_bw_bytes_per_second
    return Prediction(moved, M * N, 1e6 * moved / bandwidth, 1.0)
    # END SOLUTION


def NAME(*, M: int, N: int) -> Float32[Array, "1 4"]:
    """A row for each program."""
    return jnp.array([predict_double(M=M, N=N)], jnp.float32)


def test_NAME(hidden_case):
    hidden_case.grade(NAME)
'''
_TEST = '''import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jaxtyping import Array, Float


def double_kernel(x_ref, o_ref):
    # write over this
    o_ref[...] = x_ref[...] * 2


def double(x: Float[Array, "M N"], *, bm: int = 8) -> Float[Array, "M N"]:
    """The launch under test."""
    rows = pl.BlockSpec((bm, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        double_kernel,
        grid=(x.shape[0] // bm,),
        in_specs=[rows],
        out_specs=rows,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
    )(x)


def NAME(launch):
    """Raise an AssertionError unless launch(x, bm=…) is a right double."""
    # BEGIN SOLUTION
    # write over this too
    x = jax.random.normal(jax.random.key(0), (24, 128))
    assert jnp.allclose(launch(x, bm=8), 2 * x)
    # END SOLUTION


def test_NAME(hidden_case):
    hidden_case.grade(NAME)
'''

#: The rest of a solution, below its docstring.
BODIES = {Kind.TABLES: _TABLES, Kind.PREDICTIONS: _PREDICTIONS, Kind.TEST: _TEST}

_MISTAKE = """
# At least three; each must be rejected by the named check, with the named words.
[[mistakes]]
"""
#: The rest of a key, below what is shown when the kata is solved.
REST = {
    Kind.TABLES: f"""kernel = false

[cases]
G = [7, 8, 12, 16]
{_MISTAKE}title = "multiplies by another number"
old = "2 * x"
new = "3 * x"
caught = "values"
says = "code that multiplies by another number"
""",
    Kind.PREDICTIONS: f"""
[predictions]
programs = ["double"]  # functions of the file, one for each row
within = 0.20  # how far an answer may be off, as a fraction

[cases]
M = [256, 1024, 4096, 8192]
N = [384, 512, 640]

[production]  # the one case in which XLA is asked
M = 8192
N = 4096
{_MISTAKE}title = "multiplies by another number"
old = "2 * 4 * M * N"
new = "4 * M * N"
caught = "predictions"
says = "double: bytes is"
""",
    Kind.TEST: f"""tested = "double"  # the launch under test

# Wrong versions of it, none of which a test may pass. Each title goes on from: a kernel that.
[[planted]]
title = "forgets the last block"
old = "x.shape[0] // bm"
new = "max(x.shape[0] // bm - 1, 1)"

[[planted]]
title = "adds instead of multiplying"
old = "x_ref[...] * 2"
new = "x_ref[...] + 2"

# Right versions, which every test has to pass.
[[planted]]
title = "adds x to itself"
right = true
old = "x_ref[...] * 2"
new = "x_ref[...] + x_ref[...]"
{_MISTAKE}title = "multiplies by another number"
old = "(24, 128)"
new = "(8, 128)"
caught = "planted"
says = "passes for a kernel that forgets the last block"
""",
}
#: What a case file ships with, in place of what is to do.
STUB = 'stub = ["""\no_ref[...] = x_ref[...] + 2  # the wrong code that is to be repaired\n"""]'
