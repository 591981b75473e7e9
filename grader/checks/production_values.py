"""★ Are the values right at production size? A few blocks are compared with the solution's.

If they can't be computed, the launch must consist of the operations that it has at hidden sizes.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Iterable, Iterator

import numpy as np

from grader.checks.evidence import Evidence, TpuEvidence
from grader.checks.random_statistics import other_mean
from pallascope.checks.compare import (
    NARROW,
    ROUNDOFF,
    Floats,
    Mask,
    average_error,
    explained_error,
)
from pallascope.checks.device_messages import devices_finding
from pallascope.checks.diagnoses.uninitialized import written_by_parallel_steps
from pallascope.checks.dma_messages import copies_finding
from pallascope.checks.exceptions import accident_finding, interpreter_finding
from pallascope.checks.phrasing import listed, number, paragraph
from pallascope.checks.values import operand_of, output_of, rounded_product
from pallascope.model import (
    Accident,
    BlockSample,
    Check,
    Finding,
    NotJudged,
    OperationPlace,
    ResultSample,
    Role,
)
from pallascope.tools.arrays import in_float64, to_numpy
from pallascope.tpu import OnChip
from pallascope.tpu.traffic import OperandTraffic

BESIDE_PAR = 1.25  # the largest average error, as a multiple of the solution's


def check_production(evidence: TpuEvidence) -> Finding | NotJudged | None:
    """Compare a few blocks at production size with par's, computed from the same inputs.

    Of single elements, only gross errors count, because rounding is judged at hidden sizes. On
    average, the errors of narrow results are those of a few roundings; sums have the most terms
    here. If blocks of par are known and those of the launch aren't, it isn't judged.

    The launch may only have operations of places in the file that also run at a hidden size, and
    its kernels have to fetch all blocks of arrays of which par fetches all, if the values aren't
    computed at this very size, or are random, or if the launch copies by itself and takes too long.
    """
    if found := rounded_product(evidence) or _race(evidence):
        return found
    by_values = _compared(evidence)
    partly = evidence.values_sizes or evidence.key.random
    if by_values is _BY_PLACES or (by_values is None and partly):
        return _untested_place(evidence) or _unread_blocks(evidence)
    return by_values


def _race(evidence: TpuEvidence) -> Finding | None:
    """A grid dimension that is parallel at this size alone, although its steps share a block."""
    trace = evidence.observed.trace
    for call in trace.calls if trace else ():
        if race := written_by_parallel_steps(call):
            said = f"At production size, two steps write one block.\n{paragraph('why', race.why)}"
            return Finding(Check.VALUES, race.phrase, said)
    return None


_BY_PLACES = NotJudged(Check.VALUES, "only the places of operations can be compared")


def _compared(evidence: TpuEvidence) -> Finding | NotJudged | None:
    """Compare the values that are computed; _BY_PLACES if they can't be, without being at fault."""
    par = evidence.par_sample()
    if isinstance(par, Accident):
        return _BY_PLACES
    if not par.results:
        why = f"the solution's values at production size can't be computed: {par.why_not}"
        return NotJudged(Check.VALUES, f"{why}. Its answer key needs smaller sizes in [values]")
    own = evidence.own_sample()
    if found := _faulty_copies(evidence, own) or _ends_early(evidence, own):
        told = f"{_where(evidence)}:\n{found.message}"
        return dataclasses.replace(found, check=Check.VALUES, message=told)
    if why := _unknown(own, par):
        if isinstance(own, BlockSample) and own.too_long:
            return _BY_PLACES
        here = f"the values at production size can't be computed: {why}"
        return NotJudged(Check.VALUES, here)
    assert isinstance(own, BlockSample)
    differs = _differs if evidence.key.random is None else _differs_on_average
    for position, (got, wanted) in enumerate(zip(own.results, par.results, strict=True)):
        if wanted.at.data and (finding := differs(evidence, position, got, wanted)):
            return finding
    if evidence.key.random is not None or not any(
        result.values.dtype in NARROW for result in own.results
    ):
        return None
    exact = evidence.exact_sample()
    for position, got in enumerate(own.results):
        if isinstance(exact, Accident) or position >= len(exact.results):
            return None
        if finding := _coarse(
            evidence, position, got, par.results[position], exact.results[position]
        ):
            return finding
    return None


