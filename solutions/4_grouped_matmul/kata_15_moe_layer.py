"""Assemble a mixture-of-experts layer: route, sort, two grouped matmuls, combine.

Goal
    Write the code before and after the kernels of a mixture-of-experts layer. Each
    token goes to the top_k experts with the largest logits. Its result is the sum of
    these experts' outputs, weighted by the softmax over just these logits. The kernels
    are given:

        gate_up     silu(x @ w_gate[e]) * (x @ w_up[e])    one kernel, two sums
        down        hidden @ w_down[e]                     launch_grouped_matmul

Concept
    The kernels need rows that are sorted by expert. Tokens come in the order of the
    text, and each has chosen top_k experts, so you make M = T * top_k rows, one for
    each *choice*. With four tokens, three experts and top_k = 2:

        token            0       1       2       3
        its experts     2  0    0  1    2  1    0  2
        choice          0  1    2  3    4  5    6  7

        sorted          1  2  6    3  5    0  4  7      choices, by expert
        expert          0  0  0    1  1    2  2  2
        rows of x       0  1  3    1  2    0  2  3
        group_sizes        3        2         3

    This order says which row of x goes where. Read backward, it says where the result
    of each choice is. To undo a permutation p, where p[n] is the choice in row n, use
    its inverse: the permutation whose entry p[n] is n.

    Some layers dispatch tokens with a matmul by an [M, T] matrix of zeros and ones.
    For 4096 tokens of 2048 numbers and top_k = 2, that takes 137 Gflop, as much as
    gate and up with F = 2048. A gather only moves the bytes.

    The router computes in float32: in bfloat16, two logits are easily equal.

    Why one kernel for gate and up? They read the same x, and silu(gate) * up needs
    only the two sums, which are in VMEM. With M = 8192, F = 2048 and bfloat16,
    separate kernels would write and read 128 MiB more: 164 µs on a v5e. The rows of
    hidden and of down's result stay sorted by expert. Bring each token's choices
    together only after that.

    Around the kernels, move rows as you like, within two limits: one operation may
    handle at most 4 times the elements of the largest array, all together 32 times.
    Each multiplication of a product counts as an element.

Shapes
    name                 dtype[dims]             memory space   Ref's shape   block
    x                    x.dtype[T, D]           HBM            -             -
    logits               float32[T, E]           HBM            -             -
    w_gate, w_up         x.dtype[E, D, F]        VMEM           (td, tf)      of its group
    w_down               x.dtype[E, F, D]        VMEM           (tf, td)      of its group
    sorted_x, sorted_y   x.dtype[T * top_k, D]   VMEM           (tm, td)      of its tile

Try
    pytest -k moe_layer          stuck?  kata hint moe_layer

Needs     launch_grouped_matmul
Read on   Mixtral of Experts, https://arxiv.org/abs/2401.04088
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float, Float32


def moe_layer_spec(
    x: Float[Array, "T D"],
    logits: Float32[Array, "T E"],
    w_gate: Float[Array, "E D F"],
    w_up: Float[Array, "E D F"],
    w_down: Float[Array, "E F D"],
    *,
    top_k: int,
) -> Float[Array, "T D"]:
    """What the layer must compute, in plain jax.numpy: send every token to every expert."""
    top_logits, experts = jax.lax.top_k(logits, top_k)
    weights = jax.nn.softmax(top_logits, axis=1)
    every_y = (jax.nn.silu(x @ w_gate) * (x @ w_up)) @ w_down
    y = jnp.take_along_axis(jnp.swapaxes(every_y, 0, 1), experts[:, :, None], axis=1)
    return jnp.sum(weights[:, :, None] * y, axis=1).astype(x.dtype)


def moe_layer(
    x: Float[Array, "T D"],
    logits: Float32[Array, "T E"],
    w_gate: Float[Array, "E D F"],
    w_up: Float[Array, "E D F"],
    w_down: Float[Array, "E F D"],
    *,
    top_k: int = 2,
    tm: int = 256,
    td: int = 2048,
    tf: int = 512,
) -> Float[Array, "T D"]:
    """The whole layer. T * top_k is a multiple of tm."""
    T, D = x.shape
    E = len(w_gate)
    # BEGIN SOLUTION
    top_logits, experts = jax.lax.top_k(logits, top_k)
    weights = jax.nn.softmax(top_logits, axis=1)
    expert_of_choice = experts.reshape(T * top_k)
    order = jnp.argsort(expert_of_choice)
    group_sizes = jnp.bincount(expert_of_choice, length=E)
    sorted_x = x[order // top_k]
    # END SOLUTION
    hidden = grouped(
        gate_up_kernel, sorted_x, w_gate, w_up, group_sizes=group_sizes, tm=tm, tk=td, tn=tf
    )
    sorted_y = grouped(down_kernel, hidden, w_down, group_sizes=group_sizes, tm=tm, tk=tf, tn=td)
    # BEGIN SOLUTION
    y = sorted_y[jnp.argsort(order)].reshape(T, top_k, D)
    return jnp.sum(weights[:, :, None] * y, axis=1).astype(x.dtype)
    # END SOLUTION


# ---- Given: inputs and helpers. ----


def moe_layer_inputs(key, *, T, D, F, E, dtype):
    """Experts of different popularity, one without tokens; no two logits of a token are close."""
    x_key, logits_key, *w_keys = jax.random.split(key, 5)
    x = jax.random.normal(x_key, (T, D))
    shapes = (E, D, F), (E, D, F), (E, F, D)
    ws = [
        jax.random.normal(w_key, shape) * shape[1] ** -0.5
        for w_key, shape in zip(w_keys, shapes, strict=True)
    ]
    popularity = jnp.linspace(-1, 1, E).at[E // 2].set(-100)
    scores = popularity + jax.random.normal(logits_key, (T, E))
    logits = 0.5 * jnp.argsort(jnp.argsort(scores, axis=1), axis=1) + 0.1 * jnp.sin(scores)
    return x.astype(dtype), logits, *(w.astype(dtype) for w in ws)


def group_metadata(group_sizes, *, M, tm, visit_empty_groups=False):
    """List the group and tile of each visit, like group_metadata, or also of empty groups."""
    G, T = len(group_sizes), M // tm
    group_offsets = jnp.cumulative_sum(group_sizes, include_initial=True)
    starts, ends = group_offsets[:-1], group_offsets[1:]
    empty = group_sizes == 0
    tiles_per_group = jnp.where(empty, visit_empty_groups, (ends + tm - 1) // tm - starts // tm)
    # A tile is visited once, and once more for each group that starts after its first row.
    inside = jnp.where(empty, visit_empty_groups, starts % tm != 0)
    tile_visits = 1 + jnp.bincount(jnp.where(inside, starts // tm, T), length=T)
    V = T + G - 1
    group_ids = jnp.repeat(jnp.arange(G), tiles_per_group, total_repeat_length=V)
    m_tile_ids = jnp.repeat(jnp.arange(T), tile_visits, total_repeat_length=V)
    return group_offsets, group_ids, m_tile_ids, jnp.sum(tiles_per_group)


def own_rows(group_offsets_ref, group_ids_ref, m_tile_ids_ref, shape):
    """Return a mask of the tile's shape: the rows that belong to the visit's group."""
    visit = pl.program_id(1)
    group = group_ids_ref[visit]
    row = m_tile_ids_ref[visit] * shape[0] + jax.lax.broadcasted_iota(jnp.int32, shape, 0)
    return (row >= group_offsets_ref[group]) & (row < group_offsets_ref[group + 1])


def gate_up_kernel(
    group_offsets_ref,
    group_ids_ref,
    m_tile_ids_ref,
    x_ref,
    gate_ref,
    up_ref,
    o_ref,
    gate_acc_ref,
    up_acc_ref,
):
    """Store silu(x @ gate) * (x @ up) in the group's own rows."""
    k, last = pl.program_id(2), pl.num_programs(2) - 1

    def products():
        x = x_ref[...]
        gate = jnp.dot(x, gate_ref[...], preferred_element_type=jnp.float32)
        return gate, jnp.dot(x, up_ref[...], preferred_element_type=jnp.float32)

    @pl.when(k == 0)
    def _():
        gate_acc_ref[...] = jnp.zeros_like(gate_acc_ref)
        up_acc_ref[...] = jnp.zeros_like(up_acc_ref)

    @pl.when(k < last)
    def _():
        gate, up = products()
        gate_acc_ref[...] += gate
        up_acc_ref[...] += up

    @pl.when(k == last)
    def _():
        gate, up = products()
        hidden = jax.nn.silu(gate_acc_ref[...] + gate) * (up_acc_ref[...] + up)
        mine = own_rows(group_offsets_ref, group_ids_ref, m_tile_ids_ref, o_ref.shape)
        o_ref[...] = jnp.where(mine, hidden.astype(o_ref.dtype), o_ref[...])


