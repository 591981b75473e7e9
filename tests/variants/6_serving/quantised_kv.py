"""Right kernels of quantised_kv in other styles: see docs/authoring.md."""

# ---- added_page_by_page ----

"""Each page's product is added to the sum by itself, and the root comes after all scores.

Stars: 2 or 3
"""


def quantised_kv_kernel(
    lengths_ref,
    table_ref,
    q_ref,
    k_hbm,
    v_hbm,
    scales_hbm,
    o_ref,
    k_slots,
    v_slots,
    scales_slots,
    m_ref,
    l_ref,
    acc_ref,
    sems,
):
    b = pl.program_id(0)
    _, c, _, P, D = k_slots.shape
    length = lengths_ref[b]
    m_ref[...] = jnp.full_like(m_ref, -jnp.inf)
    l_ref[...] = jnp.zeros_like(l_ref)
    acc_ref[...] = jnp.zeros_like(acc_ref)

    def copies(i, n, slot):
        page = table_ref[b, i * c + n]
        k = pltpu.make_async_copy(k_hbm.at[page], k_slots.at[slot, n], sems.at[0, slot])
        v = pltpu.make_async_copy(v_hbm.at[page], v_slots.at[slot, n], sems.at[1, slot])
        scales = pltpu.make_async_copy(
            scales_hbm.at[page], scales_slots.at[slot, n], sems.at[2, slot]
        )
        return k, v, scales

    pages = (length + P - 1) // P
    blocks = (pages + c - 1) // c

    def for_pages(i, do):
        for n in range(c):

            @pl.when(i * c + n < pages)
            def _(n=n):
                for copy in copies(i, n, i % 2):
                    do(copy)

    def clear(i):
        v = v_slots[i % 2].astype(jnp.float32)
        row = jax.lax.broadcasted_iota(jnp.int32, v.shape, 2)
        row += P * jax.lax.broadcasted_iota(jnp.int32, v.shape, 0)
        v_slots[i % 2] = jnp.where(row < length - i * c * P, v, 0).astype(v_slots.dtype)

    def attend(i):
        q, slot, left = q_ref[...], i % 2, length - i * c * P
        found = [jnp.where(n * P < left, scales_slots[slot, n], 0)[:, None] for n in range(c)]
        s = jnp.concatenate(
            [product("grd,gsd->grs", q, k_slots[slot, n]) * found[n][..., 0:1] for n in range(c)],
            axis=2,
        )
        p, alpha = softmax_step(s * D**-0.5, left, m_ref, l_ref)
        acc_ref[...] = alpha * acc_ref[...]
        for n in range(c):
            weights = p[..., n * P : (n + 1) * P].astype(q.dtype)
            acc_ref[...] += found[n][..., 1:2] * product("grs,gsd->grd", weights, v_slots[slot, n])

    for_pages(0, lambda copy: copy.start())

    @pl.loop(0, blocks)
    def _(i):
        for_pages(i + 1, lambda copy: copy.start())
        for_pages(i, lambda copy: copy.wait())
        pl.when(length < (i + 1) * c * P)(lambda: clear(i))
        attend(i)

    total = l_ref[...]
    o_ref[...] = (acc_ref[...] / jnp.where(total == 0, 1, total)).astype(o_ref.dtype)


# ---- scaled_queries ----

"""The root of D is taken into the queries, and pages are added up before the sum.

Stars: 2 or 3
"""


def quantised_kv_kernel(
    lengths_ref,
    table_ref,
    q_ref,
    k_hbm,
    v_hbm,
    scales_hbm,
    o_ref,
    k_slots,
    v_slots,
    scales_slots,
    m_ref,
    l_ref,
    acc_ref,
    sems,
):
    b = pl.program_id(0)
    _, c, _, P, D = k_slots.shape
    length = lengths_ref[b]
    m_ref[...] = jnp.full_like(m_ref, -jnp.inf)
    l_ref[...] = jnp.zeros_like(l_ref)
    acc_ref[...] = jnp.zeros_like(acc_ref)

    def copies(i, n, slot):
        page = table_ref[b, i * c + n]
        k = pltpu.make_async_copy(k_hbm.at[page], k_slots.at[slot, n], sems.at[0, slot])
        v = pltpu.make_async_copy(v_hbm.at[page], v_slots.at[slot, n], sems.at[1, slot])
        scales = pltpu.make_async_copy(
            scales_hbm.at[page], scales_slots.at[slot, n], sems.at[2, slot]
        )
        return k, v, scales

    pages = (length + P - 1) // P
    blocks = (pages + c - 1) // c

    def for_pages(i, do):
        for n in range(c):

            @pl.when(i * c + n < pages)
            def _(n=n):
                for copy in copies(i, n, i % 2):
                    do(copy)

    def clear(i):
        v = v_slots[i % 2].astype(jnp.float32)
        row = jax.lax.broadcasted_iota(jnp.int32, v.shape, 2)
        row += P * jax.lax.broadcasted_iota(jnp.int32, v.shape, 0)
        v_slots[i % 2] = jnp.where(row < length - i * c * P, v, 0).astype(v_slots.dtype)

    def attend(i):
        q, slot, left = q_ref[...], i % 2, length - i * c * P
        found = [jnp.where(n * P < left, scales_slots[slot, n], 0)[:, None] for n in range(c)]
        s = [product("grd,gsd->grs", q * D**-0.5, k_slots[slot, n]) for n in range(c)]
        scaled = [s[n] * found[n][..., 0:1] for n in range(c)]
        p, alpha = softmax_step(jnp.concatenate(scaled, axis=2), left, m_ref, l_ref)
        products = (
            product("grs,gsd->grd", p[..., n * P : (n + 1) * P].astype(q.dtype), v_slots[slot, n])
            for n in range(c)
        )
        added = sum(found[n][..., 1:2] * one for n, one in enumerate(products))
        acc_ref[...] = alpha * acc_ref[...] + added

    for_pages(0, lambda copy: copy.start())

    @pl.loop(0, blocks)
    def _(i):
        for_pages(i + 1, lambda copy: copy.start())
        for_pages(i, lambda copy: copy.wait())
        pl.when(length < (i + 1) * c * P)(lambda: clear(i))
        attend(i)

    total = l_ref[...]
    o_ref[...] = (acc_ref[...] / jnp.where(total == 0, 1, total)).astype(o_ref.dtype)