def _faulty_copies(evidence: Evidence, own: BlockSample | Accident) -> Finding | None:
    """A fault of copies that a launch starts by itself, such as a wait that comes too late."""
    if isinstance(own, Accident):
        return None
    return devices_finding(own.device_faults, evidence.file) or copies_finding(
        own.copy_faults, evidence.file
    )


def _unknown(own: BlockSample | Accident, par: BlockSample) -> str:
    """Why the results aren't known of which par's are; "" if they are."""
    if isinstance(own, Accident):
        return own.phrase
    if len(own.results) != len(par.results):
        return own.why_not
    for mine, theirs in zip(own.results, par.results, strict=True):
        if mine.refused and not theirs.refused:
            return mine.refused
        if theirs.at.data and not common_elements(mine, theirs)[0].size:
            return "they depend on blocks that weren't computed"
    return ""


def _ends_early(evidence: Evidence, own: BlockSample | Accident) -> Finding | None:
    """The finding for a launch that raises an exception, hangs or crashes at production size."""
    if isinstance(own, Accident):
        return None if own.killed else accident_finding(own, evidence.file)
    if own.problem is None:
        return None
    calls = evidence.observed.trace.calls if evidence.observed.trace else ()
    return interpreter_finding(own.problem, evidence.file, calls, evidence.observed.devices)


def _untested_place(evidence: TpuEvidence) -> Finding | None:
    """The finding for operations of a part of a line that runs at production size only.

    The same goes for numbers: if an operation has the same ones in all hidden cases, and others at
    production size, they don't follow from the sizes.
    """
    cases, trace = evidence.hidden_places(), evidence.observed.trace
    if trace is None or not cases:
        return None
    hidden = [_numbers_by_place(case) for case in cases]
    lines: list[int] = []
    for place, numbers in _numbers_by_place(trace.places).items():
        known = [case[place] for case in hidden if place in case]
        same = len(known) == len(hidden) and all(each == known[0] for each in known)
        # An unrolled loop, or a place in several kernels, has several numbers.
        if not known or (same and len(known[0]) == 1 and not known[0] <= numbers):
            lines.append(place[0])
    if not lines:
        return None
    lines = list(dict.fromkeys(lines))
    told = f"line {lines[0]}" if len(lines) == 1 else f"lines {listed(lines)}"
    if not {line for case in hidden for line, _ in case}.isdisjoint(lines):
        told = f"parts of {told}, or numbers in it," if len(lines) == 1 else f"parts of {told}"
    parts = [
        f"The launch uses {told} at production size only, so no hidden case tests the results.",
        paragraph(
            "why",
            "The grader doesn't compare all values at this size. So the launch must consist of "
            "the operations that it has at the hidden sizes, with other numbers.",
        ),
        paragraph("try", "Remove the condition on sizes that leads there."),
    ]
    return Finding(Check.VALUES, "untested at production size", "\n".join(parts))


def _numbers_by_place(
    places: Iterable[OperationPlace],
) -> dict[tuple[int, int], set[tuple[str, ...]]]:
    """By line and column: the numbers of each operation there."""
    found: dict[tuple[int, int], set[tuple[str, ...]]] = {}
    for place in places:
        found.setdefault((place.line, place.column), set()).add(place.numbers)
    return found


def _unread_blocks(evidence: TpuEvidence) -> Finding | None:
    """The finding for an input of a kernel of which some blocks are on no grid step."""
    own, par = evidence.own_on_chips(), evidence.par_on_chips()
    if isinstance(own, Accident) or isinstance(par, Accident):
        return None
    chip = evidence.chips[0]
    shares = {}
    for operand in _fetched(par, chip):
        shares.setdefault(operand.array, set()).add(_share(operand))
    for operand in _fetched(own, chip):
        if shares.get(operand.array) == {1.0} and (share := _share(operand)) < 1:
            parts = [
                f"At production size, the kernel fetches only {share:.0%} of {operand.name}, of "
                "which the solution fetches all.",
                paragraph(
                    "why", "No grid step has the other blocks, so no result depends on them."
                ),
                paragraph("try", "Look at the grid, and at the index map of that input."),
            ]
            return Finding(Check.VALUES, f"reads {share:.0%} of {operand.name}", "\n".join(parts))
    return None


