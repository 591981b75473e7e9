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
