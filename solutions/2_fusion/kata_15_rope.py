"""Rotate queries by their positions, and read the tables of angles once for all heads.

Goal
    Write rotary position embedding: each token's numbers are rotated in pairs, by
    angles that grow with its position. Lane c of a head forms a pair with lane
    c + H/2. You write the kernel, the grid and the three specs.

Concept
    A rotation takes two numbers and the cosine and sine of one angle:

        (a, b)  ->  (a * cos - b * sin,  b * cos + a * sin)

    The choice of pairs is a convention, but a TPU prefers one of them. It processes a
    row of 128 lanes as one:

        neighbours   a b a b a b a b ...    every second lane of a register: there
                                            is no cheap load or store for that
        halves       a a a ... | b b b ...  two slices of the lanes, or one
                                            register rotated by half its width

    So most models that are served today store halves. Weights that were trained
    with neighbours are permuted once, in the checkpoint.

    The cosines and sines depend on the token and the lane, but not on the sequence in
    the batch or the head. The grid has an axis for tokens, for sequences and for heads,
    and their order decides how often a block of the tables is fetched. A block stays in
    VMEM as long as its index doesn't change from one step to the next.

    For x of 2 sequences, 32 heads, 4096 tokens and 128 lanes in bfloat16:

        x in and result out       2 * 64 MiB
        both tables               2 * 2 MiB in HBM: 64 lanes of float32, in tiles
                                  of 128
        both tables, as often     32 MiB with 8 heads in a block
        as there are blocks
        of heads

    At 819 GB/s the first two lines take 169 µs on a v5e, and tables that are fetched
    again 36 µs more. XLA compiles the spec to two passes: it writes the halves, then
    joins them, and moves 262 MiB. The angles are computed once, outside of all layers:
    position times a frequency, which falls from 1 to 1/10000. The tables are float32:
    in bfloat16, a cosine has 8 bits, and neighbouring positions would share their
    angle.

Shapes
    name      dtype[dims]           memory space   Ref's shape       block
    x_ref     x.dtype[B, N, T, H]   VMEM           (bn, bt, H)       yours
    cos_ref   float32[T, H//2]      VMEM           (bt, H // 2)      yours
    sin_ref   float32[T, H//2]      VMEM           (bt, H // 2)      yours
    o_ref     x.dtype[B, N, T, H]   VMEM           (bn, bt, H)       yours

    bn divides N. The last block of T may reach beyond its end.

Try
    pytest -k rope          stuck?  kata hint rope

Needs     ragged_tail, batched_matmul
Read on   RoFormer, https://arxiv.org/abs/2104.09864
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float, Float32


def rope_spec(
    x: Float[Array, "B N T H"], cos: Float32[Array, "T H//2"], sin: Float32[Array, "T H//2"]
) -> Float[Array, "B N T H"]:
    """The required result, in plain jax.numpy."""
    a, b = jnp.split(x, 2, axis=3)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=3).astype(x.dtype)


def rope_kernel(x_ref, cos_ref, sin_ref, o_ref):
    # BEGIN SOLUTION
    half = cos_ref.shape[1]
    cos, sin = cos_ref[...], sin_ref[...]
    a = x_ref[:, :, :half].astype(jnp.float32)
    b = x_ref[:, :, half:].astype(jnp.float32)
    o_ref[:, :, :half] = (a * cos - b * sin).astype(o_ref.dtype)
    o_ref[:, :, half:] = (b * cos + a * sin).astype(o_ref.dtype)
    # END SOLUTION


def rope(
    x: Float[Array, "B N T H"],
    cos: Float32[Array, "T H//2"],
    sin: Float32[Array, "T H//2"],
    *,
    bn: int = 8,
    bt: int = 256,
) -> Float[Array, "B N T H"]:
    """Launch: one step for each block of bn heads and bt tokens of a sequence."""
    B, N, T, H = x.shape
    # BEGIN SOLUTION
    grid = (pl.cdiv(T, bt), B, N // bn)
    table_spec = pl.BlockSpec((bt, H // 2), lambda t, b, n: (t, 0))
    x_spec = pl.BlockSpec((None, bn, bt, H), lambda t, b, n: (b, n, t, 0))
    # END SOLUTION
    return pl.pallas_call(
        rope_kernel,
        grid=grid,
        in_specs=[x_spec, table_spec, table_spec],
        out_specs=x_spec,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "parallel")
        ),
        name="rope",
    )(x, cos, sin)


# ---- Given: inputs and helpers. ----


def rope_inputs(key, *, B, N, T, H, dtype):
    """The tables begin at a random position, as in the middle of a long text."""
    x_key, first_key = jax.random.split(key)
    first = jax.random.randint(first_key, (), 0, 2000)
    frequency = 10_000.0 ** (-jnp.arange(H // 2) / (H // 2))
    angle = (first + jnp.arange(T))[:, None] * frequency
    x = jax.random.normal(x_key, (B, N, T, H)).astype(dtype)
    return x, jnp.cos(angle).astype(jnp.float32), jnp.sin(angle).astype(jnp.float32)


def test_rope(hidden_case):
    hidden_case.grade(rope)
