"""Advice on exceptions that are raised while a file is imported, or a launch traced or run.

Each table pairs a pattern of the exception's text with a remedy: dtypes that a number doesn't fit,
rules of custom derivatives, names of other libraries or of older JAX, stores to Refs, shard_map,
and launches or index maps that Pallas rejects. The tests raise each exception with the real JAX.
"""

from __future__ import annotations

import re

from pallascope.model import Problem

_WHY = "A Python number next to an array takes the array's dtype, and int32 ends at 2**31 - 1. "

#: A pattern in an exception's text, and a remedy.
LITERALS: tuple[tuple[str, str], ...] = (
    (
        r"^OverflowError.*\bPython integer -\d+ out of bounds for uint",
        "An unsigned dtype has no negative numbers. To set all bits, write jnp.uint32(0xFFFFFFFF).",
    ),
    (
        r"^OverflowError.*(while parsing an argument to a jitted computation|"
        r"\bPython integer -?\d+ out of bounds for u?int)",
        _WHY + "For bits as numbers from 0 to 2**32 - 1, make uint32 of both sides: "
        "pltpu.bitcast(bits, jnp.uint32), and jnp.uint32(number), at most 2**32 - 1. For "
        "other numbers, make both sides float32.",
    ),
)


#: A pattern in an exception's text, and a remedy.
DERIVATIVES: tuple[tuple[str, str], ...] = (
    (
        r"(fwd|bwd|forward|backward|rule)\w{0,100}\(\) (missing|takes) \d+",
        "Rules are passed as f.defvjp(forward, backward). The forward rule takes f's arguments and "
        "returns its result and the residuals; the backward rule takes first the arguments that "
        "nondiff_argnums names, then the residuals, then the cotangent.",
    ),
    (
        r"Custom VJP bwd rule\b[^\n]* must produce",
        "The backward rule returns one gradient for each argument, in the arguments' order and of "
        "their shapes and dtypes: None where there is none, and nothing for nondiff_argnums.",
    ),
    (
        r"Custom VJP fwd rule .* must produce a pair",
        "The forward rule returns two things: the result, and a tuple of the residuals that the "
        "backward rule needs.",
    ),
    (
        r"Linearization failed to produce known values",
        "If the launch is differentiated: a pallas_call has no derivative. Give the function that "
        "launches it its own rules, with jax.custom_vjp and defvjp(forward, backward).",
    ),
    (
        r"^AssertionError: *\n.*\bpallas_call\(",
        "Pallas stops here without a message, as it does when a launch is differentiated: a "
        "pallas_call has no derivative. Give the function that launches it its own rules, with "
        "jax.custom_vjp and defvjp(forward, backward).",
    ),
)


#: A pattern in an exception's text, and JAX's own spelling.
OTHER_LIBRARIES: tuple[tuple[str, str], ...] = (
    (
        r"unexpected keyword argument '(dim|keepdim)'",
        "In jax.numpy it is axis= and keepdims=, as in NumPy.",
    ),
    (
        r"module 'jax\.numpy' has no attribute "
        r"'(softmax|gelu|silu|relu|sigmoid|logsumexp|one_hot)'",
        "That function is in jax.nn.",
    ),
    (
        r"has no attribute '?(unsqueeze|view|permute|float|half|masked_fill|contiguous|to)\b",
        "That is PyTorch's. In JAX: x[:, None], x.reshape(...), x.transpose(...), x.astype(dtype), "
        "jnp.where(mask, x, value).",
    ),
    (
        r"module 'jax\.experimental\.pallas' has no attribute "
        r"'(arange|zeros|full|where|exp|sum|max)'",
        "In a kernel, too, compute values with jax.numpy and jax.lax: "
        "lax.broadcasted_iota(jnp.int32, shape, axis) counts, jnp.where chooses.",
    ),
)


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
        "An older spelling: today it is pl.ANY. For arrays that stay in HBM, pltpu.HBM is clearer.",
    ),
    (
        rf"{_OF_TPU}'TPUInterpretParams'",
        "An older spelling: today it is pltpu.InterpretParams. A kata needs neither: the grader "
        "says how a kernel is run.",
    ),
    (
        rf"{_OF_TPU}'(run_scoped|delay|semaphore_signal|semaphore_wait)'",
        "An older spelling: today it has the same name in pl, as in pl.run_scoped(...).",
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
        "This is a dictionary, and JAX expects an object. If it is compiler_params, it is an older "
        "spelling: today write compiler_params=pltpu.CompilerParams(dimension_semantics=(...)).",
    ),
    (
        r"'function' object is not iterable",
        "This is a function, and a shape is expected. A BlockSpec takes the block shape first, "
        "then the index map (older jax: the other way round): pl.BlockSpec((8, 128), lambda i: (i, "
        "0)).",
    ),
    (
        r"If `grid_spec` is specified, then `\w+` must be",
        "A grid_spec holds the grid, in_specs, out_specs and scratch_shapes: pass them to it, not "
        "to pallas_call, which keeps out_shape.",
    ),
)


