"""Send tokens to the chips of their experts, multiply there, and send the results back.

Goal
    Four chips each hold a quarter of the tokens and a quarter of the experts. Token r
    becomes gate[r] * (x[r] @ w[expert[r]]). Write the code around the kernel: send each
    token to its expert's chip, multiply, and return each result. The kernel, its launch
    and `places` are given.

Concept
    The weights of all experts fill the memory of many chips, but a token needs only one
    expert. So weights stay where they are, and tokens travel there and back. Outside a
    kernel, `lax.all_to_all(a, "x", 0, 0)` does the same as your kernel all_to_all: a[d]
    goes to chip d, and afterwards a[s] is the part that chip s has sent.

    These parts all have the same size, which is known before the program runs. But a
    router sends any number of tokens to an expert: none to some, and all of them to one.
    So each chip gets as much room as it can ever need. All t tokens of a chip may go to
    one chip:

        room = t + L * bm     rows for each chip, in blocks of bm rows

    Each expert's rows begin in a new block, so that a block needs only one matrix. That
    wastes less than one block for each of a chip's L experts, hence the second term. With
    t = 32, L = 3 and bm = 8, one chip may send to another:

        expert     0 0 0 0 0 0 0 . | 0 0 . . . . . . | 2 2 2 . . . . . | unused ...
        block              0               1                 2           3 to 6

    `places(expert, ...)` returns the chip and the row for each of my tokens, and how many
    of my blocks each expert of each chip gets: here 2, 0, 1. The other chip needs these
    numbers before it can multiply, so send them as well: 12 bytes.

    `multiplied(came, w, blocks, ...)` makes a list of the used blocks, sorted by expert,
    so that each matrix is fetched once. Rows without a token and unused blocks have
    arbitrary results. Results return to the places that their tokens were sent from, so
    chip and row of `places` also locate a token's result.

    Room for all tokens has a price. For 4 * 4096 tokens of D = F = 1024, L = 4 experts on
    each chip and bm = 128, in bfloat16, a chip sends

                         room       tokens        results
        for all          4608       27 MiB        27 MiB
        1.25 * t / n     1280       7.5 MiB       7.5 MiB      drops tokens when crowded

Shapes
    name     dtype[dims]        memory space   Ref's shape   block
    x        x.dtype[T, D]      VMEM           (bm, D)       (visit's, 0)
    w        x.dtype[E, D, F]   VMEM           (D, bn)       (visit's, 0, j)
    expert   int32[T]           HBM            -             -
    gate     x.dtype[T]         HBM            -             -

    Chip c has rows of x, expert and gate from c * T / 4 on, and experts from c * L on,
    with L = E / 4. The kernel sees the rows that arrived. The result is x.dtype[T, F].

Try
    pytest -k expert_parallel_moe    stuck?  kata hint expert_parallel_moe

Needs     all_to_all, kernel_in_shard_map, moe_layer
Read on   Switch Transformers, https://arxiv.org/abs/2101.03961
"""

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, Int32


def expert_parallel_moe_spec(
    x: Float[Array, "T D"],
    w: Float[Array, "E D F"],
    expert: Int32[Array, "T"],
    gate: Float[Array, "T"],
) -> Float[Array, "T F"]:
    """The required result: x @ w for every expert, then pick each token's."""
    picked = jnp.take_along_axis(x @ w, expert[None, :, None], axis=0)[0]
    return picked * gate[:, None]


def expert_parallel_moe(
    x: Float[Array, "T D"],
    w: Float[Array, "E D F"],
    expert: Int32[Array, "T"],
    gate: Float[Array, "T"],
    *,
    mesh,
    bm: int = 128,
    bn: int = 512,
) -> Float[Array, "T F"]:
    """Launch: tokens to their experts' chips, one kernel on each chip, and results back."""
    n = mesh.shape["x"]

    # BEGIN SOLUTION
    raise NotImplementedError(
        "return jax.shard_map(on_each, ...)(x, w, expert, gate); on_each sends, multiplies and brings back"
    )
    # END SOLUTION


# ---- Given: inputs and helpers. ----


def expert_parallel_moe_inputs(key, *, T, D, F, E, dtype):
    """One chip sends all tokens to expert 1, expert 2 is empty, and the load of others varies."""
    x_key, w_key, expert_key, crowd_key, gate_key = jax.random.split(key, 5)
    x = jax.random.normal(x_key, (T, D))
    w = jax.random.normal(w_key, (E, D, F)) * D**-0.5
    expert = jax.random.randint(expert_key, (T,), 0, E)
    crowded = (jax.random.uniform(crowd_key, (T,)) < 0.3) | (jnp.arange(T) < T // 4)
    expert = jnp.where(crowded | (expert == 2), 1, expert)
    gate = jax.random.uniform(gate_key, (T,), minval=0.25)
    return x.astype(dtype), w.astype(dtype), expert.astype(jnp.int32), gate.astype(dtype)


def places(expert, n, L, bm):
    """Return each token's chip and row in its room, and each expert's blocks, int32[n, L]."""
    here = (expert[:, None] == jnp.arange(n * L)).astype(jnp.int32)
    rank = jnp.sum(here * (jnp.cumsum(here, axis=0) - 1), axis=1)
    blocks = (jnp.sum(here, axis=0) + bm - 1).reshape(n, L) // bm
    first = (jnp.cumsum(blocks, axis=1) - blocks) * bm
    return expert // L, first.reshape(-1)[expert] + rank, blocks


def multiplied(came, w, blocks, *, bm, bn):
    """Multiply rows by their experts' matrices; chip s has blocks[s, e] blocks for expert e."""
    (n, room, D), (L, _, F) = came.shape, w.shape
    each = room // bm
    ends = jnp.cumsum(blocks, axis=1)
    owner = jnp.sum(jnp.arange(each)[None, :, None] >= ends[:, None, :], axis=2).reshape(-1)
    visits = jnp.argsort(owner, stable=True).astype(jnp.int32)
    owner = jnp.minimum(owner[visits], L - 1).astype(jnp.int32)
    rows = pl.BlockSpec((bm, D), lambda j, visit, visits, owner: (visits[visit], 0))
    matrix = pl.BlockSpec((None, D, bn), lambda j, visit, visits, owner: (owner[visit], 0, j))
    product = pl.BlockSpec((bm, bn), lambda j, visit, visits, owner: (visits[visit], j))
    y = pl.pallas_call(
        expert_kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=2,
            grid=(F // bn, jnp.sum(blocks)),
            in_specs=[rows, matrix],
            out_specs=product,
        ),
        out_shape=jax.ShapeDtypeStruct((n * room, F), came.dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")),
        name="multiplied",
    )(visits, owner, came.reshape(n * room, D), w)
    return y.reshape(n, room, F)


def expert_kernel(visits_ref, owner_ref, x_ref, w_ref, o_ref):
    total = jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32)
    o_ref[...] = total.astype(o_ref.dtype)


def test_expert_parallel_moe(hidden_case):
    hidden_case.grade(expert_parallel_moe)
