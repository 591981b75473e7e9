"""Right kernels of int4_weights in other styles: see docs/authoring.md."""

# ---- adds_once ----

"""The groups of a block are summed in registers, and added to the output once; w is cast by groups.

Stars: 3
"""


def int4_weights_kernel(x_ref, w_ref, zero_ref, scale_ref, o_ref):
    groups = scale_ref.shape[0]
    size = w_ref.shape[0] // groups

    def part(g):
        k = pl.ds(g * size, size)
        zero = zero_ref[g].astype(jnp.float32)
        w = (w_ref[k, :].astype(jnp.float32) - zero).astype(jnp.bfloat16)
        return jnp.dot(x_ref[:, k], w, preferred_element_type=jnp.float32) * scale_ref[g]

    block = sum(part(g) for g in range(groups))

    @pl.when(pl.program_id(1) == 0)
    def _():
        o_ref[...] = block

    @pl.when(pl.program_id(1) > 0)
    def _():
        o_ref[...] += block


# ---- scales_in_float32 ----

"""Scaled weights that stay float32: right, and a float32 product costs several passes.

Stars: 2
"""


def int4_weights_kernel(x_ref, w_ref, zero_ref, scale_ref, o_ref):
    groups = scale_ref.shape[0]
    size = w_ref.shape[0] // groups

    @pl.when(pl.program_id(1) == 0)
    def _():
        o_ref[...] = jnp.zeros_like(o_ref)

    for g in range(groups):
        w = w_ref[g * size : (g + 1) * size, :].astype(jnp.float32)
        w = (w - zero_ref[g]) * scale_ref[g]
        x = x_ref[:, g * size : (g + 1) * size].astype(jnp.float32)
        o_ref[...] += jnp.dot(x, w, precision="highest")


# ---- zero_leaves_the_sum ----

"""As in int8_matmul: zero points times sums of x, which the kernel adds up for each group.

Stars: 3
"""


def int4_weights_kernel(x_ref, w_ref, zero_ref, scale_ref, o_ref):
    groups = scale_ref.shape[0]
    size = w_ref.shape[0] // groups
    w = w_ref[...].astype(jnp.bfloat16)

    @pl.when(pl.program_id(1) == 0)
    def _():
        o_ref[...] = jnp.zeros_like(o_ref)

    for g in range(groups):
        x = x_ref[:, g * size : (g + 1) * size]
        sums = jnp.sum(x.astype(jnp.float32), axis=1, keepdims=True)
        product = jnp.dot(x, w[g * size : (g + 1) * size], preferred_element_type=jnp.float32)
        o_ref[...] += (product - sums * zero_ref[g]) * scale_ref[g]
