"""Right kernels of fused_matmul in other styles: see docs/authoring.md."""

# ---- rows_of_k ----

"""Adds all products but the last in scratch; the epilogue adds that, the bias, and applies gelu.

Stars: 3
"""


def fused_matmul_kernel(x_ref, w_ref, bias_ref, o_ref, acc_ref):
    k, last = pl.program_id(2), pl.num_programs(2) - 1
    product = jax.lax.dot_general(
        x_ref[...],
        w_ref[...],
        dimension_numbers=(((1,), (1,)), ((), ())),
        preferred_element_type=jnp.float32,
    )
    so_far = product + jnp.where(k == 0, 0.0, acc_ref[...])

    @pl.when(k < last)
    def _():
        acc_ref[...] = so_far

    @pl.when(k == last)
    def _():
        o_ref[...] = jax.nn.gelu(so_far + bias_ref[0, :]).astype(o_ref.dtype)


# ---- starts_with_bias ----

"""Begins the sum with the bias; gelu by its formula, and einsum.

Stars: 3
"""


def fused_matmul_kernel(x_ref, w_ref, bias_ref, o_ref, acc_ref):
    @pl.when(pl.program_id(2) == 0)
    def _():
        acc_ref[...] = jnp.broadcast_to(bias_ref[...].astype(jnp.float32), acc_ref.shape)

    acc_ref[...] += jnp.einsum(
        "mk,nk->mn", x_ref[...], w_ref[...], preferred_element_type=jnp.float32
    )

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def _():
        y = acc_ref[...]
        inner = (2 / jnp.pi) ** 0.5 * (y + 0.044715 * y**3)
        o_ref[...] = (0.5 * y * (1 + jnp.tanh(inner))).astype(o_ref.dtype)


# ---- transposed_block ----

"""Transposes the block of w in VMEM, and writes gelu with a sigmoid.

Stars: 3
"""


def fused_matmul_kernel(x_ref, w_ref, bias_ref, o_ref, acc_ref):
    k, last = pl.program_id(2), pl.num_programs(2) - 1

    @pl.when(k == 0)
    def _():
        acc_ref[...] = jnp.zeros(acc_ref.shape, jnp.float32)

    acc_ref[...] += jnp.dot(x_ref[...], w_ref[...].T, preferred_element_type=jnp.float32)

    @pl.when(k == last)
    def _():
        y = acc_ref[...] + bias_ref[...].astype(jnp.float32)
        inner = 1.5957691216057308 * (y + 0.044715 * y * y * y)
        o_ref[...] = (y * jax.nn.sigmoid(inner)).astype(o_ref.dtype)


# ---- config_and_refs ----

"""A frozen dataclass of sizes, a launch that binds it by partial, *refs, and named scopes.

Stars: 3
"""

import dataclasses
import functools


@dataclasses.dataclass(frozen=True)
class Config:
    bm: int
    bn: int
    bk: int
    steps: int

    def specs(self):
        return [
            pl.BlockSpec((self.bm, self.bk), lambda j, i, k: (i, k)),
            pl.BlockSpec((self.bn, self.bk), lambda j, i, k: (j, k)),
            pl.BlockSpec((1, self.bn), lambda j, i, k: (0, j)),
        ]


def body(config, *refs):
    *inputs, o_ref, acc_ref = refs
    x_ref, w_ref, bias_ref = inputs
    k = pl.program_id(2)
    with jax.named_scope("product"):
        part = jax.lax.dot_general(
            w_ref[...],
            x_ref[...],
            (((1,), (1,)), ((), ())),
            preferred_element_type=jnp.float32,
        )
    acc_ref[...] = jax.lax.select(jnp.full(acc_ref.shape, k == 0), part, acc_ref[...] + part)
    with jax.named_scope("epilogue"):

        @pl.when(k == config.steps - 1)
        def _():
            y = acc_ref[...].T + bias_ref[...]
            o_ref[...] = jax.nn.gelu(y).astype(o_ref.dtype)


def fused_matmul(x, w, bias, *, bm, bn, bk):
    (M, K), N = x.shape, len(w)
    config = Config(bm, bn, bk, K // bk)
    return pl.pallas_call(
        functools.partial(body, config),
        grid=(N // bn, M // bm, config.steps),
        in_specs=config.specs(),
        out_specs=pl.BlockSpec((bm, bn), lambda j, i, k: (i, j)),
        out_shape=jax.ShapeDtypeStruct((M, N), x.dtype),
        scratch_shapes=[pltpu.VMEM((bn, bm), jnp.float32)],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary")
        ),
    )(x, w, bias)
