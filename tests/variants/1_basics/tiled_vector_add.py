"""Right kernels of tiled_vector_add in other styles: see docs/authoring.md."""

# ---- add_to_output ----

"""Copies x into the output's block, and then adds y to what is there.

Stars: 3
"""


def tiled_vector_add_kernel(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref[...]
    o_ref[...] += y_ref[...]


# ---- emit_pipeline ----

"""Leaves the arrays in HBM and cuts them into blocks inside the kernel, with emit_pipeline.

Stars: 3
"""


def tiled_vector_add(x, y, *, bn):
    block = pl.BlockSpec((bn,), lambda i: (i,))

    def pipelined(x_ref, y_ref, o_ref):
        pltpu.emit_pipeline(
            tiled_vector_add_kernel,
            grid=(x.shape[0] // bn,),
            in_specs=[block, block],
            out_specs=[block],
        )(x_ref, y_ref, o_ref)

    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    return pl.pallas_call(
        pipelined,
        in_specs=[anywhere, anywhere],
        out_specs=anywhere,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
    )(x, y)


# ---- lax ----

"""Uses lax.add on slices.

Stars: 3
"""


def tiled_vector_add_kernel(x_ref, y_ref, o_ref):
    o_ref[:] = jax.lax.add(x_ref[:], y_ref[:])


# ---- manual_copies ----

"""Copies the blocks itself, one step ahead, with make_async_copy and semaphores.

Stars: 3
"""


def tiled_vector_add(x, y, *, bn):
    steps = x.shape[0] // bn

    def kernel(x_hbm, y_hbm, o_hbm, *scratch):
        *buffers, in_sem, out_sem = scratch
        x_bufs, y_bufs, o_bufs = buffers[:2], buffers[2:4], buffers[4:]

        def fetch(i, slot):
            at = pl.ds(i * bn, bn)
            return (
                pltpu.make_async_copy(x_hbm.at[at], x_bufs[slot], in_sem.at[slot, 0]),
                pltpu.make_async_copy(y_hbm.at[at], y_bufs[slot], in_sem.at[slot, 1]),
            )

        def send(i, slot):
            return pltpu.make_async_copy(
                o_bufs[slot], o_hbm.at[pl.ds(i * bn, bn)], out_sem.at[slot]
            )

        def step(i, slot):
            @pl.when(i + 1 < steps)
            def _():
                for copy in fetch(i + 1, 1 - slot):
                    copy.start()

            for copy in fetch(i, slot):
                copy.wait()

            @pl.when(i >= 2)
            def _():
                send(i - 2, slot).wait()

            o_bufs[slot][...] = x_bufs[slot][...] + y_bufs[slot][...]
            send(i, slot).start()

        def either(i, carry):
            pl.when(i % 2 == 0)(lambda: step(i, 0))
            pl.when(i % 2 == 1)(lambda: step(i, 1))
            return carry

        for copy in fetch(0, 0):
            copy.start()
        jax.lax.fori_loop(0, steps, either, 0)
        for i in range(max(steps - 2, 0), steps):
            send(i, i % 2).wait()

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


# ---- named_refs ----

"""Passes x and y in a dict, and the kernel takes their Refs from one.

Stars: 3
"""


def tiled_vector_add_kernel(given, o_ref):
    o_ref[...] = given["x"][...] + given["y"][...]


def tiled_vector_add(x, y, *, bn=65536):
    spec = pl.BlockSpec((bn,), lambda i: (i,))
    return pl.pallas_call(
        tiled_vector_add_kernel,
        grid=(pl.cdiv(x.shape[0], bn),),
        in_specs=[{"x": spec, "y": spec}],
        out_specs=spec,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
    )({"x": x, "y": y})


# ---- into_an_empty_array ----

"""Gives the result the place of an array that nothing has written.

Stars: 3
"""


def tiled_vector_add(x, y, *, bn=65536):
    def body(x_ref, y_ref, _, o_ref):
        o_ref[...] = x_ref[...] + y_ref[...]

    spec = pl.BlockSpec((bn,), lambda i: (i,))
    return pl.pallas_call(
        body,
        grid=(x.shape[0] // bn,),
        in_specs=[spec, spec, pl.BlockSpec(memory_space=pl.ANY)],
        out_specs=spec,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        input_output_aliases={2: 0},
    )(x, y, pl.empty_like(x))
