"""What to write today for names and arguments that older tutorials use."""

from __future__ import annotations

_OF_PALLAS = r"module 'jax\.experimental\.pallas' has no attribute "
_OF_TPU = r"module 'jax\.experimental\.pallas\.tpu' has no attribute "

#: A pattern in an exception's text, and what replaces the older spelling.
OLDER_SPELLINGS: tuple[tuple[str, str], ...] = (
    (
        rf"{_OF_TPU}'TPUCompilerParams'",
        "An older spelling: today it is pltpu.CompilerParams, with the same arguments.",
    ),
    (
        rf"{_OF_TPU}'TPUMemorySpace'",
        "An older spelling: today write pltpu.VMEM, pltpu.SMEM, pltpu.HBM or pl.ANY.",
    ),
    (
        rf"{_OF_TPU}'ANY'",
        "An older spelling: today it is pl.ANY. For what stays in HBM, pltpu.HBM is clearer.",
    ),
    (
        rf"{_OF_TPU}'TPUInterpretParams'",
        "An older spelling: today it is pltpu.InterpretParams. A kata needs neither: the grader "
        "says how a kernel is run.",
    ),
    (
        rf"{_OF_TPU}'(run_scoped|delay|semaphore_signal|semaphore_wait)'",
        "An older spelling: today it is of the same name in pl, as in pl.run_scoped(...).",
    ),
    (
        rf"{_OF_PALLAS}'Unblocked'|unexpected keyword argument 'indexing_mode'",
        "An older spelling: where an index map returns the index of an element, not of a block, "
        "write pl.Element(size) for each size of the block shape.",
    ),
    (
        rf"{_OF_TPU}'repeat'",
        "An older spelling: today use jnp.tile(x, (1, n)) for n copies of x side by side, or "
        "jnp.broadcast_to(column, shape) for one column.",
    ),
    (
        rf"{_OF_PALLAS}'(load|store)'",
        "An older spelling: today a Ref is indexed. Load with x_ref[...] or x_ref[pl.ds(start, "
        "size), :], store with o_ref[...] = value. For a mask, load all and choose with "
        "jnp.where(mask, x, other).",
    ),
    (
        r"unhashable type: 'dict'",
        "A dictionary stands where JAX expects an object. If it is compiler_params, it is an older "
        "spelling: today write compiler_params=pltpu.CompilerParams(dimension_semantics=(...)).",
    ),
    (
        r"'function' object is not iterable",
        "A function stands where a shape is expected. A BlockSpec takes the block shape first, "
        "then the index map (older jax: the other way round): pl.BlockSpec((8, 128), lambda i: "
        "(i, 0)).",
    ),
    (
        r"If `grid_spec` is specified, then `\w+` must be",
        "A grid_spec holds the grid, in_specs, out_specs and scratch_shapes: give them to it, and "
        "leave them out of pallas_call, which keeps out_shape.",
    ),
)
