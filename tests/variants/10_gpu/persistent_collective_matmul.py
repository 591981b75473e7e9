"""Right kernels of persistent_collective_matmul in other styles: see docs/authoring.md."""

# ---- sends_at_once ----

"""Lets a half go before it begins to send, and waits for what leaves at once.

Stars: 3
"""


def persistent_collective_matmul_kernel(
    a_gmem,
    b_gmem,
    o_gmem,
    a_smem,
    b_smem,
    o_smem,
    acc_tmem,
    here,
    free,
    done,
    stored,
):
    (slots, bm, bk), (pair, _, bn) = a_smem.shape, o_smem.shape
    (M, K), N = a_gmem.shape, b_gmem.shape[1]
    steps, axis = K // bk, "pair" if pair == 2 else None
    wg, mine = lax.axis_index("wg"), lax.axis_index("pair")

    @plgpu.nd_loop((M // (pair * bm), N // (pair * bn)), collective_axes="cluster")
    def box(info):
        (i, j), t = info.index, info.local_index
        half = lax.rem(t, jnp.int32(2))
        acc = acc_tmem.at[:, pl.ds(half * pair * bn, pair * bn)]

        @pl.when(wg == 0)
        def bring():
            bring_boxes(t * steps, i, j, (a_gmem, b_gmem), (a_smem, b_smem), here, free, axis)

        @pl.when((wg == 1) & (mine == 0))
        def multiply():
            @pl.when(t >= 2)
            def wait():
                plgpu.barrier_wait(stored.at[half])

            @pl.loop(0, steps)
            def step(k):
                slot = lax.rem(t * steps + k, slots)
                plgpu.barrier_wait(here.at[slot])
                plgpu.tcgen05_mma(
                    acc,
                    a_smem.at[slot],
                    b_smem.at[slot],
                    free.at[slot],
                    accumulate=k > 0,
                    collective_axis=axis,
                )

            plgpu.tcgen05_commit_arrive(done.at[half], collective_axis=axis)

        @pl.when(wg == 2)
        def send():
            rows = pl.ds((i * pair + mine) * bm, bm)
            plgpu.barrier_wait(done.at[half])
            for part in range(pair):
                o_smem[part] = plgpu.async_load_tmem(acc.at[:, pl.ds(part * bn, bn)]).astype(
                    o_smem.dtype
                )
            plgpu.wait_load_tmem()
            plgpu.barrier_arrive(stored.at[half])
            plgpu.commit_smem()
            for part in range(pair):
                columns = pl.ds((j * pair + part) * bn, bn)
                plgpu.copy_smem_to_gmem(o_smem.at[part], o_gmem.at[rows].at[:, columns])
            plgpu.wait_smem_to_gmem(0)

    plgpu.wait_smem_to_gmem(0)


# ---- tells_apart ----

"""Has products free their slots by tcgen05_commit_arrive, one by one.

Stars: 3
"""


def persistent_collective_matmul_kernel(
    a_gmem,
    b_gmem,
    o_gmem,
    a_smem,
    b_smem,
    o_smem,
    acc_tmem,
    here,
    free,
    done,
    stored,
):
    (slots, bm, bk), (pair, _, bn) = a_smem.shape, o_smem.shape
    (M, K), N = a_gmem.shape, b_gmem.shape[1]
    steps, axis = K // bk, "pair" if pair == 2 else None
    wg, mine = lax.axis_index("wg"), lax.axis_index("pair")

    @plgpu.nd_loop((M // (pair * bm), N // (pair * bn)), collective_axes="cluster")
    def box(info):
        (i, j), t = info.index, info.local_index
        half = lax.rem(t, jnp.int32(2))
        acc = acc_tmem.at[:, pl.ds(half * pair * bn, pair * bn)]

        @pl.when(wg == 0)
        def bring():
            bring_boxes(t * steps, i, j, (a_gmem, b_gmem), (a_smem, b_smem), here, free, axis)

        @pl.when((wg == 1) & (mine == 0))
        def multiply():
            pl.when(t > 1)(lambda: plgpu.barrier_wait(stored.at[half]))

            @pl.loop(0, steps)
            def step(k):
                slot = lax.rem(t * steps + k, slots)
                plgpu.barrier_wait(here.at[slot])
                boxes = a_smem.at[slot], b_smem.at[slot]
                plgpu.tcgen05_mma(acc, *boxes, accumulate=k > 0, collective_axis=axis)
                plgpu.tcgen05_commit_arrive(free.at[slot], collective_axis=axis)

            plgpu.tcgen05_commit_arrive(done.at[half], collective_axis=axis)

        @pl.when(wg == 2)
        def send():
            rows = pl.ds((i * pair + mine) * bm, bm)
            plgpu.barrier_wait(done.at[half])
            plgpu.wait_smem_to_gmem(0)
            for part in range(pair):
                sums = plgpu.async_load_tmem(acc.at[:, pl.ds(part * bn, bn)])
                o_smem[part] = sums.astype(o_smem.dtype)
                plgpu.commit_smem()
                columns = pl.ds((j * pair + part) * bn, bn)
                plgpu.copy_smem_to_gmem(o_smem.at[part], o_gmem.at[rows, columns])
            plgpu.wait_load_tmem()
            plgpu.barrier_arrive(stored.at[half])

    plgpu.wait_smem_to_gmem(0)
