"""Right kernels of paged_attention_dma in other styles: see docs/authoring.md."""

# ---- loops_of_pages ----

"""Loops over the pages that exist, in place of conditions.

Stars: 2 or 3
"""


def paged_attention_dma_kernel(
    lengths_ref,
    table_ref,
    q_ref,
    k_hbm,
    v_hbm,
    o_ref,
    k_slots,
    v_slots,
    m_ref,
    l_ref,
    acc_ref,
    sems,
):
    b = pl.program_id(0)
    P, cP = k_hbm.shape[2], k_slots.shape[2]
    c = cP // P
    length = lengths_ref[b]
    m_ref[...] = jnp.full_like(m_ref, -jnp.inf)
    l_ref[...] = jnp.zeros_like(l_ref)
    acc_ref[...] = jnp.zeros_like(acc_ref)

    def copies(i, n, slot):
        """The copies of page n of block i, of k and of v, to its place in a slot."""
        page, rows = table_ref[b, i * c + n], pl.ds(n * P, P)
        return (
            pltpu.make_async_copy(k_hbm.at[page], k_slots.at[slot, :, rows], sems.at[0, slot]),
            pltpu.make_async_copy(v_hbm.at[page], v_slots.at[slot, :, rows], sems.at[1, slot]),
        )

    pages = pl.cdiv(length, P)

    def start(i):
        slot = jax.lax.rem(i, 2)

        @pl.loop(0, jnp.clip(pages - i * c, 0, c))
        def _(n):
            for copy in copies(i, n, slot):
                copy.start()

    @pl.when(length > 0)
    def _():
        start(0)

    @pl.loop(0, pl.cdiv(pages, c))
    def _(i):
        start(i + 1)
        slot = jax.lax.rem(i, 2)

        @pl.loop(0, jnp.minimum(pages - i * c, c))
        def _(n):
            for copy in copies(i, n, slot):
                copy.wait()

        attend_up_to(
            q_ref[...], k_slots[slot], v_slots[slot], length - i * cP, m_ref, l_ref, acc_ref
        )

    total = l_ref[...]
    o_ref[...] = (acc_ref[...] / jnp.where(total == 0, 1, total)).astype(o_ref.dtype)


# ---- whole_slots ----

"""One wait for a full slot's bytes, and waits page by page in the last block.

Stars: 3
"""


def paged_attention_dma_kernel(
    lengths_ref,
    table_ref,
    q_ref,
    k_hbm,
    v_hbm,
    o_ref,
    k_slots,
    v_slots,
    m_ref,
    l_ref,
    acc_ref,
    sems,
):
    b = pl.program_id(0)
    P, cP = k_hbm.shape[2], k_slots.shape[2]
    c = cP // P
    length = lengths_ref[b]
    m_ref[...] = jnp.full_like(m_ref, -jnp.inf)
    l_ref[...] = jnp.zeros_like(l_ref)
    acc_ref[...] = jnp.zeros_like(acc_ref)

    def copies(i, n, slot):
        """The copies of page n of block i, of k and of v, to its place in a slot."""
        page, rows = table_ref[b, i * c + n], pl.ds(n * P, P)
        return (
            pltpu.make_async_copy(k_hbm.at[page], k_slots.at[slot, :, rows], sems.at[0, slot]),
            pltpu.make_async_copy(v_hbm.at[page], v_slots.at[slot, :, rows], sems.at[1, slot]),
        )

    blocks = jnp.where(length > 0, (length - 1) // cP + 1, 0)

    def each(i, n):
        for copy in copies(i, n, i & 1):
            copy.start()

    def start(i):
        for n in range(c):
            pl.when(i * cP + n * P < length)(lambda n=n: each(i, n))

    pl.when(length > 0)(lambda: start(0))

    @pl.loop(0, blocks)
    def _(i):
        slot = i & 1
        left = length - i * cP

        @pl.when(i + 1 < blocks)
        def _():
            start(i + 1)

        @pl.when(left > cP - P)
        def _():
            for slots, sem in (k_slots, sems.at[0, slot]), (v_slots, sems.at[1, slot]):
                pltpu.make_async_copy(slots.at[slot], slots.at[slot], sem).wait()

        @pl.when(left <= cP - P)
        def _():
            for n in range(c - 1):

                @pl.when(n * P < left)
                def _(n=n):
                    for copy in copies(i, n, slot):
                        copy.wait()

        attend_up_to(q_ref[...], k_slots[slot], v_slots[slot], left, m_ref, l_ref, acc_ref)

    total = l_ref[...]
    o_ref[...] = (acc_ref[...] / jnp.where(total == 0, 1, total)).astype(o_ref.dtype)
