"""Right kernels of flash_attention_hopper in other styles: see docs/authoring.md."""

# ---- begins_at_minus_infinity ----

"""One loop over all boxes, which begins with a maximum of -inf in the layout of a row.

Stars: 3
"""


def flash_attention_hopper_kernel(
    q_gmem,
    k_gmem,
    v_gmem,
    o_gmem,
    q_smem,
    k_smem,
    v_smem,
    p_smem,
    q_here,
    k_here,
    v_here,
    k_free,
    v_free,
    *,
    steps_of,
    causal,
):
    (_, bq, D), (slots, bk, _) = q_smem.shape, v_smem.shape
    h, t, wg = lax.axis_index("h"), lax.axis_index("t"), lax.axis_index("wg")
    steps, queries = steps_of(t), pl.ds((2 * t + wg) * bq, bq)

    @pl.when(wg == 2)
    def bring():
        boxes = ring_of_boxes(k_gmem.at[h], v_gmem.at[h], k_smem, v_smem, bk)
        produce(steps, slots, boxes, (k_here, v_here), (k_free, v_free))

    @pl.when(wg < 2)
    def attend():
        plgpu.set_max_registers(240, action="increase")
        q = q_smem.at[wg]
        plgpu.copy_gmem_to_smem(q_gmem.at[h, queries], q, q_here.at[wg])
        plgpu.barrier_wait(q_here.at[wg])

        def step(i, carry):
            o, m, total = carry
            slot = lax.rem(i, slots)
            plgpu.barrier_wait(k_here.at[slot])

            def of_keys(acc):
                plgpu.wgmma(acc, q, k_smem.at[slot])
                return acc[...]

            s = pl.run_scoped(of_keys, plgpu.ACC((bq, bk), jnp.float32))
            plgpu.barrier_arrive(k_free.at[slot])
            s = s * (D**-0.5 * 1.4426950408889634)
            if causal:
                s = without_later_keys(s, (2 * t + wg) * bq, i * bk)
            new = jnp.maximum(m, s.max(axis=1))
            alpha, p = jnp.exp2(m - new), jnp.exp2(s - lax.broadcast_in_dim(new, s.shape, [0]))
            p_smem[wg] = p.astype(p_smem.dtype)
            plgpu.commit_smem()
            plgpu.barrier_wait(v_here.at[slot])

            def of_values(acc):
                plgpu.wgmma(acc, p_smem.at[wg], v_smem.at[slot])
                return acc[...]

            o = o * lax.broadcast_in_dim(alpha, o.shape, [0])
            o = o + pl.run_scoped(of_values, plgpu.ACC((bq, D), jnp.float32))
            plgpu.barrier_arrive(v_free.at[slot])
            return o, new, total * alpha + p.sum(axis=1)

        rows = plgpu.Layout.WGMMA.reduce(1)
        begun = (
            plgpu.layout_cast(jnp.zeros((bq, D), jnp.float32), plgpu.Layout.WGMMA),
            plgpu.layout_cast(jnp.full((bq,), -jnp.inf, jnp.float32), rows),
            plgpu.layout_cast(jnp.zeros((bq,), jnp.float32), rows),
        )
        o, _, total = lax.fori_loop(0, steps, step, begun)
        q[...] = (o / lax.broadcast_in_dim(total, o.shape, [0])).astype(q.dtype)
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(q, o_gmem.at[h, queries])
        plgpu.wait_smem_to_gmem(0)


# ---- natural_exp ----

"""Uses exp in the place of exp2, and frees slots that nobody waits for.

Stars: 3
"""


