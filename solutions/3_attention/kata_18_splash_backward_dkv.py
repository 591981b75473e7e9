"""Compute dk and dv from only the blocks that a sparse mask allows.

Goal
    Write the kernel and the BlockSpecs of flash_backward_dkv for a mask that leaves
    most blocks empty. Empty blocks must cost no matmul and no copy. The tables, the
    arithmetic of one block, and the rest of the launch are given.

Concept
    splash_attention went along the *rows* of the mask: for a block of queries,
    through the blocks of keys that it sees. dk and dv need the *columns*: for a
    block of keys, the blocks of queries that see it. You can't read a list of
    rows by columns. So the backward pass has its own tables, made from the
    transposed mask. Here is a mask (# full, / partial, . empty) and the blocks
    that each table lists:

              mask            by rows, forward         by columns, backward
           keys ->            for queries: keys        for keys: queries
        q   / . . .            0: 0                     0: 0 1 2
        |   # / . .            1: 0 1                   1: 1 2 3
        v   # # / .            2: 0 1 2                 2: 2 3
            . # # /            3: 1 2 3                 3: 3

    Everything about the tables is transposed as well. Row j of a table belongs to
    block j of keys, and it lists blocks of queries. The partial masks are
    (bkv, bq), with keys first, so that they fit on transposed scores.

        block_mask[j, step]   0 nothing to do, 1 partial, 2 full
        data_next[j, step]    which block of queries this step has fetched
        mask_next[j, step]    which of partial_masks this step has fetched

    All rows are as long as the longest one. The steps that fill up a shorter row
    hold the entry that will be needed next. So does mask_next in every step that
    needs no mask. This way, a copy starts early and isn't made twice.

    Be careful: some arrays have changed sides. q, do, lse and delta change from step to
    step, so they follow data_next. k, v, dk and dv stay the same for a whole row.
    And a block of keys, such as padding, may have no query at all. Its gradients are
    zero, and the kernel has to write them.

    For T = S = 4096, a causal mask, 8 heads of 128 and blocks of 512, the predicted
    times on a v5e: 0.84 ms for flash_backward_dkv, 0.61 ms here, 0.65 ms for JAX's.

Shapes
    name                           dtype[dims]           memory space   Ref's shape   block
    block_mask_ref                 int32[J, steps]       SMEM           (J, steps)    whole
    data_next_ref, mask_next_ref   int32[J, steps]       SMEM           (J, steps)    whole
    q_ref, do_ref                  q.dtype[B, N, T, H]   VMEM           (bq, H)       yours
    k_ref, v_ref, dk_ref, dv_ref   q.dtype[B, N, S, H]   VMEM           (bkv, H)      yours
    lse_ref, delta_ref             float32[B, N, 1, T]   VMEM           (1, bq)       yours
    mask_ref                       int8[P, bkv, bq]      VMEM           (bkv, bq)     yours
    dk_acc, dv_acc                 float32[bkv, H]       VMEM scratch   (bkv, H)      -

    The grid is (B, N, J, steps), J = S / bkv.

Try
    pytest -k splash_backward_dkv           stuck?  kata hint splash_backward_dkv

Needs     flash_backward_dkv, splash_attention
Read on   Splash attention in JAX,
          https://github.com/jax-ml/jax/tree/main/jax/experimental/pallas/ops/tpu/splash_attention
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float, Float32, Int8, Int32

MASK_VALUE = -0.7 * float(jnp.finfo(jnp.float32).max)


def splash_backward_dkv_spec(
    q: Float[Array, "B N T H"],
    k: Float[Array, "B N S H"],
    v: Float[Array, "B N S H"],
    do: Float[Array, "B N T H"],
    lse: Float32[Array, "B N 1 T"],
    delta: Float32[Array, "B N 1 T"],
    partial_masks: Int8[Array, "P bkv bq"],
    block_mask: Int32[Array, "J steps"],
    data_next: Int32[Array, "J steps"],
    mask_next: Int32[Array, "J steps"],
) -> tuple[Float[Array, "B N S H"], Float[Array, "B N S H"]]:
    """The required results, in plain jax.numpy: dk and dv."""
    scale = q.shape[3] ** -0.5
    mask = dense_mask(partial_masks, block_mask, data_next, mask_next, q.shape[2])
    s = jnp.einsum("bnsh,bnth->bnst", k, q) * scale
    p = jnp.where(mask, jnp.exp(s - lse), 0)
    ds = p * (jnp.einsum("bnsh,bnth->bnst", v, do) - delta)
    dk = jnp.einsum("bnst,bnth->bnsh", ds, q) * scale
    dv = jnp.einsum("bnst,bnth->bnsh", p, do)
    return dk.astype(k.dtype), dv.astype(v.dtype)


def splash_backward_dkv_kernel(
    block_mask_ref,
    data_next_ref,
    mask_next_ref,
    q_ref,
    k_ref,
    v_ref,
    do_ref,
    lse_ref,
    delta_ref,
    mask_ref,
    dk_ref,
    dv_ref,
    dk_acc,
    dv_acc,
):
    refs = (q_ref, k_ref, v_ref, do_ref, lse_ref, delta_ref, mask_ref, dk_acc, dv_acc)
    scale = q_ref.shape[1] ** -0.5

    # BEGIN SOLUTION
    j, step = pl.program_id(2), pl.program_id(3)
    kind = block_mask_ref[j, step]

    @pl.when(step == 0)
    def _():
        dk_acc[...] = jnp.zeros_like(dk_acc)
        dv_acc[...] = jnp.zeros_like(dv_acc)

    @pl.when(kind == 2)
    def _():
        add_block(False, *refs)

    @pl.when(kind == 1)
    def _():
        add_block(True, *refs)

    @pl.when(step == pl.num_programs(3) - 1)
    def _():
        dk_ref[...] = (dk_acc[...] * scale).astype(dk_ref.dtype)
        dv_ref[...] = dv_acc[...].astype(dv_ref.dtype)

    # END SOLUTION


def splash_backward_dkv(
    q: Float[Array, "B N T H"],
    k: Float[Array, "B N S H"],
    v: Float[Array, "B N S H"],
    do: Float[Array, "B N T H"],
    lse: Float32[Array, "B N 1 T"],
    delta: Float32[Array, "B N 1 T"],
    partial_masks: Int8[Array, "P bkv bq"],
    block_mask: Int32[Array, "J steps"],
    data_next: Int32[Array, "J steps"],
    mask_next: Int32[Array, "J steps"],
) -> tuple[Float[Array, "B N S H"], Float[Array, "B N S H"]]:
    """Launch: every block of keys gets as many steps as the busiest one has blocks of queries."""
    B, N, _, H = q.shape
    _, bkv, bq = partial_masks.shape
    rows, steps = block_mask.shape
    # BEGIN SOLUTION

    def q_index(b, n, j, step, block_mask_ref, data_next_ref, mask_next_ref):
        return b, n, data_next_ref[j, step], 0

    def kv_index(b, n, j, step, block_mask_ref, data_next_ref, mask_next_ref):
        return b, n, j, 0

    def row_index(b, n, j, step, block_mask_ref, data_next_ref, mask_next_ref):
        return b, n, 0, data_next_ref[j, step]

    def mask_index(b, n, j, step, block_mask_ref, data_next_ref, mask_next_ref):
        return mask_next_ref[j, step], 0, 0

    q_spec = pl.BlockSpec((None, None, bq, H), q_index)
    kv_spec = pl.BlockSpec((None, None, bkv, H), kv_index)
    row_spec = pl.BlockSpec((None, None, 1, bq), row_index)
    mask_spec = pl.BlockSpec((None, bkv, bq), mask_index)
    # END SOLUTION
    dk, dv = pl.pallas_call(
        splash_backward_dkv_kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=3,
            grid=(B, N, rows, steps),
            in_specs=[q_spec, kv_spec, kv_spec, q_spec, row_spec, row_spec, mask_spec],
            out_specs=[kv_spec, kv_spec],
            scratch_shapes=[pltpu.VMEM((bkv, H), jnp.float32)] * 2,
        ),
        out_shape=[
            jax.ShapeDtypeStruct(k.shape, k.dtype),
            jax.ShapeDtypeStruct(v.shape, v.dtype),
        ],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "parallel", "arbitrary")
        ),
        name="splash_backward_dkv",
    )(block_mask, data_next, mask_next, q, k, v, do, lse, delta, partial_masks)
    return dk, dv


# ---- Given: inputs and helpers. ----


def dense_mask(partial_masks, block_mask, data_next, mask_next, T):
    """Return the bool[S, T] mask that the tables stand for: which query sees which key."""
    kind = block_mask[..., None, None]
    blocks = jnp.where(kind == 1, partial_masks[mask_next] != 0, kind == 2)
    rows, _, bkv, bq = blocks.shape
    mask = jnp.zeros((rows, T // bq, bkv, bq), bool)
    mask = mask.at[jnp.arange(rows)[:, None], data_next].max(blocks)
    return mask.swapaxes(1, 2).reshape(rows * bkv, T)


def splash_backward_dkv_inputs(key, *, B, N, T, S, H, bq, bkv, pattern, dtype):
    """Make tables for a causal mask, a local window or random blocks; and arrays to match."""
    mask_key, key = jax.random.split(key)
    mask = random_blocks(mask_key, S, T, bkv, bq)
    if pattern < 2:
        distance = jnp.arange(T) - jnp.arange(S)[:, None]
        mask = distance >= 0
        if pattern == 1:
            mask &= distance <= S // 4
    q, k, v, do = jax.random.normal(key, (4, B, N, max(T, S), H))
    sharpness = 1.0 + jnp.arange(T)[:, None] * 7 % 40  # scores from small to above 100
    # In sixteenths, so that every product and every sum is exact in float32.
    q, k = jnp.round(16 * q[:, :, :T] * sharpness) / 16, jnp.round(16 * k[:, :, :S]) / 16
    q, do = q.astype(dtype), (do[:, :, :T] / sharpness**2).astype(dtype)
    k, v = k.astype(dtype), v[:, :, :S].astype(dtype)
    s = jnp.einsum("bnsh,bnth->bnst", k, q, preferred_element_type=jnp.float32) * H**-0.5
    s = jnp.where(mask, s, -jnp.inf)
    # A query that sees no key has no log-sum-exp; any number will do.
    lse = jnp.where(mask.any(0), jax.nn.logsumexp(s, axis=2, keepdims=True), 0)
    o = jnp.einsum("bnst,bnsh->bnth", jnp.exp(s - lse), v.astype(jnp.float32))
    delta = jnp.sum(o * do, axis=3)[:, :, None, :]
    return q, k, v, do, lse, delta, *transposed_tables(mask, bkv, bq)


def random_blocks(key, S, T, bkv, bq):
    """Make full, partial and empty blocks; no query sees block 1 of the keys."""
    kind_key, element_key = jax.random.split(key)
    kind = jax.random.randint(kind_key, (S // bkv, T // bq), 0, 3)
    kind = kind.at[0, 0].set(2).at[0, -1].set(1).at[1].set(0).at[2, 0].set(1).at[2, -1].set(2)
    kind = jnp.repeat(jnp.repeat(kind, bkv, axis=0), bq, axis=1)
    elements = jax.random.bernoulli(element_key, 0.5, (S, T))
    return (kind == 2) | ((kind == 1) & elements)


def transposed_tables(mask, bkv, bq):
    """Return partial_masks, block_mask, data_next and mask_next for a mask bool[S, T]."""
    S, T = mask.shape
    blocks = jax.device_get(mask).reshape(S // bkv, bkv, T // bq, bq).swapaxes(1, 2)
    kinds = (blocks.any((2, 3)).astype(int) + blocks.all((2, 3))).tolist()
    active = [[(i, kind) for i, kind in enumerate(row) if kind] for row in kinds]
    width = max(1, *map(len, active))
    block_mask, data_next, mask_next, partial = [], [], [], {}
    for j, row in enumerate(active):
        for i, kind in row + [(None, 0)] * (width - len(row)):
            block_mask.append(kind)
            data_next.append(i)
            if kind == 1:  # equal blocks are stored once
                partial.setdefault(blocks[j, i].tobytes(), (len(partial), blocks[j, i]))
            mask_next.append(partial[blocks[j, i].tobytes()][0] if kind == 1 else None)
    tables = (block_mask, upcoming(data_next), upcoming(mask_next))
    masks = [block for _, block in partial.values()] or [jnp.ones((bkv, bq), bool)]
    shape = (S // bkv, width)
    return jnp.stack(masks).astype(jnp.int8), *(jnp.int32(t).reshape(shape) for t in tables)


def upcoming(entries):
    """Replace each None with the next entry that isn't None, or at the end with the last one."""
    known = [entry for entry in entries if entry is not None]
    following, filled = (known or [0])[-1], []
    for entry in reversed(entries):
        following = following if entry is None else entry
        filled.insert(0, following)
    return filled


def dot(a, b, dims=(((1,), (0,)), ((), ()))):
    return jax.lax.dot_general(a, b, dims, preferred_element_type=jnp.float32)


def add_block(masked, q_ref, k_ref, v_ref, do_ref, lse_ref, delta_ref, mask_ref, dk_acc, dv_acc):
    """Add one block to the two sums, as in flash_backward_dkv; if `masked`, apply mask_ref."""
    last_of_both = (((1,), (1,)), ((), ()))
    s_t = dot(k_ref[...], q_ref[...], last_of_both) * q_ref.shape[1] ** -0.5
    if masked:
        s_t = jnp.where(mask_ref[...] != 0, s_t, MASK_VALUE)
    p_t = jnp.exp(s_t - lse_ref[...])
    dv_acc[...] += dot(p_t.astype(do_ref.dtype), do_ref[...])
    dp_t = dot(v_ref[...], do_ref[...], last_of_both)
    ds_t = p_t * (dp_t - delta_ref[...])
    dk_acc[...] += dot(ds_t.astype(q_ref.dtype), q_ref[...])


def test_splash_backward_dkv(hidden_case):
    hidden_case.grade(splash_backward_dkv)
