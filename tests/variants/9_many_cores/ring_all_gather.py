"""Right kernels of ring_all_gather in other styles: see docs/authoring.md."""

# ---- to_the_left ----

"""The ring the other way around, with all sends on one semaphore.

Stars: 3
"""


def ring_all_gather_kernel(x_ref, o_ref, local_sem, send_sems, recv_sems):
    n = lax.axis_size("x")
    me = lax.axis_index("x")
    left = lax.rem(me + n - 1, n)
    begun = pltpu.get_barrier_semaphore()
    pl.semaphore_signal(begun, device_id=(lax.rem(me + 1, n),))
    pl.semaphore_wait(begun, 1)
    own = pltpu.make_async_copy(x_ref, o_ref.at[me], local_sem)
    own.start()
    source = x_ref
    copies = []
    for hop in range(n - 1):
        copy = pltpu.make_async_remote_copy(
            source,
            o_ref.at[lax.rem(me + hop, n)],
            send_sems.at[0],
            recv_sems.at[hop],
            device_id=(left,),
        )
        copy.start()
        copies.append(copy)
        copy.wait_recv()
        source = o_ref.at[lax.rem(me + hop + 1, n)]
    own.wait()
    for copy in copies:
        copy.wait_send()


# ---- waits_for_own_first ----

"""A loop of the device, and every hop sends from o_ref, so its own block has to be there first.

Stars: 3
"""


def ring_all_gather_kernel(x_ref, o_ref, local_sem, send_sems, recv_sems):
    n = lax.axis_size("x")
    me = lax.axis_index("x")
    left, right = lax.rem(me + n - 1, n), lax.rem(me + 1, n)
    begun = pltpu.get_barrier_semaphore()
    pl.semaphore_signal(begun, device_id=(left,))
    pl.semaphore_signal(begun, device_id=(right,))
    pl.semaphore_wait(begun, 2)
    own = pltpu.make_async_copy(x_ref, o_ref.at[me], local_sem)
    own.start()
    own.wait()

    @pl.loop(0, n - 1)
    def _(hop):
        place = o_ref.at[lax.rem(me + n - hop, n)]
        copy = pltpu.make_async_remote_copy(
            place, place, send_sems.at[hop], recv_sems.at[hop], device_id=(right,)
        )
        copy.start()
        copy.wait()


# ---- both_ways ----

"""Own blocks go both ways at once, and only the left neighbour's goes on: two hops, not three.

Stars: 3
"""


def ring_all_gather_kernel(x_ref, o_ref, local_sem, send_sems, recv_sems):
    n = lax.axis_size("x")
    me = lax.axis_index("x")
    left, right = lax.rem(me + n - 1, n), lax.rem(me + 1, n)
    begun = pltpu.get_barrier_semaphore()
    for neighbour in (left, right):
        pl.semaphore_signal(begun, device_id=(neighbour,))
    pl.semaphore_wait(begun, 2)

    def copy(source, block, number, to):
        return pltpu.make_async_remote_copy(
            source,
            o_ref.at[block],
            send_sems.at[number],
            recv_sems.at[number],
            device_id=(to,),
        )

    to_right = copy(x_ref, me, 0, right)
    to_left = copy(x_ref, me, 1, left)
    to_right.start()
    to_left.start()
    own = pltpu.make_async_copy(x_ref, o_ref.at[me], local_sem)
    own.start()
    to_right.wait_recv()
    further = copy(o_ref.at[left], left, 2, right)
    further.start()
    to_left.wait_recv()
    further.wait_recv()
    for sent in (to_right, to_left, further):
        sent.wait_send()
    own.wait()
