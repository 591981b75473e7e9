"""Spread attention over four chips by sequences and heads, with jax.vmap on each.

Goal
    `attend` is given: a kernel for one head of queries with its keys and values. Write
    attention for B sequences with H heads of queries and KV heads of keys on a mesh of
    2 x 2 chips. Shard the sequences over "data" and the heads over "model". With
    G = H / KV, query heads 0 to G - 1 share the first head of keys, the next G the
    second, and so on.

Concept
    A kernel for one head needs two wrappers: `jax.vmap` repeats it for all heads, and
    `jax.shard_map` distributes the heads over chips. The two are independent. On each
    chip, the function inside shard_map sees fewer sequences and fewer heads, and vmaps
    over these:

                   model 0                    model 1
        data 0     first sequences,           first sequences,
                   first half of the heads    second half of the heads
        data 1     last sequences,            last sequences,
                   first half of the heads    second half of the heads

    Heads are independent of each other, and so are sequences. So chips exchange nothing
    if each chip has the keys of its heads. The specs of queries and keys name both axes,
    so KV is split into as many parts as H, and each group stays with its keys.

    vmaps nest, and each adds an axis in front of the inner kernel's grid. The vmap that
    you apply last becomes the outermost axis. The innermost axis of the grid changes
    fastest, and a block that is the same in the next step isn't fetched again. In
    `in_axes`, None marks an array that all calls share. So with groups as the innermost
    axis, a head of keys is copied to VMEM once for all the queries that use it:

        grid   (sequences, heads of keys, group)
        q      (b, h, g) -> its own block in each step
        k, v   (b, h, g) -> the block of (b, h), which stays while g counts up

    For 8 sequences, H = 32, KV = 8, 128 queries and 2048 keys of 128 numbers in
    bfloat16, each chip moves 20 MiB. With a copy of the keys for each query head, the
    kernel would move 68 MiB, and making the copies costs extra.

Shapes
    name     dtype[dims]           memory space   Ref's shape   block
    q_ref    q.dtype[B, H, T, D]   VMEM           (T, D)        yours
    k_ref    q.dtype[B, KV, S, D]  VMEM           (S, D)        yours
    v_ref    q.dtype[B, KV, S, D]  VMEM           (S, D)        yours
    o_ref    q.dtype[B, H, T, D]   VMEM           (T, D)        yours

    Your vmaps make the blocks and squeeze leading dimensions.

Try
    pytest -k sharded_vmap           stuck?  kata hint sharded_vmap

Needs     kernel_in_shard_map, vmap_a_kernel, grouped_query_attention
Read on   jax.vmap, https://docs.jax.dev/en/latest/automatic-vectorization.html
"""

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float


def sharded_vmap_spec(
    q: Float[Array, "B H T D"], k: Float[Array, "B KV S D"], v: Float[Array, "B KV S D"]
) -> Float[Array, "B H T D"]:
    """The required result, in plain jax.numpy."""
    group = q.shape[1] // k.shape[1]
    k, v = jnp.repeat(k, group, axis=1), jnp.repeat(v, group, axis=1)
    scores = jnp.einsum("bhtd,bhsd->bhts", q, k) * q.shape[-1] ** -0.5
    return jnp.einsum("bhts,bhsd->bhtd", jax.nn.softmax(scores, axis=-1), v)


def sharded_vmap(
    q: Float[Array, "B H T D"], k: Float[Array, "B KV S D"], v: Float[Array, "B KV S D"], *, mesh
) -> Float[Array, "B H T D"]:
    """Launch: `attend` for all sequences and heads, on all chips of the mesh."""

    # BEGIN SOLUTION
    raise NotImplementedError(
        "return jax.shard_map(on_each, ...)(q, k, v), where on_each vmaps attend three times"
    )
    # END SOLUTION


# ---- Given: inputs and helpers. ----


def attend(q, k, v):
    """Attention of one head: q[T, D], k[S, D], v[S, D] -> [T, D]."""
    return pl.pallas_call(
        attend_kernel, out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype), name="attend"
    )(q, k, v)


def attend_kernel(q_ref, k_ref, v_ref, o_ref):
    rows = (((1,), (1,)), ((), ()))
    scores = lax.dot_general(q_ref[...], k_ref[...], rows, preferred_element_type=jnp.float32)
    scores *= q_ref.shape[1] ** -0.5
    weights = jnp.exp(scores - jnp.max(scores, axis=1, keepdims=True))
    total = jnp.sum(weights, axis=1, keepdims=True)
    o = jnp.dot(weights.astype(v_ref.dtype), v_ref[...], preferred_element_type=jnp.float32)
    o_ref[...] = (o / total).astype(o_ref.dtype)


def test_sharded_vmap(hidden_case):
    hidden_case.grade(sharded_vmap)
