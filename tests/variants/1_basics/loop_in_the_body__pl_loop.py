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
