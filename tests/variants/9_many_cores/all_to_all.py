"""Right kernels of all_to_all in other styles: see docs/authoring.md."""

# ---- farthest_first ----

"""The farthest first, and waits for all that comes before any that leaves.

Stars: 3
"""


def all_to_all_kernel(x_ref, o_ref, local_sem, send_sems, recv_sems):
    n = lax.axis_size("x")
    me = lax.axis_index("x")
    begun = pltpu.get_barrier_semaphore()
    for k in range(1, n):
        pl.semaphore_signal(begun, device_id=(lax.rem(me + k, n),))
    pl.semaphore_wait(begun, n - 1)
    pltpu.make_async_copy(x_ref.at[me], o_ref.at[me], local_sem).start()
    copies = [
        pltpu.async_remote_copy(
            x_ref.at[lax.rem(me + k, n)],
            o_ref.at[me],
            send_sems.at[k - 1],
            recv_sems.at[k - 1],
            device_id=(lax.rem(me + k, n),),
        )
        for k in reversed(range(1, n))
    ]
    for copy in copies:
        copy.wait_recv()
    for copy in copies:
        copy.wait_send()
    pltpu.make_async_copy(x_ref.at[me], o_ref.at[me], local_sem).wait()


# ---- one_semaphore_of_each_kind ----

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
