"""Right kernels of threads_and_grids in other styles: see docs/authoring.md."""

# ---- views ----

"""Views through `.at`, one of the block's part and one of the warpgroup's.

Stars: 3
"""


def threads_and_grids_kernel(x_gmem, o_gmem, *, bn):
    whole = bn * lax.axis_size("wg")
    block = pl.ds(lax.axis_index("block") * whole, whole)
    mine = pl.ds(lax.axis_index("wg") * bn, bn)
    x_part, o_part = x_gmem.at[block].at[mine], o_gmem.at[block].at[mine]
    x = x_part[...].astype(jnp.float32)
    o_part[...] = (x / (jnp.exp(-x) + 1)).astype(o_part.dtype)


# ---- warpgroup_first ----

"""Numbered the other way: all blocks' first warpgroups, then all second ones.

Stars: 3
"""


def threads_and_grids_kernel(x_gmem, o_gmem, *, bn):
    number = lax.axis_index("wg") * lax.axis_size("block") + lax.axis_index("block")
    x = x_gmem[pl.ds(number * bn, bn)].astype(jnp.float32)
    o_gmem[pl.ds(number * bn, bn)] = jax.nn.silu(x).astype(o_gmem.dtype)


# ---- two_halves ----

"""Half of its elements at a time in a loop, and the sigmoid by a tanh.

Stars: 3
"""


def threads_and_grids_kernel(x_gmem, o_gmem, *, bn):
    wg, wgs = lax.axis_index("wg"), lax.axis_size("wg")
    start = (lax.axis_index("block") * wgs + wg) * bn
    half = bn // 2 if bn % 256 == 0 else bn

    def part(n, _):
        here = pl.ds(start + n * half, half)
        h = 0.5 * x_gmem[here].astype(jnp.float32)
        o_gmem[here] = (h + h * jnp.tanh(h)).astype(o_gmem.dtype)
        return ()

    lax.fori_loop(0, bn // half, part, ())
