"""★★ Are block shapes legal, and does Mosaic lower the kernel for a TPU? With workarounds.

There is a table of workarounds for values in vector registers, one for memory (loads, stores,
copies, loops, calls), and one for any operation or the launch around it.
`tests/checks/test_lowers.py` lowers a kernel with the indented lines of every workaround.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pallascope.checks.launch_evidence import LaunchEvidence
from pallascope.checks.phrasing import at, listed, paragraph
from pallascope.model import Accident, Check, Finding, KernelCall, NotJudged, Operation, Problem
from pallascope.tpu.block_rules import block_paragraphs, block_text, refused_blocks


def check_blocks(evidence: LaunchEvidence) -> Finding | None:
    """Look at the blocks of every kernel in the trace, without running anything."""
    trace = evidence.observed.trace
    return blocks_finding(trace.calls) if trace else None


def blocks_finding(calls: Sequence[KernelCall]) -> Finding | None:
    """Explain which blocks of these kernels a TPU refuses, if any."""
    refused = [block for call in calls for block in refused_blocks(call)]
    if not refused:
        return None
    names = listed(operand.name for operand, _ in refused)
    first, _ = refused[0]
    parts = [paragraph(*part) for part in block_paragraphs(refused)]
    return Finding(
        Check.BLOCKS,
        f"a TPU refuses block {block_text(first.block)} of {names}",
        "\n".join(["A TPU would refuse these blocks.", *parts]),
    )


_NO_RULE = re.compile(r"Unimplemented primitive in Pallas TPU lowering")
#: Text that Mosaic addresses to its developers.
_NOISE = re.compile(
    r"Pallas encountered an internal verification error\. |Error details: |"
    r"Please file (an issue|a bug) at \S+\s*|\n? *see current operation:[\s\S]*|"
    r"\s*error: \"[\s\S]*\):(?= )"
)
#: JAX's name of an operation, and the one that a kernel's author uses.
_CALLED = {
    "get": "load",
    "swap": "store",
    "masked_load": "masked load",
    "masked_swap": "masked store",
    "dma_start": "async copy",
    "dot_general": "dot",
}


NOTHING_LOWERED = "the launch, traced for a TPU, has no kernel that could be lowered"


def check_lowers(evidence: LaunchEvidence) -> Finding | NotJudged | None:
    """Check how far the launch got on its way to a TPU."""
    own = evidence.own_on_chips()
    if isinstance(own, Accident):
        return None  # the next rung reports it
    if own.problem is not None:
        if own.unsupported:
            return NotJudged(Check.LOWERS, own.problem.message)
        return lowering_finding(own.problem, evidence.file)
    if not all(own.on(chip) for chip in evidence.chips):
        return NotJudged(Check.LOWERS, NOTHING_LOWERED)
    return None


def lowering_finding(problem: Problem, file: str) -> Finding:
    """Explain an exception while the launch was traced and lowered for a TPU.

    `file` is the judged one, relative to the root.
    """
    advice = workaround_for(problem)
    parts = [
        f"{_sentence(_phrase(problem))}.",
        paragraph("error", _error(problem)),
    ]
    if problem.place:
        parts.append(paragraph("line", at(file, problem.place)))
    if advice:
        parts += [paragraph("why", advice.why), paragraph("try", advice.remedy)]
    elif _NO_RULE.search(problem.message):
        parts.append(paragraph("try", _BUILD))
    return Finding(Check.LOWERS, _phrase(problem), "\n".join(parts), problem.traceback)


_BUILD = (
    "Build it from a TPU's operations: arithmetic, comparisons, jnp.where, jnp.dot, sums and "
    "maxima along a dimension. Or do it outside the kernel."
)


def _phrase(problem: Problem) -> str:
    operation = problem.operation
    if operation is None:
        return _when(problem)
    verb = "cannot lower" if _NO_RULE.search(problem.message) else "refuses"
    within = f" (in {operation.within})" if operation.within else ""
    return f"Mosaic {verb} {_called(operation)}{within}"


def _sentence(phrase: str) -> str:
    return f"{phrase[0].upper()}{phrase[1:]}"


def _when(problem: Problem) -> str:
    if problem.kind == "NotLowered":
        return "Mosaic refuses the launch"
    return "the launch cannot be traced for a TPU"


def _error(problem: Problem) -> str:
    hint = "\n(the whole text: pytest -vv)"
    if problem.operation is None:
        return _shortened(problem) + hint
    operation = _described(problem.operation)
    if _NO_RULE.search(problem.message):
        return f"Mosaic has no lowering for {operation}.{hint}"
    return f"in lowering {operation}:\n{_shortened(problem)}{hint}"


def _described(operation: Operation) -> str:
    """ "dot of bfloat16[8, 128] and bfloat16[128, 128]", "sort of …, a part of median"."""
    arrays = [operand for operand in operation.operands if operand.shape] or operation.operands
    text = _called(operation)
    if arrays:
        text += f" of {listed(arrays, 3)}"
    return f"{text}, a part of {operation.within}" if operation.within else text


def _called(operation: Operation) -> str:
    return _CALLED.get(operation.name, operation.name)


def _shortened(problem: Problem) -> str:
    """Mosaic's own message, without the text for its developers."""
    kind = "" if problem.kind == "NotLowered" else f"{problem.kind}: "
    text = _NOISE.sub("", kind + problem.message).strip()
    first = (text.splitlines() or [""])[0].strip()
    return f"{first.removesuffix(':')} (without a message)" if first.endswith(":") else first


