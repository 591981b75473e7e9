"""★★ Does libtpu accept the kernel, and does it fit into VMEM?"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from pallascope.checks.launch_evidence import LaunchEvidence
from pallascope.checks.phrasing import at, listed, paragraph
from pallascope.model import Accident, Check, Finding, NotJudged, Observation, Role, SubWordInt
from pallascope.tools.text import format_bytes
from pallascope.tpu import OnChip, Prediction
from pallascope.tpu.block_rules import Block
from pallascope.tpu.chips import named
from pallascope.tpu.libtpu_errors import LibtpuRefusal, LibtpuRefusalKind
from pallascope.tpu.vmem import Allocation, Fit, Use, smaller_blocks

#: The end of libtpu's internal names that gives the width of an operation's integers:
#: kVectorAddS16.
_WIDTH = re.compile(r"k[A-Z]\w*?[SU](\d+)\b")
_UNROLLED = (
    "The compiler writes out each operation once for every register that its operands fill, and a "
    "Python loop once for every turn. Use smaller blocks, jax.lax.fori_loop, or fewer operations."
)


def accident_finding(accident: Accident, evidence: LaunchEvidence) -> Finding:
    """Explain a compiler that crashed, or was stopped, on the judged kernel."""
    if accident.stuck:
        stopped, _, _ = accident.message.partition("\n")
        took = f"The TPU's compiler took too long.\n{stopped}\n{paragraph('try', _UNROLLED)}"
        return Finding(Check.COMPILES, f"the TPU's compiler gave {accident.phrase}", took)
    if narrow := _given_up_at(accident, evidence):
        return _narrow(accident, narrow, evidence)
    return Finding(
        Check.COMPILES,
        f"while compiling: {accident.phrase}",
        f"The process that compiled the kernel for a TPU did not answer.\n{accident.message}",
    )


def _given_up_at(accident: Accident, evidence: LaunchEvidence) -> SubWordInt | None:
    """The kernel's integers that the compiler crashed on, by the width in its last words."""
    width = _WIDTH.search(accident.last_words)
    trace = evidence.attempt.trace if isinstance(evidence.attempt, Observation) else None
    if not width or trace is None:
        return None
    used = (narrow for call in trace.calls for narrow in call.sub_word_ints)
    return next((one for one in used if re.search(rf"[a-z]{width[1]}$", one.dtype)), None)


def _narrow(accident: Accident, narrow: SubWordInt, evidence: LaunchEvidence) -> Finding:
    chips = listed(evidence.chips)
    lines = [
        f"The TPU's compiler crashes on the {narrow.dtype} numbers of the kernel.",
        paragraph("error", f"on {chips}, it ended with: {accident.last_words}"),
    ]
    if narrow.line:
        lines.append(paragraph("line", f"{evidence.file}:{narrow.line}"))
    lines += [
        paragraph("why", IN_32_BITS),
        paragraph(
            "try",
            f"Compute in jnp.int32 instead of jnp.{narrow.dtype}: make an index or a mask with "
            "jax.lax.broadcasted_iota(jnp.int32, shape, dimension), and cast a loaded value after "
            "the load and back before the store.",
        ),
    ]
    phrase = f"{narrow.dtype} arithmetic crashes the TPU's compiler"
    return Finding(Check.COMPILES, phrase, "\n".join(lines), accident.message)


def check(evidence: LaunchEvidence) -> Finding | NotJudged | None:
    """Check the compiler's result for every kernel and every chip of the session."""
    own = evidence.own_on_chips()
    if isinstance(own, Accident):
        return accident_finding(own, evidence)
    refused = [prediction for prediction in own.predictions if prediction.failure]
    if refused:
        return refused_finding(refused, evidence.file)
    if not own.not_compiled:
        return None
    first = own.not_compiled[0]
    par = evidence.par_on_chips()
    par_was = isinstance(par, OnChip) and par.on(first.chip) and not par.not_compiled
    if first.call.unknown or not par_was:
        return NotJudged(Check.COMPILES, first.unknown)
    return _not_compiled(first)


def _not_compiled(kernel: Prediction) -> Finding:
    """The compiler is available and has compiled par, but not the judged kernel."""
    parts = [
        f"The kernel was not compiled for a {kernel.chip}, although the solution's was.",
        paragraph("why", f"{kernel.call.name}: {kernel.unknown or 'no reason is known'}"),
        paragraph(
            "try",
            "Leave the environment and jax's configuration as they are: neither the kata's file "
            "nor its launch has to set anything to be compiled.",
        ),
    ]
    return Finding(Check.COMPILES, "not compiled, although par was", "\n".join(parts))


