"""Right kernels of leave_it_to_xla in other styles: see docs/authoring.md."""

# ---- from_the_programs ----

"""Bytes from the shapes that the programs take and return, by jax.eval_shape.

Stars: 3
"""


def _moved(program, *shapes):
    arrays = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in shapes]
    return sum(a.size * a.dtype.itemsize for a in (*arrays, jax.eval_shape(program, *arrays)))


def predict_scale_add(chip, *, T, D):
    wide, narrow = ((T, D), jnp.bfloat16), ((D,), jnp.bfloat16)
    moved, flops = _moved(scale_add, wide, wide, narrow), 2 * T * D
    return Prediction(moved, flops, roofline_us(moved, flops, chip.bandwidth, chip.bf16), 1.0)


def predict_int8_product(chip, *, T, D, F):
    moved = _moved(int8_product, ((T, D), jnp.int8), ((D, F), jnp.int8))
    flops = 2 * T * D * F
    return Prediction(moved, flops, roofline_us(moved, flops, chip.bandwidth, chip.int8), 1.0)


# ---- small_terms_left_out ----

"""Without the terms that are too small to count, and with the times written out.

Stars: 3
"""


def roofline_us(moved, flops, bandwidth, peak):
    memory, compute = moved / bandwidth, flops / peak
    return 1e6 * memory if memory > compute else 1e6 * compute


def predict_scale_add(chip, *, T, D):
    return Prediction(6 * T * D, 2 * T * D, 6e6 * T * D / chip.bandwidth, 1)


def predict_rms_norm(chip, *, T, D):
    return Prediction(4 * T * D, 4 * T * D, 4e6 * T * D / chip.bandwidth, 3 / 2)


def predict_feed_forward(chip, *, T, D, F):
    moved, flops = 2 * (T * D + D * F + T * F), 2 * T * D * F
    return Prediction(moved, flops, roofline_us(moved, flops, chip.bandwidth, chip.bf16), 1)


def predict_attention_head(chip, *, T, S, H):
    moved, flops = 4 * (T + S) * H, 4 * T * S * H
    best = roofline_us(moved, flops, chip.bandwidth, chip.bf16)
    return Prediction(moved, flops, best, max(1, 12e6 * T * S / chip.bandwidth / best))
