"""Hops and heads are written out, and blocks that are empty are left out by conditions.

Stars: 3
"""


def ring_attention_kernel(
    q_ref, kv_ref, o_ref, came_ref, m_ref, l_ref, acc_ref, send_sems, recv_sems, free_sem
):
    n = lax.axis_size("x")
    me = lax.axis_index("x")
    left, right = lax.rem(me + n - 1, n), lax.rem(me + 1, n)
    begun = pltpu.get_barrier_semaphore()
    for neighbour in (left, right):
        pl.semaphore_signal(begun, device_id=(neighbour,))
    pl.semaphore_wait(begun, 2)
    H, _, _, D = q_ref.shape
    l_ref[...] = jnp.zeros_like(l_ref)
    acc_ref[...] = jnp.zeros_like(acc_ref)
    m_ref[...] = jnp.full_like(m_ref, -1e30)

    def attend(held, mine, theirs, triangle=False):
        for h in range(H):
            k, v = held[0, h, theirs], held[1, h, theirs]
            s = jnp.dot(q_ref[h, mine], k.T, preferred_element_type=jnp.float32) * D**-0.5
            if triangle:
                row, column = (lax.broadcasted_iota(jnp.int32, s.shape, axis) for axis in (0, 1))
                s = jnp.where(row < column, -1e30, s)
            m = jnp.maximum(m_ref[h, mine], jnp.max(s, axis=-1, keepdims=True))
            old, p = jnp.exp(m_ref[h, mine] - m), jnp.exp(s - m[:, :1])
            pv = jnp.dot(p.astype(v.dtype), v, preferred_element_type=jnp.float32)
            acc_ref[h, mine] = acc_ref[h, mine] * old[:, :1] + pv
            l_ref[h, mine] = l_ref[h, mine] * old + p.sum(axis=-1, keepdims=True)
            m_ref[h, mine] = m

    for hop in range(n):
        held = kv_ref if hop == 0 else came_ref.at[(hop - 1) % 2]
        if hop == 2:
            pl.semaphore_wait(free_sem, 1)
        if hop < n - 1:
            copy = pltpu.async_remote_copy(
                held,
                came_ref.at[hop % 2],
                send_sems.at[hop % 2],
                recv_sems.at[hop % 2],
                device_id=(right,),
            )
        attend(held, 1, 0)
        if hop == 0:
            attend(held, 0, 0, triangle=True)
            attend(held, 1, 1, triangle=True)
        else:
            # After so many hops, they come from the chips before me, or from beyond the end.
            pl.when(hop <= me)(lambda held=held: attend(held, 0, 0))
            pl.when(hop > me)(lambda held=held: attend(held, 1, 1))
        if hop < n - 1:
            copy.wait()
        if hop == 1:
            pl.semaphore_signal(free_sem, 1, device_id=(left,))
    o_ref[...] = (acc_ref[...] / l_ref[:, :, :, :1]).astype(o_ref.dtype)
