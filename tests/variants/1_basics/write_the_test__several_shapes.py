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
