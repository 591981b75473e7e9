"""Make a kernel fit into VMEM when one buffer for its weights fits there, but two don't.

Goal
    Rows of x are sorted by expert, and each block of bm rows belongs to one expert, number
    `experts[i]`. The kernel is given: it multiplies its rows by the expert's weights. Write
    its launch. Copy an expert's weights to VMEM whole, and only once. At production size the
    default launch doesn't fit. Make it fit, without reading more or taking longer than
    necessary.

Concept
    With D = 8192, N = 4096 and bm = 128 in bfloat16, blocks take in VMEM

        x      2 x  2 MiB  =   4 MiB
        w      2 x 64 MiB  = 128 MiB
        o      2 x  1 MiB  =   2 MiB      and something for the compiler

    A kernel gets 16 MiB unless it requests more, and a v5e has 128. Interpreters accept a
    kernel that is too large; the TPU's compiler doesn't. There are three solutions, and each
    has its price:

    -   *One buffer:* `pl.BlockSpec(..., pipeline_mode=pl.Buffered(1))`. The second
        exists so that the next block can be copied while this one is used:

            two buffers    copy 0 | step 0 | step 1 | step 2
                                  | copy 1 | copy 2 | copy 3
            one buffer     copy 0 | step 0 | copy 1 | step 1 | copy 2 | step 2

        So the kernel waits for each *new* block. The cost depends on how often the
        block changes: for w it is 82 µs for each expert, for x 3 µs for each step.
        (A block that never changes has one buffer anyway: the compiler detects it.)

    -   *A higher limit:* `compiler_params=pltpu.CompilerParams(vmem_limit_bytes=...)`.
        XLA can't use a kernel's VMEM for other arrays while it runs, and the limit
        can't exceed the chip's VMEM.

    -   *Smaller blocks:* half of w's columns, for example. Then x is read twice, and 896 MiB
        move instead of 640. Here the matrix unit takes long enough to hide this; with fewer
        rows per expert it wouldn't. The grader counts bytes, too.

    Decide for each operand how often its block changes, and add up again.

    To pass the table to the index maps, use `grid_spec=pltpu.PrefetchScalarGridSpec(
    num_scalar_prefetch=1, grid=..., in_specs=..., out_specs=...)`: the table is copied to
    SMEM before the first step, and maps get its Ref after their indices.

Shapes
    name          dtype[dims]        memory space   Ref's shape   block
    experts_ref   int32[B]           SMEM           (B,)          whole
    x_ref         x.dtype[T, D]      VMEM           (bm, D)       yours
    w_ref         x.dtype[E, D, N]   VMEM           (D, N)        yours
    o_ref         x.dtype[T, N]      VMEM           (bm, N)       yours

Try
    pytest -k fit_vmem               stuck?  kata hint fit_vmem

Needs     memory_spaces, aligned_grouped_matmul
Read on   TPU Pipelining, https://docs.jax.dev/en/latest/pallas/tpu/pipelining.html
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float, Int32

#: Columns of w that one iteration of the kernel's loop works on.
COLUMNS = 128


def fit_vmem_spec(
    experts: Int32[Array, "B"], x: Float[Array, "T D"], w: Float[Array, "E D N"]
) -> Float[Array, "T N"]:
    """The required result, in plain jax.numpy."""
    blocks = x.reshape(len(experts), -1, x.shape[1])
    return (blocks @ w[experts]).reshape(len(x), -1)


def fit_vmem_kernel(experts_ref, x_ref, w_ref, o_ref):
    """Multiply a block of rows by the weights of its expert. Given: do not change it."""

    @pl.loop(0, w_ref.shape[1] // COLUMNS)
    def _(part):
        columns = pl.ds(pl.multiple_of(part * COLUMNS, COLUMNS), COLUMNS)
        product = jnp.dot(x_ref[...], w_ref[:, columns], preferred_element_type=jnp.float32)
        o_ref[:, columns] = product.astype(o_ref.dtype)


def fit_vmem(
    experts: Int32[Array, "B"], x: Float[Array, "T D"], w: Float[Array, "E D N"], *, bm: int = 128
) -> Float[Array, "T N"]:
    """Launch: T / bm steps; an expert's weights stay in VMEM for all of its blocks."""
    T, D = x.shape
    N = w.shape[2]
    # BEGIN SOLUTION
    weights = pl.BlockSpec(
        (None, D, N), lambda i, experts: (experts[i], 0, 0), pipeline_mode=pl.Buffered(1)
    )
    return pl.pallas_call(
        fit_vmem_kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(T // bm,),
            in_specs=[pl.BlockSpec((bm, D), lambda i, experts: (i, 0)), weights],
            out_specs=pl.BlockSpec((bm, N), lambda i, experts: (i, 0)),
        ),
        out_shape=jax.ShapeDtypeStruct((T, N), x.dtype),
        compiler_params=pltpu.CompilerParams(vmem_limit_bytes=96 * 2**20),
        name="fit_vmem",
    )(experts, x, w)
    # END SOLUTION


# ---- Given: inputs and helpers. ----


def fit_vmem_inputs(key, *, dtype, B, T, D, E, N):
    """A sorted table in which the first and the last expert appear, rows, and weights."""
    of_experts, of_x, of_w = jax.random.split(key, 3)
    experts = jnp.sort(jax.random.randint(of_experts, (B,), 0, E, jnp.int32))
    experts = experts.at[0].set(0).at[-1].set(E - 1)
    x = jax.random.normal(of_x, (T, D), dtype)
    return experts, x, jax.random.normal(of_w, (E, D, N), dtype)


def test_fit_vmem(hidden_case):
    hidden_case.grade(fit_vmem)