# ---- workarounds ----


@dataclass(frozen=True, slots=True)
class Workaround:
    """For the named operations (for any, where none is named) when Mosaic's text matches `text`.

    `why` names the TPU's limit, `remedy` the usual workaround, with lines of code indented.
    """

    operations: tuple[str, ...]
    text: str
    why: str
    remedy: str


LAUNCHES: tuple[Workaround, ...] = (
    Workaround(
        (),
        "cannot be automatically partitioned",
        "XLA divides only its own operations among chips. It doesn't know how a kernel uses its "
        "arrays, so it can't tell which part of which array each chip needs.",
        "Put jax.shard_map(function, mesh=mesh, in_specs=…, out_specs=…, check_vma=False) around "
        "the launch. The function then runs on each chip, with its part of each array. It has to "
        "use all axes of the mesh: leave axis_names out.",
    ),
    Workaround(
        (),
        r"\bfloat16",
        "A TPU computes in float32 and bfloat16; it has no float16.",
        "Use bfloat16: it has the same width, with the range of float32 and fewer digits.",
    ),
    Workaround(
        (),
        "complex|VectorElementTypeInterface",
        "Registers hold real numbers of up to 32 bits, not complex ones.",
        "Keep real and imaginary parts in two arrays.",
    ),
    Workaround(
        (),
        "Not implemented: accuracy",
        "A TPU has only one way to compute this function.",
        "Leave accuracy= out.",
    ),
    Workaround(
        (),
        "double .2. buffering",
        "The pipeline that pallas_call builds on a TPU keeps one or two copies of each block.",
        "Use pl.Buffered(1) or pl.Buffered(2). pltpu.emit_pipeline, inside a kernel, takes more.",
    ),
    Workaround(
        (),
        "must be Elements",
        "A block is placed by counting blocks along all its dimensions, or by counting elements "
        "along all of them.",
        "Make every dimension a pl.Element, (pl.Element(8), pl.Element(256)), and let the index "
        "map return elements.",
    ),
    Workaround(
        (),
        "length of dimension semantics",
        "Each dimension of the grid is either parallel or arbitrary.",
        "Give dimension_semantics one entry for each dimension of the grid.",
    ),
    Workaround(
        (),
        r"block shape|[Bb]lock spec|blocks of rank",
        "Registers are 8 sublanes by 128 lanes, and blocks must be cut along their edges.",
        "Make the last dimension of a block a multiple of 128 and the one before it a multiple of "
        "8, or make them as large as the array's.",
    ),
)


