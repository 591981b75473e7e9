"""What JAX calls what other libraries call otherwise."""

from __future__ import annotations

#: A pattern in an exception's text, and JAX's own spelling.
OTHER_LIBRARIES: tuple[tuple[str, str], ...] = (
    (
        r"unexpected keyword argument '(dim|keepdim)'",
        "In jax.numpy it is axis= and keepdims=, as in NumPy.",
    ),
    (
        r"module 'jax\.numpy' has no attribute "
        r"'(softmax|gelu|silu|relu|sigmoid|logsumexp|one_hot)'",
        "That function is in jax.nn.",
    ),
    (
        r"has no attribute '?(unsqueeze|view|permute|float|half|masked_fill|contiguous|to)\b",
        "That is PyTorch's. In JAX: x[:, None], x.reshape(...), x.transpose(...), x.astype(dtype), "
        "jnp.where(mask, x, value).",
    ),
    (
        r"module 'jax\.experimental\.pallas' has no attribute "
        r"'(arange|zeros|full|where|exp|sum|max)'",
        "In a kernel, too, values are computed with jax.numpy and jax.lax: "
        "lax.broadcasted_iota(jnp.int32, shape, axis) counts, jnp.where chooses.",
    ),
)
