"""A GridSpec, blocks that grow in steps of four, and a cost estimate for XLA's scheduler.

Stars: 3
"""


def launch_vector_add(x, y, z, *, bn):
    (n,) = x.shape
    while bn <= 32768 and n % (4 * bn) == 0:
        bn = 4 * bn
    blocks = [pl.BlockSpec((bn,), lambda i: (i,)) for _ in range(3)]
    grid_spec = pl.GridSpec(
        grid=(pl.cdiv(n, bn),), in_specs=blocks, out_specs=pl.BlockSpec((bn,), lambda i: (i,))
    )
    return pl.pallas_call(
        launch_vector_add_kernel,
        grid_spec=grid_spec,
        out_shape=jax.ShapeDtypeStruct((n,), x.dtype),
        cost_estimate=pl.CostEstimate(
            flops=2 * n, bytes_accessed=4 * n * x.dtype.itemsize, transcendentals=0
        ),
        name="vector_add",
    )(x, y, z)
