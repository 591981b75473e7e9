"""Right kernels of all_gather_both_ways in other styles: see docs/authoring.md."""

# ---- halves_of_columns ----

"""Blocks are split by columns, and all incoming data is waited for before any that leaves.

Stars: 3
"""


def all_gather_both_ways_kernel(x_ref, o_ref, local_sem, send_sems, recv_sems):
    n = lax.axis_size("x")
    me = lax.axis_index("x")
    left, right = lax.rem(me + n - 1, n), lax.rem(me + 1, n)
    begun = pltpu.get_barrier_semaphore()
    pl.semaphore_signal(begun, device_id=(left,))
    pl.semaphore_signal(begun, device_id=(right,))
    pl.semaphore_wait(begun, 2)
    own = pltpu.async_copy(x_ref, o_ref.at[me], local_sem)
    columns = x_ref.shape[1] // 2

    def copy(source, target, hop, way, to):
        return pltpu.async_remote_copy(
            source, target, send_sems.at[hop, way], recv_sems.at[hop, way], device_id=(to,)
        )

    to_left = copy(x_ref, o_ref.at[me], 0, 1, left)
    to_right = copy(x_ref, o_ref.at[me], 0, 0, right)
    to_left.wait_recv()
    late = o_ref.at[right, :, pl.ds(columns, columns)]
    further_left = copy(late, late, 1, 1, left)
    to_right.wait_recv()
    early = o_ref.at[left, :, pl.ds(0, columns)]
    further_right = copy(early, early, 1, 0, right)
    further_left.wait_recv()
    further_right.wait_recv()
    for sent in (to_left, to_right, further_left, further_right):
        sent.wait_send()
    own.wait()


# ---- one_send_semaphore_for_each_way ----

"""Sends share a semaphore for each way, and each half is sent as two quarters of a block.

Stars: 3
"""


def all_gather_both_ways_kernel(x_ref, o_ref, local_sem, send_sems, recv_sems):
    n = lax.axis_size("x")
    me = lax.axis_index("x")
    to = (lax.rem(me + 1, n), lax.rem(me + n - 1, n))
    begun = pltpu.get_barrier_semaphore()
    for neighbour in to:
        pl.semaphore_signal(begun, device_id=(neighbour,))
    pl.semaphore_wait(begun, 2)
    quarter = x_ref.shape[0] // 4
    started = []

    def send(source, target, hop, way):
        copy = pltpu.make_async_remote_copy(
            source, target, send_sems.at[0, way], recv_sems.at[hop, way], device_id=(to[way],)
        )
        copy.start()
        started.append(copy)

    for way in (0, 1):
        send(x_ref, o_ref.at[me], 0, way)
    pltpu.sync_copy(x_ref, o_ref.at[me])
    for way in (0, 1):
        started[way].wait_recv()
        for row in (0, 1):
            part = o_ref.at[to[1 - way], pl.ds((2 * way + row) * quarter, quarter)]
            send(part, part, 1, way)
    for number, copy in enumerate(started):
        copy.wait_send()
        if number > 1:
            copy.wait_recv()


# ---- halves_all_the_way_around ----

"""As in JAX's kernel: one half of each block goes around to the right, the other to the left.

Three hops, not two, with as many bytes on each link.

Stars: 3
"""


def all_gather_both_ways_kernel(x_ref, o_ref, send_sems, recv_sems):
    n = lax.axis_size("x")
    me = lax.axis_index("x")
    left, right = lax.rem(me + n - 1, n), lax.rem(me + 1, n)
    begun = pltpu.get_barrier_semaphore()
    for neighbour in (left, right):
        pl.semaphore_signal(begun, device_id=(neighbour,))
    pl.semaphore_wait(begun, 2)
    half = x_ref.shape[0] // 2
    pltpu.sync_copy(x_ref, o_ref.at[me])
    copies = []
    for hop in range(n - 1):
        both = (
            (lax.rem(me + n - hop, n), pl.ds(half, half), right),
            (lax.rem(me + hop, n), pl.ds(0, half), left),
        )
        of_hop = []
        for way, (block, part, to) in enumerate(both):
            place = o_ref.at[block, part]
            of_hop.append(
                pltpu.async_remote_copy(
                    place, place, send_sems.at[hop, way], recv_sems.at[hop, way], device_id=(to,)
                )
            )
        for copy in of_hop:
            copy.wait_recv()
        copies += of_hop
    for copy in copies:
        copy.wait_send()


def all_gather_both_ways(x, *, mesh):
    n = mesh.shape["x"]

    def on_each(x):
        _, m, N = x.shape
        hbm = pl.BlockSpec(memory_space=pl.ANY)
        return pl.pallas_call(
            all_gather_both_ways_kernel,
            in_specs=[hbm],
            out_specs=hbm,
            out_shape=jax.ShapeDtypeStruct((n, m, N), x.dtype),
            scratch_shapes=[pltpu.SemaphoreType.DMA((n - 1, 2))] * 2,
            compiler_params=pltpu.CompilerParams(collective_id=0),
        )(x.reshape(m, N))

    chips = P("x")
    return jax.shard_map(on_each, mesh=mesh, in_specs=chips, out_specs=chips, check_vma=False)(x)
