"""What to try when an exception is raised while a launch is imported, traced or run."""

from __future__ import annotations

import re

from grader.checks.advice.derivatives import DERIVATIVES
from grader.checks.advice.launches import LAUNCH_ADVICE
from grader.checks.advice.literals import LITERALS
from grader.checks.advice.older_spellings import OLDER_SPELLINGS
from grader.checks.advice.other_libraries import OTHER_LIBRARIES
from grader.checks.advice.shard_maps import SHARD_MAP_ADVICE
from grader.checks.advice.stores import STORE_ADVICE
from grader.model import Problem

AdviceTable = tuple[tuple[str, str], ...]
_STATIC = r"must be static|NonConcreteBooleanIndex|Shapes must be 1D sequences of concrete values"
_CHOOSE_A_LENGTH = (
    "Under jit a shape cannot depend on a value, only on other shapes and on Python's numbers. "
    "Choose a length that is always enough (total_repeat_length=…, size=…), and select elements "
    "with jnp.where(condition, x, y), which keeps the shape."
)
_CONVERTED = r"Attempted boolean conversion of traced|TracerBoolConversionError"
_A_REF = (
    "A Ref is a handle to memory, not an array. Load what it holds with ref[...], for example "
    "x_ref[...], and compute with that."
)

#: A pattern in an exception's text, and what to try. The first that matches is shown.
EXCEPTION_ADVICE: AdviceTable = (
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
        f"{_A_REF} And use jnp in place of np: NumPy cannot compute with traced values.",
    ),
    (
        r"TracerArrayConversion",
        "NumPy needs numbers, and while a kernel or its launch is traced there are none yet. Use "
        "jnp in place of np.",
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
        "A kernel begins with generators that nobody has seeded, and each core has one of its own. "
        "Call pltpu.prng_seed in every step that draws, before it draws: another step may run on "
        "another core.",
    ),
    (
        r"dot_general requires contracting dimensions to have the same shape",
        "A product sums over one dimension of each side, and the two must be equally long: "
        "jnp.dot(x, y) takes the last of x and the last but one of y. For others: "
        "jax.lax.dot_general(x, y, (((x_dim,), (y_dim,)), ((), ()))).",
    ),
    (
        r"carry input and carry output must have (equal types|the same pytree structure)",
        "What the body of a loop returns is the next turn's carry, so it must be like the first "
        "one: a value for each, of the same shape and dtype. Is a return missing? If the dtypes "
        "differ, cast the first carry or what is returned with .astype, to the wider of the two.",
    ),
    (
        r"^ConcretizationTypeError[\s\S]*interpret_pallas_call",
        "The interpreter cannot run a parallel grid dimension whose size is a traced value: mark "
        "it arbitrary in dimension_semantics, or make its size a Python number.",
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
        r"should return None",
        "A kernel returns nothing: store the result, o_ref[...] = value.",
    ),
    (
        # The last line of the text is the learner's: here it slices.
        r"\A(?=[\s\S]*(?:boolean conversion of traced|static start))(?>[\s\S]*\n)"
        r".*\[[^\]:]*+:[^\]]*+\].*\Z",
        "A slice needs a size that is known while tracing: ref[pl.ds(start, size)], where start "
        "may be a value. But remember that a Ref holds only the block of the current grid step, "
        "and its indices start at 0: often [...] is all you need.",
    ),
    (
        rf"({_STATIC})[\s\S]*\bds\(",
        "The size of a slice is known while tracing; only its start may be a value: "
        "ref[pl.ds(start, size)]. To change some of a block's rows, compute all, and choose: "
        "jnp.where(mask, new, ref[...]), with a mask of row numbers from lax.broadcasted_iota.",
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
        # Of a kernel or an index map, which Pallas calls: not of a function that the line calls.
        r"(?:\b(\w+)|<lambda>)\(\) (missing|takes) \d+ (?![\s\S]*\b\1\()",
        "A kernel takes one Ref for each input, then each output, then each scratch buffer; an "
        "index map takes one index for each grid dimension. Where num_scalar_prefetch says that "
        "there are tables, a kernel takes their Refs first, and an index map after its indices.",
    ),
    (
        r"Buffers with a memory space of HBM or ANY cannot be referenced directly",
        "A core can only compute on VMEM: first copy from HBM, with pltpu.sync_copy or an async "
        "copy.",
    ),
    (
        r"there is no function \w+, which test_|hands over \w+, which is no function",
        "Give the launch function its name back. The lines outside of the regions, and the last "
        "ones among them, stay as they are.",
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
To step through the tracing, call the launch in a script of your own, inside of
pltpu.force_tpu_interpret_mode(), and run that with python -m pdb.""",
    ),
    (
        r"^PermissionError|Operation not permitted|\[Errno (1|13)\]",
        "The process that imports a kata is isolated: it reads what Python and jax need and writes "
        "to a folder of its own, without files of yours, network or other processes. No kata needs "
        "them. For an experiment of your own: pytest --kata-isolation off.",
    ),
    (
        r"^ModuleNotFoundError",
        "A kata is one file. It can import what is installed, such as jax and numpy, but nothing "
        "that lies beside it.",
    ),
    (
        r"out of memory|RESOURCE_EXHAUSTED|Unable to allocate|bad_alloc|MemoryError",
        "The case needs only a few megabytes. Look for an array that is built too large, or for a "
        "list that grows without end.",
    ),
)

#: The same for a kata without a kernel: what jit, which traces it, cannot do.
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
    """What to try, for an exception whose text is known; "" for any other."""
    line = problem.place.text if problem.place else ""
    text = f"{problem.kind}: {problem.message}\n{line}"
    for pattern, advice in known:
        if re.search(pattern, text):
            return advice
    return ""
