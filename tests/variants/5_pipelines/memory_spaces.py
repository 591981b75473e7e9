"""Right kernels of memory_spaces in other styles: see docs/authoring.md."""

# ---- three_blocks ----

"""fori_loop, a view with a range of columns, and a third block for the result.

Stars: 3
"""


def memory_spaces_kernel(x_ref, o_ref, *, bm):
    M, H = o_ref.shape

    def scoped(value_ref, gate_ref, result_ref):
        def step(i, carry):
            rows = pl.ds(pl.multiple_of(i * bm, bm), bm)
            pltpu.sync_copy(x_ref.at[rows, :H], value_ref)
            pltpu.sync_copy(x_ref.at[rows, H:], gate_ref)
            gate = 1 / (1 + jnp.exp(-gate_ref[...].astype(jnp.float32)))
            result_ref[...] = (value_ref[...] * gate).astype(o_ref.dtype)
            pltpu.sync_copy(result_ref, o_ref.at[rows, :])
            return carry

        jax.lax.fori_loop(0, M // bm, step, 0)

    pl.run_scoped(scoped, *[pltpu.VMEM((bm, H), x_ref.dtype)] * 3)


# ---- whole_rows ----

"""One copy in for both halves, with scratch of whole rows of x.

Stars: 3
"""


def memory_spaces_kernel(x_ref, o_ref, *, bm):
    M, H = o_ref.shape

    @pl.loop(0, M // bm)
    def _(i):
        rows = pl.ds(i * bm, bm)

        @functools.partial(pl.run_scoped, rows_ref=pltpu.VMEM((bm, 2 * H), x_ref.dtype))
        def _(rows_ref):
            pltpu.sync_copy(x_ref.at[rows], rows_ref)
            value, gate = jnp.split(rows_ref[...].astype(jnp.float32), 2, axis=1)
            rows_ref[:, :H] = (value * jax.nn.sigmoid(gate)).astype(o_ref.dtype)
            pltpu.sync_copy(rows_ref.at[:, :H], o_ref.at[rows])