_NO_ADDRESS = (
    "A value is in vector registers, which have no addresses: only memory, a Ref, can be read or "
    "written at a computed place."
)
_VMEM = (
    "The vector unit reads and writes VMEM by registers of 8 sublanes by 128 lanes; single numbers "
    "belong to the scalar unit, whose memory is SMEM."
)

MEMORY: tuple[Workaround, ...] = (
    Workaround(
        ("scatter", "scatter-add", "scatter-mul", "scatter-max", "scatter-min"),
        "",
        _NO_ADDRESS,
        "Store to a part of the Ref instead of using .at on the value:\n"
        "    o_ref[2:4, :] = new\n"
        "or choose elements:\n"
        "    rows = lax.broadcasted_iota(jnp.int32, x.shape, 0)\n"
        "    x = jnp.where(rows == 5, 0, x)\n"
        "To add up by index (bincount, segment_sum), multiply by a one-hot matrix.",
    ),
    Workaround(
        ("dynamic_slice", "dynamic_update_slice"),
        "",
        _NO_ADDRESS,
        "Slice the Ref instead of the value:\n"
        "    x_ref[pl.ds(pl.multiple_of(start, 8), 8), :]\n"
        "The compiler must know that the start is a multiple of 8 (columns: of 128), unless it is "
        "one row. First store a value that the kernel has computed to a scratch Ref.",
    ),
    Workaround(
        ("gather",),
        "",
        "A gather takes its addresses from a vector; loads take theirs from scalars.",
        "Keep the indices in SMEM (scalar prefetch) and loop over the rows:\n"
        "    o_ref[pl.ds(r, 1), :] = x_ref[pl.ds(ids_ref[r], 1), :]\n"
        "or, with ids in a column, let the MXU select the rows:\n"
        "    rows = lax.broadcasted_iota(jnp.int32, (n, n), 1)\n"
        '    jnp.dot((ids == rows).astype(x.dtype), x, precision="highest")',
    ),
    Workaround(
        ("get", "swap"),
        "Cannot do int indexing",
        "With an array of indices, the load would take its addresses from a vector; loads take "
        "them from scalars.",
        "Keep the indices in SMEM (scalar prefetch) and loop over the rows:\n"
        "    o_ref[pl.ds(r, 1), :] = x_ref[pl.ds(ids_ref[r], 1), :]",
    ),
    Workaround(
        ("scan",),
        "extensive",
        f"{_NO_ADDRESS} So a loop can carry values, but it can't step along an array.",
        "Loop over the rows of the Ref, and let each turn load and store:\n"
        "    def step(i, carry):\n"
        "        carry = carry + x_ref[pl.ds(i, 1), :]\n"
        "        o_ref[pl.ds(i, 1), :] = carry\n"
        "        return carry\n"
        "    lax.fori_loop(0, n, step, jnp.zeros((1, x_ref.shape[1]), x_ref.dtype))",
    ),
    Workaround(
        ("scan",),
        r"NotImplementedError: ?$",
        "Mosaic's loops count upwards, one by one.",
        "Count up with lax.fori_loop(0, n, …) and use this index:\n    i = n - 1 - step",
    ),
    Workaround(
        ("pure_callback", "io_callback"),
        "",
        "A kernel runs on the TPU's own core, without Python, and no result of the host can come "
        "back before the kernel has ended. The interpreters run on the host, which is why they "
        "accept it.",
        "Compute with jax.numpy inside the kernel, or before or after the pallas_call. To look at "
        "a value:\n"
        '    pl.debug_print("{}", x)',
    ),
    Workaround(
        ("debug_print",),
        "",
        "A core writes records of a fixed form: 32-bit scalars, or one vector.",
        "For scalars, one {} for each int32 and none for a float32; for a vector, a text that ends "
        "in its {}:\n"
        '    pl.debug_print("step {}", pl.program_id(0))\n'
        '    pl.debug_print("block {}", x)',
    ),
    Workaround(
        ("swap", "masked_swap"),
        "Cannot store scalars to VMEM",
        _VMEM,
        "Keep the dimensions, for an o_ref of shape (1, 1):\n"
        "    o_ref[...] = jnp.sum(x, keepdims=True)\n"
        "or give the output out_specs=pl.BlockSpec(memory_space=pltpu.SMEM). To change one element "
        "of a block, use jnp.where with a mask.",
    ),
    Workaround(
        ("get", "swap"),
        "scalars (from|to) SMEM",
        "SMEM belongs to the scalar unit, which handles one number at a time.",
        "Index a single element:\n    ids_ref[r]\nVectors belong in VMEM.",
    ),
    Workaround(
        ("get", "swap"),
        "only allowed on VMEM and SMEM",
        "A core computes on its own memories, VMEM and SMEM. It reaches HBM only by copies.",
        "First copy to a VMEM scratch Ref (or back from one):\n"
        "    pltpu.sync_copy(x_ref, scratch_ref)\n"
        "or leave memory_space out of the BlockSpec, and the pipeline copies blocks for you.",
    ),
    Workaround(
        ("masked_load", "masked_swap"),
        "",
        "Stores are masked lane by lane, for elements of 32 bits; loads are not.",
        "Load everything, and choose:\n    o_ref[...] = jnp.where(mask, x, other)",
    ),
    Workaround(
        ("dma_start",),
        r"\bbool",
        "Mosaic keeps a bool in memory as an int32, but its copies don't take that into account.",
        "Keep the mask in HBM as int8, and compare after the copy:\n    mask = m_ref[...] != 0",
    ),
    Workaround(
        ("random_split",),
        "",
        "Mosaic draws random bits from a key, but it can't split keys.",
        "Make a key for each use from a seed:\n"
        "    key = jax.random.fold_in(jax.random.key(0), pl.program_id(0))",
    ),
    Workaround(
        ("remat2", "optimization_barrier"),
        "",
        "Inside a kernel nothing is kept for a backward pass, so nothing can be recomputed for it, "
        "and XLA's passes do not look inside.",
        "Leave it out of the kernel.",
    ),
)


