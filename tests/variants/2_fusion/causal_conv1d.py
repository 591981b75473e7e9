"""Right kernels of causal_conv1d in other styles: see docs/authoring.md."""

# ---- rolled ----

"""Rolls the window by a row for each tap, and promises where it begins by pl.multiple_of.

Stars: 3
"""


def causal_conv1d_kernel(x_ref, w_ref, o_ref):
    K, _bt = w_ref.shape[0], o_ref.shape[1]
    x = x_ref[0].astype(jnp.float32)
    row = jax.lax.broadcasted_iota(jnp.int32, x.shape, 0)
    first = pl.program_id(1) == 0
    window = jnp.where(first, jnp.where(row < HALO, 0, pltpu.roll(x, HALO, 0)), x)
    total = window * w_ref[K - 1, :]
    for back in range(1, K):
        total += pltpu.roll(window, back, 0) * w_ref[K - 1 - back, :]
    o_ref[0] = total[HALO:].astype(o_ref.dtype)


def causal_conv1d(x, w, *, bt=256, bd=512):
    B, T, D = x.shape
    K = len(w)

    def window(b, i, j):
        return b, pl.multiple_of(jnp.maximum(i * bt - HALO, 0), HALO), j * bd

    return pl.pallas_call(
        causal_conv1d_kernel,
        grid=(B, T // bt, D // bd),
        in_specs=[
            pl.BlockSpec((pl.Element(1), pl.Element(HALO + bt), pl.Element(bd)), window),
            pl.BlockSpec((K, bd), lambda b, i, j: (0, j)),
        ],
        out_specs=pl.BlockSpec((1, bt, bd), lambda b, i, j: (b, i, j)),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "parallel")
        ),
    )(x, w)


# ---- two_blocks ----

"""Takes the halo as an operand of its own, the tile before the block: no element is counted.

Stars: 3
"""


def causal_conv1d_kernel(x_ref, halo_ref, w_ref, o_ref):
    K, bt = w_ref.shape[0], o_ref.shape[1]
    halo = jnp.where(pl.program_id(1) == 0, 0, halo_ref[0].astype(jnp.float32))
    window = jnp.concatenate([halo, x_ref[0].astype(jnp.float32)])
    total = w_ref[K - 1 :, :] * window[HALO:]
    for back in range(1, K):
        total += w_ref[K - 1 - back, :] * window[HALO - back : HALO - back + bt]
    o_ref[0] = total.astype(o_ref.dtype)


def causal_conv1d(x, w, *, bt=256, bd=512):
    B, T, D = x.shape
    K, per_block = len(w), bt // HALO
    block = pl.BlockSpec((1, bt, bd), lambda b, i, j: (b, i, j))
    return pl.pallas_call(
        causal_conv1d_kernel,
        grid=(B, T // bt, D // bd),
        in_specs=[
            block,
            pl.BlockSpec((1, HALO, bd), lambda b, i, j: (b, jnp.maximum(i * per_block - 1, 0), j)),
            pl.BlockSpec((K, bd), lambda b, i, j: (0, j)),
        ],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "parallel")
        ),
    )(x, x, w)
