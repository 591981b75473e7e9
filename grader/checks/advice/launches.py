"""What to try where a launch, or the names and places in a kernel, are not as Pallas wants them."""

from __future__ import annotations

_ONLY_IN_TPU = (
    "VMEM|SMEM|HBM|CMEM|VMEM_SHARED|InterpretParams|PrefetchScalarGridSpec|SemaphoreType|"
    "make_async_copy|sync_copy|async_copy|roll|bitcast|emit_pipeline|get_tpu_info|prng_seed|"
    "prng_random_bits"
)
_ONLY_IN_PALLAS = (
    "BlockSpec|GridSpec|pallas_call|program_id|num_programs|when|cdiv|ds|dslice|Buffered|"
    "Element|Squeezed|debug_print|multiple_of"
)

#: A pattern in an exception's text, and what to try.
LAUNCH_ADVICE: tuple[tuple[str, str], ...] = (
    (
        r"captures constants",
        "A kernel gets arrays through its Refs only: hand this one to the pallas_call as an input, "
        "with a BlockSpec, and load it from its Ref. Python's numbers may stay; a sequence of "
        "numbers can be made inside, with lax.broadcasted_iota. If the kernel itself computes it, "
        "under pl.when or pl.loop: a Python variable does not get out of there. Keep it in a Ref, "
        "or as the carry of lax.fori_loop.",
    ),
    (
        r"number of dimension_semantics",
        "Give dimension_semantics one entry for each dimension of the grid.",
    ),
    (
        r"Invalid out_shape type",
        "out_shape is shape and dtype together: jax.ShapeDtypeStruct(x.shape, x.dtype).",
    ),
    (
        r"returned a value of type <class '\S*PjitFunction'>",
        "pl.pallas_call(...) returns a function. Call it with the arrays: "
        "pl.pallas_call(kernel, ...)(x).",
    ),
    (
        r"^NameError[\s\S]*\blambda [\w, ]+: [^(\n]*?, ",
        "A lambda ends at the first comma: put the tuple that it returns in parentheses, "
        "lambda i, j: (i, j).",
    ),
    (
        r"Grid must be a tuple of integers",
        "A number of grid steps is a whole number: n // bn where the blocks divide n, "
        "pl.cdiv(n, bn) to round up. A / makes a float.",
    ),
    (
        r"Pytree for `in_specs` and `inputs` do not match",
        "in_specs has one BlockSpec for each array, and the arrays are passed one by one, in the "
        "same order: pl.pallas_call(..., in_specs=[a_spec, b_spec])(a, b).",
    ),
    (
        r"Pytree for `out_specs` and `out_shape` do not match",
        "out_specs and out_shape belong together: one of each, or two lists of one length.",
    ),
    (
        r"attribute '?get_ref_aval",
        "scratch_shapes describes memory and holds no arrays: pltpu.VMEM(shape, dtype), or "
        "pltpu.SMEM(shape, dtype).",
    ),
    (
        r"^AssertionError[\s\S]*\b(program_id|num_programs)\(",
        "Only a kernel with a grid can ask for its step: pl.program_id(axis) belongs into its "
        "body. An index map is given the step as its arguments, and a launch has none: it "
        "describes all steps at once. Neither has the body of a pl.kernel: there, "
        "jax.lax.axis_index(name) says which core of the mesh it runs on.",
    ),
    (
        r"values to unpack[\s\S]*\bdot_general\(",
        "The dimension numbers of dot_general are two pairs, of tuples: ((dimensions of x and of "
        "y to sum over), (dimensions of both to keep side by side)), such as (((x_dim,), "
        "(y_dim,)), ((), ())).",
    ),
    (
        r"(different lengths of tuple|safe_zip\(\) argument)[\s\S]*\bemit_pipeline\(",
        "A pipeline has one spec for each Ref of the step's function, and each has as many "
        "dimensions as its Ref: in_specs for inputs, out_specs for outputs, and the Refs in this "
        "order where it is called, pltpu.emit_pipeline(step, ...)(x_hbm.at[e], o_hbm.at[e]). "
        "Scratch has no spec.",
    ),
    (
        r"No VJP defined for custom_vjp function",
        "jax.custom_vjp has been told of no rules: call f.defvjp(forward, backward) on what it "
        "returned, before f is differentiated.",
    ),
    (
        r"CompilerParams\S* got an unexpected keyword argument|Protocols cannot be instantiated",
        "The parameters for a TPU are pltpu.CompilerParams(dimension_semantics=(...)): with "
        "pltpu., and spelled like this.",
    ),
    (
        r"pallas_call\(\) (got an unexpected keyword|missing)",
        "What a launch says: pl.pallas_call(kernel, out_shape=..., grid=..., in_specs=[...], "
        "out_specs=..., scratch_shapes=[...], compiler_params=pltpu.CompilerParams(...))(arrays).",
    ),
    (
        r"MemorySpace\.__call__\(\) missing|ShapeDtypeStruct\.__init__\(\) missing",
        "A shape alone does not say how much memory it takes: give the dtype, too.",
    ),
    (
        r"(program_id|num_programs)\(\) missing|^ValueError: Axis \d+ is out of bounds for grid",
        "pl.program_id(axis) and pl.num_programs(axis) take the number of a grid dimension: the "
        "first entry of grid is axis 0.",
    ),
    (
        r"'AbstractRef' object is not iterable[\s\S]*\bpallas_call\(",
        "scratch_shapes is a list, also of one: [pltpu.VMEM(shape, dtype)].",
    ),
    (
        r"'function' object has no attribute 'memory_space'",
        "in_specs and out_specs hold BlockSpecs, not bare index maps: "
        "pl.BlockSpec((8, 128), lambda i: (i, 0)).",
    ),
    (
        r"Unsupported block dimension type",
        "The size of a block is known while tracing: a Python number, from x.shape or from the "
        "launch's arguments, and no value of an array.",
    ),
    (
        r"cond branch outputs must have the same pytree[\s\S]*\bpl\.when\(",
        "The function under @pl.when returns nothing: let it store to a Ref. To choose between two "
        "values: jnp.where(condition, x, y).",
    ),
    (
        rf"module 'jax\.experimental\.pallas' has no attribute '({_ONLY_IN_TPU})'",
        "What only a TPU has is in jax.experimental.pallas.tpu: write pltpu. in place of pl. here.",
    ),
    (
        rf"module 'jax\.experimental\.pallas\.tpu' has no attribute '({_ONLY_IN_PALLAS})'",
        "What all of Pallas has is in jax.experimental.pallas: write pl. in place of pltpu. here.",
    ),
)
