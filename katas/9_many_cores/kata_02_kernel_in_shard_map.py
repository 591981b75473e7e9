"""Run a kernel on four chips: from an error message to jax.shard_map.

Goal
    Compute relu(x @ w1 + b1) @ w2 + b2 on a mesh of 2 x 2 chips. Its axes are called
    "data" and "model". `hidden_layer` and `product` are given: each launches a kernel on
    one chip. Write the shard_map around them. Shard the rows of x and of the result over
    "data", and H, the hidden units, over "model".

Concept
    If a kernel's arrays are sharded over several chips, jax refuses to compile it:

        Mosaic kernels cannot be automatically partitioned. Please wrap the call in
        a shard_map.

    XLA can partition its own matmuls, but it can't look into a kernel. So you specify
    how the arrays are sharded, and launch the kernel on each chip's shards:

        jax.shard_map(on_each, mesh=mesh, in_specs=..., out_specs=...,
                      check_vma=False)(x, w1, b1, w2, b2)

    calls `on_each` on every chip, with that chip's shard of each array. Inside, shapes
    are those of shards, and the kernel stays the same. A spec has an entry for each
    dimension: P("data", None), or P("data") for short, splits the rows in two, and both
    chips in a row of the mesh get the same half. P() gives each chip the whole array.

    The hidden units are independent, so each chip computes half of them. But the second
    product sums over all hidden units, and each chip has only half of the terms:

                         model 0                       model 1
        data 0   hidden[:M/2, :H/2] @ w2[:H/2]    hidden[:M/2, H/2:] @ w2[H/2:]
        data 1   hidden[M/2:, :H/2] @ w2[:H/2]    hidden[M/2:, H/2:] @ w2[H/2:]

    Each row of this picture holds two partial sums of one result. `lax.psum(term, axis)`
    adds the chips' terms along a mesh axis, and gives the sum to all of them.

    By leaving a mesh axis out of out_specs, you promise that all chips along it hold the
    same values. jax could check that if kernels declared the axes along which their
    results differ. They don't, hence check_vma=False: jax won't notice a broken promise.

    Why shard H at all? With few rows, a layer spends its time on reading weights. For
    256 rows, K = N = 4096 and H = 16384, in bfloat16, per chip:

                                   reads of weights    sends
        4 shards of rows               256 MiB         nothing
        2 shards of rows and of H      128 MiB         2 MiB

Shapes
    name   dtype[dims]     memory space   Ref's shape   block
    x      x.dtype[M, K]   VMEM           (bm, K)       (i, 0)
    w1     x.dtype[K, H]   VMEM           (K, bn)       (0, j)
    b1     x.dtype[1, H]   VMEM           (1, bn)       (0, j)
    w2     x.dtype[H, N]   VMEM           (H / 2, bn)   (0, j)
    b2     x.dtype[1, N]   HBM            -             -

Try
    pytest -k kernel_in_shard_map    stuck?  kata hint kernel_in_shard_map

Needs     fused_matmul
Read on   Manual parallelism with shard_map, https://docs.jax.dev/en/latest/notebooks/shard_map.html
"""

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float


def kernel_in_shard_map_spec(
    x: Float[Array, "M K"],
    w1: Float[Array, "K H"],
    b1: Float[Array, "1 H"],
    w2: Float[Array, "H N"],
    b2: Float[Array, "1 N"],
) -> Float[Array, "M N"]:
    """The required result, in plain jax.numpy."""
    return jnp.maximum(x @ w1 + b1, 0) @ w2 + b2


def kernel_in_shard_map(
    x: Float[Array, "M K"],
    w1: Float[Array, "K H"],
    b1: Float[Array, "1 H"],
    w2: Float[Array, "H N"],
    b2: Float[Array, "1 N"],
    *,
    mesh,
    bm: int = 128,
    bn: int = 128,
) -> Float[Array, "M N"]:
    """Launch: both layers on each chip of the mesh. The result has x's dtype."""

    # BEGIN SOLUTION
    raise NotImplementedError(
        "return jax.shard_map(on_each, ...)(x, w1, b1, w2, b2), where on_each calls both launches"
    )
    # END SOLUTION


# ---- Given: inputs and helpers. ----


def kernel_in_shard_map_inputs(key, *, dtype, M, K, H, N):
    """Weights that preserve the scale of their input, so that the biases matter."""
    shapes = {"x": (M, K), "w1": (K, H), "b1": (1, H), "w2": (H, N), "b2": (1, N)}
    keys = jax.random.split(key, len(shapes))
    normal = [jax.random.normal(k, shape) for k, shape in zip(keys, shapes.values(), strict=True)]
    x, w1, b1, w2, b2 = normal
    return [a.astype(dtype) for a in (x, w1 * K**-0.5, b1, w2 * H**-0.5, b2)]


def hidden_layer(x, w, bias, *, bm, bn):
    """relu(x @ w + bias) on one chip, in x's dtype."""
    return in_blocks(hidden_kernel, x.dtype, bm, bn, x, w, bias)


def product(x, w, *, bm, bn):
    """x @ w on one chip, in float32."""
    return in_blocks(product_kernel, jnp.float32, bm, bn, x, w)


def hidden_kernel(x_ref, w_ref, bias_ref, o_ref):
    total = jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32)
    o_ref[...] = jnp.maximum(total + bias_ref[...].astype(jnp.float32), 0).astype(o_ref.dtype)


def product_kernel(x_ref, w_ref, o_ref):
    o_ref[...] = jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32)


def in_blocks(kernel, dtype, bm, bn, x, w, *bias):
    """Launch a kernel for each block of bm rows and bn columns of x @ w."""
    (M, K), N = x.shape, w.shape[1]
    return pl.pallas_call(
        kernel,
        grid=(M // bm, N // bn),
        in_specs=[
            pl.BlockSpec((bm, K), lambda i, j: (i, 0)),
            pl.BlockSpec((K, bn), lambda i, j: (0, j)),
            *[pl.BlockSpec((1, bn), lambda i, j: (0, j)) for _ in bias],
        ],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j: (i, j)),
        out_shape=jax.ShapeDtypeStruct((M, N), dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel")),
        name="in_blocks",
    )(x, w, *bias)


def test_kernel_in_shard_map(hidden_case):
    hidden_case.grade(kernel_in_shard_map)
