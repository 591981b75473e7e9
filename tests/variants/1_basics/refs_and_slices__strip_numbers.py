"""Counts in strips, so that a multiplication proves the alignment and no promise is needed.

Stars: 3
"""


def refs_and_slices_kernel(starts_ref, x_ref, o_ref):
    bn = o_ref.shape[1]
    first = starts_ref[pl.program_id(0)] // bn
    strip = jax.lax.rem(first + pl.program_id(1), pl.num_programs(1)) * bn
    half = x_ref.shape[1] // 2
    o_ref[:, :] = x_ref[:, pl.ds(strip, bn)] + x_ref[:, pl.ds(half + strip, bn)]
