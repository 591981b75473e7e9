"""Attend to keys and values that travel around a ring of chips.

Goal
    A sequence is so long that four chips share it, each with a quarter of the queries, keys
    and values. Write causal flash attention over the whole sequence: how one half of a
    chip's queries attends to one half of the keys it holds, and the ring. The launch is given.

Concept
    The online softmax takes keys in any order, some at a time, so a chip can use them as
    they arrive: in each hop, it sends on the keys and values that it holds, and attends to
    them meanwhile. Two slots are enough, with credits as in reduce_scatter. If chips
    gathered all keys first, they would have to wait, and to store all of them.

    But under a causal mask, the first chip has little work and the last chip has most of
    it. Cut the sequence into 8 pieces. A square is one piece of queries with one piece of
    keys. Count the squares that a chip computes in hops 0 to 3. Hop 0 has a full square and
    two that are half empty, so it counts as 2:

                pieces   squares              pieces   squares
        chip 0   0 1     2 . . .               0 7     2 2 2 2
        chip 1   2 3     2 4 . .               1 6     2 2 2 2
        chip 2   4 5     2 4 4 .               2 5     2 2 2 2
        chip 3   6 7     2 4 4 4               3 4     2 2 2 2
                    plain split                   zig-zag

    All chips wait for the slowest: 14 squares against 8. The launch gives out the pieces in
    a zig-zag, so each chip has an early one and a late one. Your kernel must decide which
    pieces attend to which. The number of the chip that the keys come from is enough for that.

    65536 tokens, 8 heads of 128 in bfloat16, on four v5e with 50 GB/s per link and
    197 Tflop/s (a square takes 1.4 ms, a hop with 64 MiB 1.3 ms):

                                 bytes a link   hops   products   waits    in all
        gathered first, zig-zag       192 MiB      3    11.2 ms   4.0 ms   15.2 ms
        ring, plain split             192 MiB      3    19.5 ms   -        19.5 ms
        ring, zig-zag                 192 MiB      3    11.2 ms   -        11.2 ms

    The kata's arrays fit into VMEM. At the sizes above, slots are in HBM and read in blocks.

Shapes
    name           dtype[dims]              memory space   Ref's shape          block
    q_ref, o_ref   q.dtype[H, T, D]         VMEM           (H, 2, c, D)         whole
    kv_ref         q.dtype[2, H, T, D]      VMEM           (2, H, 2, c, D)      whole
    came_ref       q.dtype[2, 2, H, T, D]   VMEM scratch   (2, 2, H, 2, c, D)   -
    m_ref, l_ref   float32[H, T, 128]       VMEM scratch   (H, 2, c, 128)       -
    acc_ref        float32[H, T, D]         VMEM scratch   (H, 2, c, D)         -
    send_sems      dma semaphore[2]         SMEM scratch   (2,)                 -
    recv_sems      dma semaphore[2]         SMEM scratch   (2,)                 -
    free_sem       semaphore                SMEM scratch   ()                   -

    A piece has c = T / 8 tokens: q_ref[h, 0] is the early one of head h, q_ref[h, 1] the
    late one. held[0] are keys and held[1] values, split in the same way.

Try
    pytest -k ring_attention         stuck?  kata hint ring_attention

Needs     all_gather_matmul, reduce_scatter, causal_flash
Read on   Ring Attention, https://arxiv.org/abs/2310.01889
          Striped Attention, https://arxiv.org/abs/2311.09431
"""

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float

LANES = 128


def ring_attention_spec(
    q: Float[Array, "H T D"], k: Float[Array, "H T D"], v: Float[Array, "H T D"]
) -> Float[Array, "H T D"]:
    """The required result, in plain jax.numpy."""
    T, D = q.shape[1:]
    s = jnp.einsum("htd,hsd->hts", q, k) * D**-0.5
    s = jnp.where(jnp.tri(T, dtype=bool), s, -jnp.inf)
    return jnp.einsum("hts,hsd->htd", jax.nn.softmax(s, axis=-1), v)


