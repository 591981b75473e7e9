"""What to try where what is stored to a Ref does not fit it, or is no Ref."""

from __future__ import annotations

_KEEP = (
    "A reduction drops the axis that it sums, and what is left, (m,), counts as a row: with a "
    "column (m, 1) it becomes (m, m). Keep the axis: keepdims=True."
)

#: A pattern in an exception's text, and what to try.
STORE_ADVICE: tuple[tuple[str, str], ...] = (
    (
        # To a column: a vector, or what a column and a vector make.
        r"Invalid shape for `swap`.*Expected shape: \(((?:\d+, )*)(\d+), 1\)\. "
        r"Value shape: \(\1\2,?(, \2)?\)",
        _KEEP,
    ),
    (
        r"Invalid shape for `swap`.*Expected shape: \(1, (\d+)\)\. Value shape: \(\1,\)",
        "A vector (n,) is no row (1, n): keepdims=True keeps the axis that a reduction sums, and "
        "x[None, :] adds one.",
    ),
    (
        r"Invalid shape for `swap`.*Value shape: \(\)",
        "One number is not spread over a Ref: jnp.zeros_like(o_ref), or "
        "jnp.full_like(o_ref, value), has the Ref's shape and dtype.",
    ),
    (
        # Fewer bits in the Ref than in the value: scratch is the one Ref whose dtype is chosen.
        r"Invalid dtype for `swap`.*Ref dtype: (bfloat16|float16|float8\w*|u?int8|u?int16)\. "
        r"Value dtype: u?(float|int)32",
        "A store must have the Ref's dtype: cast what you store with .astype(o_ref.dtype). Or, if "
        "the Ref is scratch that keeps a sum, give the scratch the dtype of the sum: a cast would "
        "round the sum in each step.",
    ),
    (
        r"Invalid dtype for `swap`",
        "A store must have the Ref's dtype: cast what you store with .astype(o_ref.dtype).",
    ),
    (
        r"Invalid shape for `swap`",
        "A store must have the shape of the Ref (or of the part of it that is indexed). Compare "
        "the two shapes above. If one of them is a whole array's, in_specs or out_specs is missing "
        "from the launch: without a BlockSpec a Ref holds the whole array, as each argument's does "
        "in a plgpu.kernel.",
    ),
    (
        r"item assignment",
        "A value that was loaded is no memory: its elements cannot be set. Store to the Ref, "
        "o_ref[...] = value, or choose element by element: jnp.where(mask, new, old), with a mask "
        "made from lax.broadcasted_iota.",
    ),
    (
        r"^UnboundLocalError",
        "Python takes a name that a function assigns to for a name of its own, without a value "
        "before that. To store, index the Ref: o_ref[...] = value, acc_ref[...] += value. What "
        "one step leaves for the next belongs in a scratch Ref.",
    ),
    (
        r"Out of bound slice",
        "In a kernel a Ref holds only the block of the current grid step: its indices start at 0 "
        "and end at the block's size.",
    ),
)
