"""Right kernels of all_gather_matmul in other styles: see docs/authoring.md."""

# ---- in_a_loop ----

"""The hops are a loop of the kernel's, and the last one sends nothing, by a condition.

Stars: 3
"""


def all_gather_matmul_kernel(x_ref, w_ref, o_ref, came_ref, send_sems, recv_sems, *, bm):
    n = lax.axis_size("x")
    me = lax.axis_index("x")
    left, right = lax.rem(me + n - 1, n), lax.rem(me + 1, n)
    begun = pltpu.get_barrier_semaphore()
    for neighbour in (left, right):
        pl.semaphore_signal(begun, device_id=(neighbour,))
    pl.semaphore_wait(begun, 2)
    m, K = x_ref.shape
    _, columns = w_ref.shape

    def hand_on(held, hop):
        return pltpu.make_async_remote_copy(
            held, came_ref.at[hop], send_sems.at[hop], recv_sems.at[hop], device_id=(right,)
        )

    def multiply(held, first):
        def body(rows_ref, product_ref):
            product_ref[...] = jnp.dot(
                rows_ref[...], w_ref[...], preferred_element_type=jnp.float32
            ).astype(product_ref.dtype)

        pltpu.emit_pipeline(
            body,
            grid=(m // bm,),
            in_specs=[pl.BlockSpec((bm, K), lambda i: (i, 0))],
            out_specs=[pl.BlockSpec((bm, columns), lambda i: (first + i, 0))],
        )(held, o_ref)

    hand_on(x_ref, 0).start()
    multiply(x_ref, me * (m // bm))

    @pl.loop(1, n)
    def _(hop):
        hand_on(x_ref, hop - 1).wait()
        held = came_ref.at[hop - 1]

        @pl.when(hop < n - 1)
        def _():
            hand_on(held, hop).start()

        multiply(held, lax.rem(me + n - hop, n) * (m // bm))


# ---- waits_where_it_needs ----

"""The ring the other way around, with a wait at the beginning of a hop, not at its end.

Stars: 3
"""


def all_gather_matmul_kernel(x_ref, w_ref, o_ref, came_ref, send_sems, recv_sems, *, bm):
    n = lax.axis_size("x")
    me = lax.axis_index("x")
    left, right = lax.rem(me + n - 1, n), lax.rem(me + 1, n)
    begun = pltpu.get_barrier_semaphore()
    for neighbour in (left, right):
        pl.semaphore_signal(begun, device_id=(neighbour,))
    pl.semaphore_wait(begun, 2)
    m, K = x_ref.shape
    _, columns = w_ref.shape

    def body(rows_ref, product_ref):
        product = jnp.dot(rows_ref[...], w_ref[...], preferred_element_type=jnp.float32)
        product_ref[...] = product.astype(product_ref.dtype)

    held, arriving = x_ref, None
    for hop in range(n):
        if arriving is not None:
            arriving.wait()
            held = came_ref.at[hop - 1]
        if hop < n - 1:
            arriving = pltpu.async_remote_copy(
                held, came_ref.at[hop], send_sems.at[hop], recv_sems.at[hop], device_id=(left,)
            )
        owner = lax.rem(me + hop, n)
        pltpu.emit_pipeline(
            body,
            grid=(m // bm,),
            in_specs=[pl.BlockSpec((bm, K), lambda i: (i, 0))],
            out_specs=[pl.BlockSpec((bm, columns), lambda i: (i, 0))],
        )(held, o_ref.at[pl.ds(owner * m, m)])
