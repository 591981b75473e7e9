"""Attention and grouped matmuls by independent code: jax.nn, ragged_dot, JAX's own kernels."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.pallas.ops.tpu import splash_attention as splash

from tests.support.independent.registry import independent

# The package has a function of the module's name.
megablox: Any = importlib.import_module("jax.experimental.pallas.ops.tpu.megablox.gmm")


def attention(q: Any, k: Any, v: Any, **options: Any) -> Any:
    """`jax.nn.dot_product_attention` for heads before tokens: [B, N, T, H], or [T, H]."""
    if q.ndim == 2:
        return attention(q[None, None], k[None, None], v[None, None], **options)[0, 0]
    q, k, v = (x.swapaxes(1, 2) for x in (q, k, v))
    return jax.nn.dot_product_attention(q, k, v, **options).swapaxes(1, 2)


independent(
    "dot_product_attention",
    "attention_one_q_block",
    "flash_attention",
    "grouped_query_attention",
    "ragged_sequence",
)(attention)
independent("causal_flash")(functools.partial(attention, is_causal=True))


@independent("tiled_softmax", "online_softmax")
def _(x: Any) -> Any:
    return jnp.exp(jax.nn.log_softmax(x, axis=1))


@independent("flash_backward_delta")
def _(o: Any, do: Any) -> Any:
    return jnp.einsum("bnth,bnth->bnt", o, do)[:, :, None]


@independent("flash_backward_dq")
def _(q: Any, k: Any, v: Any, do: Any, *_: Any) -> Any:
    return jax.vjp(attention, q, k, v)[1](do)[0]


@independent("flash_backward_dkv")
def _(q: Any, k: Any, v: Any, do: Any, *_: Any) -> Any:
    return jax.vjp(attention, q, k, v)[1](do)[1:]


@independent("flash_custom_vjp")
def _(q: Any, k: Any, v: Any, do: Any) -> Any:
    o, backward = jax.vjp(functools.partial(attention, is_causal=True), q, k, v)
    return o, *backward(do)


def _by_splash(mask: Any, q: Any, k: Any, v: Any) -> Any:
    """JAX's splash attention, interpreted, for a bool[T, S] mask."""
    heads = splash.MultiHeadMask([splash.NumpyMask(np.asarray(mask))] * q.shape[1])
    sizes = splash.BlockSizes.get_default()
    kernel = splash.make_splash_mha_single_device(heads, block_sizes=sizes, interpret=True)
    o: Any = jax.vmap(kernel)(q * q.shape[-1] ** -0.5, k, v)
    return o


@independent("block_sparse_attention")
def _(q: Any, k: Any, v: Any, mask: Any, block_mask: Any) -> Any:
    return _seen(mask != 0, _by_splash(mask != 0, q, k, v))


