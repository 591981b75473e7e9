"""Copy rows from HBM to VMEM and back by hand, with sync_copy and run_scoped.

Goal
    Each row of x holds two halves: a value and a gate. Write the body of a kernel that
    multiplies the value by the sigmoid of the gate, with all Refs in HBM. Go through x in
    blocks of bm rows; copy each block to VMEM and the result back yourself. The launch is
    given, and bm divides M.

Concept
    Each Ref is in one memory, and the memory decides how the kernel may use it:

        memory   size on a v5e   who reads and writes it
        HBM      16 GiB          copies only
        VMEM     128 MiB         copies, and the vector and matrix units
        SMEM     1 MiB           copies, and the scalar core

    This time x isn't split into blocks for you: `x_ref` is the whole array, in HBM. With 8192
    rows of 8192 numbers in bfloat16, it has 128 MiB. Copy it through VMEM part by part:

        x_ref    | value block i | gate block i |        HBM
                        |                |
                    sync_copy        sync_copy
                        v                v
                 +-------------+  +-------------+
                 |   (bm, H)   |  |   (bm, H)   |        VMEM, in scratch
                 +-------------+  +-------------+
                        |  value * sigmoid(gate), in place
                    sync_copy
                        v
        o_ref    |    block i    |                       HBM

    `pltpu.sync_copy(source, target)` copies one Ref to another with a DMA, and returns when
    all of it has arrived. Both must have the same shape and dtype. To copy a part, take a
    view: `x_ref.at[rows, columns]`, as in refs_and_slices. HBM stores these arrays in tiles of
    8 x 128 numbers, and a part of more than one tile begins and ends at tile boundaries. The
    compiler can tell that `i * bm` is a multiple of bm. The rows of a part needn't be
    contiguous in memory. `kv_cache_write`, in 6_serving, copies less than a tile.

    The body allocates its own VMEM. `pl.run_scoped(function, *types)` makes a Ref for each
    type, such as `pltpu.VMEM(shape, dtype)`, calls the function with them, and frees them
    when it returns. Their initial content is garbage. Scratch of the launch would also work,
    but lives as long as the kernel.

    This is simple, and slow. A copy that you wait for at once overlaps with nothing: the core
    waits for HBM, and then HBM waits for the core. For 192 MiB, this takes 374 µs on a v5e,
    while HBM alone would need 246. The next two katas solve this.

Shapes
    name    dtype[dims]       memory space   Ref's shape   block
    x_ref   x.dtype[M, N]     HBM            (M, N)        whole
    o_ref   x.dtype[M, N/2]   HBM            (M, H)        whole

    H is N / 2.

Try
    pytest -k memory_spaces          stuck?  kata hint memory_spaces

Needs     two_spellings, refs_and_slices, loop_in_the_body
Read on   GLU Variants Improve Transformer, https://arxiv.org/abs/2002.05202
"""

import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float


def memory_spaces_spec(x: Float[Array, "M N"]) -> Float[Array, "M N//2"]:
    """The required result, in plain jax.numpy."""
    value, gate = jnp.split(x, 2, axis=1)
    return value * jax.nn.sigmoid(gate)


def memory_spaces_kernel(x_ref, o_ref, *, bm):
    M, H = o_ref.shape
    # BEGIN SOLUTION

    def scoped(value_ref, gate_ref):
        @pl.loop(0, M // bm)
        def _(i):
            rows = pl.ds(i * bm, bm)
            pltpu.sync_copy(x_ref.at[rows, pl.ds(0, H)], value_ref)
            pltpu.sync_copy(x_ref.at[rows, pl.ds(H, H)], gate_ref)
            value, gate = (ref[...].astype(jnp.float32) for ref in (value_ref, gate_ref))
            value_ref[...] = (value * jax.nn.sigmoid(gate)).astype(o_ref.dtype)
            pltpu.sync_copy(value_ref, o_ref.at[rows])

    block = pltpu.VMEM((bm, H), x_ref.dtype)
    pl.run_scoped(scoped, block, block)
    # END SOLUTION


def memory_spaces(x: Float[Array, "M N"], *, bm: int = 256) -> Float[Array, "M N//2"]:
    """Launch: the body once, on one core, with both arrays in HBM."""
    M, N = x.shape
    return pl.kernel(
        functools.partial(memory_spaces_kernel, bm=bm),
        out_type=jax.ShapeDtypeStruct((M, N // 2), x.dtype),
        mesh=one_core(),
        name="memory_spaces",
    )(x)


# ---- Given: inputs and helpers. ----


def one_core():
    """Return a mesh of one TensorCore, by the name that the installed jax has for it."""
    if hasattr(pltpu, "TensorCoreMesh"):
        return pltpu.TensorCoreMesh(axis_name="core", num_cores=1)
    return pltpu.create_tensorcore_mesh("core", num_cores=1)


def test_memory_spaces(hidden_case):
    hidden_case.grade(memory_spaces)
