"""Diagnoses of NaN, infinity, unwritten blocks, uninitialized memory, and races."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import numpy as np

from pallascope.checks.compare import Comparison, Index, Mask
from pallascope.checks.diagnoses.suspect import Diagnosis, Suspect, blocks_in_words
from pallascope.checks.phrasing import count, listed
from pallascope.model import (
    PIPELINE_INPUT,
    FirstAccess,
    KernelCall,
    Operand,
    Role,
    UnwrittenUse,
)


def padding_used(suspect: Suspect) -> Diagnosis | None:
    """NaN from past an input's edge, as a run without other NaN has shown.

    If NaN stay with zeros in that padding, they have another cause, which comes first.
    """
    if not suspect.wrong_nan.any() or suspect.computed_nan:
        return None
    used = suspect.padding or ()
    ragged = [place for place in ragged_inputs(suspect) if place[0].name in used]
    places = list({place[0].name: place for place in reversed(ragged)}.values())
    return _of_padding(places, suspect.result)


def padding_likely(suspect: Suspect) -> Diagnosis | None:
    """NaN from unwritten memory, where the last block of some input overhangs the array."""
    if suspect.padding is not None or not suspect.garbage:
        return None
    ragged = ragged_inputs(suspect)
    summed = [place for place in ragged if not _kept(suspect, place)] or ragged
    places = list({place[0].name: place for place in reversed(summed)}.values())
    return _of_padding(places, suspect.result)


def _of_padding(ragged: list[tuple[Operand, int]], result: Comparison) -> Diagnosis | None:
    """The diagnosis for the padding of these operands along these dimensions."""
    if not ragged:
        return None
    names = listed(dict.fromkeys(operand.name for operand, _ in reversed(ragged)))
    operand, axis = ragged[-1]
    size, block = operand.array.shape[axis], operand.block[axis] or 1
    whose = "Its" if len(ragged) == 1 else f"{operand.name}'s"
    nan = np.isnan(result.actual)
    others = [index for index in result.wrong_blocks if not nan[result.part(index)].any()]
    also = f" But {blocks_in_words(others)} of {result.name} {_are(others)} wrong without it: "
    also += "correct that first."
    phrase = f"padding of {names} was used"
    return Diagnosis(
        f"wrong without padding, and {phrase}" if others else phrase,
        f"The padding of {names} was used. {whose} dimension {axis} has {size} elements in blocks "
        f"of {block}, so the last block holds only {size % block} of them: past the edge there is "
        "garbage. Replace it by a neutral value before you compute with it: jnp.where(mask, value, "
        "0) for a sum or a product, -inf instead of 0 for a maximum or an exponential. A product "
        "with zero keeps NaN. If this step needs another block, look at the index map."
        + (also if others else ""),
        symptom=True,
    )


def nan_of_an_input(suspect: Suspect) -> Diagnosis | None:
    """NaN where an input holds NaN or infinity that the result must not depend on."""
    if not suspect.computed_nan:
        return None
    if suspect.finite is not None and np.isnan(suspect.finite[suspect.wrong_nan]).all():
        return None
    given = [
        (name, "NaN" if np.isnan(value).any() else "infinity")
        for name, value in (suspect.inputs or {}).items()
        if not np.isfinite(value).all()
    ]
    if not given:
        return None
    names = listed(name for name, _ in given)
    held = " and ".join(f"{name} holds {what}" for name, what in given)
    return Diagnosis(
        f"NaN that comes from {names}",
        f"In this case {held} in places that must not count, and some of it got into the result. "
        "Replace such elements before you compute with them, by jnp.where(mask, value, 0): zero "
        "times NaN is NaN, and so is zero times infinity. If you do that already, look at the "
        "mask, and at rows without any element that counts: -inf minus -inf is NaN, too.",
        vague=True,
        guess=True,
    )


def nan_of_some_kind(suspect: Suspect) -> Diagnosis | None:
    """NaN in a run that cannot tell where it comes from."""
    nan = suspect.wrong_nan
    if suspect.strict or not nan.any():
        return None
    return Diagnosis(
        "NaN where numbers belong",
        "The result has NaN where numbers belong: from memory that nothing had written, or from "
        "arithmetic such as 0/0 or inf − inf. The strict interpreter can tell "
        "which.",
        vague=True,
    )


def computed_nan(suspect: Suspect) -> Diagnosis | None:
    """NaN that the arithmetic itself produced."""
    if not suspect.computed_nan:
        return None
    where, hows, either = lines_of_nonfinite(suspect, _NAN_BY, "NaN")
    if not where:
        return Diagnosis(
            "NaN from arithmetic",
            "The arithmetic itself produces NaN, whatever was in memory before: 0/0, inf − inf, "
            f"inf × 0, {_casts(suspect)}or the logarithm or root of a negative number.",
            vague=True,
        )
    return Diagnosis(
        f"NaN from arithmetic in {where}",
        f"In {where}, arithmetic makes NaN of other numbers, whatever was in memory before: "
        f"{hows}.{either}",
        vague=True,
    )


#: The operands of which an operation makes NaN.
_NAN_BY = {
    **dict.fromkeys(("add", "add_any", "sub", "reduce_sum", "cumsum"), "inf − inf"),
    **dict.fromkeys(("mul",), "0 × inf"),
    **dict.fromkeys(("div",), "0/0 or inf/inf"),
    **dict.fromkeys(("dot_general",), "0 × inf or inf − inf in a product"),
    **dict.fromkeys(
        ("log", "log1p", "sqrt", "rsqrt", "pow"), "the log or root of a negative number"
    ),
    "convert_element_type": "a cast of a number that is too large for its dtype",
}


def overflowed(suspect: Suspect) -> Diagnosis | None:
    """Infinity where a finite value belongs."""
    result = suspect.result
    infinite = np.isinf(result.actual) & np.isfinite(result.expected)
    if not infinite.any():
        return None
    where, hows, either = lines_of_nonfinite(suspect, _INFINITY_BY, "infinities")
    elements = count(int(infinite.sum()), "element")
    told = (
        f"{elements} overflowed to infinity where a finite value was expected: a value left its "
        "dtype's range (exp of a large number? a division by zero? the log of zero?)."
    )
    if where:
        told = f"In {where}, arithmetic makes infinity of finite numbers: {hows}.{either}"
    phrase = f"infinity from arithmetic in {where}" if where else "overflow to inf"
    return Diagnosis(phrase, told, vague=True, guess=True)


def lines_of_nonfinite(
    suspect: Suspect, by: Mapping[str, str], numbers: str
) -> tuple[str, str, str]:
    """The lines that make NaN or infinity, how, and a sentence if there are several.

    `by` has words for operations. All are empty if some lines are unknown.
    """
    lines = sorted({line for _, line in suspect.nonfinite_by if line})
    if not lines or not all(line for _, line in suspect.nonfinite_by):
        return "", "", ""
    where = f"line {lines[0]}" if len(lines) == 1 else f"lines {listed(lines)}"
    hows = listed(dict.fromkeys(by.get(name, name) for name, _ in suspect.nonfinite_by))
    either = "" if len(lines) == 1 else f" The {numbers} in the result come from one of them."
    return where, hows, either


#: The operations in which finite numbers become infinity.
_INFINITY_BY = {
    **dict.fromkeys(("exp", "exp2", "expm1", "pow"), "exp, or a power, of a large number"),
    **dict.fromkeys(("div", "rsqrt"), "a division by zero"),
    **dict.fromkeys(("log", "log1p"), "the log of zero"),
    **dict.fromkeys(
        ("add", "add_any", "sub", "mul", "dot_general", "reduce_sum", "cumsum", "integer_pow"),
        "a sum or product beyond the dtype's largest number",
    ),
    "convert_element_type": "a cast of a number that is too large for its dtype",
}


def _casts(suspect: Suspect) -> str:
    """The casts that make NaN of large numbers, if the kernel has such a dtype."""
    every = suspect.call.operands if suspect.call else ()
    names = {operand.array.dtype for operand in every} | {suspect.result.dtype}
    wanted = "float8_e4m3fn"
    return f"a number beyond 448 in a cast to {wanted}, " if wanted in names else ""


def ragged_inputs(suspect: Suspect) -> list[tuple[Operand, int]]:
    """Input dimensions that their block does not divide, the summed ones first.

    In a dimension that the result has too, padding only affects elements past the result's edge.
    """
    ragged = [
        (operand, axis)
        for operand in suspect.refs(Role.INPUT)
        for axis, block in enumerate(operand.block)
        if block and operand.array.shape[axis] % block
    ]
    return sorted(ragged, key=lambda place: _kept(suspect, place))


def _kept(suspect: Suspect, place: tuple[Operand, int]) -> bool:
    """Whether the result has a dimension of the same size."""
    operand, axis = place
    return operand.array.shape[axis] in suspect.result.actual.shape


def of_unwritten(use: UnwrittenUse, calls: Iterable[KernelCall]) -> Diagnosis:
    """Values that change with the contents of memory that nothing has written."""
    inputs = {operand.name for call in calls for operand in call.role(Role.INPUT)}
    inputs.add(PIPELINE_INPUT)
    padded = [name for name in use.buffers if name in inputs]
    mine = [name for name in use.buffers if name and name not in inputs]
    garbage = (
        "Memory starts as whatever bits are there: the interpreter puts NaN and the "
        "largest integers, and here a second run put random numbers."
    )
    if padded:
        names = listed(padded)
        return Diagnosis(
            f"padding of {names} was used",
            f"The padding of {names} was used: the part of its last block past the array's edge. "
            f"{garbage} jnp.nan_to_num replaces NaN only. Replace all padding by a neutral value "
            "before you compute with it: jnp.where(mask, value, 0) for a sum or a product.",
        )
    if not mine:
        return Diagnosis(
            "memory that nothing has written changes the result",
            f"The kernel uses memory that nothing has written. {garbage} Look for scratch, or an "
            "output block, that is read before its first write.",
        )
    names = listed(mine)
    return Diagnosis(
        f"{names} used before {'it was' if len(mine) == 1 else 'they were'} written",
        f"The result depends on {names} before the first write. {garbage} jnp.nan_to_num, a "
        "comparison or a maximum only hides NaN. Write a first value, usually in the first step: "
        "@pl.when(step == 0).",
    )


def no_steps(calls: Iterable[KernelCall]) -> Diagnosis | None:
    """A kernel whose grid has an axis of length 0 never runs, whatever reads its results."""
    for call in calls:
        if 0 in call.grid:
            grid = ", ".join("?" if size is None else str(size) for size in call.grid)
            grid = f"({grid},)" if len(call.grid) == 1 else f"({grid})"
            return Diagnosis(
                f"{call.name} makes no steps: its grid is {grid}",
                f"{call.name} never runs, as its grid is {grid}: nothing is written. A size // "
                "block is 0 where the block is larger. In a shard_map, sizes are those of one "
                "device's part.",
            )
    return None


def shared_by_parallel_steps(suspect: Suspect) -> Diagnosis | None:
    """A grid dimension is marked parallel, but its steps write to one output block.

    The trace alone shows it: whether the values are right is then a matter of luck.
    """
    missed = len(suspect.written) < len(suspect.result.indices())
    return written_by_parallel_steps(suspect.call, missed) if suspect.call else None


def written_by_parallel_steps(call: KernelCall, missed: bool = False) -> Diagnosis | None:
    """The same for a kernel's trace; some blocks of the output were `missed`."""
    for axis in call.parallel:
        for output in call.role(Role.OUTPUT):
            pipelined = output.space not in ("any", "hbm")  # else the kernel copies by hand
            if pipelined and call.grid[axis] != 1 and axis not in output.axes:
                return Diagnosis(
                    f"grid dimension {axis} is not parallel: a race",
                    f"Grid dimension {axis} is marked parallel, but all its steps write to the "
                    f"same blocks of {output.name}, whose index map does not use it. Parallel "
                    "steps may run in any order and on two cores, each with its own scratch: a "
                    f"race. {_LACKS_A_DIMENSION if missed else _SUMS}",
                )
    return None


