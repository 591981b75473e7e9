"""Right kernels of pipelined_copy in other styles: see docs/authoring.md."""

# ---- fetches_last ----

"""Fills the whole ring first, and asks for the next box once the slot has been read.

Stars: 3
"""


def pipelined_copy_kernel(x_gmem, o_gmem, x_smem, o_smem, here, *, steps):
    slots, bm, _ = x_smem.shape
    block = lax.axis_index("block")

    def rows(i):
        return pl.ds((block * steps + i) * bm, bm)

    for i in range(slots):
        plgpu.copy_gmem_to_smem(x_gmem.at[rows(i)], x_smem.at[i], here.at[i])

    def step(i, _):
        slot = lax.rem(i, slots)
        plgpu.barrier_wait(here.at[slot])
        x = jnp.maximum(x_smem[slot], 0)
        plgpu.wait_smem_to_gmem(slots - 1)
        o_smem[slot] = x * x
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(o_smem.at[slot], o_gmem.at[rows(i)])

        @pl.when(i + slots < steps)
        def _():
            plgpu.copy_gmem_to_smem(x_gmem.at[rows(i + slots)], x_smem.at[slot], here.at[slot])

    lax.fori_loop(0, steps, step, None)
    plgpu.wait_smem_to_gmem(0)


# ---- one_copy_out ----

"""Runs one box ahead only, and has one copy out under way.

Stars: 3
"""


def pipelined_copy_kernel(x_gmem, o_gmem, x_smem, o_smem, here, *, steps):
    slots, bm, _ = x_smem.shape
    first = lax.axis_index("block") * steps

    def bring(i):
        rows, slot = pl.ds((first + i) * bm, bm), lax.rem(i, 2)
        plgpu.copy_gmem_to_smem(x_gmem.at[rows], x_smem.at[slot], here.at[slot])

    bring(jnp.int32(0))

    @pl.loop(0, steps)
    def step(i):
        slot = lax.rem(i, 2)
        pl.when(i < steps - 1)(lambda: bring(i + 1))
        plgpu.barrier_wait(here.at[slot])
        plgpu.wait_smem_to_gmem(1, wait_read_only=True)
        o_smem[slot] = jnp.where(x_smem[slot] > 0, jnp.square(x_smem[slot]), 0)
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(o_smem.at[slot], o_gmem.at[pl.ds((first + i) * bm, bm)])

    plgpu.wait_smem_to_gmem(0)
