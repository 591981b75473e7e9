"""Differentiate an outer product with its activation, and keep nothing of its result.

Goal
    z = relu(x * y), for a column x and a row y, is given as a kernel. Write its
    backward pass: the kernel that computes dx and dy for a given dz, the dimension
    semantics of its grid, and the two rules that connect both kernels to `jax.vjp`. The
    launch returns z, dx and dy.

Concept
    The gradient passes where x * y is positive, and both results are sums of the
    passing part:

        slope = dz where x * y > 0, else 0

                dx = sum of slope * y along each row
                dy = sum of slope * x along each column

    The rule may keep z from the forward pass as a residual, since z > 0 gives the same
    mask. Or it can multiply x and y again. For M = N = 8192 in bfloat16:

                            z is kept                  made again
        forward    write z       128 MiB      write z         128 MiB
        backward   read dz, z    256 MiB      read dz         128 MiB
                   -------------------------------------------------
        at 819 GB/s              492 µs                       328 µs

    on a v5e, plus a few MiB for x, y and their gradients in both cases. And a z that is
    kept stays in HBM from this layer's forward pass to its backward pass. A product for
    each element costs little, since the core waits for dz anyway. So the residuals are
    x and y, 16 thousand numbers instead of 67 million.

    The grader runs jax.vjp with your rules. A residual is written by one kernel and read
    by the other, so its bytes count in both.

    Both sums are over the same slope, one along each axis. A block of dx is complete
    after a row of blocks. dy is complete after the last row, since every row adds to
    all of dy. Until then the sum is in dy_sum_ref, all N columns in float32. So steps
    with different i add to the same sum.

Shapes
    name         dtype[dims]       memory space   Ref's shape   block
    x_ref        x.dtype[M, 1]     VMEM           (bm, 1)       (i, 0)
    y_ref        x.dtype[1, N]     VMEM           (1, bn)       (0, j)
    dz_ref       x.dtype[M, N]     VMEM           (bm, bn)      (i, j)
    dx_ref       x.dtype[M, 1]     VMEM           (bm, 1)       (i, 0)
    dy_ref       x.dtype[1, N]     VMEM           (1, N)        whole
    dx_sum_ref   float32[bm, 1]    VMEM scratch   (bm, 1)       -
    dy_sum_ref   float32[1, N]     VMEM scratch   (1, N)        -

    The grid of both kernels is (M / bm, N / bn).

Try
    pytest -k fused_outer_backward          stuck?  kata hint fused_outer_backward

Needs     outer_product, adafactor_factors, softmax_backward
Read on   Training Deep Nets with Sublinear Memory Cost, https://arxiv.org/abs/1604.06174
"""

import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float


def fused_outer_backward_spec(
    x: Float[Array, "M 1"], y: Float[Array, "1 N"], dz: Float[Array, "M N"]
) -> tuple[Float[Array, "M N"], Float[Array, "M 1"], Float[Array, "1 N"]]:
    """What the launch must compute, in plain jax.numpy: z, dx and dy."""
    z, pullback = jax.vjp(lambda x, y: jax.nn.relu(x * y), x, y)
    return (z, *pullback(dz))


def fused_outer_backward_kernel(x_ref, y_ref, dz_ref, dx_ref, dy_ref, dx_sum_ref, dy_sum_ref):
    i, j = pl.program_id(0), pl.program_id(1)
    bn = y_ref.shape[1]
    columns = pl.ds(pl.multiple_of(j * bn, 128), bn)

    # BEGIN SOLUTION
    @pl.when(j == 0)
    def _():
        dx_sum_ref[...] = jnp.zeros_like(dx_sum_ref)

    @pl.when(i == 0)
    def _():
        dy_sum_ref[:, columns] = jnp.zeros_like(y_ref, jnp.float32)

    x, y, dz = (ref[...].astype(jnp.float32) for ref in (x_ref, y_ref, dz_ref))
    slope = jnp.where(x * y > 0, dz, 0)
    dx_sum_ref[...] += jnp.sum(slope * y, axis=1, keepdims=True)
    dy_sum_ref[:, columns] += jnp.sum(slope * x, axis=0, keepdims=True)

    @pl.when(j == pl.num_programs(1) - 1)
    def _():
        dx_ref[...] = dx_sum_ref[...].astype(dx_ref.dtype)

    @pl.when(i == pl.num_programs(0) - 1)
    def _():
        dy_ref[:, columns] = dy_sum_ref[:, columns].astype(dy_ref.dtype)

    # END SOLUTION