_LACKS_A_DIMENSION = (
    "Blocks that no step writes are left: let the index map return another block for each of these "
    "steps."
)
_SUMS = "Mark that dimension arbitrary."


def not_aliased(suspect: Suspect) -> Diagnosis | None:
    """Garbage where the result should keep an input's values, in an output that is another array.

    If the whole result equals the input, it is a copy, and there is nothing to keep.
    """
    result = suspect.result
    nan = suspect.wrong_nan
    outputs = suspect.refs(Role.OUTPUT)
    mine = outputs[suspect.output] if suspect.output is not None else None
    if mine is None or mine.aliased or not suspect.garbage:
        return None
    for name, value in (suspect.inputs or {}).items():
        if value.shape != result.expected.shape or np.array_equal(value, result.expected):
            continue
        if np.array_equal(value[nan], result.expected[nan]):
            return Diagnosis(
                f"{mine.name} does not keep the values of {name}",
                f"Elements that the kernel does not write must keep the values of {name}, but "
                f"{mine.name} is another array, and it starts as garbage, here NaN. "
                "input_output_aliases={a: b} in the launch makes input a and output b one array: "
                "a counts all arguments of the launch, scalar prefetch included.",
            )
    return None


def never_visited(suspect: Suspect) -> Diagnosis | None:
    """Wrong blocks that the output's index map returns on no grid step.

    A right block may be unwritten on purpose: it keeps an aliased input's values.
    """
    result = suspect.result
    missed = [index for index in result.wrong_blocks if index not in suspect.written]
    if not missed:
        return None
    which = blocks_in_words(missed)
    steps = len(suspect.output_blocks.steps) if suspect.output_blocks else 0
    return Diagnosis(
        f"{which} never written",
        f"In {result.name}, {which} {_were(which)} never written: the output's index map never "
        f"returns {'it' if len(missed) == 1 else 'them'}. The grid has {count(steps, 'step')}, "
        f"the result {count(len(result.indices()), 'block')}.",
    )


