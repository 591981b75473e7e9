"""Call a pipeline inside a kernel, with a grid whose size is known only at run time.

Goal
    Each of E groups has a matrix x[e] and a matrix w[e]. Compute their product, summed only
    over the first lens[e] of the K columns of x and rows of w. The rest of x and w is stale
    and may be NaN. Write the body of a kernel that runs once for each group: a function for
    one step of a pipeline, and the call of `pltpu.emit_pipeline`. lens[e] is a multiple of
    bk, and not 0. The launch is given.

Concept
    The grid of a `pallas_call` is usually fixed when the program is compiled. Then all groups
    take the maximum number of steps, and copy blocks that nobody uses. A pipeline inside a
    body gets its grid when it is called, and a number in it may come from SMEM:

        grid of the launch             grid of the pipeline, for each e
                                         i        j       k
        e = 0   - - - - - - - - - >   (M/bm,   N/bn,   lens[0]/bk)    ####
        e = 1   - - - - - - - - - >   (M/bm,   N/bn,   lens[1]/bk)    #
        e = 2   - - - - - - - - - >   (M/bm,   N/bn,   lens[2]/bk)    ######

    So there are now two grids, one inside the other. `pl.program_id` gives the index in the
    innermost grid that is running. In the body, this is the launch's grid. In the pipeline's
    step function and its index maps, it is the pipeline's. `pl.num_programs` works the same
    way. If a step needs an index of the outer grid, the body looks it up first, and the step
    function uses that variable: a Python function sees the names around it.

    Memory works the same way. The blocks of a step belong to the pipeline, which has two slots for
    each. An accumulator persists from step to step, so it belongs to the launch, as scratch,
    and a step sees it like any other name. It isn't cleared automatically. Clear it with
    `pl.when`, at the start of a group, of a block, or of a sum: which of the three?

    A pipeline works on Refs in HBM, whole ones or views: `x_hbm.at[e]` is a Ref of shape
    (M, K). The pipeline ends with its last copy, so nothing overlaps between two groups. This
    costs about a µs for each group.

    With E = 8 groups of 1024 x 4096 by 4096 x 1024 numbers in bfloat16, and lengths from 512
    to 4096, this takes 234 µs on a v5e. With a static grid, K / bk steps for each sum, it
    takes 416 µs.

Shapes
    name      dtype[dims]         memory space   Ref's shape   block
    lens      int32[E]            SMEM           (E,)          whole
    x_hbm     x.dtype[E, M, K]    HBM            (E, M, K)     whole
    w_hbm     x.dtype[E, K, N]    HBM            (E, K, N)     whole
    o_hbm     x.dtype[E, M, N]    HBM            (E, M, N)     whole
    acc_ref   float32[bm, bn]     VMEM scratch   (bm, bn)      -

    The launch's grid is (E,).

Try
    pytest -k emit_pipeline          stuck?  kata hint emit_pipeline

Needs     two_spellings, tiled_matmul
Read on   TPU Pipelining, https://docs.jax.dev/en/latest/pallas/tpu/pipelining.html
"""

import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float, Int32


def emit_pipeline_spec(
    lens: Int32[Array, "E"], x: Float[Array, "E M K"], w: Float[Array, "E K N"]
) -> Float[Array, "E M N"]:
    """The required result, in plain jax.numpy."""
    used = jnp.arange(x.shape[2]) < lens[:, None]
    x, w = jnp.where(used[:, None, :], x, 0), jnp.where(used[:, :, None], w, 0)
    f32 = jnp.promote_types(x.dtype, jnp.float32)
    return jnp.einsum("emk,ekn->emn", x, w, preferred_element_type=f32).astype(x.dtype)


def emit_pipeline_kernel(lens, x_hbm, w_hbm, o_hbm, acc_ref, *, bm, bn, bk):
    e = pl.program_id(0)
    M, N = o_hbm.shape[1:]
    # BEGIN SOLUTION

    def step(x_ref, w_ref, o_ref):
        k = pl.program_id(2)

        @pl.when(k == 0)
        def _():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        acc_ref[...] += jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32)

        @pl.when(k == pl.num_programs(2) - 1)
        def _():
            o_ref[...] = acc_ref[...].astype(o_ref.dtype)

    pltpu.emit_pipeline(
        step,
        grid=(M // bm, N // bn, lens[e] // bk),
        in_specs=[
            pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)),
            pl.BlockSpec((bk, bn), lambda i, j, k: (k, j)),
        ],
        out_specs=[pl.BlockSpec((bm, bn), lambda i, j, k: (i, j))],
    )(x_hbm.at[e], w_hbm.at[e], o_hbm.at[e])
    # END SOLUTION


def emit_pipeline(
    lens: Int32[Array, "E"],
    x: Float[Array, "E M K"],
    w: Float[Array, "E K N"],
    *,
    bm: int = 512,
    bn: int = 512,
    bk: int = 512,
) -> Float[Array, "E M N"]:
    """Launch: one step for each group; lens in SMEM, everything else in HBM."""
    E, M, _ = x.shape
    hbm = pl.BlockSpec(memory_space=pltpu.HBM)
    return pl.pallas_call(
        functools.partial(emit_pipeline_kernel, bm=bm, bn=bn, bk=bk),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(E,),
            in_specs=[hbm, hbm],
            out_specs=hbm,
            scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
        ),
        out_shape=jax.ShapeDtypeStruct((E, M, w.shape[2]), x.dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
        name="emit_pipeline",
    )(lens, x, w)


# ---- Given: inputs and helpers. ----


def emit_pipeline_inputs(key, *, E, M, K, N, bk, dtype):
    """Lengths of one block to all of K, in any order; NaN in x and w past each length."""
    order, x_key, w_key = jax.random.split(key, 3)
    blocks = jnp.linspace(1, K // bk, E).astype(jnp.int32)
    lens = bk * jax.random.permutation(order, blocks)
    used = jnp.arange(K) < lens[:, None]
    x = jnp.where(used[:, None, :], jax.random.normal(x_key, (E, M, K)), jnp.nan)
    w = jnp.where(used[:, :, None], jax.random.normal(w_key, (E, K, N)), jnp.nan)
    return lens, x.astype(dtype), w.astype(dtype)


def test_emit_pipeline(hidden_case):
    hidden_case.grade(emit_pipeline)
