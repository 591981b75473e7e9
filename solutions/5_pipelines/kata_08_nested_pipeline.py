"""Run a pipeline in every step of another pipeline.

Goal
    Multiply a lower triangular x by y. The outer pipeline, over blocks of the result, is
    given. Write one of its steps: the inner pipeline, over pieces of x and y. x has zeros
    above its diagonal. Blocks of x that contain only zeros should neither be read nor
    multiplied. Blocks of x are bm x bk, those of y bk x bn, and those of the result bm x bn.
    They divide the arrays; bk may be larger or smaller than bm.

Concept
    The strips of x and y that make one block of the result are too long for VMEM, so they are
    copied in pieces along k. In a grid with three axes, all blocks of the result get the same
    number of pieces. Here the number differs for each row of blocks. With bm = bk, for
    example:

                 x             pieces           o
        i = 0   [#| | | ]        1           [ | | | ]
        i = 1   [#|#| | ]        2           [ | | | ]
        i = 2   [#|#|#| ]        3           [ | | | ]
        i = 3   [#|#|#|#]        4           [ | | | ]

    Running a pipeline is a function call, so the body of another pipeline can do it. The
    outer one loops over blocks of the result and copies them out. In each of its steps, the
    inner one loops over pieces of two strips and copies them in:

        outer, step (i, j):     before  |  inner: k = 0, 1, 2, ...  |  after
        the next step:          before  |  inner: k = 0, 1, ...     |  after

    The inner grid may depend on the outer step. Its index maps may use variables of the outer
    body, such as `i = pl.program_id(0)`. In the inner body, program_id is that of the inner
    grid. The launch's Refs can be used anywhere. Work that needed a `pl.when` on the first or
    last k is now a line before or after a call.

    The price: each call of the inner pipeline waits for its first pieces of x and of y. So
    outer blocks should be large. For M = 8192, N = 4096, bk = 512 in bfloat16, on a v5e:

        bm x bn         outer steps     HBM bytes    time
        512 x 512               128      1.12 GiB    2.04 ms
        512 x 1024               64       880 MiB    1.82 ms
        512 x 2048               32       744 MiB    1.74 ms

    XLA doesn't know about the zeros and needs at least 2.8 ms. A grid with three axes that
    skips steps is as fast, but has as many steps in each row as the longest row needs.

Shapes
    name      dtype[dims]       memory space   Ref's shape   block
    x_hbm     x.dtype[M, M]     HBM            (M, M)        whole
    y_hbm     x.dtype[M, N]     HBM            (M, N)        whole
    o_hbm     x.dtype[M, N]     HBM            (M, N)        whole
    o_ref     x.dtype[M, N]     VMEM           (bm, bn)      (i, j)
    x_ref     x.dtype[M, M]     VMEM           (bm, bk)      yours
    y_ref     x.dtype[M, N]     VMEM           (bk, bn)      yours
    acc_ref   float32[bm, bn]   VMEM scratch   (bm, bn)      -

Try
    pytest -k nested_pipeline        stuck?  kata hint nested_pipeline

Needs     two_spellings, launch_matmul
Read on   TPU Pipelining, https://docs.jax.dev/en/latest/pallas/tpu/pipelining.html
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float


def nested_pipeline_spec(x: Float[Array, "M M"], y: Float[Array, "M N"]) -> Float[Array, "M N"]:
    """The required result, in plain jax.numpy."""
    return x @ y


def nested_pipeline(
    x: Float[Array, "M M"], y: Float[Array, "M N"], *, bm: int = 512, bn: int = 2048, bk: int = 512
) -> Float[Array, "M N"]:
    """Launch: a pipeline over blocks of (bm, bn), and in each step another over pieces of bk."""
    M, N = y.shape

    def body(x_hbm, y_hbm, o_hbm, acc_ref):
        def outer(o_ref):
            i, j = pl.program_id(0), pl.program_id(1)
            # BEGIN SOLUTION

            def inner(x_ref, y_ref):
                acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

            acc_ref[...] = jnp.zeros_like(acc_ref)
            pltpu.emit_pipeline(
                inner,
                grid=(pl.cdiv((i + 1) * bm, bk),),
                in_specs=[
                    pl.BlockSpec((bm, bk), lambda k: (i, k)),
                    pl.BlockSpec((bk, bn), lambda k: (k, j)),
                ],
            )(x_hbm, y_hbm)
            o_ref[...] = acc_ref[...].astype(o_ref.dtype)
            # END SOLUTION

        block = pl.BlockSpec((bm, bn), lambda i, j: (i, j))
        pltpu.emit_pipeline(outer, grid=(M // bm, N // bn), out_specs=[block])(o_hbm)

    return pl.kernel(
        body,
        out_type=jax.ShapeDtypeStruct((M, N), x.dtype),
        mesh=one_core(),
        scratch_types=[pltpu.VMEM((bm, bn), jnp.float32)],
        name="nested_pipeline",
    )(x, y)


# ---- Given: inputs and helpers. ----


def nested_pipeline_inputs(key, *, dtype, M, N):
    """A lower triangular x, and y."""
    of_x, of_y = jax.random.split(key)
    x = jnp.tril(jax.random.normal(of_x, (M, M), dtype))
    return x, jax.random.normal(of_y, (M, N), dtype)


def one_core():
    """Return a mesh of one TensorCore, by the name that the installed jax has for it."""
    if hasattr(pltpu, "TensorCoreMesh"):
        return pltpu.TensorCoreMesh(axis_name="core", num_cores=1)
    return pltpu.create_tensorcore_mesh("core", num_cores=1)


def test_nested_pipeline(hidden_case):
    hidden_case.grade(nested_pipeline)
