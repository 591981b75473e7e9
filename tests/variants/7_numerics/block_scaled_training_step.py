"""Right kernels of block_scaled_training_step in other styles: see docs/authoring.md."""

# ---- lazy_residuals ----

"""Clips although nothing is too large, keeps residuals by name, and multiplies dw first.

The largest number of a group is found in the dtype of x.

Stars: 3
"""


def quantise_kernel(x_ref, by_rows_ref, row_scales_ref, by_columns_ref, column_scales_ref):
    def scale_of(numbers, dim):
        largest = jnp.abs(numbers).max(axis=dim, keepdims=True).astype(jnp.float32)
        return jnp.where(largest == 0, 1.0, power_of_two(largest / LARGEST))

    def rounded(numbers, scale):
        scaled = jnp.clip(numbers.astype(jnp.float32) / scale, -LARGEST, LARGEST)
        return scaled.astype(jnp.float8_e4m3fn)

    for group in range(x_ref.shape[0] // GROUP):
        numbers = x_ref[pl.ds(group * GROUP, GROUP), :]
        scale = scale_of(numbers, 0)
        column_scales_ref[group, :, :] = scale
        by_columns_ref[pl.ds(group * GROUP, GROUP), :] = rounded(numbers, scale)

    for group in range(x_ref.shape[1] // GROUP):
        numbers = x_ref[:, pl.ds(group * GROUP, GROUP)]
        scale = scale_of(numbers, 1)
        row_scales_ref[group, 0, :] = scale[:, 0]
        by_rows_ref[:, pl.ds(group * GROUP, GROUP)] = rounded(numbers, scale)


def differentiable_matmul(*, bm, bk, bn):
    def forward(x, w):
        (x_rows, x_columns), (w_rows, w_columns) = (
            quantise(x, tile=(bm, bk)),
            quantise(w, tile=(bk, bn)),
        )
        y = scaled_matmul(x_rows, w_columns, (1, 0), tile=(bm, bn), step=bk, dtype=x.dtype)
        return y, {"w": w_rows, "x": x_columns}

    def backward(kept, dy):
        dy_rows, dy_columns = quantise(dy, tile=(bm, bn))
        dw = scaled_matmul(kept["x"], dy_columns, (0, 0), tile=(bk, bn), step=bm, dtype=dy.dtype)
        dx = scaled_matmul(dy_rows, kept["w"], (1, 1), tile=(bm, bk), step=bn, dtype=dy.dtype)
        return dx, dw

    @jax.custom_vjp
    def matmul(x, w):
        return forward(x, w)[0]

    matmul.defvjp(forward, backward)
    return matmul


# ---- tile_by_tile ----

"""Quantises tiles of 128 x 128 both ways, one after another, and divides by the scales.

Stars: 3
"""


def quantise_kernel(x_ref, by_rows_ref, row_scales_ref, by_columns_ref, column_scales_ref):
    starts = [range(0, size, GROUP) for size in x_ref.shape]
    for row in starts[0]:
        for column in starts[1]:
            rows, columns = slice(row, row + GROUP), slice(column, column + GROUP)
            tile = x_ref[rows, columns].astype(jnp.float32)
            size = jnp.maximum(jnp.abs(tile), 1e-30)

            scale = power_of_two(size.max(axis=1, keepdims=True) / LARGEST)
            by_rows_ref[rows, columns] = (tile / scale).astype(jnp.float8_e4m3fn)
            row_scales_ref[column // GROUP, :, rows] = scale.T

            scale = power_of_two(size.max(axis=0, keepdims=True) / LARGEST)
            by_columns_ref[rows, columns] = (tile / scale).astype(jnp.float8_e4m3fn)
            column_scales_ref[row // GROUP, :, columns] = scale
