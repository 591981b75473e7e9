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
