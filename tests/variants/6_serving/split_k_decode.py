"""Right kernels of split_k_decode in other styles: see docs/authoring.md."""

# ---- logsumexp ----

"""A merge by jax.nn's functions, and a finite lse for parts without keys.

Stars: 3
"""


def end_of_split(part_ref, lse_ref, m_ref, l_ref, acc_ref):
    some = l_ref[...] > 0
    part_ref[...] = jnp.where(some, acc_ref[...] / jnp.where(some, l_ref[...], 1.0), 0.0)
    lse_ref[...] = jnp.where(some, m_ref[...] + jnp.log(jnp.where(some, l_ref[...], 1.0)), -1e30)


def merge_kernel(parts_ref, lses_ref, o_ref):
    weight = jax.nn.softmax(lses_ref[...], axis=0)
    o_ref[...] = jnp.sum(weight * parts_ref[...], axis=0).astype(o_ref.dtype)


# ---- part_by_part ----

"""A merge that goes from part to part, with a running largest lse.

Stars: 3
"""


def merge_kernel(parts_ref, lses_ref, o_ref):
    largest, total, acc = lses_ref[0], jnp.ones_like(lses_ref[0]), parts_ref[0]
    for p in range(1, parts_ref.shape[0]):
        new = jnp.maximum(largest, lses_ref[p])
        safe = jnp.where(new == -jnp.inf, 0.0, new)
        old_weight, weight = jnp.exp(largest - safe), jnp.exp(lses_ref[p] - safe)
        total = old_weight * total + weight
        acc = old_weight * acc + weight * parts_ref[p]
        largest = new
    o_ref[...] = jnp.where(total > 0, acc / jnp.where(total > 0, total, 1), 0).astype(o_ref.dtype)


# ---- finite_merge ----

"""Merges with weights that are finite in each branch of a jnp.where.

Stars: 3
"""


def end_of_split(part_ref, lse_ref, m_ref, l_ref, acc_ref):
    there = l_ref[...] > 0
    summed = jnp.where(there, l_ref[...], 1.0)
    part_ref[...] = jnp.where(there, acc_ref[...] / summed, 0.0)
    lse_ref[...] = jnp.where(there, m_ref[...] + jnp.log(summed), -jnp.inf)


def merge_kernel(parts_ref, lses_ref, o_ref):
    lse = lses_ref[...]
    m = lse.max(axis=0, keepdims=True)
    weight = jnp.exp(lse - jnp.where(jnp.isfinite(m), m, 0.0))
    total = weight.sum(axis=0)
    o = (parts_ref[...] * weight).sum(axis=0) / jnp.where(total > 0, total, 1.0)
    o_ref[...] = jnp.where(total > 0, o, 0.0).astype(o_ref.dtype)
