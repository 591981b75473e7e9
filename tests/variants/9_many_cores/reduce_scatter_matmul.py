"""Right kernels of reduce_scatter_matmul in other styles: see docs/authoring.md."""

# ---- to_the_left ----

"""The ring the other way around, with a credit before each slot's first use as well.

Stars: 3
"""


def reduce_scatter_matmul_kernel(
    x_ref, w_ref, o_ref, sent_ref, came_ref, own_ref, send_sems, recv_sems, free_sem
):
    n = lax.axis_size("x")
    me = lax.axis_index("x")
    left, right = lax.rem(me + n - 1, n), lax.rem(me + 1, n)
    begun = pltpu.get_barrier_semaphore()
    for neighbour in (left, right):
        pl.semaphore_signal(begun, device_id=(neighbour,))
    pl.semaphore_wait(begun, 2)
    pl.semaphore_signal(free_sem, 2, device_id=(right,))

    def multiply(quarter, into_ref):
        into_ref[...] = jnp.dot(x_ref[quarter], w_ref[...], preferred_element_type=jnp.float32)

    multiply(right, sent_ref)
    for hop in range(n - 1):
        slot = hop % 2
        pl.semaphore_wait(free_sem)
        copy = pltpu.async_remote_copy(
            sent_ref, came_ref.at[slot], send_sems.at[slot], recv_sems.at[slot], device_id=(left,)
        )
        multiply(lax.rem(right + 1 + hop, n), own_ref)
        copy.wait_send()
        copy.wait_recv()
        sent_ref[...] = own_ref[...] + came_ref[slot]
        if hop + 2 < n - 1:
            pl.semaphore_signal(free_sem, device_id=(right,))
    o_ref[...] = sent_ref[...].astype(o_ref.dtype)


# ---- rows_in_a_loop ----

"""Products are computed 16 rows at a time, and the last sum goes straight to the result.

Stars: 3
"""


def reduce_scatter_matmul_kernel(
    x_ref, w_ref, o_ref, sent_ref, came_ref, own_ref, send_sems, recv_sems, free_sem
):
    n = lax.axis_size("x")
    me = lax.axis_index("x")
    left, right = lax.rem(me + n - 1, n), lax.rem(me + 1, n)
    begun = pltpu.get_barrier_semaphore()
    for neighbour in (left, right):
        pl.semaphore_signal(begun, device_id=(neighbour,))
    pl.semaphore_wait(begun, 2)
    rows = 16 if x_ref.shape[1] % 16 == 0 else 8

    def multiply(quarter, into_ref):
        @pl.loop(0, x_ref.shape[1], step=rows)
        def _(first):
            some = pl.ds(pl.multiple_of(first, rows), rows)
            into_ref[some] = jnp.dot(
                x_ref[quarter, some], w_ref[...], preferred_element_type=jnp.float32
            )

    def hand_on(slot):
        return pltpu.make_async_remote_copy(
            sent_ref, came_ref.at[slot], send_sems.at[slot], recv_sems.at[slot], device_id=(right,)
        )

    multiply(left, sent_ref)
    hand_on(0).start()
    multiply(lax.rem(me + n - 2, n), own_ref)
    hand_on(0).wait()
    sent_ref[...] = came_ref[0] + own_ref[...]
    pl.semaphore_signal(free_sem, device_id=(left,))
    hand_on(1).start()
    multiply(lax.rem(me + n - 3, n), own_ref)
    hand_on(1).wait()
    sent_ref[...] = came_ref[1] + own_ref[...]
    pl.semaphore_wait(free_sem)
    hand_on(0).start()
    multiply(me, own_ref)
    hand_on(0).wait()
    o_ref[...] = (came_ref[0] + own_ref[...]).astype(o_ref.dtype)
