"""Teach jax.grad to differentiate a grouped matmul that is made of kernels.

Goal
    Connect two kernels to `jax.grad`. Write the BlockSpec of w for the gradient of x,
    and the rules that say which kernel computes which gradient. The given forward kernel
    can sum over either of w's last two dimensions. The launch returns y, and dx and dw for a
    given dy.

Concept
    JAX differentiates a program operation by operation, with a rule for each.
    `pallas_call` has no gradient rule, whatever its body does: if you ask for a
    gradient, tracing fails. `jax.custom_vjp` uses your own rules instead:

        @functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
        def f(a, b, tile): ...                computes f(a, b)

        def f_fwd(a, b, tile): ...            the same, and *residuals* for f_bwd
        def f_bwd(tile, residuals, dy): ...   a gradient for a, and one for b

        f.defvjp(f_fwd, f_bwd)

    nondiff_argnums are the arguments that are no arrays. f_bwd takes them first. An
    int32 array, such as group_sizes, has no gradient: return None for it.

    Both gradients are grouped matmuls again. For the rows r of group g:

        y[r]  = x[r]  @ w[g]          [M, K] by [K, N]     sum over K
        dx[r] = dy[r] @ w[g].T        [M, N] by [N, K]     sum over N
        dw[g] = x[rows].T @ dy[rows]  [K, M] by [M, N]     sum over rows of g

    dx uses the forward kernel with w[g] transposed. To make a transposed copy
    of w, the device would read and write all experts: 128 MiB of traffic for
    eight of 2048 x 2048 in bfloat16, 164 µs on a v5e, on top of 480 µs for dx of 8192 rows.
    Instead, fetch each block from where it lies in w, and let the matrix unit
    sum over the block's last dimension:

                     array         the block of step (j, k)        sum over
        forward      w [G, K, N]   row of blocks k, column j       dimension 0
        backward     w [G, K, N]   row of blocks ?, column ?       dimension 1

    In grouped_matmul, tk is the tile size of the dimension that is summed over, and tn
    that of the result's columns. Check which tile sizes these are for dx. And what
    should the residuals be? They stay in HBM until the backward pass.

Shapes
    name          dtype[dims]        memory space   Ref's shape   block
    x, dx         x.dtype[M, K]      VMEM           (tm, tk)      of its tile
    w, dw         x.dtype[G, K, N]   VMEM           (tk, tn)      of its group
    y, dy         x.dtype[M, N]      VMEM           (tm, tn)      of its tile
    group_sizes   int32[G]           HBM            -             -

    Grids: (N / tn, visits, K / tk) for y, (K / tk, visits, N / tn) for dx,
    (K / tk, N / tn, visits) for dw.

Try
    pytest -k grouped_matmul_vjp          stuck?  kata hint grouped_matmul_vjp

Needs     launch_grouped_matmul, transposed_grouped_matmul, fused_matmul
Read on   jax.custom_vjp, https://docs.jax.dev/en/latest/_autosummary/jax.custom_vjp.html
"""

import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float, Int32


def grouped_matmul_vjp_spec(
    x: Float[Array, "M K"],
    w: Float[Array, "G K N"],
    group_sizes: Int32[Array, "G"],
    dy: Float[Array, "M N"],
) -> tuple[Float[Array, "M N"], Float[Array, "M K"], Float[Array, "G K N"]]:
    """What the launch must compute, in plain jax.numpy: y, dx and dw."""
    group_of_row = jnp.repeat(jnp.arange(len(w)), group_sizes, total_repeat_length=len(x))

    def grouped_matmul(x, w):
        return jnp.take_along_axis(x @ w, group_of_row[None, :, None], axis=0)[0]

    y, pullback = jax.vjp(grouped_matmul, x, w)
    return (y, *pullback(dy))