def never_stored(suspect: Suspect) -> Diagnosis | None:
    """Elements that keep the memory's earlier contents: zeros if it held zeros."""
    result, zeros = suspect.result, suspect.with_zeros
    nan = suspect.wrong_nan
    if zeros is None or not nan.any() or (zeros[nan] != 0).any():
        return None
    mine = next((o for o in suspect.refs(Role.OUTPUT) if o.name == result.name), None)
    guarded = mine is not None and mine.first is FirstAccess.GUARDED_WRITE
    if not result.expected[nan].any() and not (guarded and result.name in suspect.unwritten):
        return None  # perhaps the product of zeros and garbage, or a read of the old contents
    blocks = [index for index in result.indices() if nan[result.part(index)].any()]
    whole = all(nan[result.part(index)].all() for index in blocks)
    unwritten = blocks_in_words(blocks) if whole else _elements(nan, result)
    if alone := whole and len(result.indices()) == 1:
        unwritten = result.name
    reason = "The kernel stores nothing there."
    if mine is None and suspect.call:
        reason += " Or the operations around it take other elements than it stores."
    touch = mine.first if mine else None
    in_hbm = mine is not None and mine.space in ("any", "hbm")
    if touch is FirstAccess.NOTHING and in_hbm:
        reason = (
            f"The kernel's body never stores to {result.name}: it stays in HBM, and only copies "
            "that the kernel starts write to it."
        )
    elif touch is FirstAccess.NOTHING:
        reason = (
            f"The kernel's body never stores to {result.name}. {result.name}[...] = value stores; "
            f"{result.name} = value only gives a name to a value."
        )
    elif in_hbm:
        reason = (
            f"{result.name} stays in HBM: only copies write to it, from the kernel or a pipeline "
            "in it, and none goes there. Perhaps a pipeline's grid has too few steps, or the "
            "copies of the last steps are missing."
        )
    elif touch is FirstAccess.GUARDED_WRITE and not whole:
        reason = (
            f"The stores to {result.name} reach other elements of these blocks. Look at where each "
            "begins, at its size, and at its mask."
        )
    elif touch is FirstAccess.GUARDED_WRITE:
        reason = (
            f"The store to {result.name} is under a condition that is false on the steps that "
            "should write it."
        )
    where = "" if alone else f"In {result.name}, "
    were = "was" if alone else _were(unwritten)
    return Diagnosis(
        f"{unwritten} never written", f"{where}{unwritten} {were} never written. {reason}"
    )


