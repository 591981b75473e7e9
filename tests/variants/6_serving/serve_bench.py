"""Right kernels of serve_bench in other styles: see docs/authoring.md."""

# ---- from_the_programs ----

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


# ---- small_terms_left_out ----

"""Without the terms that are too small to count.

Stars: 3
"""


def predict_attention(chip, *, B, K, M, S, H):
    scores = B * K * M * S
    return predicted(chip, 4 * B * K * (M + S) * H, 4 * scores * H, 8 * scores)


def predict_latent_attention(chip, *, B, R, S, L):
    rows, scores = 2 * B * S * L, B * R * S
    return predicted(chip, rows + 4 * B * R * L, 4 * scores * L, rows + 16 * scores)
