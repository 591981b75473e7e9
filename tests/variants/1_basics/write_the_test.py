"""Right kernels of write_the_test in other styles: see docs/authoring.md."""

# ---- several_shapes ----

"""Three shapes, and errors relative to the largest element.

Stars: 3
"""


def write_the_test(launch):
    for seed, (M, K, N) in enumerate([(8, 256, 128), (13, 128, 384), (24, 384, 256)]):
        keys = jax.random.split(jax.random.key(seed), 3)
        x = jax.random.uniform(keys[0], (M, K), minval=-1.0)
        w = jax.random.uniform(keys[1], (K, N), minval=-1.0)
        b = jax.random.uniform(keys[2], (1, N), minval=-5.0, maxval=5.0)
        right = dense_spec(x, w, b)
        errors = jnp.abs(launch(x, w, b, bm=8, bn=128, bk=128) - right)
        if not (errors < 1e-4 * right.max()).all():
            raise AssertionError(f"wrong for {M}, {K}, {N}")


# ---- whole_numbers ----

"""Whole numbers, whose products are exact in float32, so that equality may be asked for.

Stars: 3
"""


def write_the_test(launch):
    keys = jax.random.split(jax.random.key(7), 3)
    x = jax.random.randint(keys[0], (21, 256), -20, 20).astype(jnp.float32)
    w = jax.random.randint(keys[1], (256, 256), -20, 20).astype(jnp.float32)
    b = jax.random.randint(keys[2], (1, 256), -999, 999).astype(jnp.float32)
    assert (launch(x, w, b, bm=8, bn=128, bk=128) == dense_spec(x, w, b)).all()
