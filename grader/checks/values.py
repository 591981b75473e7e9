"""★ Is every element right, up to rounding, here and on a TPU? If not: diagnosis, known mistake."""

from __future__ import annotations

import dataclasses
import math
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from grader.checks.compare import (
    NARROW,
    ROUNDOFF,
    Comparison,
    Floats,
    Mask,
    Sum,
    average_error,
    coarsest,
    compare,
    explained_error,
)
from grader.checks.device_messages import copies_differ, devices_finding, one_axis
from grader.checks.diagnoses import (
    Suspect,
    diagnose,
    headline,
    map_of_blocks,
)
from grader.checks.diagnoses.suspect import Diagnosis, rms, rounding
from grader.checks.diagnoses.uninitialized import (
    no_steps,
    of_unwritten,
    shared_by_parallel_steps,
)
from grader.checks.diagnoses.value_patterns import changed_spec
from grader.checks.dma_messages import copies_finding, nothing_there
from grader.checks.evidence import Evidence, TpuEvidence
from grader.checks.exceptions import FOUND, accident_finding, complaint_finding, interpreter_finding
from grader.checks.phrasing import (
    WIDTH,
    listed,
    number,
    paragraph,
    times,
)
from grader.checks.random_statistics import other_mean
from grader.verdict import Check, Finding, NotJudged
from pallascope.model import (
    Accident,
    Array,
    BlockSample,
    Clues,
    KernelCall,
    Lint,
    Mode,
    Observation,
    Operand,
    OperationPlace,
    Reference,
    ResultSample,
    Role,
    Stage,
)
from pallascope.tools.arrays import in_float64, to_numpy
from pallascope.tpu import OnChip
from pallascope.tpu.traffic import OperandTraffic

#: A mistake's result is at least this many times nearer to the learner's than the right one is.
NEARER = 8


def known_mistake(
    results: Sequence[Comparison],
    resembles: Callable[[Callable[[tuple[Array, ...]], bool]], str],
    diagnosis: Diagnosis | None,
) -> Diagnosis | None:
    """The diagnosis of wrong results; it names a known mistake if that has the same results."""

    def agree(outputs: tuple[Array, ...]) -> bool:
        return len(outputs) == len(results) and all(map(alike, results, outputs))

    title = resembles(agree)
    if not title:
        return diagnosis
    phrase, same = f"your kernel {title}", "Your result matches that mistake exactly"
    if diagnosis is None or diagnosis.guess:
        return Diagnosis(phrase, f"{same}.")
    why = f"{same}: {diagnosis.phrase}. {diagnosis.why}"
    return dataclasses.replace(diagnosis, phrase=phrase, why=why)


def alike(result: Comparison, output: Array) -> bool:
    """Whether a result equals another one, wrong where that is wrong, up to rounding."""
    got, other = result.actual, in_float64(output)
    if got.shape != other.shape:
        return False
    finite = np.isfinite(got) & np.isfinite(other)
    if not np.array_equal(got[~finite], other[~finite], equal_nan=True):
        return False
    error = np.abs(got[finite] - other[finite])
    slack = _larger(result) * result.allowed[finite] + rounding(got[finite], result.dtype)
    if not (error <= slack).all():
        return False
    wrong = (result.wrong & np.isfinite(result.expected))[finite]
    off = got[finite][wrong] - result.expected[finite][wrong]
    return NEARER * rms(error[wrong]) <= rms(off)


def _larger(result: Comparison) -> float:
    """How much larger the result is than the expected one, and its rounding errors with it."""
    got, wanted = (_largest(values) for values in (result.actual, result.expected))
    return max(1.0, got / wanted) if wanted else 1.0


def _largest(values: Floats) -> float:
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))


BESIDE_PAR = 1.25  # the largest average error, as a multiple of the solution's
MOST_SAID = 200  # characters of an exception's text on a TPU
_FEW = 64  # elements that one can read at a glance