def _fetched(launch: OnChip, chip: str) -> Iterator[OperandTraffic]:
    """The inputs of kernels that come in blocks, if it is known which blocks."""
    for prediction in launch.on(chip):
        for operand in prediction.traffic.operands:
            if operand.role is Role.INPUT and operand.least and not operand.by_hand:
                yield operand


def _share(operand: OperandTraffic) -> float:
    """The part of an array that a kernel fetches at least once."""
    return min(1.0, (operand.least or 0) / operand.stored) if operand.stored else 1.0


def _coarse(
    evidence: TpuEvidence, position: int, own: ResultSample, par: ResultSample, exact: ResultSample
) -> Finding | None:
    """The finding for a narrow result that was rounded more often than the key allows.

    Where large terms cancel, par's own error exceeds that of its roundings: it is the measure then.
    """
    dtype = own.values.dtype
    if dtype not in NARROW or not par.shape:
        return None
    average = _average(own, exact)
    of_par = BESIDE_PAR * _average(par, exact)
    explained = max(explained_error(evidence.key.roundings), of_par)
    if average <= explained:
        return None
    name = _name_at_production(evidence, position)
    parts = [
        f"{_where(evidence)}, the average error of {name} is {average:.2f} times that of one "
        f"rounding to {dtype} (root mean square). Right kernels stay below {explained:.2f}.",
        paragraph(
            "why",
            f"A sum or another intermediate value is rounded to {dtype} again and again: the error "
            "grows with the number of blocks, and at this size there are the most of them. A few "
            "blocks were computed, and compared with the solution's in float32."
            + _MISSING
            * (average > _MANY),
        ),
        paragraph(
            "try",
            "Keep sums, maxima and loop carries in float32, in scratch or in a float32 output "
            "block. Round once, when you store the result.",
        ),
    ]
    return Finding(Check.VALUES, f"{dtype} sums", "\n".join(parts))


#: The average error that sums of very many blocks in a narrow dtype may have.
_MANY = 8
_MISSING = (
    " An error this large may have another reason: elements that are left out or counted twice, "
    "such as those at the edge of a mask."
)