def never_awaited(suspect: Suspect) -> Diagnosis | None:
    """NaN where a copy that the kernel starts by itself has not arrived: nothing waits for it."""
    names = [o.name for o in suspect.refs(*Role) if o.unawaited]
    if not names or not suspect.garbage:
        return None
    return Diagnosis(
        f"a copy of {listed(names)} is never waited for",
        f"The kernel starts to copy from or to {listed(names)} and never waits for it. A copy has "
        "arrived only after .wait(), and until then its target is garbage, here NaN.",
    )


def read_before_written(suspect: Suspect) -> Diagnosis | None:
    """NaN that would be another number if memory had started as zeros: garbage was used."""
    untold = suspect.padding is None and ragged_inputs(suspect)
    if not suspect.garbage or (untold and not _first(suspect, FirstAccess.READ)):
        return None
    sure = _first(suspect, FirstAccess.READ)
    guarded = _first(suspect, FirstAccess.GUARDED_WRITE)
    refs = sure or [o for o in guarded if o.role is Role.SCRATCH] or guarded
    refs = [o for o in sure + guarded if o.name in suspect.unwritten] or refs
    if not refs:
        return None
    name = refs[0].name
    if refs[0] in sure:
        how = "The kernel's first access to it is a read."
    else:
        how = (
            "It is written only under a condition, and that condition is false on the first step "
            "that reads it."
        )
    role = "Scratch" if refs[0].role is Role.SCRATCH else "An output block"
    return Diagnosis(
        f"{name} read before it was written",
        f"{name} is read before it was written. {how} {role} starts as whatever bits are in "
        "memory; here that is NaN.",
    )


