"""Operations on values in vector registers that Mosaic does not lower."""

from __future__ import annotations

from grader.checks.advice.mosaic.workaround import Workaround

_ELEMENTWISE = (
    "The vector unit works on registers of 8 sublanes by 128 lanes, on each element by itself: "
    "nothing is carried over from one element to the next."
)
_ACROSS = (
    "Across the lanes and sublanes of a register, a TPU can add, and take the largest or the "
    "smallest element; it has no instruction for other reductions."
)
_OUTSIDE = "Do it outside the kernel, and pass the result in as another input."

#: Functions without an instruction, and what they can be written as: without differences of nearly
#: equal numbers, as exp(x) - 1 is of a small x. Only erfc's has one, for a large x.
FORMULAS = {
    "erfc": "1 - lax.erf(x)",
    "expm1": "jnp.where(jnp.abs(x) < 0.5, 2 / (1 / jnp.tanh(x / 2) - 1), jnp.exp(x) - 1)",
    "sinh": "jnp.tanh(x) * (jnp.exp(x) + jnp.exp(-x)) / 2",
    "cosh": "(jnp.exp(x) + jnp.exp(-x)) / 2",
    "asin": "jnp.arctan2(x, jnp.sqrt((1 - x) * (1 + x)))",
    "acos": "jnp.arctan2(jnp.sqrt((1 - x) * (1 + x)), x)",
    "atan": "jnp.arctan2(x, 1.0)",
    "asinh": "jnp.sign(x) * jnp.log1p(jnp.abs(x) + x * x / (1 + jnp.sqrt(x * x + 1)))",
    "acosh": "jnp.log1p(x - 1 + jnp.sqrt((x - 1) * (x + 1)))",
    "atanh": "jnp.sign(x) * jnp.log1p(2 * jnp.abs(x) / (1 - jnp.abs(x))) / 2",
    "cbrt": "jnp.sign(x) * jnp.exp(jnp.log(jnp.abs(x)) / 3)",
    "reduce_precision": "x.astype(jnp.bfloat16).astype(jnp.float32)",
}

