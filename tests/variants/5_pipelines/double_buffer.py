"""Right kernels of double_buffer in other styles: see docs/authoring.md."""

# ---- first_and_last_unrolled ----

"""The first step and the last one stand outside of the loop; waits before the next start.

Stars: 3
"""


def double_buffer_kernel(x_hbm, w_ref, o_hbm, x_ref, o_ref, sems):
    bm = x_ref.shape[1]
    steps = x_hbm.shape[0] // bm

    def copy(i, slot, going):
        rows = pl.ds(i * bm, bm)
        ends = (o_ref.at[slot], o_hbm.at[rows]) if going else (x_hbm.at[rows], x_ref.at[slot])
        return pltpu.make_async_copy(*ends, sems.at[int(going), slot])

    def step(i, slot, *, last):
        copy(i, slot, False).wait()
        if not last:
            copy(i + 1, 1 - slot, False).start()
        pl.when(jnp.int32(i) > 1)(lambda: copy(i - 2, slot, True).wait())
        o_ref[slot] = jnp.maximum(x_ref[slot] * w_ref[...], 0).astype(o_ref.dtype)
        copy(i, slot, True).start()

    copy(0, 0, False).start()
    jax.lax.fori_loop(0, steps - 1, lambda i, _: step(i, jax.lax.rem(i, 2), last=False), None)
    step(steps - 1, (steps - 1) % 2, last=True)
    copy(steps - 2, steps % 2, True).wait()
    copy(steps - 1, (steps - 1) % 2, True).wait()


# ---- python_loop ----

"""A Python loop, since the number of blocks is known: no pl.when, and longer code.

Stars: 3
"""


def double_buffer_kernel(x_hbm, w_ref, o_hbm, x_ref, o_ref, sems):
    bm = x_ref.shape[1]
    blocks = [pl.ds(start, bm) for start in range(0, x_hbm.shape[0], bm)]
    bring = [
        pltpu.make_async_copy(x_hbm.at[rows], x_ref.at[i % 2], sems.at[0, i % 2])
        for i, rows in enumerate(blocks)
    ]
    send = [
        pltpu.make_async_copy(o_ref.at[i % 2], o_hbm.at[rows], sems.at[1, i % 2])
        for i, rows in enumerate(blocks)
    ]
    bring[0].start()
    for i in range(len(blocks)):
        if i + 1 < len(blocks):
            bring[i + 1].start()
        bring[i].wait()
        if i >= 2:
            send[i - 2].wait()
        x = x_ref[i % 2].astype(jnp.float32)
        o_ref[i % 2] = jnp.maximum(x * w_ref[...], 0).astype(o_ref.dtype)
        send[i].start()
    for copy in send[-2:]:
        copy.wait()


# ---- fori_loop ----

"""Loops by lax.fori_loop without a carry, with one function for both directions.

Stars: 3
"""


def double_buffer_kernel(x_hbm, w_ref, o_hbm, x_ref, o_ref, sems):
    bm = x_ref.shape[1]
    steps = x_hbm.shape[0] // bm

    def copy(i, slot, out):
        rows = (o_hbm if out else x_hbm).at[pl.ds(pl.multiple_of(i * bm, bm), bm), :]
        pair = (o_ref.at[slot], rows) if out else (rows, x_ref.at[slot])
        return pltpu.make_async_copy(*pair, sems.at[int(out), slot])

    def step(i, _):
        slot = jax.lax.rem(i, 2)
        pl.when(i + 1 < steps)(lambda: copy(i + 1, 1 - slot, False).start())
        copy(i, slot, False).wait()
        pl.when(i > 1)(lambda: copy(i - 2, slot, True).wait())
        x = x_ref[slot].astype(jnp.float32)
        o_ref[slot] = jax.nn.relu(x * w_ref[...]).astype(o_ref.dtype)
        copy(i, slot, True).start()
        return ()

    copy(0, 0, False).start()
    jax.lax.fori_loop(0, steps, step, ())
    copy(steps - 2, steps % 2, True).wait()
    copy(steps - 1, (steps - 1) % 2, True).wait()


# ---- carried_slot ----

"""The loop carries the slot, and the copies under way are waited for through the Refs in place.

Stars: 3
"""


def double_buffer_kernel(x_hbm, w_ref, o_hbm, x_ref, o_ref, sems):
    _, bm, N = x_ref.shape
    steps = x_hbm.shape[0] // bm
    w = jnp.broadcast_to(w_ref[...], (bm, N))

    def bring(i, slot):
        return pltpu.make_async_copy(x_hbm.at[pl.ds(i * bm, bm)], x_ref.at[slot], sems.at[0, slot])

    def send(i, slot):
        return pltpu.make_async_copy(o_ref.at[slot], o_hbm.at[pl.ds(i * bm, bm)], sems.at[1, slot])

    def step(i, slot):
        other = 1 - slot
        pl.when(i < steps - 1)(bring(jnp.minimum(i + 1, steps - 1), other).start)
        bring(i, slot).wait()
        pl.when(i >= 2)(send(i, slot).wait)
        o_ref[slot] = jnp.clip(x_ref[slot] * w, 0).astype(o_ref.dtype)
        send(i, slot).start()
        return other

    bring(0, 0).start()
    slot = jax.lax.fori_loop(0, steps, step, jnp.int32(0))
    send(steps - 2, slot).wait()
    send(steps - 1, 1 - slot).wait()


# ---- emit_pipeline ----

"""emit_pipeline does all the copies; the launch has no scratch.

Stars: 3
"""


def double_buffer(x, w, *, bm):
    M, N = x.shape

    def kernel(x_hbm, w_ref, o_hbm):
        def step(x_ref, o_ref):
            o_ref[...] = jax.nn.relu(x_ref[...].astype(jnp.float32) * w_ref[0]).astype(o_ref.dtype)

        block = pl.BlockSpec((bm, N), lambda i: (i, 0))
        pltpu.emit_pipeline(step, grid=(M // bm,), in_specs=[block], out_specs=[block])(
            x_hbm, o_hbm
        )

    return pl.pallas_call(
        kernel,
        in_specs=[
            pl.BlockSpec(memory_space=pltpu.HBM),
            pl.BlockSpec(memory_space=pltpu.VMEM),
        ],
        out_specs=pl.BlockSpec(memory_space=pltpu.HBM),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
    )(x, w)
