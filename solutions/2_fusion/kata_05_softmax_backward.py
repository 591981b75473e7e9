"""Teach JAX the gradient of softmax: choose the residuals, and write a kernel that needs only them.

Goal
    A softmax kernel is given. Make it differentiable: write a kernel for dx, the
    forward rule, the backward rule, and the code that connects them. The grader runs
    `jax.vjp` and grades the whole: p, and dx for dp, the gradient of the loss with
    respect to p.

Concept
    JAX has no gradient for `pallas_call`. You give it one with `jax.custom_vjp`:

        f = jax.custom_vjp(fun, nondiff_argnums=...)
        f.defvjp(fwd, bwd)

        fun(*args)                           what f(*args) is without a gradient
        fwd(*args) -> result, residuals      the same, and a tuple that bwd gets
        bwd(residuals, d_result) -> grads    a tuple, one for each array, in order

    Arguments that aren't arrays, here bm, are listed by position in
    nondiff_argnums. fwd gets all arguments in fun's order; bwd gets *these* first,
    then the residuals and d_result, and returns nothing for them.

    What should you keep? Every p[n] depends on every x[k] of its row, so the
    derivatives of one row are a matrix: p[n] * (1 - p[n]) on its diagonal, and
    -p[n] * p[k] elsewhere. For 32000 words, it takes 3.8 GiB in float32, for one row.
    You don't need it. Its product with dp, written out, is

        dx = p * (dp - sum of dp * p)        one sum for each row

    x doesn't appear. So p alone is enough, and p exists already: it is the result,
    which the next layer reads too.

        keep x        bwd computes p again from x: the same bytes, more work
        keep x and p  bwd reads one array more, and x stays in HBM until then
        keep p        x can be freed as soon as p is there

    Residuals stay in HBM until the backward pass, which runs after all later layers.
    Each array that bwd reads takes time: for 4096 x 32000 in bfloat16, it has 250 MiB,
    320 µs on a v5e. Your kernel moves three, p, dp and dx, in 960 µs, since it keeps
    the row in VMEM. XLA's loops move five, since a sum has to be complete before it is
    used. With the forward pass, you move 1250 MiB in 1.60 ms; XLA moves 2000 MiB.

    p is rounded to x's dtype before you see it. Everything after that is float32.

Shapes
    name     dtype[dims]     memory space   Ref's shape   block
    p_ref    x.dtype[M, N]   VMEM           (bm, N)       (i, 0)
    dp_ref   x.dtype[M, N]   VMEM           (bm, N)       (i, 0)
    dx_ref   x.dtype[M, N]   VMEM           (bm, N)       (i, 0)

    The grid is (pl.cdiv(M, bm),). Rows past the edge are garbage, and cut off.

Try
    pytest -k softmax_backward      stuck?  kata hint softmax_backward

Needs     row_softmax, rms_norm_backward
Read on   Custom derivative rules,
          https://docs.jax.dev/en/latest/notebooks/Custom_derivative_rules_for_Python_code.html
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float


def softmax_backward_spec(
    x: Float[Array, "M N"], dp: Float[Array, "M N"]
) -> tuple[Float[Array, "M N"], Float[Array, "M N"]]:
    """The expected results, in plain jax.numpy: p and dx."""
    p, backward = jax.vjp(lambda x: jax.nn.softmax(x, axis=1), x)
    return p, *backward(dp)


def softmax_backward_kernel(p_ref, dp_ref, dx_ref):
    # BEGIN SOLUTION
    p, dp = p_ref[...].astype(jnp.float32), dp_ref[...].astype(jnp.float32)
    dx = p * (dp - jnp.sum(dp * p, axis=1, keepdims=True))
    dx_ref[...] = dx.astype(dx_ref.dtype)
    # END SOLUTION


def softmax_fwd(x, bm):
    """The forward rule: the result of `softmax`, and the residuals."""
    # BEGIN SOLUTION
    p = softmax(x, bm)
    return p, (p,)
    # END SOLUTION


def softmax_bwd(bm, residuals, dp):
    """The backward rule: a tuple with the gradient for x, by softmax_gradient."""
    # BEGIN SOLUTION
    (p,) = residuals
    return (softmax_gradient(p, dp, bm),)
    # END SOLUTION


def softmax_backward(
    x: Float[Array, "M N"], dp: Float[Array, "M N"], *, bm: int = 16
) -> tuple[Float[Array, "M N"], Float[Array, "M N"]]:
    """Return p, and the result of jax.vjp for dp: dx."""
    # BEGIN SOLUTION
    differentiable = jax.custom_vjp(softmax, nondiff_argnums=(1,))
    differentiable.defvjp(softmax_fwd, softmax_bwd)
    # END SOLUTION
    p, backward = jax.vjp(lambda x: differentiable(x, bm), x)
    return p, *backward(dp)


# ---- Given: inputs and helpers. ----


def softmax(x, bm):
    """The softmax of whole rows, in blocks of bm rows. JAX has no gradient for it."""
    return by_rows(row_softmax_kernel, bm, x)


def softmax_gradient(p, dp, bm):
    """Launch softmax_backward_kernel over blocks of bm rows. Return dx."""
    return by_rows(softmax_backward_kernel, bm, p, dp)


def by_rows(kernel, bm, *arrays):
    """Launch a kernel over blocks of bm whole rows of arrays of one shape, with one result."""
    M, N = arrays[0].shape
    rows = pl.BlockSpec((bm, N), lambda i: (i, 0))
    return pl.pallas_call(
        kernel,
        grid=(pl.cdiv(M, bm),),
        in_specs=[rows] * len(arrays),
        out_specs=rows,
        out_shape=jax.ShapeDtypeStruct((M, N), arrays[0].dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
        name="by_rows",
    )(*arrays)


def row_softmax_kernel(x_ref, p_ref):
    """A solution of row_softmax."""
    x = x_ref[...].astype(jnp.float32)
    e = jnp.exp(x - jnp.max(x, axis=1, keepdims=True))
    p_ref[...] = (e / jnp.sum(e, axis=1, keepdims=True)).astype(p_ref.dtype)


def softmax_backward_inputs(key, *, M, N, dtype):
    """Rows at different levels, as dp's are. They are flat where p is rounded to bfloat16."""
    x_key, level_key, p_key, dp_key = jax.random.split(key, 4)
    level, size = (150, 3) if dtype == jnp.float32 else (2, 0.3)
    x = level * jax.random.uniform(level_key, (M, 1), minval=-1)
    x += size * jax.random.normal(x_key, (M, N))
    dp = 30 * jax.random.uniform(p_key, (M, 1), minval=-1) + jax.random.normal(dp_key, (M, N))
    return x.astype(dtype), dp.astype(dtype)


def test_softmax_backward(hidden_case):
    hidden_case.grade(softmax_backward)