def check(evidence: Evidence) -> Finding | None:
    """Judge copies started by hand, the interpreter's exceptions and complaints, and the values."""
    trace = evidence.observed.trace
    calls = trace.calls if trace else ()
    faults = evidence.observed.device_faults
    if finding := devices_finding(faults, evidence.file):
        return finding
    if finding := copies_finding(evidence.observed.copy_faults, evidence.file, calls):
        return finding
    problem = evidence.problem
    if problem is not None and problem.stage is Stage.RUN:
        if finding := copies_differ(faults, trace.outside if trace else ()):
            return finding
        if FOUND in problem.message and evidence.observed.complaints:  # they know who copied
            return _complained(evidence, calls)
        return interpreter_finding(problem, evidence.file, calls, evidence.observed.devices)
    results = comparisons(evidence)
    judged = zip(_judged(evidence), results, strict=True)
    wrong = [(position, result) for position, result in judged if result.wrong.any()]
    complaints = evidence.observed.complaints
    if not wrong:
        if complaints:
            return _complained(evidence, calls)
        return _lucky(evidence, results) or _unwritten_used(evidence) or _rounded(evidence)
    position, result = wrong[0]
    others = tuple(other for other in results if other is not result)
    garbage = np.isnan(result.actual[result.wrong]).any() or result.dtype not in ROUNDOFF
    diagnosis = nothing_there(evidence.observed.copy_faults) if garbage else None
    diagnosis = diagnosis or (no_steps(calls) if garbage else None)
    diagnosis = diagnosis or diagnose(_suspect(evidence, position, result, others))
    if complaints:
        return _complained(evidence, calls, diagnosis)
    if diagnosis is None or diagnosis.vague:
        known = known_mistake(results, evidence.resembles, diagnosis)
        if known is None and evidence.observed.unwritten:
            diagnosis = of_unwritten(evidence.observed.unwritten, calls)
        elif known is not diagnosis or (known and known.tested):
            diagnosis = known
        else:
            unsure = diagnosis is None or diagnosis.guess or garbage
            tested = _tested(evidence, position, result)
            diagnosis = tested or (_repaired(evidence, results) if unsure else None) or diagnosis
    return _finding(evidence, result, diagnosis)


def _tested(evidence: Evidence, position: int, result: Comparison) -> Diagnosis | None:
    """The diagnosis that the spec, changed in one thing, gives the learner's result."""
    results = [
        (hypothesis, in_float64(hypothesis.results[position]))
        for hypothesis in evidence.hypotheses()
        if position < len(hypothesis.results)
    ]
    return changed_spec(result, results)


def _repaired(evidence: Evidence, results: Sequence[Comparison]) -> Diagnosis | None:
    """The diagnosis that all results are right if one operation of the kernel is changed."""
    repaired = evidence.repaired()
    judged = (
        [repaired.results[position] for position in _judged(evidence)] if repaired.change else []
    )
    if not judged or not all(map(_is_right, results, map(in_float64, judged))):
        return None
    said = f"line {repaired.line} {repaired.change}"
    return Diagnosis(
        f"right, if {said}",
        f"In this case, all results would be right if {said}: the grader has tried it. Make sure "
        "that you mean it, and that it doesn't just make up for another mistake.",
        tested=True,
    )


def _is_right(result: Comparison, values: Floats) -> bool:
    return result.close(values, result.expected, result.allowed)


def _complained(
    evidence: Evidence, calls: tuple[KernelCall, ...], diagnosis: Diagnosis | None = None
) -> Finding:
    observed = evidence.observed
    return complaint_finding(observed.complaints, diagnosis, observed.devices, calls, evidence.file)


def _lucky(evidence: Evidence, results: list[Comparison]) -> Finding | None:
    """Right values that would be wrong in another order of the parallel grid steps."""
    trace = evidence.observed.trace
    for call in trace.calls if trace and results else ():
        if race := shared_by_parallel_steps(Suspect(results[0], call)):
            return Finding(
                Check.VALUES, race.phrase, f"The values are right only by luck.\n{race.why}"
            )
    return None


def _unwritten_used(evidence: Evidence) -> Finding | None:
    """Right values that change with the contents of memory that nothing has written."""
    use, trace = evidence.observed.unwritten, evidence.observed.trace
    if use is None:
        return None
    diagnosis = of_unwritten(use, trace.calls if trace else ())
    parts = ["The values are right only by luck: unwritten memory changes them."]
    if problem := use.problem:
        first, _, _ = problem.message.partition("\n")
        there = f"the kernel raises {problem.kind}: {textwrap.shorten(first, MOST_SAID)}"
    else:
        before, now = map(number, use.values)
        name = evidence.name_of(use.output)
        there = f"element {_place(use.index)} of {name} is {now} instead of {before}"
    parts.append(paragraph("worst", f"with random numbers in that memory, {there}"))
    parts.append(paragraph("why", diagnosis.why))
    return Finding(Check.VALUES, diagnosis.phrase, "\n".join(parts))


def _place(index: tuple[int, ...]) -> str:
    return listed(index) if len(index) == 1 else str(index)