def refused_finding(refused: Sequence[Prediction], file: str) -> Finding:
    """Explain refusals, at least one. `file` is the judged one, relative to the root."""
    alike: dict[tuple[str, LibtpuRefusalKind, str], list[Prediction]] = {}
    for prediction in refused:
        failure = _failure(prediction)
        same = alike.setdefault((prediction.call.name, failure.kind, failure.message), [])
        same.append(prediction)
    parts = [_headline(next(iter(alike.values())))]
    for group in alike.values():
        parts += _explained(group, file)
    first = next(iter(alike.values()))
    full = "\n\n".join(_failure(group[0]).full for group in alike.values())
    return Finding(Check.COMPILES, _phrase(first), "\n".join(parts), full)


def _failure(prediction: Prediction) -> LibtpuRefusal:
    assert prediction.failure is not None
    return prediction.failure


def _chips(group: Iterable[Prediction]) -> str:
    return listed(dict.fromkeys(one.chip for one in group))


def _headline(group: Sequence[Prediction]) -> str:
    if _failure(group[0]).kind is LibtpuRefusalKind.CORES:
        return "The chip has fewer cores than the kernel asks for."
    if _failure(group[0]).kind is LibtpuRefusalKind.VMEM:
        return "The kernel needs more VMEM than it may have."
    return "The TPU's compiler refuses the kernel."


def _phrase(group: Sequence[Prediction]) -> str:
    failure = _failure(group[0])
    if failure.kind is LibtpuRefusalKind.CORES:
        return f"asks for {group[0].call.cores} TensorCores; {_cores_of(group[0].chip)}"
    if failure.kind is LibtpuRefusalKind.VMEM:
        return (
            f"needs {format_bytes(failure.wanted)} of VMEM; "
            f"the limit on {group[0].chip} is {format_bytes(failure.limit)}"
        )
    if failure.kind in _MEMORIES:
        return f"needs more {_MEMORIES[failure.kind]} than a {group[0].chip} has"
    refuse = "refuses" if len({prediction.chip for prediction in group}) == 1 else "refuse"
    return f"{_chips(group)} {refuse} it: {failure.message}"


def _explained(group: Sequence[Prediction], file: str) -> list[str]:
    failure = _failure(group[0])
    if failure.kind is LibtpuRefusalKind.CORES:
        return list(_cores(group))
    if failure.kind is LibtpuRefusalKind.VMEM:
        return list(_vmem(group, failure))
    if failure.kind in _MEMORIES:
        return list(_memory(group, failure))
    return list(_unsupported(group, failure, file))


# ---- cores ----


def _cores(group: Sequence[Prediction]) -> Iterator[str]:
    call = group[0].call
    chips = listed(_cores_of(chip) for chip in dict.fromkeys(one.chip for one in group))
    yield paragraph("cores", f"the mesh of {call.name} asks for {call.cores} TensorCores; {chips}.")
    yield paragraph(
        "try",
        "Let the mesh take as many cores as there are: leave out num_cores. Read their number from "
        "mesh.shape, and divide the work by it.",
    )


def _cores_of(chip: str) -> str:
    count = named(chip).cores
    return f"a {chip} has {'one' if count == 1 else count}"


# ---- VMEM ----


def _vmem(group: Sequence[Prediction], failure: LibtpuRefusal) -> Iterator[str]:
    chip, call = named(group[0].chip), group[0].call
    yield paragraph(
        "vmem",
        f"{call.name} needs {format_bytes(failure.wanted)} of VMEM on {_chips(group)}; "
        f"the limit is {format_bytes(failure.limit)}:\n{_table(failure)}",
    )
    copied = (one.space not in ("any", "hbm") for one in call.role(Role.INPUT, Role.OUTPUT))
    if math.prod(size or 2 for size in call.grid) == 1 and any(copied):
        one = (
            "The kernel has a single grid step, and its blocks are whole arrays. Real arrays are "
            "larger than VMEM: a grid and BlockSpecs cut them into blocks that fit."
        )
        yield paragraph("why", one)
    if any(a.buffers > 1 for a in failure.allocations):
        twice = (
            "There are two copies of a block that moves, so that the next block is copied in while "
            "the kernel uses this one."
        )
        yield paragraph("why", twice)
    fits = smaller_blocks(call, failure.limit, failure.wanted)
    if fits:
        yield paragraph("fits", f"blocks {_blocks(fits)} would fit.")
    advice = [
        _ways(failure, fits),
        _one_buffer(failure, chip.vmem),
        _higher_limit(failure, chip.vmem, chip.name),
    ]
    yield paragraph("try", " ".join(filter(None, advice)))