_KEEP = (
    "A reduction drops the axis that it sums, and the remaining (m,) counts as a row: with a "
    "column (m, 1) it becomes (m, m). Keep the axis: keepdims=True."
)

#: A pattern in an exception's text, and a remedy.
STORE_ADVICE: tuple[tuple[str, str], ...] = (
    (
        # To a column: a vector, or what a column and a vector make.
        r"Invalid shape for `swap`.*Expected shape: \(((?:\d+, )*)(\d+), 1\)\. "
        r"Value shape: \(\1\2,?(, \2)?\)",
        _KEEP,
    ),
    (
        r"Invalid shape for `swap`.*Expected shape: \(1, (\d+)\)\. Value shape: \(\1,\)",
        "A vector (n,) isn't a row (1, n): keepdims=True keeps the axis that a reduction sums, and "
        "x[None, :] adds one.",
    ),
    (
        r"Invalid shape for `swap`.*Value shape: \(\)",
        "A single number is not broadcast to a Ref: jnp.zeros_like(o_ref), or jnp.full_like(o_ref, "
        "value), has the Ref's shape and dtype.",
    ),
    (
        # Fewer bits in the Ref than in the value: scratch is the one Ref whose dtype is chosen.
        r"Invalid dtype for `swap`.*Ref dtype: (bfloat16|float16|float8\w*|u?int8|u?int16)\. "
        r"Value dtype: u?(float|int)32",
        "A store must have the Ref's dtype: cast the value with .astype(o_ref.dtype). Or, if the "
        "Ref is scratch that keeps a sum, give the scratch the dtype of the sum: a cast would "
        "round the sum in each step.",
    ),
    (
        r"Invalid dtype for `swap`",
        "A store must have the Ref's dtype: cast the value with .astype(o_ref.dtype).",
    ),
    (
        r"Invalid shape for `swap`",
        "A store must have the shape of the Ref (or of the part of it that is indexed). Compare "
        "the two shapes above. If one of them is a whole array's, look for its BlockSpec in "
        "in_specs or out_specs: without one, a Ref holds the whole array, as each argument's does "
        "in a plgpu.kernel.",
    ),
    (
        r"item assignment",
        "A loaded value isn't memory: its elements cannot be set. Store to the Ref, o_ref[...] = "
        "value, or choose element by element: jnp.where(mask, new, old), with a mask made from "
        "lax.broadcasted_iota.",
    ),
    (
        r"^UnboundLocalError",
        "A name that a function assigns to is local to it, without a value before that. To store, "
        "index the Ref: o_ref[...] = value, acc_ref[...] += value. To keep a value for the next "
        "step, use a scratch Ref.",
    ),
    (
        r"Out of bound slice",
        "In a kernel a Ref holds only the block of the current grid step: its indices start at 0 "
        "and end at the block's size.",
    ),
)


_SPECS = (
    "in_specs has one PartitionSpec for each array that is passed, in their order, as P(…), and "
    "out_specs one for each result. A single one stands for all."
)

