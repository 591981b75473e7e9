"""Right kernels of packed_int4 in other styles: see docs/authoring.md."""

# ---- minus_eight ----

"""The sign by arithmetic: bit 3 is flipped, and 8 subtracted.

Stars: 3
"""


def packed_int4_kernel(x_ref, packed_ref, scale_ref, o_ref):
    k, groups = pl.program_id(1), scale_ref.shape[0]
    size = x_ref.shape[1] // groups
    block = jnp.zeros(o_ref.shape, jnp.float32)
    for pair in range(groups // 2):
        number = packed_ref[pair * size : (pair + 1) * size, :].astype(jnp.int32)
        for half in range(2):
            g = 2 * pair + half
            w = (((number >> 4 * half) & 15) ^ 8) - 8
            x = x_ref[:, g * size : (g + 1) * size]
            block += scale_ref[g] * jnp.dot(
                x, w.astype(jnp.bfloat16), preferred_element_type=jnp.float32
            )
    o_ref[...] = jnp.where(k == 0, 0, o_ref[...]) + block


# ---- one_product ----

"""Weights of a pair are joined to a block of both groups' rows, scaled sums by two products.

Stars: 3
"""


def packed_int4_kernel(x_ref, packed_ref, scale_ref, o_ref):
    @pl.when(pl.program_id(1) == 0)
    def _():
        o_ref[...] = jnp.zeros_like(o_ref)

    groups = scale_ref.shape[0]
    size = x_ref.shape[1] // groups
    for pair in range(groups // 2):
        number = packed_ref[pl.ds(pair * size, size), :].astype(jnp.int32)
        high = number >> 4
        low = number - (high << 4)
        low = jnp.where(low > 7, low - 16, low)
        w = jnp.concatenate([low, high]).astype(jnp.float32).astype(jnp.bfloat16)
        for g in (2 * pair, 2 * pair + 1):
            rows = slice(g % 2 * size, (g % 2 + 1) * size)
            x = x_ref[:, g * size : (g + 1) * size]
            product = jnp.dot(x, w[rows], preferred_element_type=jnp.float32)
            o_ref[...] += product * scale_ref[g]
