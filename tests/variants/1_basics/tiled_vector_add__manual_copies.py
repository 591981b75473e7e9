"""Copies the blocks itself, one step ahead, with make_async_copy and semaphores.

Stars: 3
"""


def tiled_vector_add(x, y, *, bn):
    steps = x.shape[0] // bn

    def kernel(x_hbm, y_hbm, o_hbm, *scratch):
        *buffers, in_sem, out_sem = scratch
        x_bufs, y_bufs, o_bufs = buffers[:2], buffers[2:4], buffers[4:]

        def fetch(i):
            slot, at = i % 2, pl.ds(i * bn, bn)
            return (
                pltpu.make_async_copy(x_hbm.at[at], x_bufs[slot], in_sem.at[slot, 0]),
                pltpu.make_async_copy(y_hbm.at[at], y_bufs[slot], in_sem.at[slot, 1]),
            )

        def send(i):
            slot, at = i % 2, pl.ds(i * bn, bn)
            return pltpu.make_async_copy(o_bufs[slot], o_hbm.at[at], out_sem.at[slot])

        for copy in fetch(0):
            copy.start()
        for i in range(steps):
            if i + 1 < steps:
                for copy in fetch(i + 1):
                    copy.start()
            for copy in fetch(i):
                copy.wait()
            if i >= 2:
                send(i - 2).wait()
            o_bufs[i % 2][...] = x_bufs[i % 2][...] + y_bufs[i % 2][...]
            send(i).start()
        for i in range(max(steps - 2, 0), steps):
            send(i).wait()

    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    return pl.pallas_call(
        kernel,
        in_specs=[anywhere, anywhere],
        out_specs=anywhere,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        scratch_shapes=[
            *[pltpu.VMEM((bn,), x.dtype)] * 6,
            pltpu.SemaphoreType.DMA((2, 2)),
            pltpu.SemaphoreType.DMA((2,)),
        ],
    )(x, y)