def grouped_matmul(x, w, group_sizes, *, tm, tk, tn, transpose_w=False):
    """Multiply row r of group g by w[g] or w[g].T. tk tiles the sum, tn the result's columns."""
    M, K = x.shape
    N = w.shape[1] if transpose_w else w.shape[2]
    group_offsets, group_ids, m_tile_ids, num_visits = group_metadata(group_sizes, M=M, tm=tm)

    def x_tile(j, visit, k, group_offsets_ref, group_ids_ref, m_tile_ids_ref):
        return m_tile_ids_ref[visit], k

    def w_block(j, visit, k, group_offsets_ref, group_ids_ref, m_tile_ids_ref):
        return group_ids_ref[visit], k, j

    def o_tile(j, visit, k, group_offsets_ref, group_ids_ref, m_tile_ids_ref):
        return m_tile_ids_ref[visit], j

    w_spec, w_dim = pl.BlockSpec((None, tk, tn), w_block), 0
    if transpose_w:
        # BEGIN SOLUTION
        def turned_block(j, visit, k, group_offsets_ref, group_ids_ref, m_tile_ids_ref):
            return group_ids_ref[visit], j, k

        w_spec, w_dim = pl.BlockSpec((None, tn, tk), turned_block), 1
        # END SOLUTION

    def kernel(group_offsets_ref, group_ids_ref, m_tile_ids_ref, x_ref, w_ref, o_ref, acc_ref):
        tables = group_offsets_ref, group_ids_ref, m_tile_ids_ref
        grouped_matmul_kernel(*tables, x_ref, w_ref, o_ref, acc_ref, w_dim=w_dim)

    return pl.pallas_call(
        kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=3,
            grid=(N // tn, num_visits, K // tk),
            in_specs=[pl.BlockSpec((tm, tk), x_tile), w_spec],
            out_specs=pl.BlockSpec((tm, tn), o_tile),
            scratch_shapes=[pltpu.VMEM((tm, tn), jnp.float32)],
        ),
        out_shape=jax.ShapeDtypeStruct((M, N), x.dtype),
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "arbitrary", "arbitrary")
        ),
        name="grouped_matmul",
    )(group_offsets, group_ids, m_tile_ids, x, w)


# ---- The function, its rules, and the code that ties them together. ----


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4, 5))
def matmul(x, w, group_sizes, tm, tk, tn):
    """Return the grouped matmul of x and w, [M, N]."""
    return grouped_matmul(x, w, group_sizes, tm=tm, tk=tk, tn=tn)


def matmul_fwd(x, w, group_sizes, tm, tk, tn):
    """The forward rule: the result of `matmul`, and the residuals."""
    # BEGIN SOLUTION
    return matmul(x, w, group_sizes, tm, tk, tn), (x, w, group_sizes)
    # END SOLUTION


def matmul_bwd(tm, tk, tn, residuals, dy):
    """The backward rule: a gradient for each of x, w and group_sizes."""
    # BEGIN SOLUTION
    x, w, group_sizes = residuals
    dx = grouped_matmul(dy, w, group_sizes, tm=tm, tk=tn, tn=tk, transpose_w=True)
    dw = transposed_grouped_matmul(x, dy, group_sizes, tm=tm, tk=tk, tn=tn)
    return dx, dw, None
    # END SOLUTION


matmul.defvjp(matmul_fwd, matmul_bwd)


def grouped_matmul_vjp(
    x: Float[Array, "M K"],
    w: Float[Array, "G K N"],
    group_sizes: Int32[Array, "G"],
    dy: Float[Array, "M N"],
    *,
    tm: int = 512,
    tk: int = 1024,
    tn: int = 1024,
) -> tuple[Float[Array, "M N"], Float[Array, "M K"], Float[Array, "G K N"]]:
    """Launch: a differentiable grouped matmul, and its gradients for dy."""

    y, pullback = jax.vjp(lambda x, w: matmul(x, w, group_sizes, tm, tk, tn), x, w)
    return (y, *pullback(dy))


# ---- Given: inputs and helpers. ----


