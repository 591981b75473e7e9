"""Gather rows whose numbers are known only at run time, with many copies on one semaphore.

Goal
    ids holds B row numbers, and table, an embedding table in HBM, holds the rows. Write the
    body of a kernel whose step i copies bt of them: row r of o_ref becomes the table's row
    ids[i * bt + r]. The same number may appear several times. The launch is given. All copies
    of a step must end within it: o_ref is copied to HBM when the body ends.

Concept
    A BlockSpec copies one block per step, and a step that copies takes about 0.3 µs. For rows
    of 4 KiB, which HBM delivers in 5 ns, this is far too slow. The kernel's own copies can
    start one after the other, as fast as the scalar core can issue them, and they don't wait
    for each other:

        wait for each       >0===| >1===| >2===| >3===| ...
        start all, then     >0===
        wait                 >1===
                              >2===
                               >3===
                                    |  <- everything is there

    If no row is read before the last one has arrived, their order doesn't matter, and one
    semaphore is enough. It counts the bytes of all copies, and a wait subtracts as many bytes
    as its descriptor's *target* has. Only the total must agree, not the individual copies. A
    wait doesn't even need a matching copy. If the descriptor's two Refs are the same, as in

        pltpu.make_async_copy(ref, ref, sem).wait()

    nothing is copied. The descriptor only says how many bytes to wait for. If that is less
    than the copies bring, the wait returns early, with some rows still in flight.

    The cost is the scalar core's time: each start reads a number from SMEM, computes two
    addresses, and issues a DMA, about ten cycles in all. By default the compiler also checks
    that both ends lie within their arrays, which doubles the time. The launch turns this off
    with `disable_bounds_checks=True`, which is safe if all ids are in range.

    In an array of [V, D] in bfloat16, two neighbouring rows share words of 32 bits, and a copy
    moves whole words: the compiler refuses a copy of one row, though not in float32. So the
    table is stored as [V, S, 128], with D = S * 128. Its rows then share no words.

    8192 rows of 2048 numbers in bfloat16 are 32 MiB to read and 32 MiB to write, 82 µs at
    full bandwidth. With steps of 1024 rows, the kernel takes 86 µs on a v5e. With a wait right
    after each start, it takes 3.8 ms.

Shapes
    name      dtype[dims]             memory space   Ref's shape    block
    ids       int32[B]                SMEM           (B,)           whole
    table     table.dtype[V, S, 128]  HBM            (V, S, 128)    whole
    o_ref     table.dtype[B, S, 128]  VMEM           (bt, S, 128)   (i, 0, 0)
    sem       dma semaphore           SMEM scratch   ()             -

    The grid is (B / bt,).

Try
    pytest -k row_gather          stuck?  kata hint row_gather

Needs     async_copy, double_buffer
Read on   Pallas TPU details, https://docs.jax.dev/en/latest/pallas/tpu/details.html
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float, Int32


def row_gather_spec(
    ids: Int32[Array, "B"], table: Float[Array, "V S 128"]
) -> Float[Array, "B S 128"]:
    """The required result, in plain jax.numpy."""
    return table[ids]


def row_gather_kernel(ids, table, o_ref, sem):
    bt = o_ref.shape[0]
    first = pl.program_id(0) * bt
    # BEGIN SOLUTION
    raise NotImplementedError(
        "start a copy for each of the step's rows, then wait for all of their bytes"
    )
    # END SOLUTION


def row_gather(
    ids: Int32[Array, "B"], table: Float[Array, "V S 128"], *, bt: int = 256
) -> Float[Array, "B S 128"]:
    """Launch: ids in SMEM, the table in HBM, bt rows of the result in a step."""
    (B,), (_, S, lanes) = ids.shape, table.shape
    return pl.pallas_call(
        row_gather_kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(B // bt,),
            in_specs=[pl.BlockSpec(memory_space=pltpu.HBM)],
            out_specs=pl.BlockSpec((bt, S, lanes), lambda i, ids: (i, 0, 0)),
            scratch_shapes=[pltpu.SemaphoreType.DMA],
        ),
        out_shape=jax.ShapeDtypeStruct((B, S, lanes), table.dtype),
        compiler_params=pltpu.CompilerParams(disable_bounds_checks=True),
        name="row_gather",
    )(ids, table)


# ---- Given: inputs and helpers. ----


def row_gather_inputs(key, *, B, V, S, dtype):
    """Row numbers like words of a text: a few appear again and again, some never."""
    ids_key, table_key = jax.random.split(key)
    depth = jax.random.uniform(ids_key, (B,))
    ids = jnp.minimum((V * depth**3).astype(jnp.int32), V - 1)
    return ids, jax.random.normal(table_key, (V, S, 128)).astype(dtype)


def test_row_gather(hidden_case):
    hidden_case.grade(row_gather)
