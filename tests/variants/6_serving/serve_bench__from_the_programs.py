"""Bytes from the shapes that the programs take and return, by jax.eval_shape.

Stars: 3
"""


def _moved(program, *shapes):
    arrays = [jax.ShapeDtypeStruct(shape, jnp.bfloat16) for shape in shapes]
    return sum(a.size * a.dtype.itemsize for a in (*arrays, jax.eval_shape(program, *arrays)))


def predict_dense_layer(chip, *, B, D, F):
    return predicted(chip, _moved(dense_layer, (B, D), (D, F)), 2 * B * D * F, 0)


def predict_attention(chip, *, B, K, M, S, H):
    keys, scores = (B, K, S, H), B * K * M * S
    moved = _moved(decode_attention, (B, K, M, H), keys, keys)
    return predicted(chip, moved, (4 * H + 5) * scores, 8 * scores)
