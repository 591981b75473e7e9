"""Right kernels of reduce_scatter in other styles: see docs/authoring.md."""

# ---- adds_in_the_result ----

"""The running total lies in o_ref, which is sent from as well.

Stars: 3
"""


def reduce_scatter_kernel(
    x_ref, o_ref, sent_ref, came_ref, own_ref, send_sems, recv_sems, free_sem
):
    n = lax.axis_size("x")
    me = lax.axis_index("x")
    left, right = lax.rem(me + n - 1, n), lax.rem(me + 1, n)
    begun = pltpu.get_barrier_semaphore()
    pl.semaphore_signal(begun, device_id=(left,))
    pl.semaphore_signal(begun, device_id=(right,))
    pl.semaphore_wait(begun, 2)
    pltpu.sync_copy(x_ref.at[left], o_ref)
    for hop in range(n - 1):
        if hop == 2:
            pl.semaphore_wait(free_sem, 1)
        pltpu.async_remote_copy(
            o_ref,
            came_ref.at[hop % 2],
            send_sems.at[hop % 2],
            recv_sems.at[hop % 2],
            device_id=(right,),
        ).wait()
        pltpu.sync_copy(x_ref.at[lax.rem(left + n - 1 - hop, n)], own_ref)
        o_ref[...] = came_ref[hop % 2] + own_ref[...]
        if hop == 0:
            pl.semaphore_signal(free_sem, 1, device_id=(left,))


# ---- credit_for_all_but_the_last ----

"""A credit for each slot before its first use as well, so that every hop begins alike.

Stars: 3
"""


def reduce_scatter_kernel(
    x_ref, o_ref, sent_ref, came_ref, own_ref, send_sems, recv_sems, free_sem
):
    n = lax.axis_size("x")
    me = lax.axis_index("x")
    left, right = lax.rem(me + n - 1, n), lax.rem(me + 1, n)
    begun = pltpu.get_barrier_semaphore()
    for neighbour in (left, right):
        pl.semaphore_signal(begun, device_id=(neighbour,))
    pl.semaphore_wait(begun, 2)
    pl.semaphore_signal(free_sem, 2, device_id=(left,))
    pltpu.sync_copy(x_ref.at[left], sent_ref)
    for hop in range(n - 1):
        slot = hop % 2
        pl.semaphore_wait(free_sem)
        copy = pltpu.make_async_remote_copy(
            sent_ref, came_ref.at[slot], send_sems.at[slot], recv_sems.at[slot], device_id=(right,)
        )
        copy.start()
        pltpu.sync_copy(x_ref.at[lax.rem(me + 2 * n - 2 - hop, n)], own_ref)
        copy.wait()
        sent_ref[...] = own_ref[...] + came_ref[slot]
        if hop + 2 < n - 1:
            pl.semaphore_signal(free_sem, device_id=(left,))
    o_ref[...] = sent_ref[...]
