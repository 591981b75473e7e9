"""Predict the cost of a decode step at three batch sizes, and which parts a kernel can speed up.

Goal
    Five parts of a model's decode step are given in plain jax.numpy: a layer of weights,
    attention to a cache, attention to a paged cache, latent attention, and the verification
    of drafted tokens. For each, write formulas of its sizes: the bytes that it must move, its
    operations, its shortest time in µs, and the largest possible speedup of a kernel over
    XLA's program. An answer may be off by 20 %.

Concept
    "Serving is bound by memory" is half of the truth. Ask what one more sequence in the batch
    adds: more bytes, or more operations for the same bytes?

        batch           1          16         256          operations a byte

        weights     [======]    [======]    [======]       ~ B: read once for all
        cache       |           [=]         [==============]   G, whatever B is

        µs          weights     weights     cache

    Weights are read once for the whole batch, so their operations a byte grow with the batch:
    until B reaches the chip's ridge, 240 on a v5e, more sequences are free. A cache belongs to
    one sequence. Its bytes grow with B just as its operations do, so their ratio depends only
    on the model's shape: it is G in decode_attention (the query heads that share a head of
    keys), M in verify_drafts (those heads times the drafts), and 2 R in latent_attention (R
    heads, each row used twice), which may reach the ridge.

    For the speedup, count each write and each read of the intermediates between XLA's
    instructions, and inputs that two instructions read. Scores are float32. With few queries
    they are small compared to the cache; with many, they aren't. For a paged cache, XLA's
    program first gathers a sequence's pages into one array. `kata cost serve_bench B=16` lists
    the instructions and the bytes of each.

    The speedup is the roofline time for XLA's bytes and operations, divided by that for the
    fewest bytes, as in leave_it_to_xla. It is 1 for a program that is best left to XLA. All
    caches are full here: each sequence has S rows.

Shapes
    name            dtype[dims]                          memory space   Ref's shape   block
    x, w            bfloat16[B, D], bfloat16[D, F]       HBM            -             -
    q               bfloat16[B, K, G, H]                 HBM            -             -
    k, v            bfloat16[B, K, S, H]                 HBM            -             -
    table           int32[B, N]                          HBM            -             -
    rows            bfloat16[B, S, L]                    HBM            -             -

    verify_drafts has M queries instead of G. paged_values has weights [B, R, S], and
    values [A, P, W] in A = B * N pages of P rows, S = N * P. latent_attention's q is [B, R, L].

Try
    pytest -k serve_bench           stuck?  kata hint serve_bench

Needs     leave_it_to_xla, grouped_query_attention
Read on   How to Scale Your Model, inference, https://jax-ml.github.io/scaling-book/inference/
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, BFloat16, Float32, Int32


def dense_layer(x: BFloat16[Array, "B D"], w: BFloat16[Array, "D F"]) -> BFloat16[Array, "B F"]:
    """A layer of weights, for one new token of each sequence."""
    return x @ w


def decode_attention(
    q: BFloat16[Array, "B K G H"], k: BFloat16[Array, "B K S H"], v: BFloat16[Array, "B K S H"]
) -> BFloat16[Array, "B K G H"]:
    """Attention of one new token of each sequence: G query heads share a head of keys."""
    s = jnp.einsum("bkgh,bksh->bkgs", q, k, preferred_element_type=jnp.float32)
    return jnp.einsum("bkgs,bksh->bkgh", jax.nn.softmax(s).astype(v.dtype), v)


def verify_drafts(
    q: BFloat16[Array, "B K M H"], k: BFloat16[Array, "B K S H"], v: BFloat16[Array, "B K S H"]
) -> BFloat16[Array, "B K M H"]:
    """The same for several drafted tokens: M pairs of a head and a draft share a head of keys."""
    return decode_attention(q, k, v)


def paged_values(
    table: Int32[Array, "B N"], p: BFloat16[Array, "B R S"], v: BFloat16[Array, "A P W"]
) -> BFloat16[Array, "B R W"]:
    """The end of paged attention: sums, weighted by p, of values in N pages of P rows."""
    rows = v[table].reshape(p.shape[0], p.shape[2], v.shape[2])
    return jnp.einsum("brs,bsw->brw", p, rows)


def latent_attention(
    q: BFloat16[Array, "B R L"], rows: BFloat16[Array, "B S L"]
) -> BFloat16[Array, "B R L"]:
    """Latent attention of R heads to one array of rows, which are both keys and values."""
    s = jnp.einsum("brl,bsl->brs", q, rows, preferred_element_type=jnp.float32)
    return jnp.einsum("brs,bsl->brl", jax.nn.softmax(s).astype(rows.dtype), rows)


class Chip(NamedTuple):
    """One TensorCore: bytes a second, and operations a second in bfloat16."""

    bandwidth: float
    bf16: float


class Prediction(NamedTuple):
    """The four answers for one program."""

    bytes: float
    flops: float
    best_us: float
    speedup: float


def predicted(chip: Chip, moved: float, flops: float, extra: float) -> Prediction:
    """The answers for a program; XLA's version moves `extra` bytes more than `moved`."""
    # BEGIN SOLUTION
    raise NotImplementedError(
        "return the four answers, from fewest bytes, flops, and the extra bytes that XLA moves"
    )
    # END SOLUTION


def predict_dense_layer(chip: Chip, *, B: int, D: int, F: int) -> Prediction:
    # BEGIN SOLUTION
    raise NotImplementedError(
        "give for dense_layer: fewest bytes, operations, extra bytes"
    )
    # END SOLUTION


def predict_attention(chip: Chip, *, B: int, K: int, M: int, S: int, H: int) -> Prediction:
    """For decode_attention, where M is G, and for verify_drafts."""
    # BEGIN SOLUTION
    raise NotImplementedError(
        "give for attention with M queries to a head of keys: fewest bytes, operations, extra bytes"
    )
    # END SOLUTION


def predict_paged_values(chip: Chip, *, B: int, R: int, S: int, W: int) -> Prediction:
    # BEGIN SOLUTION
    raise NotImplementedError(
        "give for paged_values: fewest bytes, operations, extra bytes"
    )
    # END SOLUTION


def predict_latent_attention(chip: Chip, *, B: int, R: int, S: int, L: int) -> Prediction:
    # BEGIN SOLUTION
    raise NotImplementedError(
        "give for latent_attention: fewest bytes, operations, extra bytes"
    )
    # END SOLUTION


def serve_bench(
    *,
    B: int,
    D: int,
    F: int,
    K: int,
    G: int,
    M: int,
    H: int,
    N: int,
    P: int,
    S: int,
    A: int,
    W: int,
    R: int,
    L: int,
) -> Float32[Array, "5 4"]:
    """A row for each program, for the chosen chip: `pytest --kata-chip` selects another."""
    info = pltpu.get_tpu_info()
    chip = Chip(info.mem_bw_bytes_per_second, info.bf16_ops_per_second)
    rows = [
        predict_dense_layer(chip, B=B, D=D, F=F),
        predict_attention(chip, B=B, K=K, M=G, S=S, H=H),
        predict_attention(chip, B=B, K=K, M=M, S=S, H=H),
        predict_paged_values(chip, B=B, R=R, S=S, W=W),
        predict_latent_attention(chip, B=B, R=R, S=S, L=L),
    ]
    return jnp.array(rows, jnp.float32)


def test_serve_bench(hidden_case):
    hidden_case.grade(serve_bench)