def _rounded(evidence: Evidence) -> Finding | None:
    """Right values that a TPU would have rounded, if the key asks for more precision."""
    trace = evidence.observed.trace
    for call in trace.calls if trace and evidence.key.full_precision else ():
        if Lint.ROUNDED_PRODUCT in call.lints:
            why = (
                "The interpreter multiplies float32 as it is. A TPU's matrix unit rounds both "
                "operands to bfloat16 first, at the default precision: 8 bits are left of 24."
            )
            remedy = (
                'Ask for all bits: jnp.dot(…, precision="highest"). Or split the operands into '
                "parts of bfloat16 yourself."
            )
            parts = [
                f"The values are right here, but would not be on a TPU: {call.name} multiplies "
                "float32 at the default precision.",
                paragraph("why", why),
                paragraph("try", remedy),
            ]
            phrase = "a product of float32 at the default precision"
            return Finding(Check.VALUES, phrase, "\n".join(parts))
    return None


def check_production(evidence: TpuEvidence) -> Finding | NotJudged | None:
    """Compare a few blocks at production size with par's, computed from the same inputs.

    Of single elements, only gross errors count, because rounding is judged at hidden sizes. On
    average, the errors of narrow results are those of a few roundings; sums have the most terms
    here. If blocks of par are known and those of the launch aren't, it isn't judged.

    But if par's can't be computed, or if the launch copies by itself and takes too long, it may
    only have operations of places in the file that also run at a hidden size, and its kernels have
    to fetch all blocks of arrays of which par fetches all.
    """
    par = evidence.par_sample()
    if isinstance(par, Accident) or not par.results:
        return _untested_place(evidence) or _unread_blocks(evidence)
    own = evidence.own_sample()
    if found := _ends_early(evidence, own):
        told = f"At production size:\n{found.message}"
        return dataclasses.replace(found, check=Check.VALUES, message=told)
    if why := _unknown(own, par):
        if isinstance(own, BlockSample) and own.too_long:
            return _untested_place(evidence) or _unread_blocks(evidence)
        here = f"the values at production size can't be computed: {why}"
        return NotJudged(Check.VALUES, here)
    assert isinstance(own, BlockSample)
    differs = _differs if evidence.key.random is None else _differs_on_average
    for position, (got, wanted) in enumerate(zip(own.results, par.results, strict=True)):
        if finding := differs(evidence, position, got, wanted):
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
        if not known or (same and not numbers <= known[0]):
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
            "The grader can't run the launch at this size. So the launch must consist of the "
            "operations that it has at the hidden sizes, with other numbers.",
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
    evidence: Evidence, position: int, own: ResultSample, par: ResultSample, exact: ResultSample
) -> Finding | None:
    """The finding for a narrow result that was rounded more often than the key allows.

    Where large terms cancel, par's own error exceeds that of its roundings: it is the measure then.
    """
    dtype, shape = own.values.dtype, evidence.reference.results[position].shape
    if dtype not in NARROW or not shape:
        return None
    average = _average(own, exact, shape)
    of_par = BESIDE_PAR * _average(par, exact, shape)
    explained = max(explained_error(evidence.key.roundings), of_par)
    if average <= explained:
        return None
    name = _name_at_production(evidence, position)
    parts = [
        f"At production size, the average error of {name} is {average:.2f} times that of one "
        f"rounding to {dtype} (root mean square). Right kernels stay below {explained:.2f}.",
        paragraph(
            "why",
            f"A sum or another intermediate value is rounded to {dtype} again and again: the error "
            "grows with the number of blocks, and at this size there are the most of them. A few "
            "blocks were computed, and compared with the solution's in float32.",
        ),
        paragraph(
            "try",
            "Keep sums, maxima and loop carries in float32, in scratch or in a float32 output "
            "block. Round once, when you store the result.",
        ),
    ]
    return Finding(Check.VALUES, f"{dtype} sums", "\n".join(parts))