def _table(failure: LibtpuRefusal) -> str:
    """The allocations, the largest first, in indented lines."""
    listed_sizes = sum(a.size for a in failure.allocations)
    rows = [(_called(a), _held(a), a.size) for a in failure.allocations]
    if failure.wanted - listed_sizes > 0.02 * failure.wanted:
        rows.append(("values", "of the kernel's computation", failure.wanted - listed_sizes))
    rows.sort(key=lambda row: -row[2])
    name = max(len(row[0]) for row in rows)
    held = max(len(row[1]) for row in rows)
    return "\n".join(f"  {a:<{name}}  {b:<{held}}  {format_bytes(size):>8}" for a, b, size in rows)


def _called(allocation: Allocation) -> str:
    return allocation.name or allocation.use.value


def _held(allocation: Allocation) -> str:
    if allocation.use is Use.SPILL:
        return "values that no register was free for"
    shape = re.sub(r",(?=\d)", ", ", allocation.shape)
    return f"{allocation.buffers} × {shape}" if allocation.buffers > 1 else shape


def _blocks(fits: Sequence[Fit]) -> str:
    """ "(256, 512) of x_ref and o_ref and (256, 128) of y_ref"."""
    names: dict[Block, list[str]] = {}
    for fit in fits:
        names.setdefault(fit.block, []).append(fit.name)
    return listed(f"{_shape(block)} of {listed(same)}" for block, same in names.items())


def _shape(block: Block) -> str:
    return f"({', '.join(map(str, block))}{',' if len(block) == 1 else ''})"


def _ways(failure: LibtpuRefusal, fits: Sequence[Fit]) -> str:
    spilled = sum(a.size for a in failure.allocations if a.use is Use.SPILL)
    ways = "Use smaller blocks, and a grid with more steps." if fits else ""
    scratch = sum(a.size for a in failure.allocations if a.use is Use.SCRATCH)
    if not fits and scratch > failure.limit / 2:
        ways = "The scratch alone takes most of it: hold less of the problem at a time."
    if spilled > failure.wanted / 10:
        ways += " A value as large as a whole block does not fit into registers: loop over parts."
    return ways.strip()


def _one_buffer(failure: LibtpuRefusal, vmem: int) -> str:
    """If one operand's buffers take most of it: the memory that a single buffer would save."""
    windows = [a for a in failure.allocations if a.use is Use.WINDOW and a.buffers > 1 and a.name]
    largest = max(windows, key=lambda a: a.size, default=None)
    if largest is None or largest.size <= failure.wanted / 2:
        return ""
    saved = largest.size - largest.size // largest.buffers
    if failure.wanted - saved > vmem:
        return ""
    return (
        f"If the block of {largest.name} seldom changes, pipeline_mode=pl.Buffered(1) in its "
        f"BlockSpec saves {format_bytes(saved)}: it has one buffer then, and the kernel waits for "
        "each new block."
    )


def _higher_limit(failure: LibtpuRefusal, vmem: int, chip: str) -> str:
    if vmem < 1.5 * failure.limit or failure.wanted > vmem:
        return ""
    return (
        f"Or ask for more: a {chip} has {format_bytes(vmem)}, and "
        f"compiler_params=pltpu.CompilerParams(vmem_limit_bytes=…) sets a kernel's limit."
    )


# ---- other memories ----

_MEMORIES = {
    LibtpuRefusalKind.SMEM: "SMEM",
    LibtpuRefusalKind.SEMAPHORES: "semaphores",
    LibtpuRefusalKind.HBM: "HBM",
}
_ADVICE = {
    LibtpuRefusalKind.SMEM: (
        "SMEM is for a few scalars: keep tables in VMEM or HBM, and let a BlockSpec with "
        "memory_space=pltpu.SMEM bring in the part for a grid step."
    ),
    LibtpuRefusalKind.SEMAPHORES: "A semaphore can be used again after a wait: one for each copy "
    "that is in flight at the same time is enough.",
    LibtpuRefusalKind.HBM: "Inputs and outputs together must fit into the chip's main memory: "
    "use smaller arrays.",
}