#: A pattern in an exception's text, and a remedy.
SHARD_MAP_ADVICE: tuple[tuple[str, str], ...] = (
    (
        r"check_vma=True",
        "Pass check_vma=False to jax.shard_map. jax would check that results are the same on all "
        "devices along each axis that out_specs doesn't name; a kernel doesn't say along which "
        "axes its results differ, so make sure yourself.",
    ),
    (
        r"context mesh cannot be empty",
        "Pass mesh=mesh to jax.shard_map: the launch gets the mesh as an argument, and is called "
        "without one in context.",
    ),
    (
        r"all mesh axes are partitioned manually",
        "A kernel has to be within a shard_map over all axes of the mesh: leave axis_names out.",
    ),
    (
        r"must refer to an axis marked as manual",
        "A spec names axes of the mesh: those in the braces. It has one entry for each dimension "
        "of the array: None, or nothing at the end, for a dimension that isn't cut.",
    ),
    (
        r"unbound axis name",
        "An operation between devices names an axis of the mesh (see mesh.axis_names), inside the "
        "function that jax.shard_map calls. In a plgpu.kernel the launch names the axes: "
        "grid_names and thread_name.",
    ),
    (
        r"not evenly divisible by the corresponding mesh axis sizes",
        "A dimension is cut into equal parts, one for each device along the axis. Cut another "
        "dimension, or leave this one whole, with None in the spec.",
    ),
    (
        r"_specs entry which is too long",
        "A spec has at most as many entries as the array has dimensions. Count them, including "
        "those that are None.",
    ),
    (r"pytree structure error[\s\S]*shard_map", _SPECS),
    (r"argument must be a pytree of `jax.sharding.PartitionSpec`", _SPECS),
    (
        r"shard_map\(\) got an unexpected keyword argument 'check_rep'",
        "check_rep is called check_vma now: jax.shard_map(…, check_vma=False).",
    ),
)


_ONLY_IN_TPU = (
    "VMEM|SMEM|HBM|CMEM|VMEM_SHARED|InterpretParams|PrefetchScalarGridSpec|SemaphoreType|"
    "make_async_copy|sync_copy|async_copy|roll|bitcast|emit_pipeline|get_tpu_info|prng_seed|"
    "prng_random_bits"
)
_ONLY_IN_PALLAS = (
    "BlockSpec|GridSpec|pallas_call|program_id|num_programs|when|cdiv|ds|dslice|Buffered|"
    "Element|Squeezed|debug_print|multiple_of"
)

#: A pattern in an exception's text, and a remedy.
LAUNCH_ADVICE: tuple[tuple[str, str], ...] = (
    (
        r"captures constants",
        "A kernel gets arrays through its Refs only: pass this one to the pallas_call as an input, "
        "with a BlockSpec, and load it from its Ref. Python's numbers may stay; make a sequence of "
        "numbers inside, with lax.broadcasted_iota. If the kernel itself computes it, under "
        "pl.when or pl.loop, a Python variable can't carry it out of there: keep it in a Ref, or "
        "as the carry of lax.fori_loop.",
    ),
    (
        r"number of dimension_semantics",
        "Give dimension_semantics one entry for each dimension of the grid.",
    ),
    (
        r"Invalid out_shape type",
        "out_shape gives shape and dtype together: jax.ShapeDtypeStruct(x.shape, x.dtype).",
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
        "Only a kernel with a grid can ask for its step: pl.program_id(axis) belongs in its body. "
        "An index map is given the step as its arguments, and a launch has none: it describes all "
        "steps at once. The body of a pl.kernel has none either: there, jax.lax.axis_index(name) "
        "says which core of the mesh it runs on.",
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
        "This jax.custom_vjp has no rules: call f.defvjp(forward, backward) on its result f, "
        "before f is differentiated.",
    ),
    (
        r"CompilerParams\S* got an unexpected keyword argument|Protocols cannot be instantiated",
        "The parameters for a TPU are pltpu.CompilerParams(dimension_semantics=(...)): with "
        "pltpu., and spelled like this.",
    ),
    (
        r"pallas_call\(\) (got an unexpected keyword|missing)",
        "A launch looks like this: pl.pallas_call(kernel, out_shape=..., grid=..., in_specs=[...], "
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
        "The size of a block must be known while tracing: a Python number, from x.shape or from "
        "the launch's arguments, not a value of an array.",
    ),
    (
        r"cond branch outputs must have the same pytree[\s\S]*\bpl\.when\(",
        "The function under @pl.when returns nothing: let it store to a Ref. To choose between two "
        "values: jnp.where(condition, x, y).",
    ),
    (
        rf"module 'jax\.experimental\.pallas' has no attribute '({_ONLY_IN_TPU})'",
        "Names for TPUs only are in jax.experimental.pallas.tpu: write pltpu. instead of pl. here.",
    ),
    (
        rf"module 'jax\.experimental\.pallas\.tpu' has no attribute '({_ONLY_IN_PALLAS})'",
        "Names for all of Pallas are in jax.experimental.pallas: write pl. instead of pltpu. here.",
    ),
)