def _first(suspect: Suspect, touch: FirstAccess) -> list[Operand]:
    return [o for o in suspect.refs(Role.SCRATCH, Role.OUTPUT) if o.first is touch]


_LINES = 6  # the most rows or columns that a message lists


def _were(which: str) -> str:
    return "was" if re.match("(block|row|column) ", which) else "were"


def _are(blocks: list[Index]) -> str:
    return "is" if len(blocks) == 1 else "are"


def _elements(mask: Mask, result: Comparison) -> str:
    """The marked elements: a box, whole rows or columns, or some in a box of the first block."""
    whole, every = _box(mask)
    if mask[whole].all():
        return f"elements {every}"
    for axis, unit in enumerate(("row", "column")) if mask.ndim == 2 else ():
        lines = np.flatnonzero(mask.any(1 - axis))
        if np.take(mask, lines, axis).all():
            return f"{unit}s {listed(lines.tolist(), _LINES)}"
    first, *others = [part for part in map(result.part, result.indices()) if mask[part].any()]
    there = np.zeros_like(mask)
    there[first] = mask[first]
    own, box = _box(there)
    some = "" if mask[own].all() else f"{int(there.sum()):,} of the "
    return f"{some}elements {box}{' and others' if others else ''}"


def _box(mask: Mask) -> tuple[tuple[slice, ...], str]:
    """The bounding box of the marked elements, and as text: "[0:8, 3:5]"."""
    places = np.argwhere(mask)
    box = [slice(int(a), int(b) + 1) for a, b in zip(places.min(0), places.max(0), strict=True)]
    return tuple(box), f"[{', '.join(f'{part.start}:{part.stop}' for part in box)}]"