def _memory(group: Sequence[Prediction], failure: LibtpuRefusal) -> Iterator[str]:
    name = _MEMORIES[failure.kind]
    needs = f"{group[0].call.name} needs {format_bytes(failure.wanted)} of {name}"
    yield paragraph(
        "memory", f"{needs} on {_chips(group)}, which has {format_bytes(failure.limit)}."
    )
    for allocation in failure.allocations:
        yield paragraph("takes", f"{_called(allocation)} {allocation.shape}")
    yield paragraph("try", _ADVICE[failure.kind])


# ---- what the compiler can't do ----


def _unsupported(group: Sequence[Prediction], failure: LibtpuRefusal, file: str) -> Iterator[str]:
    advice = libtpu_advice(failure)
    error = f"in {advice.called}:\n{failure.message}" if advice.called else failure.message
    yield paragraph("error", f"on {_chips(group)}, {error}\n(the whole text: pytest -vv)")
    if failure.place:
        own = PurePath(failure.file).parts[-len(PurePath(file).parts) :] == PurePath(file).parts
        yield paragraph("line", at(file if own else failure.file, failure.place))
    if advice.why:
        yield paragraph("why", advice.why)
    yield paragraph("try", advice.remedy)


# ---- advice on what libtpu refuses ----


@dataclass(frozen=True, slots=True)
class CompilerLimit:
    """The operation, in the words of a kernel's author; why it can't be compiled; a remedy."""

    called: str
    why: str
    remedy: str


#: MLIR's name for an operation, and the one that a kernel's author uses.
_CALLED = {
    "load": "a load",
    "vector_load": "a load",
    "strided_load": "a strided load",
    "vector_store": "a store",
    "strided_store": "a strided store",
    "memref_slice": "a slice of a Ref",
    "matmul": "a matmul",
    "shape_cast": "a reshape",
    "reshape": "a reshape",
    "dynamic_gather": "a gather",
    "multi_reduction": "a reduction",
    "reduce": "a reduction",
    "addi": "an addition",
    "addf": "an addition",
    "subi": "a subtraction",
    "subf": "a subtraction",
    "muli": "a multiplication",
    "mulf": "a multiplication",
    "divsi": "a division",
    "divf": "a division",
    "remsi": "a remainder",
    "remf": "a remainder",
    "maxsi": "a maximum",
    "maxui": "a maximum",
    "maximumf": "a maximum",
    "minsi": "a minimum",
    "minui": "a minimum",
    "minimumf": "a minimum",
    "cmpf": "a comparison",
    "cmpi": "a comparison",
    "ctpop": "population_count",
}
_DTYPES = {
    "i1": "bool",
    "i4": "int4",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f8E4M3FN": "float8_e4m3fn",
    "f8E5M2": "float8_e5m2",
}

IN_32_BITS = (
    "The vector unit adds and compares 32-bit numbers, and few operations work on narrower ones: "
    "small dtypes are for storage and for the matrix unit."
)
_CAST = (
    "Cast after the load and back before the store:\n"
    "    o_ref[...] = f(x_ref[...].astype({wide})).astype(o_ref.dtype)"
)

_OF_MASKS = (
    "Masks have their own registers, and few operations move elements around in them.",
    "First turn the mask into int32 numbers, jnp.where(mask, 1, 0), and compare again at the end.",
)

