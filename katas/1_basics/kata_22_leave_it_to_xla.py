"""Predict the lowest cost of five programs, before you write a kernel for any of them.

Goal
    Five programs in plain jax.numpy are given. For each, write formulas of its sizes: how
    many bytes it must move between HBM and the chip, how many operations it takes, its
    shortest possible time in µs, and the largest possible speedup of your kernel over XLA's
    program. An answer may be off by 20 %. The hidden sizes differ from case to case.

Concept
    Most programs don't need a kernel: XLA's compiler has already fused them. So *profile the
    baseline first*, and compare it with the best possible time. A program moves bytes and it
    computes, and a good program overlaps the two. The longer of the two times is a lower
    bound for every kernel. Plotted over the operations per byte, called *arithmetic
    intensity*, this bound is the *roofline*:

        operations           peak of the MXU
        a second       _______________________
                      /|
                     / |  right of the ridge: bound by computing
          slope:    /  |
          bandwidth/   ridge = peak / bandwidth, 240 on a v5e in bfloat16
                  /
                 /  left of it: bound by HBM
                +--------------------------------------> operations per byte

    Each input and each result must be moved once. Intermediate values never have to leave the
    chip, if the program keeps them there. Operations: one for each element of each +, *,
    maximum, exp, sum and so on, and two for each multiply-add of a matrix product.
    Conversions don't count. The peak depends on the dtype that the MXU multiplies: on a v5e,
    int8 is twice as fast as bfloat16.

    XLA's program is a list of instructions that run one after another. Each reads its
    operands from HBM and writes its result there. XLA fuses chains of elementwise operations
    with each other, and with the product or sum before them. But if a whole row must be
    summed before its elements can be used, the row is read again, and if a matrix product
    feeds another one, it is written out. Count the passes, or look: `kata cost
    leave_it_to_xla T=4096` lists XLA's instructions and the bytes of each. A kernel can only
    save XLA's extra passes. So the speedup is the roofline time for XLA's bytes and
    operations, divided by that for the fewest bytes. It is 1 for a program that is best left
    to XLA.

Shapes
    name   dtype[dims]                   memory space   Ref's shape   block
    x, y   bfloat16[T, D]                HBM            -             -
    s, g   bfloat16[D]                   HBM            -             -
    w, b   bfloat16[D, F], bfloat16[F]   HBM            -             -
    q      bfloat16[T, H]                HBM            -             -
    k, v   bfloat16[S, H]                HBM            -             -

    int8_product: int8[T, D] and int8[D, F] to int32. Attention's scores are float32.

Try
    pytest -k leave_it_to_xla           stuck?  kata hint leave_it_to_xla

Needs     tiled_matmul, row_sum
Read on   All About Rooflines, https://jax-ml.github.io/scaling-book/roofline/
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, BFloat16, Float32, Int8, Int32


def scale_add(
    x: BFloat16[Array, "T D"], y: BFloat16[Array, "T D"], s: BFloat16[Array, "D"]
) -> BFloat16[Array, "T D"]:
    """Scale the columns of x, and add y."""
    return x * s + y


def rms_norm(x: BFloat16[Array, "T D"], g: BFloat16[Array, "D"]) -> BFloat16[Array, "T D"]:
    """Divide each row by the root of its mean square, in float32."""
    wide = x.astype(jnp.float32)
    mean = jnp.mean(wide * wide, axis=1, keepdims=True)
    return (wide * jax.lax.rsqrt(mean + 1e-6) * g).astype(x.dtype)


def feed_forward(
    x: BFloat16[Array, "T D"], w: BFloat16[Array, "D F"], b: BFloat16[Array, "F"]
) -> BFloat16[Array, "T F"]:
    """A layer of weights w and bias b. T is 16 when a model decodes, and large in training."""
    return jnp.maximum(x @ w + b, 0)


def int8_product(x: Int8[Array, "T D"], w: Int8[Array, "D F"]) -> Int32[Array, "T F"]:
    """A product of int8, summed in int32."""
    return jnp.dot(x, w, preferred_element_type=jnp.int32)


def attention_head(
    q: BFloat16[Array, "T H"], k: BFloat16[Array, "S H"], v: BFloat16[Array, "S H"]
) -> BFloat16[Array, "T H"]:
    """One head of attention, T queries and S keys."""
    scores = jnp.dot(q, k.T, preferred_element_type=jnp.float32)
    return jax.nn.softmax(scores, axis=1).astype(v.dtype) @ v


class Chip(NamedTuple):
    """One TensorCore: bytes a second, and operations a second for each dtype it multiplies."""

    bandwidth: float
    bf16: float
    int8: float


class Prediction(NamedTuple):
    """The four answers for one program."""

    bytes: float
    flops: float
    best_us: float
    speedup: float


def roofline_us(moved: float, flops: float, bandwidth: float, peak: float) -> float:
    """The shortest time in µs of a program with these bytes and operations."""
    # BEGIN SOLUTION
    raise NotImplementedError(
        "return the longer of the two times, in µs, from moved, flops, bandwidth and peak"
    )
    # END SOLUTION


def predict_scale_add(chip: Chip, *, T: int, D: int) -> Prediction:
    # BEGIN SOLUTION
    raise NotImplementedError("return the four answers for scale_add")
    # END SOLUTION


def predict_rms_norm(chip: Chip, *, T: int, D: int) -> Prediction:
    # BEGIN SOLUTION
    raise NotImplementedError("return the four answers for rms_norm")
    # END SOLUTION


def predict_feed_forward(chip: Chip, *, T: int, D: int, F: int) -> Prediction:
    # BEGIN SOLUTION
    raise NotImplementedError("return the four answers for feed_forward")
    # END SOLUTION


def predict_int8_product(chip: Chip, *, T: int, D: int, F: int) -> Prediction:
    # BEGIN SOLUTION
    raise NotImplementedError("return the four answers for int8_product")
    # END SOLUTION


def predict_attention_head(chip: Chip, *, T: int, S: int, H: int) -> Prediction:
    # BEGIN SOLUTION
    raise NotImplementedError("return the four answers for attention_head")
    # END SOLUTION


def leave_it_to_xla(*, T: int, D: int, F: int, S: int, H: int) -> Float32[Array, "5 4"]:
    """A row for each program, for the chosen chip: `pytest --kata-chip` selects another."""
    info = pltpu.get_tpu_info()
    bf16 = info.bf16_ops_per_second
    chip = Chip(info.mem_bw_bytes_per_second, bf16, info.int8_ops_per_second or bf16)
    rows = [
        predict_scale_add(chip, T=T, D=D),
        predict_rms_norm(chip, T=T, D=D),
        predict_feed_forward(chip, T=T, D=D, F=F),
        predict_int8_product(chip, T=T, D=D, F=F),
        predict_attention_head(chip, T=T, S=S, H=H),
    ]
    return jnp.array(rows, jnp.float32)


def test_leave_it_to_xla(hidden_case):
    hidden_case.grade(leave_it_to_xla)
