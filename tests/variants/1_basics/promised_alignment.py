"""Right kernels of promised_alignment in other styles: see docs/authoring.md."""

# ---- product ----

"""Divides by 128 and multiplies again, which proves the alignment without a promise.

Stars: 3
"""


def promised_alignment_kernel(starts_ref, x_ref, o_ref):
    register = starts_ref[pl.program_id(0)] // 128
    W = o_ref.shape[1]
    later = x_ref[:, pl.ds((register + 1) * 128, W)]
    o_ref[...] = later - x_ref[:, pl.ds(register * 128, W)]


# ---- one_view ----

"""One view of both windows, which static slices divide.

Stars: 3
"""


def promised_alignment_kernel(starts_ref, x_ref, o_ref):
    _, W = o_ref.shape
    start = pl.multiple_of(starts_ref[pl.program_id(0)], 128)
    both = x_ref.at[:, pl.ds(start, W + 128)]
    o_ref[...] = both[:, 128:] - both[:, :W]