#: By operation, dtypes and message, in this order; the first that matches is given.
_KNOWN: tuple[tuple[str, str, str], ...] = (
    (
        r"\bfloat16\b",
        "A TPU has no float16: its 16-bit floating-point numbers are bfloat16, with float32's "
        "range and 8 bits of precision.",
        "Use jnp.bfloat16, or float32, for the kernel's arrays.",
    ),
    (
        r"Setting seed with more than 2 values",
        "A core's generator takes one or two numbers as its seed.",
        "Make one number from the block's position, such as i * pl.num_programs(1) + j for block "
        "(i, j), and pass it after the seed: pltpu.prng_seed(seed, number).",
    ),
    (
        r"^a store of (bfloat16|float8_\w+|int8|int16)\b[\s\S]*index in dimension \d+ is a "
        r"multiple of [24]\b",
        "Two rows of bfloat16, or four of int8, share words of 32 bits. A single row can't be "
        "stored at a position that is known only at run time.",
        "Load the rows that share words, replace one of them, and store all:\n"
        "    row = jax.lax.broadcasted_iota(jnp.int32, old.shape, 0)\n"
        "    ref[...] = jnp.where(row == position, new, old)",
    ),
    (
        r"statically prove that index in dimension",
        "A load or a store in VMEM begins at the edge of a tile of (8, 128), and the compiler must "
        "see that it does while it compiles.",
        "If the start is always a multiple of 128 (or 8), say so:\n"
        "    x_ref[:, pl.ds(pl.multiple_of(start, 128), 128)]\n"
        "If not, load from the tile's edge and shift: pltpu.roll(block, shift, axis).",
    ),
    (
        r"Offsets along tiled dimensions|aligned to til",
        "The rows that a copy from or to HBM moves must lie within one tile, or begin and end at "
        "the edges of tiles, of 8 rows (int8: 32). Two rows of bfloat16, or four of int8, share "
        "words of 32 bits and are moved together. Columns are moved in tiles of 128. The compiler "
        "must be able to prove that a start is such a multiple.",
        "If a start always is, say so: pl.multiple_of(start, 8), or the number of rows instead of "
        "8 if that is smaller. If not, copy an aligned part that contains your elements, and "
        "select them in VMEM.",
    ),
    (
        r"^a matmul of bfloat16\b[\s\S]*Bad (lhs|rhs) type",
        "A higher precision= splits float32 operands into parts of bfloat16 and multiplies these. "
        "Operands that are bfloat16 already have nothing to split: their products are exact in "
        "float32 as it is.",
        "Leave precision= out, and keep the sum in float32: preferred_element_type=jnp.float32. "
        "Without precision=, look for a dtype that the matrix unit of this chip doesn't have.",
    ),
    (
        r"^a matmul\b",
        "The matrix unit of this chip can't multiply these dtypes: bfloat16 works on all chips, "
        "int8 and float8 on some.",
        "Cast both sides, and keep the sum in float32:\n"
        "    jnp.dot(x.astype(jnp.bfloat16), y.astype(jnp.bfloat16), "
        "preferred_element_type=jnp.float32)",
    ),
    (
        r"^a gather\b",
        "A gather selects within one register: indices are int32, elements are 32 bits wide, and "
        "along the rows it reaches over 8 of them at most.",
        "Widen the elements to 32 bits; gather by a matmul with a one-hot matrix; or let an index "
        "map choose the block by scalar prefetch.",
    ),
    (
        r"^a reshape of (bfloat16|float8_\w+|int8|int16)\b[\s\S]*"
        r"\(vector<(\d+)x\w+>\) -> vector<\2x1x\w+>",
        "A vector lies along the lanes. Only numbers of 32 bits can be moved from there into a "
        "column.",
        "Cast first: v.astype(jnp.float32)[:, None].",
    ),
    (
        r"^a reshape\b|shape.cast",
        "Elements stay in their lane: a reshape may split or merge dimensions before the last one, "
        "but not change how elements run along the 128 lanes.",
        "Reshape outside the kernel, or keep the last dimension: (48, 128) to (6, 8, 128) works.",
    ),
    (
        r"^a strided (load|store)\b",
        "A stride can skip rows, not lanes, and only in arrays whose last dimension is 128.",
        "Use pl.ds(start, size, stride=…) on the second-to-last dimension of an array with 128 "
        "columns, or transpose first.",
    ),
    (r"^\w+( \w+)? of bool\b|Invalid relayout.*xi1>", *_OF_MASKS),
    (
        r"\b(int4|int8|int16)\b|vector<i16> and vector<i32>",
        IN_32_BITS,
        _CAST.format(wide="jnp.int32"),
    ),
    (r"\b(float8_\w+|bfloat16)\b", IN_32_BITS, _CAST.format(wide="jnp.float32")),
    (r"\bbool\b", *_OF_MASKS),
)
_FOR_ANYTHING_ELSE = (
    "Compute this part in float32 or int32 on whole tiles of (8, 128), with other operations, or "
    "outside the kernel."
)


def libtpu_advice(failure: LibtpuRefusal) -> CompilerLimit:
    """The advice for a known refusal; for an unknown one, a general remedy."""
    name = failure.operation.partition(".")[2]
    dtypes = dict.fromkeys(re.findall(r"(?<=[x<])[a-z]\w{0,30}(?=[,>])", failure.types))
    known = [_DTYPES[dtype] for dtype in dtypes if dtype in _DTYPES]
    called = _CALLED.get(name, name)
    if called and known:
        called += f" of {known[0]}"
    if failure.kind is LibtpuRefusalKind.UNSUPPORTED:
        text = f"{called} {' '.join(known)} {failure.message} {failure.types}"
        for pattern, why, remedy in _KNOWN:
            if re.search(pattern, text):
                return CompilerLimit(called, why, remedy)
    return CompilerLimit(called, "", _FOR_ANYTHING_ELSE)
