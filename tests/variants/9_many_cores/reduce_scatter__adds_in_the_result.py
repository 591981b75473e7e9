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
