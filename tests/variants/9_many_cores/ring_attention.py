"""Right kernels of ring_attention in other styles: see docs/authoring.md."""

# ---- by_positions_to_the_left ----

"""The ring the other way around; every pair of pieces is masked by positions in the sequence.

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
    H, _, c, D = q_ref.shape
    m_ref[...] = jnp.full_like(m_ref, -1e30)
    l_ref[...] = jnp.zeros_like(l_ref)
    acc_ref[...] = jnp.zeros_like(acc_ref)

    def first(chip, half):
        return c * jnp.where(half == 0, chip, 2 * n - 1 - chip)

    def attend(held, source, pair):
        mine, theirs = pair // 2, pair % 2
        for h in range(H):
            s = jnp.dot(q_ref[h, mine], held[0, h, theirs].T, preferred_element_type=jnp.float32)
            query = first(me, mine) + lax.broadcasted_iota(jnp.int32, s.shape, 0)
            key = first(source, theirs) + lax.broadcasted_iota(jnp.int32, s.shape, 1)
            s = jnp.where(key <= query, s * D**-0.5, -1e30)
            before = m_ref[h, mine]
            m = jnp.maximum(before, jnp.max(s, axis=1, keepdims=True))
            p = jnp.where(key <= query, jnp.exp(s - m[:, :1]), 0)
            alpha = jnp.exp(before - m)
            v = held[1, h, theirs]
            pv = jnp.dot(p.astype(v.dtype), v, preferred_element_type=jnp.float32)
            l_ref[h, mine] = alpha * l_ref[h, mine] + jnp.sum(p, axis=1, keepdims=True)
            acc_ref[h, mine] = alpha[:, :1] * acc_ref[h, mine] + pv
            m_ref[h, mine] = m

    for hop in range(n):
        held = kv_ref if hop == 0 else came_ref.at[(hop + 1) % 2]
        source = lax.rem(me + hop, n)
        if hop < n - 1:
            if hop >= 2:
                pl.semaphore_wait(free_sem)
            copy = pltpu.make_async_remote_copy(
                held,
                came_ref.at[hop % 2],
                send_sems.at[hop % 2],
                recv_sems.at[hop % 2],
                device_id=(left,),
            )
            copy.start()
        for pair in range(4):
            seen = first(source, pair % 2) <= first(me, pair // 2)
            pl.when(seen)(lambda held=held, source=source, pair=pair: attend(held, source, pair))
        if hop < n - 1:
            copy.wait()
            if 1 <= hop < n - 2:
                pl.semaphore_signal(free_sem, device_id=(right,))
    o_ref[...] = (acc_ref[...] / l_ref[..., :1]).astype(o_ref.dtype)


# ---- each_hop_written_out ----

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