_ELEMENTWISE = (
    "The vector unit works on registers of 8 sublanes by 128 lanes, on each element by itself: "
    "nothing is carried over from one element to the next."
)
_ACROSS = (
    "Across the lanes and sublanes of a register, a TPU can add, and take the largest or the "
    "smallest element; it has no instruction for other reductions."
)
_OUTSIDE = "Do it outside the kernel, and pass the result in as another input."

#: Functions without an instruction, and formulas for them. They avoid differences of nearly equal
#: numbers, such as exp(x) - 1 for a small x. Only erfc's has one, for a large x.
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
        "No instruction sorts: elements would have to move to lanes that depend on their values.",
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
        "Give the windows their own dimension and reduce that:\n"
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
        "For rows, give the stride its own dimension:\n"
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


#: The first that matches is given.
WORKAROUNDS = (*VALUES, *MEMORY, *LAUNCHES)


def workaround_for(problem: Problem) -> Workaround | None:
    """The known workaround for a refusal, if any."""
    name = problem.operation.name if problem.operation else ""
    if formula := FORMULAS.get(name):
        return _formula(name, formula)
    operands = problem.operation.operands if problem.operation else ()
    text = " ".join([*(operand.dtype for operand in operands), problem.message])
    for advice in WORKAROUNDS:
        known = not advice.operations or name in advice.operations
        if known and re.search(advice.text, text):
            return advice
    return None


def _formula(name: str, formula: str) -> Workaround:
    why = f"The TPU has no instruction for {name}, and Mosaic does not build it from others."
    remedy = f"Write it with functions that Mosaic has:\n    {formula}"
    if name == "erfc":
        remedy += (
            "\n"
            "The difference loses digits from x = 1 on, and all at 4: if you need the tail, "
            "compute it outside the kernel."
        )
        remedy += "\nFor an exact GELU:\n    x / 2 * (1 + lax.erf(x / jnp.sqrt(2.0)))"
    return Workaround((name,), "", why, remedy)
