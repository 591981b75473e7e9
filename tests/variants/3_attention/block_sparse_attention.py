"""Right kernels of block_sparse_attention in other styles: see docs/authoring.md."""

# ---- nested ----

"""One condition inside another, and a mask that is widened to int32 before it is compared.

Stars: 2, since two conditions keep more values alive than there are registers.
"""


def block_sparse_attention_kernel(
    block_mask_ref, q_ref, k_ref, v_ref, mask_ref, o_ref, m_ref, l_ref, acc_ref
):
    i, j = pl.program_id(2), pl.program_id(3)
    kind = block_mask_ref[i, j]

    @pl.when(j == 0)
    def _():
        clear(m_ref, l_ref, acc_ref)

    @pl.when(kind != 0)
    def _():
        s = scores(q_ref, k_ref)

        def masked():
            return jnp.where(mask_ref[:, :].astype(jnp.int32) == 1, s, MASK_VALUE)

        attend(jax.lax.cond(kind == 1, masked, lambda: s), v_ref, m_ref, l_ref, acc_ref)

    @pl.when(j == pl.num_programs(3) - 1)
    def _():
        store(o_ref, m_ref, l_ref, acc_ref)


# ---- switch ----

"""lax.switch over the kind of block, and the mask added to the scores.

Stars: 3
"""


def block_sparse_attention_kernel(
    block_mask_ref, q_ref, k_ref, v_ref, mask_ref, o_ref, m_ref, l_ref, acc_ref
):
    i, j = pl.program_id(2), pl.program_id(3)

    @pl.when(j == 0)
    def _():
        clear(m_ref, l_ref, acc_ref)

    def empty():
        pass

    def partial():
        bias = jnp.where(mask_ref[...].astype(jnp.int32) == 0, MASK_VALUE, 0.0)
        attend(scores(q_ref, k_ref) + bias, v_ref, m_ref, l_ref, acc_ref)

    def full():
        attend(scores(q_ref, k_ref), v_ref, m_ref, l_ref, acc_ref)

    jax.lax.switch(block_mask_ref[i, j], [empty, partial, full])

    @pl.when(j == pl.num_programs(3) - 1)
    def _():
        store(o_ref, m_ref, l_ref, acc_ref)
