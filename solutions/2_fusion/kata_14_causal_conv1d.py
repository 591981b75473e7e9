"""Mix each token with the few before it, from windows of HBM that overlap.

Goal
    Write the body of a kernel and the spec of x for a causal convolution along the
    tokens, one filter of K taps for each channel:

        o[b, t, d] = w[0, d] * x[b, t - K + 1, d] + ... + w[K - 1, d] * x[b, t, d]

    Tokens before the first count as 0. T is a multiple of bt, at least two blocks.

Concept
    Mamba and gated delta nets begin each layer with such a filter, of 4 taps. bt tokens
    of the result need bt + K - 1 tokens of x, so blocks of x overlap:

        x   | . . . . . . . . | . . . . . . . . | . . . . . . . . |
                        +-----+-----------------+
                        | halo|   own rows      |      block 1 of o
                        +-----+-----------------+
                                          +-----+-----------------+
                                          | halo|   own rows      |      block 2
                                          +-----+-----------------+

    As in conv2d, block indices can't express that, and all dimensions of the block are
    Elements, whose index map returns the first *element*:

        pl.BlockSpec((pl.Element(1), pl.Element(rows), ...), lambda b, i, j: (b, <row>, ...))

    Memory has tiles of 8 rows here, 16 in bfloat16. A window has to begin at a tile, so
    the halo has 16 rows, HALO, though K - 1 would be enough. The compiler must be able
    to prove it, too: it accepts a product with 16, but not jnp.maximum(i * bt - 16, 0),
    unless you write pl.multiple_of(..., 16).

    A window can't begin before the first token. The first window begins at 0, so its
    own rows are where the others have their halo. A window can't extend past the last
    token either: blocks by index are cut off at an array's edge, but windows by element
    are copied whole.

    In VMEM a tap is a slice: bt rows that begin 0 to K - 1 rows above the block's own.

                                    for x[2, 4096, 4096] in bfloat16, K = 4
        windows of a padded copy        258 MiB     334 µs
        windows of x                    130 MiB     170 µs
        XLA, one loop                   128 MiB     164 µs at best

    XLA moves as little here. Your own kernel pays off if it also does the next
    operation, such as the recurrence that reads these rows.

Shapes
    name    dtype[dims]        memory space   Ref's shape           block
    x_ref   x.dtype[B, T, D]   VMEM           (1, HALO + bt, bd)    yours
    w_ref   float32[K, D]      VMEM           (K, bd)               (0, j)
    o_ref   x.dtype[B, T, D]   VMEM           (1, bt, bd)           (b, i, j)

    The grid is (B, T / bt, D / bd). bt is a multiple of HALO.

Try
    pytest -k causal_conv1d         stuck?  kata hint causal_conv1d

Needs     conv2d, promised_alignment
Read on   Mamba, https://arxiv.org/abs/2312.00752
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float, Float32

HALO = 16


def causal_conv1d_spec(x: Float[Array, "B T D"], w: Float32[Array, "K D"]) -> Float[Array, "B T D"]:
    """The required result, in plain jax.numpy."""
    T, K = x.shape[1], len(w)
    padded = jnp.pad(x, ((0, 0), (K - 1, 0), (0, 0)))
    return sum(w[k] * padded[:, k : k + T] for k in range(K)).astype(x.dtype)


def causal_conv1d_kernel(x_ref, w_ref, o_ref):
    K, bt = w_ref.shape[0], o_ref.shape[1]

    # BEGIN SOLUTION
    def convolve(window):
        first = HALO - K + 1
        taps = [w_ref[k, :] * window[first + k : first + k + bt] for k in range(K)]
        o_ref[0] = sum(taps).astype(o_ref.dtype)

    x = x_ref[0].astype(jnp.float32)

    @pl.when(pl.program_id(1) == 0)
    def _():
        convolve(jnp.concatenate([jnp.zeros_like(x[:HALO]), x[:bt]]))

    @pl.when(pl.program_id(1) > 0)
    def _():
        convolve(x)

    # END SOLUTION


def causal_conv1d(
    x: Float[Array, "B T D"], w: Float32[Array, "K D"], *, bt: int = 256, bd: int = 512
) -> Float[Array, "B T D"]:
    """Launch: a block of tokens and channels of one sequence in each step."""
    B, T, D = x.shape
    K = len(w)
    # BEGIN SOLUTION
    x_spec = pl.BlockSpec(
        (pl.Element(1), pl.Element(HALO + bt), pl.Element(bd)),
        lambda b, i, j: (b, jnp.maximum(i * (bt // HALO) - 1, 0) * HALO, j * bd),
    )
    # END SOLUTION
    return pl.pallas_call(
        causal_conv1d_kernel,
        grid=(B, T // bt, D // bd),
        in_specs=[x_spec, pl.BlockSpec((K, bd), lambda b, i, j: (0, j))],
        out_specs=pl.BlockSpec((1, bt, bd), lambda b, i, j: (b, i, j)),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "parallel")
        ),
        name="causal_conv1d",
    )(x, w)


# ---- Given: inputs and helpers. ----


def causal_conv1d_inputs(key, *, B, T, D, K, dtype):
    """Tokens with a different level for each sequence and channel, and unequal taps."""
    x_key, level_key, w_key = jax.random.split(key, 3)
    x = jax.random.normal(x_key, (B, T, D)) + 2 * jax.random.normal(level_key, (B, 1, D))
    w = jax.random.normal(w_key, (K, D)) + jnp.arange(K)[:, None] / 2
    return x.astype(dtype), w


def test_causal_conv1d(hidden_case):
    hidden_case.grade(causal_conv1d)