# ---- The function, its rules, and the code that ties them together. ----


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def outer(x, y, bm, bn):
    """Return relu(x * y), computed in blocks of (bm, bn)."""
    return fused_outer(x, y, bm=bm, bn=bn)


def outer_fwd(x, y, bm, bn):
    """The forward rule: the result of `outer`, and the residuals."""
    # BEGIN SOLUTION
    return outer(x, y, bm, bn), (x, y)
    # END SOLUTION


def outer_bwd(bm, bn, residuals, dz):
    """The backward rule: the gradients for x and y, by `gradients`."""
    # BEGIN SOLUTION
    return gradients(*residuals, dz, bm=bm, bn=bn, semantics=("arbitrary", "arbitrary"))
    # END SOLUTION


outer.defvjp(outer_fwd, outer_bwd)


def fused_outer_backward(
    x: Float[Array, "M 1"],
    y: Float[Array, "1 N"],
    dz: Float[Array, "M N"],
    *,
    bm: int = 256,
    bn: int = 1024,
) -> tuple[Float[Array, "M N"], Float[Array, "M 1"], Float[Array, "1 N"]]:
    """Launch: z by the forward kernel, and its gradients for dz by the rule."""

    z, pullback = jax.vjp(lambda x, y: outer(x, y, bm, bn), x, y)
    return (z, *pullback(dz))


# ---- Given: inputs and helpers. ----


def fused_outer(x, y, *, bm, bn):
    """Launch the forward kernel: z."""

    def kernel(x_ref, y_ref, o_ref):
        product = x_ref[...].astype(jnp.float32) * y_ref[...].astype(jnp.float32)
        o_ref[...] = jnp.maximum(product, 0).astype(o_ref.dtype)

    M, N = x.shape[0], y.shape[1]
    return pl.pallas_call(
        kernel,
        grid=(M // bm, N // bn),
        in_specs=[
            pl.BlockSpec((bm, 1), lambda i, j: (i, 0)),
            pl.BlockSpec((1, bn), lambda i, j: (0, j)),
        ],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j: (i, j)),
        out_shape=jax.ShapeDtypeStruct((M, N), x.dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel")),
        name="fused_outer",
    )(x, y)


def gradients(x, y, dz, *, bm, bn, semantics):
    """Launch the backward kernel: dx and dy. semantics are those of the grid's two axes."""
    M, N = dz.shape
    column = pl.BlockSpec((bm, 1), lambda i, j: (i, 0))
    return pl.pallas_call(
        fused_outer_backward_kernel,
        grid=(M // bm, N // bn),
        in_specs=[
            column,
            pl.BlockSpec((1, bn), lambda i, j: (0, j)),
            pl.BlockSpec((bm, bn), lambda i, j: (i, j)),
        ],
        out_specs=(column, pl.BlockSpec((1, N), lambda i, j: (0, 0))),
        out_shape=(
            jax.ShapeDtypeStruct((M, 1), x.dtype),
            jax.ShapeDtypeStruct((1, N), y.dtype),
        ),
        scratch_shapes=[pltpu.VMEM((bm, 1), jnp.float32), pltpu.VMEM((1, N), jnp.float32)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=semantics),
        name="gradients",
    )(x, y, dz)


def fused_outer_backward_inputs(key, *, M, N, dtype):
    """Zeros in x and y: there, relu is at its corner, where jax's gradient is 0."""
    x_key, y_key, dz_key = jax.random.split(key, 3)
    x = jax.random.normal(x_key, (M, 1)).at[3::8].set(0)
    y = jax.random.normal(y_key, (1, N)).at[:, 5::16].set(0)
    dz = jax.random.normal(dz_key, (M, N))
    return x.astype(dtype), y.astype(dtype), dz.astype(dtype)


def test_fused_outer_backward(hidden_case):
    hidden_case.grade(fused_outer_backward)
