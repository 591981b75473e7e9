"""Right kernels of int4_weights in other styles: see docs/authoring.md."""

# ---- adds_once ----

"""The groups of a block are summed in registers, and added to the output once; w is cast by groups.

Stars: 3
"""


def int4_weights_kernel(x_ref, w_ref, scale_ref, o_ref):
    groups = scale_ref.shape[0]
    size = w_ref.shape[0] // groups

    def part(g):
        k = pl.ds(g * size, size)
        w = w_ref[k, :].astype(jnp.float32).astype(jnp.bfloat16)
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


def int4_weights_kernel(x_ref, w_ref, scale_ref, o_ref):
    groups = scale_ref.shape[0]
    size = w_ref.shape[0] // groups

    @pl.when(pl.program_id(1) == 0)
    def _():
        o_ref[...] = jnp.zeros_like(o_ref)

    for g in range(groups):
        w = w_ref[g * size : (g + 1) * size, :].astype(jnp.float32) * scale_ref[g]
        x = x_ref[:, g * size : (g + 1) * size].astype(jnp.float32)
        o_ref[...] += jnp.dot(x, w, precision="highest")