def grouped_matmul_vjp_inputs(key, *, M, K, N, G, tm, pattern, dtype):
    """Group sizes like a router's: empty groups, several groups in one tile, one large group."""
    x_key, w_key, dy_key, cut_key = jax.random.split(key, 4)
    x = jax.random.normal(x_key, (M, K))
    w = jax.random.normal(w_key, (G, K, N))
    dy = jax.random.normal(dy_key, (M, N))
    lowest = (1, 2 * tm, M // 2)[pattern]
    drawn = jax.random.randint(cut_key, (G - 1,), lowest, M).tolist()
    cuts = [row | 1 for row in sorted(drawn)]  # odd: inside a tile
    if pattern == 0:  # the first, the last, and one in between have no rows
        cuts[0], cuts[G // 2], cuts[-1] = 0, cuts[G // 2 - 1], M
    if pattern == 1:  # three groups end in the first tile, the fourth at the end of the second
        cuts[:4] = tm // 8, tm // 2 + 3, tm - 1, 2 * tm
    group_sizes = jnp.diff(jnp.array([0, *cuts, M], jnp.int32))
    return x.astype(dtype), w.astype(dtype), group_sizes, dy.astype(dtype)


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


def grouped_matmul_kernel(
    group_offsets_ref, group_ids_ref, m_tile_ids_ref, x_ref, w_ref, o_ref, acc_ref, *, w_dim
):
    """Sum over k, store the group's own rows. `w_dim` is the dimension of w_ref to sum over."""
    visit, k, last = pl.program_id(1), pl.program_id(2), pl.num_programs(2) - 1

    def product():
        return jax.lax.dot_general(
            x_ref[...], w_ref[...], (((1,), (w_dim,)), ((), ())), preferred_element_type=jnp.float32
        )

    @pl.when(k == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    @pl.when(k < last)
    def _():
        acc_ref[...] += product()

    @pl.when(k == last)
    def _():
        total = acc_ref[...] + product()
        group = group_ids_ref[visit]
        first_row = m_tile_ids_ref[visit] * o_ref.shape[0]
        row = first_row + jax.lax.broadcasted_iota(jnp.int32, o_ref.shape, 0)
        mine = (row >= group_offsets_ref[group]) & (row < group_offsets_ref[group + 1])
        o_ref[...] = jnp.where(mine, total.astype(o_ref.dtype), o_ref[...])


def transposed_grouped_matmul_kernel(
    group_offsets_ref, group_ids_ref, m_tile_ids_ref, x_ref, dy_ref, dw_ref, acc_ref
):
    """Sum over the rows of a group, from the tile where it begins to the tile where it ends."""
    visit, tm = pl.program_id(2), x_ref.shape[0]
    group, first_row = group_ids_ref[visit], m_tile_ids_ref[visit] * tm
    start = group_offsets_ref[group] - first_row
    end = group_offsets_ref[group + 1] - first_row

    def masked(ref):
        row = jax.lax.broadcasted_iota(jnp.int32, ref.shape, 0)
        return jnp.where((row >= start) & (row < end), ref[...], 0)

    @pl.when(start >= 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    @pl.when(start < end)
    def _():
        rows_of_both = (((0,), (0,)), ((), ()))
        acc_ref[...] += jax.lax.dot_general(
            masked(x_ref), masked(dy_ref), rows_of_both, preferred_element_type=jnp.float32
        )

    @pl.when(end <= tm)
    def _():
        dw_ref[...] = acc_ref[...].astype(dw_ref.dtype)


def transposed_grouped_matmul(x, dy, group_sizes, *, tm, tk, tn):
    """For each group, compute x.T @ dy over its rows: [G, K, N], in blocks of (tk, tn)."""
    M, K = x.shape
    _, N = dy.shape
    (G,) = group_sizes.shape
    group_offsets, group_ids, m_tile_ids, num_visits = group_metadata(
        group_sizes, M=M, tm=tm, visit_empty_groups=True
    )

    def x_tile(i, j, visit, group_offsets_ref, group_ids_ref, m_tile_ids_ref):
        return m_tile_ids_ref[visit], i

    def dy_tile(i, j, visit, group_offsets_ref, group_ids_ref, m_tile_ids_ref):
        return m_tile_ids_ref[visit], j

    def dw_block(i, j, visit, group_offsets_ref, group_ids_ref, m_tile_ids_ref):
        return group_ids_ref[visit], i, j

    return pl.pallas_call(
        transposed_grouped_matmul_kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=3,
            grid=(K // tk, N // tn, num_visits),
            in_specs=[pl.BlockSpec((tm, tk), x_tile), pl.BlockSpec((tm, tn), dy_tile)],
            out_specs=pl.BlockSpec((None, tk, tn), dw_block),
            scratch_shapes=[pltpu.VMEM((tk, tn), jnp.float32)],
        ),
        out_shape=jax.ShapeDtypeStruct((G, K, N), x.dtype),
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary")
        ),
        name="transposed_grouped_matmul",
    )(group_offsets, group_ids, m_tile_ids, x, dy)


def test_grouped_matmul_vjp(hidden_case):
    hidden_case.grade(grouped_matmul_vjp)
