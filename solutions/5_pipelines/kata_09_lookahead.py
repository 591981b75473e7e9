"""Prefetch the next block that differs, however many steps away it is.

Goal
    Rows of x are sorted by expert, and each block of bm rows belongs to one expert, number
    experts[i]. Multiply each block by its expert's weights. Write the body of the kernel: the
    function for one step, and the call of `pltpu.emit_pipeline` with a step for each block. An
    expert's weights are one block, (D, N). The launch is given, with 24 MiB of VMEM.

Concept
    A pipeline looks one step ahead. While step i computes, it copies the blocks that step
    i + 1 needs and doesn't have. If a large block changes only now and then, the copies are
    unbalanced: for many steps nothing is copied, and then the large block must arrive within
    a single step.

        experts            0     0     0     1     1     2     2     2
        steps            | 0   | 1   | 2   | 3   | 4   | 5   | 6   | 7   |
        one step ahead               >=w1======|       >=w2======|
                                           wait              wait
        lookahead        >=w1======|       >=w2======|

    (`>` is where a copy starts. The waits make steps longer, which isn't drawn.) The second
    slot of w is free all the time. With

        pl.BlockSpec(..., pipeline_mode=pl.Buffered(2, use_lookahead=True))

    the pipeline doesn't prefetch the next step's block but the next block that differs, and
    starts its copy as soon as a slot is free. So the copy can take as long as the previous
    expert's steps. The search has a cost: scalar code that scans the coming steps runs in each
    step. For an operand whose block changes in every step, there is nothing to gain.
    `pl.pallas_call` doesn't support lookahead; `emit_pipeline` does.

    The alternative is more buffers without lookahead. With three, the pipeline copies w two
    steps ahead. This takes VMEM for one more block, and suffices only if two steps take longer
    than the copy. Here a third block doesn't fit.

    For 64 blocks of 128 rows, 12 experts and D = N = 2048 in bfloat16, a step takes about
    6 µs, and copying 8 MiB of weights takes 10 µs. On a v5e:

        two buffers                   444 µs
        two buffers, lookahead        394 µs
        three buffers                 396 µs, with 8 MiB more

    If an expert's run is only one block, no order of copies helps: HBM is the bottleneck. If
    weights arrive within one step, two buffers suffice.

Shapes
    name      dtype[dims]        memory space   Ref's shape   block
    experts   int32[B]           SMEM           (B,)          whole
    x_hbm     x.dtype[T, D]      HBM            (T, D)        whole
    w_hbm     x.dtype[E, D, N]   HBM            (E, D, N)     whole
    o_hbm     x.dtype[T, N]      HBM            (T, N)        whole

Try
    pytest -k lookahead              stuck?  kata hint lookahead

Needs     emit_pipeline, aligned_grouped_matmul
Read on   TPU Pipelining, https://docs.jax.dev/en/latest/pallas/tpu/pipelining.html
"""

import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float, Int32


def lookahead_spec(
    experts: Int32[Array, "B"], x: Float[Array, "T D"], w: Float[Array, "E D N"]
) -> Float[Array, "T N"]:
    """The required result, in plain jax.numpy."""
    blocks = x.reshape(len(experts), -1, x.shape[1])
    return (blocks @ w[experts]).reshape(len(x), -1)


def lookahead_kernel(experts, x_hbm, w_hbm, o_hbm, *, bm):
    B = experts.shape[0]
    D, N = w_hbm.shape[1:]
    # BEGIN SOLUTION

    def step(x_ref, w_ref, o_ref):
        product = jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32)
        o_ref[...] = product.astype(o_ref.dtype)

    weights = pl.BlockSpec(
        (None, D, N),
        lambda i: (experts[i], 0, 0),
        pipeline_mode=pl.Buffered(2, use_lookahead=True),
    )
    pltpu.emit_pipeline(
        step,
        grid=(B,),
        in_specs=[pl.BlockSpec((bm, D), lambda i: (i, 0)), weights],
        out_specs=[pl.BlockSpec((bm, N), lambda i: (i, 0))],
    )(x_hbm, w_hbm, o_hbm)
    # END SOLUTION


def lookahead(
    experts: Int32[Array, "B"], x: Float[Array, "T D"], w: Float[Array, "E D N"], *, bm: int = 128
) -> Float[Array, "T N"]:
    """Launch: the body runs once; experts in SMEM, everything else in HBM."""
    hbm = pl.BlockSpec(memory_space=pltpu.HBM)
    return pl.pallas_call(
        functools.partial(lookahead_kernel, bm=bm),
        in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), hbm, hbm],
        out_specs=hbm,
        out_shape=jax.ShapeDtypeStruct((x.shape[0], w.shape[2]), x.dtype),
        compiler_params=pltpu.CompilerParams(vmem_limit_bytes=24 * 2**20),
        name="lookahead",
    )(experts, x, w)


# ---- Given: inputs and helpers. ----


def lookahead_inputs(key, *, dtype, B, T, D, E, N):
    """A sorted table in which the first and the last expert appear, rows, and weights."""
    of_experts, of_x, of_w = jax.random.split(key, 3)
    experts = jnp.sort(jax.random.randint(of_experts, (B,), 0, E, jnp.int32))
    experts = experts.at[0].set(0).at[-1].set(E - 1)
    x = jax.random.normal(of_x, (T, D), dtype)
    return experts, x, jax.random.normal(of_w, (E, D, N), dtype)


def test_lookahead(hidden_case):
    hidden_case.grade(lookahead)
