"""Update parameters and both moments in place, in one pass: Adam.

Goal
    Write a whole optimiser step: the kernel that computes the new p, m and v from the
    old ones and the gradient, the specs, and the aliases that say which result replaces
    which input.

Concept
    Adam keeps two moving averages for each parameter, of the gradient and of its
    square. Both begin at zero, and would be too small during the first steps. So they
    are divided by the sum of the weights so far, 1 - B1^t and 1 - B2^t after t steps:

        m = B1 * m + (1 - B1) * g            p = p - rate *   m / (1 - B1^t)
        v = B2 * v + (1 - B2) * g * g                      ----------------------
                                                           sqrt(v / (1 - B2^t)) + EPS

    EPS is outside of the root. The three numbers rate, 1 - B1^t and 1 - B2^t change
    from step to step, so they are an input. A number for all elements belongs in SMEM,
    from where it is broadcast to all lanes.

    HBM limits all of it. For 8192 x 4096 parameters with a bfloat16 gradient:

        p, m, v in and out         6 * 128 MiB        one pass: 832 MiB,
        g in                            64 MiB        1.07 ms on a v5e

        m, then v, then p               1.38 times    m, v and g are read again

    XLA compiles the same update to one fusion and is as fast; you write a kernel for
    operations that XLA doesn't have, such as rounding the new p at random. Then you
    manage the memory, too. The state takes most of a training step's memory, and the
    old state isn't needed any more. So a training loop *donates* it, as the decorator
    of the launch does, and XLA overwrites old values with new ones. But XLA can't see
    into a kernel. You have to tell XLA that a block of an output is written only after
    the same block of an input was read:

        input_output_aliases={position among inputs: position among outputs}

                        donated                           not donated
        aliased         in place, no copy                 XLA copies it first
        not aliased     XLA copies the result back        a new array

    Each copy reads and writes a whole array. Both arrays of a pair have the same shape
    and dtype. And since blocks are read ahead, they also need the same index map.

Shapes
    name                     dtype[dims]      memory space   Ref's shape   block
    p_ref, m_ref, v_ref      float32[M, N]    VMEM           (bm, bn)      (i, j)
    g_ref                    g.dtype[M, N]    VMEM           (bm, bn)      (i, j)
    numbers_ref              float32[1, 3]    SMEM           (1, 3)        whole
    p_out, m_out, v_out      float32[M, N]    VMEM           (bm, bn)      (i, j)

    numbers holds rate, 1 - B1^t and 1 - B2^t. The blocks divide M and N.

Try
    pytest -k fused_adam          stuck?  kata hint fused_adam

Needs     two_memories
Read on   Buffer donation, https://docs.jax.dev/en/latest/buffer_donation.html
"""

import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float, Float32

B1, B2, EPS = 0.9, 0.999, 1e-8


def fused_adam_spec(
    p: Float32[Array, "M N"],
    g: Float[Array, "M N"],
    m: Float32[Array, "M N"],
    v: Float32[Array, "M N"],
    numbers: Float32[Array, "1 3"],
) -> tuple[Float32[Array, "M N"], Float32[Array, "M N"], Float32[Array, "M N"]]:
    """The required result, in plain jax.numpy: p, m and v after the step."""
    rate, m_weight, v_weight = numbers[0]
    g = g.astype(p.dtype)
    m = B1 * m + (1 - B1) * g
    v = B2 * v + (1 - B2) * g * g
    return p - rate * (m / m_weight) / (jnp.sqrt(v / v_weight) + EPS), m, v


def fused_adam_kernel(p_ref, g_ref, m_ref, v_ref, numbers_ref, p_out, m_out, v_out):
    # BEGIN SOLUTION
    raise NotImplementedError(
        "compute the new m and v, then the new p from them, and store m_out, v_out and p_out"
    )
    # END SOLUTION


@functools.partial(jax.jit, static_argnames=("bm", "bn"), donate_argnames=("p", "m", "v"))
def fused_adam(
    p: Float32[Array, "M N"],
    g: Float[Array, "M N"],
    m: Float32[Array, "M N"],
    v: Float32[Array, "M N"],
    numbers: Float32[Array, "1 3"],
    *,
    bm: int = 256,
    bn: int = 512,
) -> tuple[Float32[Array, "M N"], Float32[Array, "M N"], Float32[Array, "M N"]]:
    """Launch: one pass over blocks of (bm, bn). The caller has no further use for p, m and v."""
    M, N = p.shape
    block = pl.BlockSpec((bm, bn), lambda i, j: (i, j))
    # BEGIN SOLUTION
    raise NotImplementedError(
        "set in_specs and out_specs, and the aliases: {position among the inputs: position among the outputs}"
    )
    # END SOLUTION
    return pl.pallas_call(
        fused_adam_kernel,
        grid=(M // bm, N // bn),
        in_specs=in_specs,
        out_specs=out_specs,
        out_shape=(jax.ShapeDtypeStruct(p.shape, p.dtype),) * 3,
        input_output_aliases=aliases,
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel")),
        name="fused_adam",
    )(p, g, m, v, numbers)


# ---- Given: inputs and helpers. ----


def fused_adam_inputs(key, *, M, N, dtype):
    """An early step, with gradients of two magnitudes: for the smaller ones, EPS matters."""
    p_key, g_key, m_key, v_key, size_key, step_key = jax.random.split(key, 6)
    p = jax.random.normal(p_key, (M, N), jnp.float32)
    size = jax.random.choice(size_key, jnp.array([1.0, 1e-8], jnp.float32), (M, N))
    g = jax.random.normal(g_key, (M, N)) * size
    m = jax.random.normal(m_key, (M, N), jnp.float32) * size / 8
    v = jax.random.uniform(v_key, (M, N), jnp.float32) * size * size / 64
    t = jax.random.randint(step_key, (), 2, 9)
    numbers = jnp.stack([jnp.float32(0.25), 1 - B1**t, 1 - B2**t]).astype(jnp.float32)
    return p, g.astype(dtype), m, v, numbers[None]


def test_fused_adam(hidden_case):
    hidden_case.grade(fused_adam)
