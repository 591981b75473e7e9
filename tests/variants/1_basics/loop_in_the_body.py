"""Right kernels of loop_in_the_body in other styles: see docs/authoring.md."""

# ---- doubling ----

"""No loop over moments: in a strip of 16, each level takes those of 1, 2, 4 and 8 before it.

Stars: 3
"""

STRIP = 16


def loop_in_the_body_kernel(x_ref, o_ref, peak_ref):
    @pl.when(pl.program_id(1) == 0)
    def _():
        peak_ref[...] = jnp.zeros_like(peak_ref)

    def strip(s, peak):
        moments = pl.ds(s * STRIP, STRIP)
        level = jnp.abs(x_ref[moments].astype(jnp.float32))
        level = jnp.concatenate([jnp.maximum(level[:1], DECAY * peak[None]), level[1:]])
        for step in (1, 2, 4, 8):
            earlier = jnp.maximum(level[step:], DECAY**step * level[:-step])
            level = jnp.concatenate([level[:step], earlier])
        o_ref[moments] = level.astype(o_ref.dtype)
        return level[-1]

    peak_ref[...] = jax.lax.fori_loop(0, x_ref.shape[0] // STRIP, strip, peak_ref[...])


# ---- pl_loop ----

"""pl.loop, with the level in its Ref, eight moments in a turn.

Stars: 3
"""


def loop_in_the_body_kernel(x_ref, o_ref, peak_ref):
    @pl.when(pl.program_id(1) == 0)
    def _():
        peak_ref[...] = jnp.full(peak_ref.shape, 0.0)

    @pl.loop(0, x_ref.shape[0], step=8)
    def _(first):
        peak = peak_ref[...]
        for t in range(8):
            peak = jnp.maximum(peak * DECAY, jnp.abs(x_ref[first + t]).astype(jnp.float32))
            o_ref[first + t] = peak.astype(o_ref.dtype)
        peak_ref[...] = peak
