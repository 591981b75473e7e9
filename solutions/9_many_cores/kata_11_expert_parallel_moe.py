"""Send tokens to the chips of their experts, multiply there, and send the results back.

Goal
    Four chips hold a quarter of the tokens each, and a quarter of the experts. Token r
    becomes gate[r] * (x[r] @ w[expert[r]]). Write what goes around the kernel: send each
    token to the chip of its expert, multiply, and bring each result home. The kernel, its
    launch and `places` are given.

Concept
    The weights of all experts fill the memory of many chips, and a token needs one of
    them. So weights stay where they are and tokens travel, twice. Outside of a kernel,
    `lax.all_to_all(a, "x", 0, 0)` is what you wrote as a kernel in all_to_all: a[d] goes
    to chip d, and afterwards a[s] is what chip s has sent.

    Its parts all have the same size, which is known before the program runs, and a
    router sends as many tokens to an expert as it likes: none to some, and all of them to
    one. So each chip gets as much room as it can ever need. Of t tokens, all t may go to
    one chip:

        room = t + L * bm     rows for each chip, in blocks of bm rows

    The rows of an expert begin with a block of their own, so that a block needs one
    matrix. That wastes less than a block for each of a chip's L experts, hence the second
    term. With t = 32, L = 3 and bm = 8, what one chip sends to another may be:

        expert     0 0 0 0 0 0 0 . | 0 0 . . . . . . | 2 2 2 . . . . . | unused ...
        block              0               1                 2           3 to 6

    `places(expert, ...)` says to which chip and to which row each of my tokens goes, and
    how many blocks each expert of each chip gets of me: here 2, 0, 1. The last is what
    the other chip has to know before it can multiply. It travels as well: 12 bytes.

    `multiplied(came, w, blocks, ...)` makes a list of the blocks that are used, sorted
    by expert, so that each matrix is fetched once. Rows that hold no token, and blocks
    that nobody uses, come out as whatever they are. What comes back lies where it was
    sent from, so chip and row of `places` find a token's result again.

    Room for all has a price. For 4 * 4096 tokens of D = F = 1024, L = 4 experts on each
    chip and bm = 128, in bfloat16, a chip sends

                         room       tokens        results
        for all          4608       27 MiB        27 MiB
        1.25 * t / n     1280       7.5 MiB       7.5 MiB      drops tokens when crowded

Shapes
    name     dtype[dims]        on each chip
    x        x.dtype[T, D]      (T / 4, D)
    w        x.dtype[E, D, F]   (L, D, F)       L = E / 4: chip c has experts c * L and on
    expert   int32[T]           (T / 4,)
    gate     x.dtype[T]         (T / 4,)
    result   x.dtype[T, F]      (T / 4, F)

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
    """What the chips must compute together: x @ w for every expert, then pick each token's."""
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
    def on_each(x, w, expert, gate):
        (t, D), L = x.shape, len(w)
        chip, row, blocks = places(expert, n, L, bm)
        send = jnp.zeros((n, t + L * bm, D), x.dtype).at[chip, row].set(x)
        came = lax.all_to_all(send, "x", 0, 0)
        blocks = lax.all_to_all(blocks, "x", 0, 0)
        back = lax.all_to_all(multiplied(came, w, blocks, bm=bm, bn=bn), "x", 0, 0)
        return back[chip, row] * gate[:, None]

    cut = P("x")
    split = jax.shard_map(on_each, mesh=mesh, in_specs=cut, out_specs=cut, check_vma=False)
    return split(x, w, expert, gate)
    # END SOLUTION


# ---- Given: inputs and helpers. ----


def expert_parallel_moe_inputs(key, *, T, D, F, E, dtype):
    """One chip sends all to expert 1, expert 2 is empty, and others are crowded or not."""
    x_key, w_key, expert_key, crowd_key, gate_key = jax.random.split(key, 5)
    x = jax.random.normal(x_key, (T, D))
    w = jax.random.normal(w_key, (E, D, F)) * D**-0.5
    expert = jax.random.randint(expert_key, (T,), 0, E)
    crowded = (jax.random.uniform(crowd_key, (T,)) < 0.3) | (jnp.arange(T) < T // 4)
    expert = jnp.where(crowded | (expert == 2), 1, expert)
    gate = jax.random.uniform(gate_key, (T,), minval=0.25)
    return x.astype(dtype), w.astype(dtype), expert.astype(jnp.int32), gate.astype(dtype)


def places(expert, n, L, bm):
    """Chip and row of its room for each of my tokens, and the blocks of each expert: int32[n, L]."""
    here = (expert[:, None] == jnp.arange(n * L)).astype(jnp.int32)
    rank = jnp.sum(here * (jnp.cumsum(here, axis=0) - 1), axis=1)
    blocks = (jnp.sum(here, axis=0) + bm - 1).reshape(n, L) // bm
    first = (jnp.cumsum(blocks, axis=1) - blocks) * bm
    return expert // L, first.reshape(-1)[expert] + rank, blocks


def multiplied(came, w, blocks, *, bm, bn):
    """The rows that came, times their experts' matrices; blocks[s, e] of chip s are expert e's."""
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
    )(visits, owner, came.reshape(n * room, D), w)
    return y.reshape(n, room, F)


def expert_kernel(visits_ref, owner_ref, x_ref, w_ref, o_ref):
    total = jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32)
    o_ref[...] = total.astype(o_ref.dtype)


def test_expert_parallel_moe(hidden_case):
    hidden_case.grade(expert_parallel_moe)
