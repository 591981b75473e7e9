"""Launch a kernel with pl.kernel, a mesh of cores and emit_pipeline.

Goal
    The kernel for one set of blocks is given: it adds a row of biases to x, replaces negative
    numbers by 0, and multiplies by y. Launch it, this time without `pl.pallas_call`. The
    number of steps along each axis is M / bm and N / bn.

Concept
    So far, `pl.pallas_call` has done three things for you at once. The other spelling
    separates them:

        pl.pallas_call(kernel,              pl.kernel(body, out_type=..., mesh=...)
          out_shape=...,  - - - - - - - - >   which cores run it, what comes back
          grid=...,       - - - - - - - - > pltpu.emit_pipeline(kernel, grid=...,
          in_specs=..., out_specs=...)        in_specs=..., out_specs=...)
        (x, y)            - - - - - - - - >   both are called with operands

    `pl.kernel` starts a body once on every core of a mesh. It has no grid and no specs, so it
    copies nothing. The body's Refs are the whole arrays, in HBM:

                    HBM                       VMEM              vector unit
        body:   x_ref  (M, N)
        pipeline:    block (i, j)  - - - >  2 slots (bm, bn)
        kernel:                                 Ref (bm, bn)  <- - ->  o = ...

    A core can't compute on HBM: `x_ref[...]` is an error in the body. A block must be copied
    to VMEM first. `pltpu.emit_pipeline` returns a function that does this. Call it with Refs
    in HBM, inputs first, then outputs. It runs the kernel over a grid, on Refs in VMEM, while
    it copies the next step's blocks in and earlier results out. It is an ordinary function
    that runs inside the body, so a body can run two pipelines one after the other, or copy
    something itself first. Kernels that serve language models need this: the track
    5_pipelines begins here.

    `out_type` replaces `out_shape`: a `jax.ShapeDtypeStruct` of the whole result.
    `one_core()`, a mesh of one core, is given. `pl.kernel(...)` returns a function of arrays.
    Its body gets a Ref for each operand, then one for each result.

    Here the two spellings perform the same. For 8192 x 4096 in bfloat16, both move 192 MiB
    and take 247 µs on a v5e.

Shapes
    name    dtype[dims]     memory space   Ref's shape   block
    x_ref   x.dtype[M, N]   VMEM           (bm, bn)      (i, j)
    y_ref   x.dtype[M, N]   VMEM           (bm, bn)      (i, j)
    b_ref   x.dtype[1, N]   VMEM           (1, bn)       (0, j)
    o_ref   x.dtype[M, N]   VMEM           (bm, bn)      (i, j)

    These are the Refs of the kernel. In the body, all Refs are whole arrays, in HBM.

Try
    pytest -k two_spellings          stuck?  kata hint two_spellings

Needs     launch_vector_add, scale_2d
Read on   Pallas TPU quickstart, https://docs.jax.dev/en/latest/pallas/tpu/index.html
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float


def two_spellings_spec(
    x: Float[Array, "M N"], y: Float[Array, "M N"], b: Float[Array, "1 N"]
) -> Float[Array, "M N"]:
    """The required result, in plain jax.numpy."""
    return jnp.maximum(x + b, 0) * y


def two_spellings_kernel(x_ref, y_ref, b_ref, o_ref):
    """Work on one set of blocks. Given: do not change it."""
    x, y, b = (ref[...].astype(jnp.float32) for ref in (x_ref, y_ref, b_ref))
    o_ref[...] = (jnp.maximum(x + b, 0) * y).astype(o_ref.dtype)


def two_spellings(
    x: Float[Array, "M N"],
    y: Float[Array, "M N"],
    b: Float[Array, "1 N"],
    *,
    bm: int = 256,
    bn: int = 1024,
) -> Float[Array, "M N"]:
    """Launch: a body on one core, which runs a pipeline over blocks of (bm, bn)."""
    # BEGIN SOLUTION
    raise NotImplementedError(
        "write a body that runs emit_pipeline over its Refs, and return pl.kernel(body, ...)(x, y, b)"
    )
    # END SOLUTION


# ---- Given: inputs and helpers. ----


def one_core():
    """Return a mesh of one TensorCore, by the name that the installed jax has for it."""
    if hasattr(pltpu, "TensorCoreMesh"):
        return pltpu.TensorCoreMesh(axis_name="core", num_cores=1)
    return pltpu.create_tensorcore_mesh("core", num_cores=1)


def test_two_spellings(hidden_case):
    hidden_case.grade(two_spellings)