@independent("splash_attention")
def _(q: Any, k: Any, v: Any, *tables: Any) -> Any:
    mask = _dense(*tables, columns=k.shape[2])
    k, v = (jnp.repeat(x, q.shape[1] // k.shape[1], axis=1) for x in (k, v))
    scores = np.where(mask, np.asarray(q @ k.mT, np.float64) * q.shape[3] ** -0.5, -np.inf)
    lse = np.where(np.any(mask, axis=1), np.logaddexp.reduce(scores, axis=-1), 0)
    return _seen(mask, _by_splash(mask, q, k, v)), lse[:, :, None]


@independent("splash_backward_dkv")
def _(q: Any, k: Any, v: Any, do: Any, lse: Any, delta: Any, *tables: Any) -> Any:
    mask = _dense(*tables, columns=q.shape[2]).T

    def masked(k: Any, v: Any) -> Any:
        return _seen(mask, attention(q, k, v, mask=jnp.asarray(mask)))

    return jax.vjp(masked, k, v)[1](do)


@independent("splash_backward_dq")
def _(q: Any, k: Any, v: Any, do: Any, lse: Any, delta: Any, *tables: Any) -> Any:
    mask = _dense(*tables, columns=k.shape[2])
    k, v = (jnp.repeat(x, q.shape[1] // k.shape[1], axis=1) for x in (k, v))

    def masked(q: Any) -> Any:
        return _seen(mask, attention(q, k, v, mask=jnp.asarray(mask)))

    return jax.vjp(masked, q)[1](do)[0]


@independent("sliding_window_and_sinks")
def _(q: Any, k: Any, v: Any, *, window: int, sinks: int) -> Any:
    past = np.tri(q.shape[2], k.shape[2], dtype=bool)
    near = past & ~np.tri(q.shape[2], k.shape[2], -window, dtype=bool)
    near[:, :sinks] = past[:, :sinks]
    return attention(q, k, v, mask=jnp.asarray(near))


@independent("segment_ids_and_soft_cap")
def _(q: Any, k: Any, v: Any, q_ids: Any, kv_ids: Any, *, cap: int) -> Any:
    k, v = (jnp.repeat(x, q.shape[1] // k.shape[1], axis=1) for x in (k, v))
    whole = splash.FullMask((q.shape[2], k.shape[2]))
    heads = splash.MultiHeadMask([whole] * q.shape[1])
    kernel = splash.make_splash_mha_single_device(
        heads, attn_logits_soft_cap=float(cap), interpret=True
    )
    ids = splash.SegmentIds(q=q_ids, kv=kv_ids)
    o: Any = jax.vmap(kernel)(q * q.shape[-1] ** -0.5, k, v, ids)
    seen = jnp.any(q_ids[:, :, None] == kv_ids[:, None], axis=2)
    return jnp.where(seen[:, None, :, None], o, 0)


def _dense(partial: Any, kinds: Any, data: Any, masks: Any, *, columns: int) -> Any:
    """The bool mask that tables represent, block by block; `columns` is its width."""
    _, high, wide = partial.shape
    dense: Any = np.zeros((len(kinds) * high, columns), bool)
    for (row, step), kind in np.ndenumerate(np.asarray(kinds)):
        if kind:
            start = int(data[row, step]) * wide
            block = np.asarray(partial[int(masks[row, step])]) != 0 if kind == 1 else True
            dense[row * high : (row + 1) * high, start : start + wide] = block
    return dense


def _seen(mask: Any, o: Any) -> Any:
    """A query that sees no key gets 0; others define nothing for it."""
    return jnp.where(jnp.any(jnp.asarray(mask), axis=1)[:, None], o, 0)


@independent("permuted_matmul")
def _(x: Any, w: Any, order: Any) -> Any:
    tiles = x.reshape(len(order), -1, x.shape[1])
    return jnp.concatenate([tiles[int(tile)] @ w for tile in order])


@independent("masked_store", "launch_masked_store")
def _(x: Any, bias: Any, group_offsets: Any, *_: Any) -> Any:
    return x + jnp.repeat(bias[:, 0], jnp.diff(group_offsets), axis=0)


@independent("group_metadata")
def _(group_sizes: Any, *, M: int, tm: int) -> Any:  # noqa: N803
    first, groups = jnp.int32(0), len(group_sizes)
    found, visits = megablox.make_group_metadata(
        group_sizes=group_sizes,
        m=M,
        tm=tm,
        start_group=first,
        num_nonzero_groups=groups,
        visit_empty_groups=False,
    )
    return *found, visits


@independent("aligned_grouped_matmul")
def _(x: Any, w: Any) -> Any:
    return jax.lax.ragged_dot(x, w, jnp.full(len(w), len(x) // len(w), jnp.int32))


@independent("ragged_grouped_matmul")
def _(x: Any, w: Any, sizes: Any) -> Any:
    return jax.lax.ragged_dot(x, w, sizes)


@independent("sharded_experts")
def _(x: Any, w: Any, sizes: Any, offset: Any) -> Any:
    """As if all experts were here, those of other chips with weights of zero."""
    first = int(offset[0])
    everywhere = jnp.zeros((len(sizes), *w.shape[1:])).at[first : first + len(w)].set(w)
    return jax.lax.ragged_dot(x, everywhere, sizes)


@independent("launch_grouped_matmul")
def _(x: Any, w: Any, sizes: Any) -> Any:
    return megablox.gmm(x, w, sizes, tiling=(64, 128, 128), interpret=True)


@independent("transposed_grouped_matmul")
def _(x: Any, dy: Any, sizes: Any) -> Any:
    return megablox.tgmm(x.T, dy, sizes, tiling=(64, 128, 128), interpret=True)


@independent("grouped_matmul_vjp")
def _(x: Any, w: Any, sizes: Any, dy: Any) -> Any:
    y, backward = jax.vjp(lambda x, w: jax.lax.ragged_dot(x, w, sizes), x, w)
    return y, *backward(dy)


@independent("moe_layer")
def _(x: Any, logits: Any, gate: Any, up: Any, down: Any, *, top_k: int) -> Any:
    """Token by token, expert by expert."""
    x, logits, gate, up, down = (np.asarray(a, np.float64) for a in (x, logits, gate, up, down))
    y = np.zeros_like(x)
    for token, (row, scores) in enumerate(zip(x, logits, strict=True)):
        chosen = np.argsort(-scores)[:top_k]
        weights = np.exp(scores[chosen] - scores[chosen].max())
        for expert, weight in zip(chosen, weights / weights.sum(), strict=True):
            gated = row @ gate[expert]
            hidden = gated / (1 + np.exp(-gated)) * (row @ up[expert])
            y[token] += weight * (hidden @ down[expert])
    return y