AdviceTable = tuple[tuple[str, str], ...]
_STATIC = r"must be static|NonConcreteBooleanIndex|Shapes must be 1D sequences of concrete values"
_CHOOSE_A_LENGTH = (
    "Under jit a shape cannot depend on a value, only on other shapes and on Python's numbers. "
    "Choose a length that is always enough (total_repeat_length=…, size=…), and select elements "
    "with jnp.where(condition, x, y), which keeps the shape."
)
_CONVERTED = r"Attempted boolean conversion of traced|TracerBoolConversionError"
_SIZE_OF_A_SLICE = (
    "The size of a slice is known while tracing; only its start may be a value: "
    "ref[pl.ds(start, size)]. To change some of a block's rows, compute all, and choose: "
    "jnp.where(mask, new, ref[...]), with a mask of row numbers from lax.broadcasted_iota."
)
_A_REF = (
    "A Ref is a handle to memory, not an array. Load its value with ref[...], for example "
    "x_ref[...], and compute with that."
)

#: A pattern in an exception's text, and a remedy. The first that matches is shown.
EXCEPTION_ADVICE: AdviceTable = (
    (r"\bDShapedArray\(", _SIZE_OF_A_SLICE),
    (
        r"WGMMAAbstractAccumulatorRef|Accumulator shape .* does not match value shape",
        "An accumulator is a Ref in registers: plgpu.wgmma(acc, a, b) adds to it, and nothing else "
        "does. Read its sums with acc[...], which waits for the products, and return that.",
    ),
    (
        r"'AbstractRef' object has no attribute|got a Ref of type|TransformedRefs cannot be|"
        r"requires ndarray or scalar arguments, got <class .*Tracer'>|Cannot store a Ref into",
        _A_REF,
    ),
    (
        r"__array__\(\) was called on traced array with shape Ref<",
        f"{_A_REF} And use jnp instead of np: NumPy cannot compute with traced values.",
    ),
    (
        r"TracerArrayConversion",
        "NumPy needs numbers, and while a kernel or its launch is traced there are none yet. Use "
        "jnp instead of np.",
    ),
    (
        rf"({_CONVERTED}|TracerIntegerConversion)[\s\S]*for pallas_call index_map",
        "An index map is traced once for all grid steps, so Python's if, max, min and list[i] "
        "cannot look at an index; @pl.when does not help here. Compute the block index: "
        "jnp.maximum(i - 1, 0), jnp.where(i > 0, i - 1, 0). A table goes into scalar prefetch.",
    ),
    (
        r"TracerIntegerConversion|Only integer scalar arrays can be converted[\s\S]*\brange\(",
        "A kernel is traced once for all grid steps, so Python cannot use a traced value as a "
        "number, neither in range(n) nor as a list's index. For a loop: lax.fori_loop(0, n, body, "
        "init), where n may be such a value.",
    ),
    (
        r"slice must have a step >= 1",
        "A Ref cannot be read backwards. Let the index map reverse the blocks, or loop over the "
        "rows and store row i at ref.shape[0] - 1 - i.",
    ),
    (
        r"'NoneType' object has no attribute '(shape|dtype|aval)'",
        "Something is None where an array or a block index is expected: a function without the "
        "word return gives None. An index map returns a tuple: return i, 0.",
    ),
    (
        r"^NameError: name '(jnp|np|jax|pl|pltpu|lax)' is not defined",
        "The file does not import this name, and the kata can be solved without it. If you want "
        "it, import it inside of the region: the other lines stay as they are.",
    ),
    (
        r"translation rule for primitive '(prng_|stochastic_round)",
        "Random bits of a core's own generator are drawn in the strict interpreter and on a TPU, "
        "not in the plain interpreter: use --kata-mode strict.",
    ),
    (
        r"whose generator this kernel has not seeded",
        "A kernel begins with unseeded generators, one for each core. Call pltpu.prng_seed in "
        "every step that draws, before it draws: another step may run on another core.",
    ),
    (
        r"dot_general requires contracting dimensions to have the same shape",
        "A product sums over one dimension of each side, and the two must have the same length: "
        "jnp.dot(x, y) takes the last of x and the last but one of y. For others: "
        "jax.lax.dot_general(x, y, (((x_dim,), (y_dim,)), ((), ()))).",
    ),
    (
        r"carry input and carry output must have (equal types|the same pytree structure)",
        "The body of a loop returns the next iteration's carry, which must match the first one: a "
        "value for each, of the same shape and dtype. Is a return missing? If the dtypes differ, "
        "cast the first carry or the returned one with .astype, to the wider of the two.",
    ),
    (
        r"^ConcretizationTypeError[\s\S]*arose with the `(int|float|bool)` function",
        "While a launch is traced its arrays have no values yet, so int(), float() and bool() "
        "cannot look at one. An index, the bound of a loop and the size of a grid dimension may "
        "stay as they are: traced values.",
    ),
    *SHARD_MAP_ADVICE,
    *LAUNCH_ADVICE,
    (
        r"true_fun and false_fun arguments should be callable|"
        r"'function' object does not support the context manager|"
        r"missing \d+ required positional argument.*\n.*\bpl\.when\(",
        "pl.when is a decorator of a function without arguments:\n"
        "    @pl.when(condition)\n"
        "    def _():\n"
        "        o_ref[...] = value",
    ),
    *STORE_ADVICE,
    *LITERALS,
    (
        r"Must return a ds from the index_map",
        "In a dimension with a pl.BoundedSlice, the index map returns pl.ds(start, size): the "
        "first element and the number of elements, which may both be values.",
    ),
    (
        r"should return None",
        "A kernel returns nothing: store the result, o_ref[...] = value.",
    ),
    (
        # The last line of the text is the judged file's: here it slices.
        r"\A(?=[\s\S]*(?:boolean conversion of traced|static start))(?>[\s\S]*\n)"
        r".*\[[^\]:]*+:[^\]]*+\].*\Z",
        "A slice needs a size that is known while tracing: ref[pl.ds(start, size)], where start "
        "may be a value. But remember that a Ref holds only the block of the current grid step, "
        "and its indices start at 0: often [...] is all you need.",
    ),
    (
        rf"({_STATIC})[\s\S]*\bds\(",
        _SIZE_OF_A_SLICE,
    ),
    (_STATIC, _CHOOSE_A_LENGTH),
    (
        _CONVERTED,
        "A kernel is traced once for all grid steps, so Python's if cannot look at a value. Use "
        "@pl.when(condition) to run code on some steps, jnp.where to choose elements.",
    ),
    (
        r"must return \d+ values to match block_shape.*Currently returning 1 values",
        "An index map returns one block index for each dimension of the block shape, as a tuple: "
        "return i, 0. Is one missing, or the word return?",
    ),
    (
        r"must return integer scalars",
        "A block index is a whole number: divide with //, since / makes a float.",
    ),
    (
        r"must return \d+ values to match block_shape",
        "An index map returns one block index for each dimension of the block shape.",
    ),
    (
        r"\(= \(Blocked\(block_size=\d+\),\)\) must have [\s\S]*array shape \((?:1, \d+|\d+, 1)\)",
        "A row (1, N) and a column (M, 1) have two dimensions, and so have their blocks and block "
        "indices: pl.BlockSpec((1, N), lambda i: (0, 0)). With (None, N), the kernel sees a Ref of "
        "shape (N,).",
    ),
    (
        r"must have the same number of dimensions as the array",
        "A block shape has one entry for each dimension of the array: None for a dimension that "
        "the kernel should not see. If the array above is not the one that is meant: specs and "
        "arrays are matched in order, and prefetched tables are passed before all others.",
    ),
    *DERIVATIVES,
    (
        r"Too many indices: array is 0-dimensional",
        "A single number is indexed here as if it were a table. An index map is given the grid "
        "indices first and the prefetched Refs after them; a kernel is given the Refs alone.",
    ),
    (
        r"incompatible shapes for broadcasting|Incompatible shapes for broadcasting",
        "Arrays of these shapes do not broadcast. A column (m, 1) and a row (1, n) do so with "
        "(m, n): x[:, None] makes a column of a vector, .T turns one into the other, and "
        "keepdims=True keeps the axis that a reduction has summed.",
    ),
    (
        r"values to unpack[\s\S]*\.shape",
        "A Ref has another number of dimensions than this line expects. None in a block shape "
        "squeezes a dimension, so that the kernel does not see it; a number keeps it, also if it "
        "is 1.",
    ),
    (
        # For a kernel or an index map, which Pallas calls, not a function that the line calls.
        r"(?:\b(\w+)|<lambda>)\(\) (missing|takes) \d+ (?![\s\S]*\b\1\()",
        "A kernel takes one Ref for each input, then each output, then each scratch buffer; an "
        "index map takes one index for each grid dimension. With num_scalar_prefetch, a kernel "
        "takes the tables' Refs first, and an index map after its indices.",
    ),
    (
        r"'(Bitcast|Reshape)Transform' object has no attribute 'indices'",
        "JAX's interpreter can't follow a copy from or to a view of a Ref, as ref.bitcast and "
        "ref.reshape make it, although a TPU can. Copy a part of the Ref itself, such as "
        "ref.at[pl.ds(i * n, n)], and reshape the value.",
    ),
    (
        r"Buffers with a memory space of HBM or ANY cannot be referenced directly",
        "A core can only compute on VMEM: first copy from HBM, with pltpu.sync_copy or an async "
        "copy.",
    ),
    (
        r"defines no function \w+, which test_\w+ grades|grades \w+, which is of type",
        "Give the launch function its name back. Leave the lines outside the regions as they are, "
        "also the last ones.",
    ),
    (
        r"Mosaic kernels cannot be automatically partitioned|requires all mesh axes to be Manual",
        "A kernel runs on one chip. To use several, call the launch inside of jax.shard_map, which "
        "gives each chip its own part; a kata whose launch takes no mesh needs no sharding.",
    ),
    *OLDER_SPELLINGS,
    *OTHER_LIBRARIES,
    (
        r"hidden_case\.grade|has lost its test",
        "Put back the last lines of the file: the grader finds your function through them.",
    ),
    (
        r"^NoDebugger",
        """\
A kernel is traced once, before it runs: a debugger would show tracers, without values. Use instead
    print(x.shape, x.dtype)      once, while it is traced
    pl.debug_print("{}", x)      at each grid step, with the values
    pytest -s -k NAME            prints are shown as they come, also where it passes
    kata view NAME               a picture of every grid step
To step through the tracing, call the launch in your own script, inside of
pltpu.force_tpu_interpret_mode(), and run that with python -m pdb.""",
    ),
    (
        r"^TooManyThreads|can't start new thread",
        "One thread traces a launch, and the grid describes the parallel work. Call pallas_call "
        "without threads.",
    ),
    (
        r"^MakesCode",
        "The grader asks which lines of your file a kernel comes from. Write the code in the file, "
        "without compile, exec, eval or copies of functions' code.",
    ),
    (
        r"^PermissionError|Operation not permitted|\[Errno (1|13)\]",
        "The process that imports a kata is isolated: it reads the files that Python and jax need "
        "and writes to its own folder, without your other files, network or other processes. No "
        "kata needs them. For your own experiments: pytest --kata-isolation off.",
    ),
    (
        r"^ModuleNotFoundError",
        "A kata is one file. It can import installed packages, such as jax and numpy, but no other "
        "file in its folder.",
    ),
    (
        r"out of memory|RESOURCE_EXHAUSTED|Unable to allocate|bad_alloc|MemoryError",
        "The case needs only a few megabytes. Look for an array that is built too large, or for a "
        "list that grows without end.",
    ),
)

#: The same for a kata without a kernel: the limits of jit, which traces it.
WITHOUT_KERNEL: AdviceTable = (
    (_STATIC, _CHOOSE_A_LENGTH),
    (
        rf"{_CONVERTED}|Concretization|TracerIntegerConversion|TracerArrayConversion|"
        r"'(list|tuple|str)' and '\w*Tracer'|'\w*Tracer' and '(list|tuple|str)'",
        "jit traces the function once for all values, so Python's if, for, int() and list() cannot "
        "look at one. Work on whole arrays; jnp.where(condition, x, y) chooses element by element.",
    ),
    (
        r"item assignment",
        "Arrays do not change: x = x.at[index].set(value) gives a new one.",
    ),
    *EXCEPTION_ADVICE,
)


def exception_advice(problem: Problem, known: AdviceTable = EXCEPTION_ADVICE) -> str:
    """The remedy for an exception whose text is known; "" for any other."""
    line = problem.place.text if problem.place else ""
    text = f"{problem.kind}: {problem.message}\n{line}"
    for pattern, advice in known:
        if re.search(pattern, text):
            return advice
    return ""
