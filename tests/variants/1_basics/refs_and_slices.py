"""Right kernels of refs_and_slices in other styles: see docs/authoring.md."""

# ---- no_views ----

"""No views: both starts are computed, with lax's remainder.

Stars: 3
"""


def refs_and_slices_kernel(starts_ref, x_ref, o_ref):
    bn = o_ref.shape[1]
    first = starts_ref[pl.program_id(0)]
    strip = jax.lax.rem(first + pl.program_id(1), pl.num_programs(1)) * bn
    half = x_ref.shape[1] // 2
    o_ref[:, :] = x_ref[:, pl.ds(strip, bn)] + x_ref[:, pl.ds(half + strip, bn)]


# ---- views_of_views ----

"""Views of views, handed to a function that takes Refs; wraps round with a condition; a promise.

Stars: 3
"""


def add(left_ref, right_ref, o_ref):
    o_ref[...] = left_ref[...] + right_ref[...]


def refs_and_slices_kernel(starts_ref, x_ref, o_ref):
    (_, N), (_, bn) = x_ref.shape, o_ref.shape
    start = (starts_ref[pl.program_id(0)] + pl.program_id(1)) * bn
    start = jnp.where(start >= N // 2, start - N // 2, start)
    strip = pl.ds(pl.multiple_of(start, 128), bn)
    add(x_ref.at[:, : N // 2].at[:, strip], x_ref.at[:, pl.ds(N // 2, N // 2)].at[:, strip], o_ref)
