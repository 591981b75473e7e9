"""Nothing is read before all has come, so all copies may share their semaphores.

Stars: 3
"""


def all_to_all_kernel(x_ref, o_ref, local_sem, send_sems, recv_sems):
    n = lax.axis_size("x")
    me = lax.axis_index("x")
    begun = pltpu.get_barrier_semaphore()
    for other in range(n):
        pl.semaphore_signal(begun, device_id=(other,))
    pl.semaphore_wait(begun, n)
    own = pltpu.async_copy(x_ref.at[me], o_ref.at[me], local_sem)
    copies = []
    for k in range(1, n):
        to = lax.rem(me + k, n)
        copies.append(
            pltpu.async_remote_copy(
                x_ref.at[to], o_ref.at[me], send_sems.at[0], recv_sems.at[0], device_id=(to,)
            )
        )
    own.wait()
    for copy in copies:
        copy.wait()