def _average(sample: ResultSample, exact: ResultSample) -> float:
    at, got, wanted = common_elements(sample, exact)
    return average_error(got, wanted, at // exact.shape[-1], sample.values.dtype)


def common_elements(own: ResultSample, par: ResultSample) -> tuple[np.ndarray, Floats, Floats]:
    """The positions of the elements that both samples have, and their values."""
    first, second = to_numpy(own.at), to_numpy(par.at)
    got, wanted = in_float64(own.values), in_float64(par.values)
    if not np.array_equal(first, second):
        first, mine, theirs = np.intersect1d(first, second, True, return_indices=True)
        got, wanted = got[mine], wanted[theirs]
    return first, got, wanted


def _differs(
    evidence: TpuEvidence, position: int, own: ResultSample, par: ResultSample
) -> Finding | None:
    """The finding for the sample of one result; None if it agrees with par's."""
    shape = par.shape
    first, got, wanted = common_elements(own, par)
    scale = _scales(wanted, first // shape[-1] if shape else first)
    wrong, error = _gross(evidence, par.values.dtype, got, wanted, scale)
    # A block in place that no step writes keeps the input's values: they may be the right ones.
    kept = np.isin(first, to_numpy(own.kept))
    forgotten = wrong[kept].any() or not kept.any()
    if own.unwritten is not None and par.unwritten is None and forgotten:
        at = tuple(map(int, np.unravel_index(own.unwritten, shape)))
        name = _name_at_production(evidence, position)
        return _at_production(evidence, f"no grid step writes element {at} of {name}.")
    if not wrong.any():
        return _imprecise(evidence, position, error, scale) if _is_precise(evidence, par) else None
    worst = int(np.argmax(np.where(wrong, error, -1.0)))
    at = tuple(map(int, np.unravel_index(int(first[worst]), shape)))
    told = (
        f"element {at} of {_name_at_production(evidence, position)} is {number(got[worst])}, "
        f"expected {number(wanted[worst])}. {int(wrong.sum()):,} of {wrong.size:,} computed "
        "elements are wrong."
    )
    return _at_production(evidence, told)


def _is_precise(evidence: Evidence, result: ResultSample) -> bool:
    """Whether a result is of float32, and no operand may be rounded."""
    return result.values.dtype == "float32" and not evidence.key.roundings.operands


def _imprecise(
    evidence: TpuEvidence, position: int, error: Floats, scale: Floats
) -> Finding | None:
    """The finding for a float32 result with the average error of a narrower dtype."""
    largest = max(float(np.mean(scale**2)), sys.float_info.min)
    average = math.sqrt(float(np.mean(error**2)) / largest)
    if average <= _PRECISE:
        return None
    parts = [
        f"{_where(evidence)}, the average error of {_name_at_production(evidence, position)} is "
        f"{number(average)} of the largest value in a row (root mean square). float32 keeps it "
        f"below {number(_PRECISE)}.",
        paragraph(
            "why",
            "Some elements were computed, and compared with the solution's. An operand, a product "
            "or a sum has been rounded to a narrower dtype.",
        ),
        paragraph("try", "Look for a cast that depends on sizes, and keep all values in float32."),
    ]
    return Finding(Check.VALUES, "rounded too early at production size", "\n".join(parts))


def _differs_on_average(
    evidence: TpuEvidence, position: int, own: ResultSample, par: ResultSample
) -> Finding | None:
    """The finding for random results that are distributed otherwise than par's."""
    if not (otherwise := other_mean(*common_elements(own, par)[1:])):
        return None
    name = _name_at_production(evidence, position)
    told = f"the random elements of {name} are distributed otherwise: {otherwise}."
    return _at_production(evidence, told)


def _scales(values: Floats, rows: np.ndarray) -> Floats:
    """For each element, the largest absolute value of its row."""
    _, row = np.unique(rows, return_inverse=True)
    largest = np.zeros(int(row.max(initial=-1)) + 1)
    np.maximum.at(largest, row, np.where(np.isfinite(values), np.abs(values), 0.0))
    return largest[row]


def _gross(
    evidence: Evidence, dtype: str, got: Floats, wanted: Floats, scale: Floats
) -> tuple[Mask, Floats]:
    """Which elements are wrong by far, and the errors; `scale` as of `_scales`.

    Some numbers of 8 bits or fewer may be one step off, because two right kernels may quantise to
    different steps. The errors of small rows may be those of sums whose large terms cancel.
    """
    finite = np.isfinite(wanted)
    with np.errstate(invalid="ignore"):
        error = np.where(finite, np.abs(got - wanted), 0.0)
    error = np.where(np.isnan(error), np.inf, error)
    if dtype not in ROUNDOFF and not dtype.startswith("float8"):
        wrong = error > (dtype in _QUANTISED and np.mean(error > 0) < _FEW_STEPS)
    else:
        narrow = dtype != "float32" or evidence.key.roundings.operands > 0
        relative, least = (2.0**-5, 2.0**-3) if narrow else (2.0**-9, 2.0**-8)
        wrong = error > relative * np.maximum(scale, least * scale.max(initial=0.0))
    return wrong, error


_FEW_STEPS = 2**-3  # the share of quantised elements that may be one step off
_PRECISE = 2.0**-15  # the average error of float32, relative to the largest of a row
_QUANTISED = ("int2", "int4", "int8", "uint2", "uint4", "uint8")


def _where(evidence: TpuEvidence) -> str:
    """The beginning of a message: production size, or the smaller sizes in its place."""
    sizes = listed([f"{name} = {size:,}" for name, size in evidence.values_sizes.items()])
    return f"Near production size, with {sizes}" if sizes else "At production size"


def _name_at_production(evidence: Evidence, position: int) -> str:
    call, output = output_of(evidence, position)
    operand = operand_of(call, output)
    several = len(evidence.reference.results) > 1
    return operand.name if operand else f"result {position}" if several else "the result"


def _at_production(evidence: TpuEvidence, told: str) -> Finding:
    remedy = (
        "If another case fails, correct that first. If only this one fails, look for a condition "
        "on sizes, for a grid or a loop that doesn't cover the array, for a block index that wraps "
        "around, and for a number that overflows its integer."
    )
    parts = [f"{_where(evidence)}, {told}", paragraph("try", remedy)]
    return Finding(Check.VALUES, "wrong at production size", "\n".join(parts))