def flash_attention_hopper_kernel(
    q_gmem,
    k_gmem,
    v_gmem,
    o_gmem,
    q_smem,
    k_smem,
    v_smem,
    p_smem,
    q_here,
    k_here,
    v_here,
    k_free,
    v_free,
    *,
    steps_of,
    causal,
):
    (_, bq, D), (slots, bk, _) = q_smem.shape, v_smem.shape
    h, t, wg = lax.axis_index("h"), lax.axis_index("t"), lax.axis_index("wg")
    steps, scale = steps_of(t), D**-0.5
    first = (2 * t + wg) * bq
    queries = pl.ds(first, bq)

    @pl.when(wg == 2)
    def bring():
        boxes = ring_of_boxes(k_gmem.at[h], v_gmem.at[h], k_smem, v_smem, bk)
        produce(steps, slots, boxes, (k_here, v_here), (k_free, v_free))

    @pl.when(wg < 2)
    def attend():
        plgpu.set_max_registers(232, action="increase")
        q, weights = q_smem.at[wg], p_smem.at[wg]
        plgpu.copy_gmem_to_smem(q_gmem.at[h, queries], q, q_here.at[wg])
        plgpu.barrier_wait(q_here.at[wg])

        def product(a, ring, here, free, i, shape):
            slot = lax.rem(i, slots)
            plgpu.barrier_wait(here.at[slot])

            def multiply(acc):
                plgpu.wgmma(acc, a, ring.at[slot])
                return acc[...]

            result = pl.run_scoped(multiply, plgpu.ACC(shape, jnp.float32))

            plgpu.barrier_arrive(free.at[slot])
            return result

        def scores(i):
            s = product(q, k_smem, k_here, k_free, i, (bq, bk)) * scale
            return without_later_keys(s, first, i * bk) if causal else s

        def weighed(i, p):
            weights[...] = p.astype(weights.dtype)
            plgpu.commit_smem()
            return product(weights, v_smem, v_here, v_free, i, (bq, D))

        def over(row, shape):
            return lax.broadcast_in_dim(row, shape, [0])

        def step(i, carry):
            o, m_old, total = carry
            s = scores(i)
            m = jnp.maximum(m_old, s.max(axis=1))
            p, alpha = jnp.exp(s - over(m, s.shape)), jnp.exp(m_old - m)
            return o * over(alpha, o.shape) + weighed(i, p), m, total * alpha + p.sum(axis=1)

        s = scores(jnp.int32(0))
        m = s.max(axis=1)
        p = jnp.exp(s - over(m, s.shape))
        begun = weighed(jnp.int32(0), p), m, p.sum(axis=1)
        o, _, total = lax.fori_loop(1, steps, step, begun)
        q[...] = (o / over(total, o.shape)).astype(q.dtype)
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(q, o_gmem.at[h, queries])
        plgpu.wait_smem_to_gmem(0)


# ---- weights_in_registers ----

"""As in jax/experimental/pallas/ops/gpu/attention_mgpu.py: the accumulator begins as the rescaled
output, and the weights go from registers into the product.

Stars: 3
"""


def flash_attention_hopper_kernel(
    q_gmem,
    k_gmem,
    v_gmem,
    o_gmem,
    q_smem,
    k_smem,
    v_smem,
    p_smem,
    q_here,
    k_here,
    v_here,
    k_free,
    v_free,
    *,
    steps_of,
    causal,
):
    (_, bq, D), (slots, bk, _) = q_smem.shape, v_smem.shape
    h, t, wg = lax.axis_index("h"), lax.axis_index("t"), lax.axis_index("wg")
    steps, queries = steps_of(t), pl.ds((2 * t + wg) * bq, bq)

    @pl.when(wg == 2)
    def bring():
        boxes = ring_of_boxes(k_gmem.at[h], v_gmem.at[h], k_smem, v_smem, bk)
        produce(steps, slots, boxes, (k_here, v_here), (k_free, v_free))

    @pl.when(wg < 2)
    def attend():
        plgpu.set_max_registers(232, action="increase")
        q = q_smem.at[wg]
        plgpu.copy_gmem_to_smem(q_gmem.at[h, queries], q, q_here.at[wg])
        plgpu.barrier_wait(q_here.at[wg])
        plgpu.barrier_wait(k_here.at[0])

        def step(i, carry):
            o, m, total = carry
            slot = lax.rem(i, slots)

            def of_keys(acc):
                plgpu.wgmma(acc, q, k_smem.at[slot])
                return acc[...]

            s = pl.run_scoped(of_keys, plgpu.ACC((bq, bk), jnp.float32))
            plgpu.barrier_arrive(k_free.at[slot])
            s = s * (D**-0.5 * 1.4426950408889634)
            if causal:
                s = without_later_keys(s, (2 * t + wg) * bq, i * bk)
            new = jnp.maximum(m, s.max(axis=1))
            alpha, p = jnp.exp2(m - new), jnp.exp2(s - lax.broadcast_in_dim(new, s.shape, [0]))
            o *= lax.broadcast_in_dim(alpha, o.shape, [0])
            total = total * alpha + p.sum(axis=1)
            weights = p.astype(v_smem.dtype)
            o, total, new, weights = lax.optimization_barrier((o, total, new, weights))
            plgpu.barrier_wait(v_here.at[slot])
            follows, after = i + 1 < steps, lax.rem(i + 1, slots)

            def of_values(acc):
                plgpu.wgmma(acc, weights, v_smem.at[slot])

                @pl.when(follows)
                def wait():
                    plgpu.barrier_wait(k_here.at[after])

            o = pl.run_state(of_values)(plgpu.ACC.init(o))
            plgpu.barrier_arrive(v_free.at[slot])
            return o, new, total

        rows = plgpu.Layout.WGMMA.reduce(1)
        begun = (
            plgpu.layout_cast(jnp.zeros((bq, D), jnp.float32), plgpu.Layout.WGMMA),
            plgpu.layout_cast(jnp.full((bq,), -jnp.inf, jnp.float32), rows),
            plgpu.layout_cast(jnp.zeros((bq,), jnp.float32), rows),
        )
        o, _, total = lax.fori_loop(0, steps, step, begun)
        q[...] = (o / lax.broadcast_in_dim(total, o.shape, [0])).astype(q.dtype)
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(q, o_gmem.at[h, queries])
        plgpu.wait_smem_to_gmem(0)
