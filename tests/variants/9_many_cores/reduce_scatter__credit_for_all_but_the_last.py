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