def _average(sample: ResultSample, exact: ResultSample, shape: tuple[int, ...]) -> float:
    at, got, wanted = common_elements(sample, exact)
    return average_error(got, wanted, at // shape[-1], sample.values.dtype)


def common_elements(own: ResultSample, par: ResultSample) -> tuple[np.ndarray, Floats, Floats]:
    """The positions of the elements that both samples have, and their values."""
    first, second = to_numpy(own.at), to_numpy(par.at)
    got, wanted = in_float64(own.values), in_float64(par.values)
    if not np.array_equal(first, second):
        first, mine, theirs = np.intersect1d(first, second, True, return_indices=True)
        got, wanted = got[mine], wanted[theirs]
    return first, got, wanted


def _differs(
    evidence: Evidence, position: int, own: ResultSample, par: ResultSample
) -> Finding | None:
    """The finding for the sample of one result; None if it agrees with par's."""
    shape = evidence.reference.results[position].shape
    if own.unwritten is not None and par.unwritten is None:
        at = tuple(map(int, np.unravel_index(own.unwritten, shape)))
        name = _name_at_production(evidence, position)
        return _at_production(evidence, f"no grid step writes element {at} of {name}.")
    first, got, wanted = common_elements(own, par)
    scale = _scales(wanted, first // shape[-1] if shape else first)
    wrong, error = _gross(evidence, par.values.dtype, got, wanted, scale)
    if not wrong.any():
        return None
    worst = int(np.argmax(np.where(wrong, error, -1.0)))
    at = tuple(map(int, np.unravel_index(int(first[worst]), shape)))
    told = (
        f"element {at} of {_name_at_production(evidence, position)} is {number(got[worst])}, "
        f"expected {number(wanted[worst])}. {int(wrong.sum()):,} of {wrong.size:,} computed "
        "elements are wrong."
    )
    return _at_production(evidence, told)


def _differs_on_average(
    evidence: Evidence, position: int, own: ResultSample, par: ResultSample
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

    Numbers of 8 bits or fewer may be one step off, because two right kernels may quantise to
    different steps. The errors of small rows may be those of sums whose large terms cancel.
    """
    finite = np.isfinite(wanted)
    with np.errstate(invalid="ignore"):
        error = np.where(finite, np.abs(got - wanted), 0.0)
    error = np.where(np.isnan(error), np.inf, error)
    if dtype not in ROUNDOFF and not dtype.startswith("float8"):
        wrong = error > (dtype in _QUANTISED)
    else:
        narrow = dtype != "float32" or evidence.key.roundings.operands > 0
        relative, least = (2.0**-5, 2.0**-3) if narrow else (2.0**-9, 2.0**-8)
        wrong = error > relative * np.maximum(scale, least * scale.max(initial=0.0))
    return wrong, error


_QUANTISED = ("int2", "int4", "int8", "uint2", "uint4", "uint8")


def _name_at_production(evidence: Evidence, position: int) -> str:
    call, output = _output(evidence, position)
    operand = _operand(call, output)
    several = len(evidence.reference.results) > 1
    return operand.name if operand else f"result {position}" if several else "the result"


def _at_production(evidence: Evidence, told: str) -> Finding:
    why = (
        "Some elements were computed at production size, and compared with the solution's. If all "
        "other hidden cases are right, the launch computes something else at this size."
    )
    remedy = (
        "If another case fails, correct that first. Otherwise look for a condition on sizes, for a "
        "grid or a loop that doesn't cover the array, for a block index that wraps around, and for "
        "a number that overflows its integer."
    )
    parts = [
        f"At production size, {told}",
        paragraph("why", why),
        paragraph("try", remedy),
    ]
    return Finding(Check.VALUES, "wrong at production size", "\n".join(parts))


def comparisons(evidence: Evidence) -> list[Comparison]:
    """Each result of a launch that has run, compared with its expected values; not random ones."""
    reference = evidence.reference
    coarse = coarsest(array.dtype for array in reference.inputs)
    sways = dict(enumerate(reference.sways))
    return [
        compare(
            evidence.name_of(position),
            evidence.outputs[position],
            reference.expected[position],
            _operand(*_output(evidence, position)),
            evidence.key.roundings,
            Sum(reference.contraction, coarse, sways.get(position, 0.0)),
            evidence.mode,
        )
        for position in _judged(evidence)
    ]


def wrong_on_tpu(evidence: Evidence, ran: Observation | Accident) -> str:
    """How a run on a TPU differs from the expected values, in words; "" where it doesn't."""
    if isinstance(ran, Accident):
        return ran.phrase
    if problem := ran.problem:
        first, _, _ = problem.message.partition("\n")
        return f"{problem.kind}: {textwrap.shorten(first, MOST_SAID)}"
    there = dataclasses.replace(evidence, attempt=ran, mode=Mode.COMPILED)
    for result in comparisons(there):
        if result.wrong.any():
            worst = result.worst()
            got, wanted = number(result.actual[worst]), number(result.expected[worst])
            return f"{headline(result)}; element {worst}: got {got}, expected {wanted}"
    return ""


def _judged(evidence: Evidence) -> list[int]:
    """The results that aren't random, by position."""
    outcomes = evidence.reference.outcomes or (None,) * len(evidence.outputs)
    pairs = zip(evidence.outputs, outcomes, strict=True)
    return [position for position, (_, may_be) in enumerate(pairs) if may_be is None]


def _output(evidence: Evidence, position: int) -> tuple[KernelCall | None, int | None]:
    """The last kernel, and which of its outputs result `position` is, if it is one unchanged."""
    trace = evidence.observed.trace
    if trace is None or not trace.calls:
        return None, None
    call = trace.calls[-1]
    outputs = call.role(Role.OUTPUT)
    # A kernel over a mesh stores through Refs, and its outputs are not followed: by their order.
    followed = evidence.key.results or any(number is not None for number in trace.kernel_outputs)
    numbers = trace.kernel_outputs if followed else range(len(outputs))
    number = numbers[position] if position < len(numbers) else None
    if number is None or outputs[number].array != trace.results[position]:
        return None, None
    return call, number


def _operand(call: KernelCall | None, number: int | None) -> Operand | None:
    return None if call is None or number is None else call.role(Role.OUTPUT)[number]


def _suspect(
    evidence: Evidence, position: int, result: Comparison, others: tuple[Comparison, ...]
) -> Suspect:
    call, number = _output(evidence, position)
    clues: Clues = evidence.clues()
    zeros = clues.with_zeros[position] if position < len(clues.with_zeros) else None
    as_xla = clues.as_xla[position] if position < len(clues.as_xla) else None
    finite = clues.finite[position] if position < len(clues.finite) else None
    reference = evidence.reference
    return Suspect(
        result=result,
        call=call,
        output=number,
        output_blocks=clues.output_blocks if call else None,
        with_zeros=in_float64(zeros) if zeros else None,
        padding=clues.padding,
        edge=clues.edge,
        as_xla=in_float64(as_xla) if as_xla else None,
        finite=in_float64(finite) if finite else None,
        makes_nan=clues.makes_nan,
        strict=evidence.mode is Mode.STRICT,
        unwritten=use.buffers if (use := evidence.observed.unwritten) else (),
        unused=tuple(reference.names[n] for n in _unused(evidence)),
        others=others,
        shares=tuple(
            (share, in_float64(share.results[position]))
            for share in clues.shares
            if position < len(share.results)
        ),
        inputs={
            name: in_float64(array)
            for name, array in zip(reference.names, reference.inputs, strict=True)
        },
    )


def _unused(evidence: Evidence) -> tuple[int, ...]:
    trace = evidence.observed.trace
    return trace.unused if trace else ()


def _finding(evidence: Evidence, result: Comparison, diagnosis: Diagnosis | None) -> Finding:
    worst = result.worst()
    where = _place(worst)
    block = f", in block {result.block_of(worst)}" if len(result.indices()) > 1 else ""
    got, wanted = result.actual[worst], result.expected[worst]
    shape = "×".join(map(str, result.actual.shape))
    blocks = f", in blocks of {times(result.block)}" if len(result.indices()) > 1 else ""
    parts = [headline(result), paragraph("result", f"{result.dtype}, {shape or 'one'}{blocks}")]
    if picture := map_of_blocks(result):
        parts.append(paragraph("blocks", picture + "\n# has wrong elements"))
    parts.append(
        paragraph(
            "worst",
            f"element {where}{block}: got {number(got)}, expected {number(wanted)} "
            f"(rounding explains at most {number(result.allowed[worst])})",
        )
    )
    if result.dtype not in ROUNDOFF and result.actual.size <= _FEW:
        parts.append(paragraph("got", _whole(result.actual)))
        parts.append(paragraph("wanted", _whole(result.expected)))
    if tables := _tables(evidence.reference):
        parts.append(paragraph("inputs", tables))
    if diagnosis:
        parts.append(paragraph("why", diagnosis.why))
    if along := one_axis(evidence.observed.device_faults):
        parts.append(paragraph("copies", along))
    phrase = diagnosis.phrase if diagnosis else headline(result)
    return Finding(Check.VALUES, phrase, "\n".join(parts))


def _tables(reference: Reference) -> str:
    """The small integer inputs, such as group sizes, without which a result says little."""
    lines = []
    for name, array in zip(reference.names, reference.inputs, strict=True):
        if array.dtype not in ROUNDOFF and 0 < math.prod(array.shape) <= _FEW:
            lines.append(f"{name} = {_whole(in_float64(array))}")
    return "\n".join(lines)


def _whole(values: Floats) -> str:
    """All elements of a small array of integers, rows below each other."""
    text = np.array2string(values.astype(np.int64), max_line_width=WIDTH - 20)
    return text.replace("\n", "\n ")