def down_kernel(group_offsets_ref, group_ids_ref, m_tile_ids_ref, x_ref, w_ref, o_ref, acc_ref):
    """Store x @ w in the group's own rows."""
    k, last = pl.program_id(2), pl.num_programs(2) - 1

    def product():
        return jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32)

    @pl.when(k == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    @pl.when(k < last)
    def _():
        acc_ref[...] += product()

    @pl.when(k == last)
    def _():
        total = acc_ref[...] + product()
        mine = own_rows(group_offsets_ref, group_ids_ref, m_tile_ids_ref, o_ref.shape)
        o_ref[...] = jnp.where(mine, total.astype(o_ref.dtype), o_ref[...])


def grouped(kernel, x, *ws, group_sizes, tm, tk, tn):
    """Launch: x[M, K], sorted by group, times one or more w[G, K, N]; one sum in VMEM for each."""
    (M, K), N = x.shape, ws[0].shape[2]
    group_offsets, group_ids, m_tile_ids, num_visits = group_metadata(group_sizes, M=M, tm=tm)

    def x_tile(j, visit, k, group_offsets_ref, group_ids_ref, m_tile_ids_ref):
        return m_tile_ids_ref[visit], k

    def w_block(j, visit, k, group_offsets_ref, group_ids_ref, m_tile_ids_ref):
        return group_ids_ref[visit], k, j

    def o_tile(j, visit, k, group_offsets_ref, group_ids_ref, m_tile_ids_ref):
        return m_tile_ids_ref[visit], j

    w_spec = pl.BlockSpec((None, tk, tn), w_block)
    return pl.pallas_call(
        kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=3,
            grid=(N // tn, num_visits, K // tk),
            in_specs=[pl.BlockSpec((tm, tk), x_tile), *[w_spec] * len(ws)],
            out_specs=pl.BlockSpec((tm, tn), o_tile),
            scratch_shapes=[pltpu.VMEM((tm, tn), jnp.float32)] * len(ws),
        ),
        out_shape=jax.ShapeDtypeStruct((M, N), x.dtype),
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "arbitrary", "arbitrary")
        ),
        name="grouped",
    )(group_offsets, group_ids, m_tile_ids, x, *ws)


def test_moe_layer(hidden_case):
    hidden_case.grade(moe_layer)
