"""Five Pallas kernels for TPUs, and what they compute in jax.numpy."""

import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def _like(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


# ---- a product of matrices, block by block ----


def _matmul_kernel(x_ref, w_ref, o_ref, acc_ref):
    step = pl.program_id(2)

    @pl.when(step == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    acc_ref[...] += jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32)

    @pl.when(step == pl.num_programs(2) - 1)
    def _():
        o_ref[...] = acc_ref[...].astype(o_ref.dtype)


def matmul(x, w, *, bm=128, bn=128, bk=128):
    (m, k), n = x.shape, w.shape[1]
    return pl.pallas_call(
        _matmul_kernel,
        grid=(m // bm, n // bn, k // bk),
        in_specs=[
            pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)),
            pl.BlockSpec((bk, bn), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary")
        ),
    )(x, w)


# ---- softmax of rows; the last block of rows may be ragged ----


def _softmax_kernel(x_ref, o_ref):
    x = x_ref[...].astype(jnp.float32)
    e = jnp.exp(x - jnp.max(x, axis=-1, keepdims=True))
    o_ref[...] = (e / jnp.sum(e, axis=-1, keepdims=True)).astype(o_ref.dtype)


def softmax(x, *, rows=64):
    block = pl.BlockSpec((rows, x.shape[1]), lambda i: (i, 0))
    grid = (pl.cdiv(x.shape[0], rows),)
    return pl.pallas_call(
        _softmax_kernel, grid=grid, in_specs=[block], out_specs=block, out_shape=_like(x)
    )(x)


# ---- sums of the groups of a ragged array ----


def _group_sums_kernel(starts_ref, x_ref, o_ref):
    group, step = pl.program_id(0), pl.program_id(1)
    rows = step * x_ref.shape[0] + jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 0)
    inside = (rows >= starts_ref[group]) & (rows < starts_ref[group + 1])

    @pl.when(step == 0)
    def _():
        o_ref[...] = jnp.zeros_like(o_ref)

    o_ref[...] += jnp.sum(jnp.where(inside, x_ref[...], 0), axis=0, keepdims=True)[None]


def group_sums(starts, x, *, rows=64):
    """float32[groups, 1, n]: sums of x[starts[g] : starts[g + 1]].

    From int32[groups + 1] and float32[m, n].
    """
    groups, (m, n) = starts.shape[0] - 1, x.shape
    return pl.pallas_call(
        _group_sums_kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(groups, pl.cdiv(m, rows)),
            in_specs=[pl.BlockSpec((rows, n), lambda g, i, starts: (i, 0))],
            out_specs=pl.BlockSpec((1, 1, n), lambda g, i, starts: (g, 0, 0)),
        ),
        out_shape=jax.ShapeDtypeStruct((groups, 1, n), x.dtype),
    )(starts, x)


def group_sums_reference(starts, x):
    rows = jnp.arange(x.shape[0])
    inside = (rows >= starts[:-1, None]) & (rows < starts[1:, None])
    return jnp.where(inside[:, :, None], x, 0).sum(axis=1, keepdims=True)


# ---- rows that a table chooses, copied by the kernel itself into two buffers in turn ----


def _take_kernel(table_ref, x_hbm, o_ref, slots, sems):
    step = pl.program_id(0)

    def copy(number):
        slot = jax.lax.rem(number, 2)
        return pltpu.make_async_copy(x_hbm.at[table_ref[number]], slots.at[slot], sems.at[slot])

    @pl.when(step == 0)
    def _():
        copy(0).start()

    @pl.when(step + 1 < pl.num_programs(0))
    def _():
        copy(step + 1).start()

    copy(step).wait()
    o_ref[...] = slots[jax.lax.rem(step, 2)][None]


def take(table, x):
    """float32[k, 8, n]: x[table]; int32[k], float32[m, 8, n]."""
    block = x.shape[1:]
    return pl.pallas_call(
        _take_kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=table.shape,
            in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
            out_specs=pl.BlockSpec((1, *block), lambda i, table: (i, 0, 0)),
            scratch_shapes=[pltpu.VMEM((2, *block), x.dtype), pltpu.SemaphoreType.DMA((2,))],
        ),
        out_shape=jax.ShapeDtypeStruct((table.shape[0], *block), x.dtype),
    )(table, x)


# ---- RMS norm with its gradient ----

EPS = 1e-6


def rms_norm_reference(x, w):
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + EPS) * w


def _rms_norm_kernel(x_ref, w_ref, o_ref):
    o_ref[...] = rms_norm_reference(x_ref[...], w_ref[...])


def _rms_norm_backward_kernel(x_ref, w_ref, g_ref, dx_ref, dw_ref):
    x, g = x_ref[...], g_ref[...]
    scale = jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + EPS)
    y, gw = x * scale, g * w_ref[...]
    dx_ref[...] = scale * (gw - y * jnp.mean(gw * y, axis=-1, keepdims=True))

    @pl.when(pl.program_id(0) == 0)
    def _():
        dw_ref[...] = jnp.zeros_like(dw_ref)

    dw_ref[...] += jnp.sum(g * y, axis=0, keepdims=True)


def _specs(x):
    rows = pl.BlockSpec((64, x.shape[1]), lambda i: (i, 0))
    return (x.shape[0] // 64,), rows, pl.BlockSpec((1, x.shape[1]), lambda i: (0, 0))


def _forward(x, w):
    grid, rows, weights = _specs(x)
    return pl.pallas_call(
        _rms_norm_kernel, grid=grid, in_specs=[rows, weights], out_specs=rows, out_shape=_like(x)
    )(x, w)


@jax.custom_vjp
def rms_norm(x, w):
    """float32[m, n]: x normalized by row, times w; float32[m, n], float32[1, n]."""
    return _forward(x, w)


def _backward(saved, g):
    x, w = saved
    grid, rows, weights = _specs(x)
    return pl.pallas_call(
        _rms_norm_backward_kernel,
        grid=grid,
        in_specs=[rows, weights, rows],
        out_specs=[rows, weights],
        out_shape=[_like(x), _like(w)],
    )(x, w, g)


rms_norm.defvjp(lambda x, w: (_forward(x, w), (x, w)), _backward)

softmax_reference = functools.partial(jax.nn.softmax, axis=-1)