VALUES: tuple[Workaround, ...] = (
    Workaround(
        (),
        r"64-bit types|Only index_dtype|\b(float|u?int)64",
        "Lanes are 32 bits wide: a TPU has no 64-bit numbers.",
        "Use float32 and int32, and leave jax_enable_x64 off.",
    ),
    Workaround(
        ("cumsum",),
        "",
        _ELEMENTWISE,
        "Let the MXU add up, with a triangle of ones:\n"
        "    rows = lax.broadcasted_iota(jnp.int32, (n, n), 0)\n"
        "    columns = lax.broadcasted_iota(jnp.int32, (n, n), 1)\n"
        '    jnp.dot((rows >= columns).astype(x.dtype), x, precision="highest")\n'
        "That is along axis 0, where you may also carry the row above through a lax.fori_loop over "
        "x_ref[pl.ds(r, 1), :]. Along axis 1, multiply from the right, with rows <= columns.",
    ),
    Workaround(
        ("cumprod", "cummax", "cummin", "cumlogsumexp"),
        "",
        _ELEMENTWISE,
        "Carry the row above through a loop over the rows:\n"
        "    def row(r, above):\n"
        "        here = jnp.maximum(above, x_ref[pl.ds(r, 1), :])\n"
        "        o_ref[pl.ds(r, 1), :] = here\n"
        "        return here\n"
        "    o_ref[0:1, :] = x_ref[0:1, :]\n"
        "    lax.fori_loop(1, n, row, x_ref[0:1, :])",
    ),
    Workaround(
        ("slice",),
        "must have positive constant sizes",
        "An array of size 0 fills no register. Functions that halve an array repeatedly, such as "
        "lax.associative_scan, end with one.",
        "Carry the row above through a loop over the rows:\n"
        "    lax.fori_loop(1, n, row, x_ref[0:1, :])",
    ),
    Workaround(
        ("top_k",),
        "is_stable",
        "Mosaic's top_k does not keep equal elements in their order.",
        "If that order does not matter:\n    lax.top_k(x, k, is_stable=False)",
    ),
    Workaround(
        ("sort", "top_k"),
        "",
        "There is no instruction that sorts: elements would have to move to lanes that depend on "
        "their values.",
        "Sort outside the kernel. For the few largest, take the largest, mask it, repeat:\n"
        "    best = jnp.max(x, axis=1, keepdims=True)\n"
        "    x = jnp.where(x == best, -jnp.inf, x)",
    ),
    Workaround(
        ("rev",),
        "",
        "No instruction reverses the lanes or sublanes of a register.",
        "Reverse the order of blocks in the index map. Within a block, copy row by row in a loop:\n"
        "    o_ref[pl.ds(r, 1), :] = x_ref[pl.ds(n - 1 - r, 1), :]\n"
        "or multiply by a matrix of zeros with ones on its antidiagonal.",
    ),
    Workaround(
        ("dot_general",),
        "acc to be 32-bit",
        "The MXU multiplies narrow numbers, but adds them up in 32 bits: float32, or int32 for "
        "integers.",
        "Ask for that result and round it when you store (jnp.int32 for integers):\n"
        "    jnp.dot(x, y, preferred_element_type=jnp.float32).astype(o_ref.dtype)",
    ),
    Workaround(
        ("dot_general",),
        "Unsigned integer",
        "The MXU treats all integers as signed.",
        "Cast first; all 8-bit integers are exact in bfloat16:\n"
        "    x = x_ref[...].astype(jnp.bfloat16)",
    ),
    Workaround(
        ("dot_general",),
        "dot precision|DotAlgorithmPreset",
        "The MXU multiplies bfloat16; float32 takes several passes over its parts. This version of "
        "Mosaic has one pass and full float32, the same for both operands.",
        'Leave precision out, or:\n    jnp.dot(x, y, precision="highest")',
    ),
    Workaround(
        ("dot_general",),
        r"AssertionError: ?$",
        "The MXU multiplies matrices; a product whose result is a single number is not one.",
        "Let the vector unit multiply and add:\n    jnp.sum(x * y)",
    ),
    Workaround(
        ("dot_general",),
        "contracting dims must be of size 1",
        "The MXU multiplies matrices, so it sums over one dimension.",
        "Merge the two dimensions into one before the product:\n    x = x.reshape(-1, x.shape[-1])",
    ),
    Workaround(
        ("dot_general",),
        "1 batch dim",
        "The MXU multiplies matrices; Mosaic loops over one batch dimension for you, not over two.",
        "Merge the batch dimensions into one, or loop over them and multiply matrices:\n"
        "    o_ref[i, j] = jnp.dot(x_ref[i, j], y_ref[i, j].T)",
    ),
    Workaround(
        ("conv_general_dilated",),
        "",
        "The MXU multiplies matrices, and a convolution is a sum of shifted products.",
        "Add up one product for each tap:\n"
        "    total = total + x_ref[pl.ds(tap, n), :] * w_ref[pl.ds(tap, 1), :]",
    ),
    Workaround(
        ("reduce_sum", "reduce_max", "reduce_min", "argmax", "argmin"),
        "unsigned integers|Reductions over u?int",
        "Lanes are 32 bits wide, and a TPU can combine only float32 and int32 across them.",
        "Widen before the reduction and narrow after it:\n    x = x_ref[...].astype(jnp.int32)",
    ),
    Workaround(
        ("argmax", "argmin"),
        "bool",
        "jnp.select looks for the first condition that is true, and Mosaic finds the position of a "
        "largest element only in float32.",
        "Nest jnp.where, the first condition outermost:\n"
        "    jnp.where(x > 1, x, jnp.where(x > 0, 2 * x, 0))",
    ),
    Workaround(
        ("argmax", "argmin"),
        "",
        "Mosaic finds the position of a largest element only in float32.",
        "Cast first; integers are exact up to 2**24:\n"
        "    jnp.argmax(x.astype(jnp.float32), axis=1, keepdims=True)",
    ),
    Workaround(
        ("reduce_prod", "reduce_xor"),
        "",
        _ACROSS,
        "Combine row by row:\n"
        "    def row(r, total):\n"
        "        return total * x_ref[pl.ds(r, 1), :]\n"
        "    lax.fori_loop(1, n, row, x_ref[0:1, :])\n"
        "and along the columns with rotated copies (for 128 lanes):\n"
        "    for shift in (1, 2, 4, 8, 16, 32, 64):\n"
        "        x = x * pltpu.roll(x, shift, 1)",
    ),
    Workaround(
        ("reduce_window_max", "reduce_window_min", "reduce_window_sum"),
        "",
        "Mosaic reduces whole dimensions, not sliding windows.",
        "Give the windows a dimension of their own and reduce that:\n"
        "    jnp.max(x.reshape(n // 2, 2, x.shape[1]), axis=1)",
    ),
    Workaround(
        ("select_n",),
        "2 arguments",
        "The vector unit chooses between two values, with a mask of one bit for each lane.",
        "Nest jnp.where:\n    jnp.where(x > 1, x, jnp.where(x > 0, 2 * x, 0))",
    ),
    Workaround(
        ("slice",),
        "strides",
        "An instruction works on a whole register: none takes every second lane or sublane.",
        "For rows, give the stride a dimension of its own:\n"
        "    x.reshape(n // 2, 2, x.shape[1])[:, 0]\n"
        "For columns, multiply by a matrix of zeros and ones that selects them.",
    ),
    Workaround(
        ("iota",),
        "integer or index",
        "The vector unit counts lanes and sublanes only in int32.",
        "Count in integers, then cast:\n"
        "    lax.broadcasted_iota(jnp.int32, x.shape, 1).astype(x.dtype)",
    ),
    Workaround(
        ("pad",),
        "interior",
        "An instruction works on a whole register: none spreads its sublanes apart.",
        "Stack the rows with zeros, then merge the two dimensions:\n"
        "    jnp.stack([x, jnp.zeros_like(x)], axis=1).reshape(2 * n, x.shape[1])",
    ),
    Workaround(
        ("bitcast_convert_type",),
        "bitwidths",
        "Narrow elements are packed along the sublanes, so a cast to another width changes the "
        "number of rows: (8, 128) of 32 bits are (16, 128) of 16 bits.",
        "Use Pallas' own bitcast:\n    pltpu.bitcast(x, jnp.bfloat16)",
    ),
    Workaround(
        ("ragged_dot_general",),
        "",
        "The MXU multiplies matrices of one size, and it is known only at run time which rows "
        "belong to which group.",
        "Let an index map choose the group's matrix by scalar prefetch, and multiply by it:\n"
        "    pl.BlockSpec((1, n, n), lambda i, group_ref: (group_ref[i], 0, 0))",
    ),
    Workaround(
        ("lu", "qr", "cholesky", "eigh", "svd", "triangular_solve", "custom_linear_solve"),
        "",
        "A factorisation is a program of many steps that depend on each other; Mosaic lowers only "
        "single operations.",
        _OUTSIDE,
    ),
    Workaround(
        ("lgamma", "digamma", "bessel_i0e", "bessel_i1e", "igamma", "igammac", "zeta"),
        "",
        "The TPU has no instruction for this function, and Mosaic no series for it.",
        _OUTSIDE,
    ),
)
