"""Lets the result take the place of a copy of x: input_output_aliases.

Stars: 2, since the caller keeps x: XLA copies it before the kernel.
"""


def constant_add(x):
    return pl.pallas_call(
        constant_add_kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        input_output_aliases={0: 0},
    )(x)
