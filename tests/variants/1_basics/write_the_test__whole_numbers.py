"""Whole numbers, whose products are exact in float32, so that equality may be asked for.

Stars: 3
"""


def write_the_test(launch):
    keys = jax.random.split(jax.random.key(7), 3)
    x = jax.random.randint(keys[0], (21, 256), -20, 20).astype(jnp.float32)
    w = jax.random.randint(keys[1], (256, 256), -20, 20).astype(jnp.float32)
    b = jax.random.randint(keys[2], (1, 256), -999, 999).astype(jnp.float32)
    assert (launch(x, w, b, bm=8, bn=128, bk=128) == dense_spec(x, w, b)).all()