def ring_attention_kernel(
    q_ref, kv_ref, o_ref, came_ref, m_ref, l_ref, acc_ref, send_sems, recv_sems, free_sem
):
    """Pass all keys and values around, and attend to those that my queries may see."""
    n = lax.axis_size("x")
    me = lax.axis_index("x")
    left, right = lax.rem(me + n - 1, n), lax.rem(me + 1, n)
    begun = pltpu.get_barrier_semaphore()
    for neighbour in (left, right):
        pl.semaphore_signal(begun, device_id=(neighbour,))
    pl.semaphore_wait(begun, 2)
    H, _, _, D = q_ref.shape
    early, late = 0, 1
    m_ref[...] = jnp.full_like(m_ref, -jnp.inf)
    l_ref[...] = jnp.zeros_like(l_ref)
    acc_ref[...] = jnp.zeros_like(acc_ref)

    def meet(held, queries, keys, *, same=False):
        """Let a piece of my queries attend to a piece of held's keys; `same`: to the same piece."""

        @pl.loop(0, H)
        def _(h):
            s = D**-0.5 * lax.dot_general(
                q_ref[h, queries],
                held[0, h, keys],
                (((1,), (1,)), ((), ())),
                preferred_element_type=jnp.float32,
            )
            # BEGIN SOLUTION
            if same:
                query = lax.broadcasted_iota(jnp.int32, s.shape, 0)
                key = lax.broadcasted_iota(jnp.int32, s.shape, 1)
                s = jnp.where(key <= query, s, -jnp.inf)
            before = m_ref[h, queries]
            m = jnp.maximum(before, jnp.max(s, axis=1, keepdims=True))
            alpha = jnp.exp(before - m)
            p = jnp.exp(s - m[:, :1])
            pv = jnp.dot(p.astype(held.dtype), held[1, h, keys], preferred_element_type=jnp.float32)
            m_ref[h, queries] = m
            l_ref[h, queries] = alpha * l_ref[h, queries] + jnp.sum(p, axis=1, keepdims=True)
            acc_ref[h, queries] = alpha[:, :1] * acc_ref[h, queries] + pv
            # END SOLUTION

    # BEGIN SOLUTION
    last = n - 1

    def hand_on(held, hop):
        slot = lax.rem(hop, 2)
        return pltpu.make_async_remote_copy(
            held, came_ref.at[slot], send_sems.at[slot], recv_sems.at[slot], device_id=(right,)
        )

    hand_on(kv_ref, 0).start()
    meet(kv_ref, late, early)
    pl.loop(early, late + 1)(lambda half: meet(kv_ref, half, half, same=True))
    hand_on(kv_ref, 0).wait()

    @pl.loop(1, n)
    def _(hop):
        held = came_ref.at[lax.rem(hop - 1, 2)]

        @pl.when(hop < last)
        def _():
            pl.when(hop >= 2)(lambda: pl.semaphore_wait(free_sem))
            hand_on(held, hop).start()

        source = lax.rem(me + n - hop, n)
        half = jnp.where(source < me, early, late)
        meet(held, late, early)
        meet(held, half, half)
        pl.when(hop < last)(lambda: hand_on(held, hop).wait())
        pl.when(hop < last - 1)(lambda: pl.semaphore_signal(free_sem, device_id=(left,)))

    # END SOLUTION
    o_ref[...] = (acc_ref[...] / l_ref[..., :1]).astype(o_ref.dtype)


def ring_attention(
    q: Float[Array, "H T D"], k: Float[Array, "H T D"], v: Float[Array, "H T D"], *, mesh
) -> Float[Array, "H T D"]:
    """Launch: the kernel on each chip, with its early and its late piece. Given."""
    n = mesh.shape["x"]

    def on_each(q, k, v):
        halves = (q.shape[0], 2, q.shape[1] // 2, q.shape[2])
        statistics = pltpu.VMEM((*halves[:-1], LANES), jnp.float32)
        vmem = pl.BlockSpec(memory_space=pltpu.VMEM)
        o = pl.pallas_call(
            ring_attention_kernel,
            in_specs=[vmem, vmem],
            out_specs=vmem,
            out_shape=jax.ShapeDtypeStruct(halves, q.dtype),
            scratch_shapes=[
                pltpu.VMEM((2, 2, *halves), k.dtype),
                statistics,
                statistics,
                pltpu.VMEM(halves, jnp.float32),
                pltpu.SemaphoreType.DMA((2,)),
                pltpu.SemaphoreType.DMA((2,)),
                pltpu.SemaphoreType.REGULAR,
            ],
            compiler_params=pltpu.CompilerParams(collective_id=0),
            name="ring_attention",
        )(q.reshape(halves), jnp.stack([k, v]).reshape(2, *halves))
        return o.reshape(q.shape)

    tokens = P(None, "x")
    ring = jax.shard_map(on_each, mesh=mesh, in_specs=tokens, out_specs=tokens, check_vma=False)
    return in_order(ring(*(zigzag(x, n) for x in (q, k, v))), n)


# ---- Given: inputs and helpers. ----


def ring_attention_inputs(key, *, H, T, D, dtype):
    """Give each query's scores their own level, high or low, and a slope along the keys."""
    q_key, k_key, v_key, level_key, slope_key = jax.random.split(key, 5)
    level = 150 * jax.random.uniform(level_key, (H, T), minval=-1)
    slope = 150 * jax.random.uniform(slope_key, (H, T), minval=-1) ** 3
    q = jax.random.normal(q_key, (H, T, D)).at[..., 0].set(level).at[..., 1].set(slope)
    k = jax.random.normal(k_key, (H, T, D))
    k = k.at[..., 0].set(D**0.5).at[..., 1].set(jnp.linspace(-1, 1, T) * D**0.5)
    v = jax.random.normal(v_key, (H, T, D))
    # Sums of products of sixteenths are exact in float32, in any order.
    q, k = jnp.round(16 * q) / 16, jnp.round(16 * k) / 16
    return q.astype(dtype), k.astype(dtype), v.astype(dtype)


def dealt(n):
    """Number the pieces as the chips hold them: chip i has piece i and piece 2n - 1 - i."""
    return [piece for i in range(n) for piece in (i, 2 * n - 1 - i)]


def zigzag(x, n):
    """Distribute tokens, cut into 2n pieces, over n chips."""
    pieces = jnp.split(x, 2 * n, axis=1)
    return jnp.concatenate([pieces[piece] for piece in dealt(n)], axis=1)


def in_order(x, n):
    """Undo zigzag: put the tokens back in order."""
    pieces = jnp.split(x, 2 * n, axis=1)
    return jnp.concatenate([pieces[dealt(n).index(piece)] for piece in range(2 * n)], axis=1)


def test_ring_attention(hidden_case):
    hidden_case.grade(ring_attention)
