"""Write the keys of new tokens into a cache, at each sequence's own position.

Goal
    Each of B sequences has a new token. Write its keys, new[b], into the cache as row
    positions[b] of each head: cache[b, g, positions[b]] = new[b, g]. All other rows keep
    their data and their place in memory. Write the kernel, and choose the input whose memory
    the result reuses. The cache of the values is updated by another call.

Concept
    In each decoding step, a language model computes the keys and values of one new token per
    sequence and reads those of all earlier tokens. They are kept in HBM, in a *cache* with
    room for S tokens per sequence. After the weights, the cache is a server's largest array,
    so it is updated in place: the caller donates the old cache, and `input_output_aliases`
    gives its memory to the new one. old_hbm and cache_hbm are whole arrays in HBM, so only
    the kernel's own copies move data.

    One row of one head is 256 bytes: 128 numbers in bfloat16. But HBM stores arrays in tiles,
    of 16 rows in bfloat16 and 8 in float32, and a copy must start and end at a tile boundary:

        row 15  | old old old old old old old |
                +-----------------------------+ -+
        row 16  | old old old old old old old |  |
        row 17  | old old old old old old old |  |  this tile comes to VMEM,
        row 18  | NEW NEW NEW NEW NEW NEW NEW |  |  one of its rows is changed,
          ...   |                             |  |  and all of it goes back
        row 31  |  -   -   -   -   -   -   -  |  |
                +-----------------------------+ -+
        row 32  |  -   -   -   -   -   -   -  |

    This is called *read, modify, write*. The other rows of the tile go back unchanged. The
    position is a number in SMEM, known only at run time, and the kernel computes the tile's
    first row from it. The compiler must also know that this row is at a tile boundary.
    Promise it with `pl.multiple_of(start, T)`.

    A copy waits about half a microsecond for HBM, and the sequences are independent. All
    reads share sems[0], and all writes share sems[1]. A semaphore counts bytes, so no tile
    may be used until all waits have returned.

    128 sequences with 8 heads of 128 numbers have 256 KiB of new rows, and the kernel copies
    8 MiB, in plus out. This takes 12.8 µs on a v5e, of which HBM's bandwidth explains 10.6.
    Updating one sequence after the other takes 133 µs. A BlockSpec whose block is one tile,
    with a grid step per sequence, takes 47 µs.

Shapes
    name            dtype[dims]                memory space   Ref's shape      block
    positions_ref   int32[B]                   SMEM           (B,)             whole
    new_ref         cache.dtype[B, G, D]       VMEM           (B, G, D)        whole
    old_hbm         cache.dtype[B, G, S, D]    HBM            (B, G, S, D)     whole
    cache_hbm       cache.dtype[B, G, S, D]    HBM            (B, G, S, D)     whole
    tiles_ref       cache.dtype[B, G, T, D]    VMEM scratch   (B, G, T, D)     -
    sems            dma semaphore[2]           SMEM scratch   (2,)             -

    T is the number of rows in a tile, and divides S.

Try
    pytest -k kv_cache_write          stuck?  kata hint kv_cache_write

Needs     double_buffer, fused_adam
Read on   Ragged Paged Attention, https://arxiv.org/abs/2604.15464
"""

import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float, Int32


def kv_cache_write_spec(
    positions: Int32[Array, "B"], new: Float[Array, "B G D"], cache: Float[Array, "B G S D"]
) -> Float[Array, "B G S D"]:
    """The required result, in plain jax.numpy."""
    return cache.at[jnp.arange(cache.shape[0]), :, positions].set(new)


def kv_cache_write_kernel(positions_ref, new_ref, old_hbm, cache_hbm, tiles_ref, sems):
    B, G, T, D = tiles_ref.shape
    # BEGIN SOLUTION
    raise NotImplementedError(
        "copy the tile of each sequence's position to VMEM, put the new row into it, and copy it back"
    )
    # END SOLUTION


@functools.partial(jax.jit, donate_argnames="cache")
def kv_cache_write(
    positions: Int32[Array, "B"], new: Float[Array, "B G D"], cache: Float[Array, "B G S D"]
) -> Float[Array, "B G S D"]:
    """Launch: one step; the cache stays in HBM. The caller donates the old one."""
    B, G, _, D = cache.shape
    T = 32 // cache.dtype.itemsize
    # BEGIN SOLUTION
    raise NotImplementedError(
        "set the aliases: {position among the inputs: position among the outputs}"
    )
    # END SOLUTION
    return pl.pallas_call(
        kv_cache_write_kernel,
        in_specs=[
            pl.BlockSpec(memory_space=pltpu.SMEM),
            pl.BlockSpec(memory_space=pltpu.VMEM),
            pl.BlockSpec(memory_space=pltpu.HBM),
        ],
        out_specs=pl.BlockSpec(memory_space=pltpu.HBM),
        out_shape=jax.ShapeDtypeStruct(cache.shape, cache.dtype),
        scratch_shapes=[
            pltpu.VMEM((B, G, T, D), cache.dtype),
            pltpu.SemaphoreType.DMA((2,)),
        ],
        input_output_aliases=aliases,
    )(positions, new, cache)


# ---- Given: inputs and helpers. ----


def kv_cache_write_inputs(key, *, B, G, S, D, dtype):
    """The first and last row, rows next to a tile boundary, and random ones, in random order."""
    new_key, cache_key, row_key, order_key = jax.random.split(key, 4)
    new = jax.random.normal(new_key, (B, G, D)).astype(dtype)
    cache = jax.random.normal(cache_key, (B, G, S, D)).astype(dtype)
    some = jax.random.randint(row_key, (B,), 0, S)
    edges = jnp.array([S - 1, S // 2 - 1, S // 2, 0])[:B]
    positions = jnp.concatenate([edges, some[edges.size :]])
    return jax.random.permutation(order_key, positions), new, cache


def test_kv_cache_write(hidden_case):
    hidden_case.grade(kv_cache_write)
