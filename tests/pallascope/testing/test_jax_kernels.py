"""The Pallas TPU kernels that jax itself ships: `Pallas` has no complaint about right ones.

pytest runs two of them; with --every-case, as each night, all. The last two tests are about faults.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.pallas.ops.tpu import all_gather, example_kernel, flash_attention, matmul
from jax.experimental.pallas.ops.tpu.paged_attention import paged_attention
from jax.experimental.pallas.ops.tpu.ragged_paged_attention import kernel as ragged
from jax.experimental.pallas.ops.tpu.random import philox
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as splash
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks

from pallascope import KernelFault, Pallas

# `megablox.gmm` is a module, and a function that hides it.
gmm = importlib.import_module("jax.experimental.pallas.ops.tpu.megablox.gmm")
BF16, I32 = jnp.bfloat16, jnp.int32


def attention(q: Any, k: Any, v: Any, mask: Any = True, scale: float = 1.0) -> Any:
    """Attention of [..., length, width]; `mask` says which keys a query sees."""
    scores = jnp.where(mask, scale * jnp.einsum("...qd,...kd->...qk", q, k), -1e30)
    return jnp.einsum("...qk,...kd->...qd", jax.nn.softmax(scores, -1), v)


def lower(length: int) -> Any:
    return jnp.tril(jnp.ones((length, length), bool))


# ---- dense kernels ----


def doubled(pallas: Pallas) -> None:
    pallas.check(example_kernel.double, pallas.normal((64, 256)), expected=lambda x: 2 * x)


def product(pallas: Pallas, dtype: Any = BF16) -> None:
    x, y = pallas.normal((512, 512), dtype), pallas.normal((512, 256), dtype)
    how = {"block_shape": (256, 128), "block_k": 128}
    pallas.check(matmul.matmul, x, y, expected=jnp.matmul, **how)


FLASH = flash_attention.BlockSizes(
    **dict.fromkeys(("block_q", "block_k_major", "block_k", "block_q_major_dkv"), 128),
    **dict.fromkeys(("block_k_major_dkv", "block_k_dkv", "block_q_dkv"), 128),
    **dict.fromkeys(("block_k_major_dq", "block_k_dq", "block_q_dq"), 128),
    block_b=1,
)


def heads(pallas: Pallas, length: int = 256, batch: tuple[int, ...] = (1,)) -> list[Any]:
    return [pallas.normal((*batch, 2, length, 128), scale=scale) for scale in (0.3, 0.3, 1)]


def flash(pallas: Pallas, gradient: bool = False) -> None:
    how = {"causal": True, "sm_scale": 0.088, "block_sizes": FLASH}
    check = pallas.grad_check if gradient else pallas.check
    expected = functools.partial(attention, mask=lower(256), scale=0.088)
    check(
        functools.partial(flash_attention.flash_attention, **how),
        *heads(pallas),
        expected=expected,
    )


def flash_segments(pallas: Pallas) -> None:
    ids = jnp.asarray(np.repeat([[0, 1, 2]], [100, 56, 100], 1), I32)
    segments = flash_attention.SegmentIds(ids, ids)

    def expected(q: Any, k: Any, v: Any, ids: Any) -> Any:
        return attention(q, k, v, (ids.q[:, :, None] == ids.kv[:, None, :])[:, None])

    def function(q: Any, k: Any, v: Any, ids: Any) -> Any:
        return flash_attention.flash_attention(q, k, v, None, ids, block_sizes=FLASH)

    pallas.check(function, *heads(pallas), segments, expected=expected)


def splash_attention(pallas: Pallas, mask: Any, gradient: bool = False, **sizes: Any) -> None:
    """With outputs in the place of scratch, which nothing uses."""
    length = mask.shape[0]
    names = ("block_q", "block_kv", "block_kv_compute", "block_q_dkv", "block_kv_dkv")
    names = (*names, "block_kv_dkv_compute", *(() if sizes else ("block_q_dq", "block_kv_dq")))
    blocks = splash.BlockSizes(**dict.fromkeys(names, 128), **sizes)
    kernel = splash.make_splash_mha_single_device(
        masks.MultiHeadMask([mask] * 2), block_sizes=blocks
    )
    check = pallas.grad_check if gradient else pallas.check
    inputs = [pallas.normal((2, length, 128), scale=scale) for scale in (0.1, 1, 1)]
    expected = functools.partial(attention, mask=np.asarray(mask[:, :]))
    check(lambda q, k, v: kernel(q, k, v), *inputs, expected=expected)


# ---- pages ----


def paged(pallas: Pallas, **how: Any) -> None:
    pages = jnp.asarray(np.random.default_rng(1).permutation(32).reshape(4, 8), I32)
    lengths = jnp.asarray([128, 37, 1, 100], I32)
    q = pallas.normal((4, 8, 128), scale=0.1)
    k, v = (pallas.normal((2, 32, 16, 128), BF16) for _ in range(2))

    def expected(q: Any, k: Any, v: Any, lengths: Any, pages: Any) -> Any:
        def one(q: Any, length: Any, pages: Any) -> Any:
            keys, values = (x[:, pages].reshape(2, 1, 128, 128) for x in (k, v))
            return attention(q.reshape(2, 4, 1, 128), keys, values, jnp.arange(128) < length)

        return jax.vmap(one)(q, lengths, pages).reshape(4, 8, 128)

    function = functools.partial(paged_attention, pages_per_compute_block=4, **how)
    pallas.check(function, q, k, v, lengths, pages, expected=expected)


def ragged_paged(pallas: Pallas) -> None:
    """With views of one slot, and masked stores. Rows after the last are no result."""
    queries, lengths, rows = (5, 1, 30), (37, 64, 30), 36
    starts = jnp.asarray([0, 5, 6, 36, 36], I32)
    pages = np.random.default_rng(1).permutation(32).reshape(4, 8).astype(np.int32)
    q, kv = pallas.normal((48, 4, 128), scale=0.2), pallas.normal((32, 16, 4, 128))

    def function(*args: Any) -> Any:
        sizes = {"num_kv_pages_per_block": 2, "num_queries_per_block": 16}
        return ragged.ragged_paged_attention(*args, sm_scale=0.1, **sizes)[:rows]

    def expected(q: Any, kv: Any, *_: Any) -> Any:
        parts = []
        for n, (count, length) in enumerate(zip(queries, lengths, strict=True)):
            own = kv[pages[n]].reshape(-1, 4, 128)[:length]
            keys, values = (jnp.repeat(own[:, at::2], 2, axis=1).swapaxes(0, 1) for at in (0, 1))
            seen = jnp.arange(length) <= length - count + jnp.arange(count)[:, None]
            start = int(starts[n])
            part = attention(q[start : start + count].swapaxes(0, 1), keys, values, seen, 0.1)
            parts.append(part.swapaxes(0, 1))
        return jnp.concatenate(parts)

    tables = jnp.asarray([*lengths, 0], I32), jnp.asarray(pages), starts, jnp.asarray([3], I32)
    pallas.check(function, q, kv, *tables, expected=expected)


# ---- groups, random bits, devices ----

GROUPS = jnp.asarray([100, 0, 156, 256], I32)


def _group_of(rows: int, sizes: Any) -> Any:
    return jnp.searchsorted(jnp.cumsum(sizes), jnp.arange(rows), side="right")


def grouped(pallas: Pallas, depth: int = 256) -> None:
    def expected(x: Any, w: Any, sizes: Any) -> Any:
        group = _group_of(512, sizes)
        parts = [jnp.where((group == g)[:, None], x @ w[g], 0) for g in range(4)]
        return functools.reduce(jnp.add, parts)

    x, w = pallas.normal((512, depth), BF16), pallas.normal((4, depth, 128), BF16)
    pallas.check(gmm.gmm, x, w, GROUPS, expected=expected)


def grouped_transposed(pallas: Pallas) -> None:
    def expected(x: Any, y: Any, sizes: Any) -> Any:
        group = _group_of(512, sizes)
        return jnp.stack([jnp.where(group == g, x, 0) @ y for g in range(4)])

    x, y = pallas.normal((256, 512), BF16), pallas.normal((512, 128), BF16)
    pallas.check(gmm.tgmm, x, y, GROUPS, expected=expected)


def random_bits(pallas: Pallas) -> None:
    key = jnp.asarray([3, 12345], jnp.uint32)
    pallas.deterministic(lambda key: philox.philox_random_bits(key, 32, (300, 256)), key)


KERNELS: dict[str, Callable[[Pallas], None]] = {
    "flash_attention": flash,
    "megablox_gmm": grouped,
    "double": doubled,
    "matmul": product,
    "matmul_float32": functools.partial(product, dtype=jnp.float32),
    "flash_attention_segments": flash_segments,
    "flash_attention_gradient": functools.partial(flash, gradient=True),
    "splash_causal": lambda pallas: splash_attention(pallas, masks.CausalMask((384, 384))),
    "splash_local": lambda pallas: splash_attention(
        pallas, masks.LocalMask((384, 384), (100, 0), 0)
    ),
    "splash_gradient": lambda pallas: splash_attention(
        pallas, masks.CausalMask((256, 256)), gradient=True
    ),
    "splash_gradient_fused": lambda pallas: splash_attention(
        pallas, masks.CausalMask((256, 256)), gradient=True, use_fused_bwd_kernel=True
    ),
    "paged_attention": paged,
    "paged_attention_sequences": functools.partial(paged, inline_seq_dim=False),
    "ragged_paged_attention": ragged_paged,
    "megablox_gmm_ragged": functools.partial(grouped, depth=200),
    "megablox_tgmm": grouped_transposed,
    "philox": random_bits,
}
ALWAYS = 2  # of them


@pytest.mark.parametrize("name", KERNELS)
def test_a_right_kernel_of_jax_has_no_fault(name: str, pytestconfig: pytest.Config) -> None:
    if name not in list(KERNELS)[:ALWAYS] and not pytestconfig.getoption("--every-case"):
        pytest.skip("each night")
    KERNELS[name](Pallas(seed=1))


def test_a_kernel_of_jax_that_hangs_on_one_core(pytestconfig: pytest.Config) -> None:
    """It shares the heads among two cores, and a v5e has one: it awaits a copy of another step."""
    if not pytestconfig.getoption("--every-case"):
        pytest.skip("each night")
    with pytest.raises(KernelFault, match="no copy was started"):
        paged(Pallas(seed=1), megacore_mode="kv_head")


def test_a_kernel_of_jax_that_is_right_if_copies_arrive_in_order(
    pytestconfig: pytest.Config,
) -> None:
    """All hops of the all_gather have one semaphore, and a wait can't tell which has arrived."""
    if not pytestconfig.getoption("--every-case"):
        pytest.skip("each night")

    def function(x: Any) -> Any:
        mesh = jax.sharding.get_abstract_mesh()
        return all_gather.all_gather(x, mesh=mesh, axis_name="x")

    pallas = Pallas(seed=1)
    with pytest.raises(KernelFault, match="counts more than one copy"):
        pallas.check(function, pallas.normal((64, 128)), expected=lambda x: x, mesh={"x": 4})
