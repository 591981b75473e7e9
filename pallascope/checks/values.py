"""★ Is every element right, up to rounding, here and on a TPU? If not: diagnosis, known mistake."""

from __future__ import annotations

import dataclasses
import math
import textwrap
from collections.abc import Callable, Sequence

import numpy as np

from pallascope.checks.compare import (
    ROUNDOFF,
    Comparison,
    Floats,
    Sum,
    coarsest,
    compare,
)
from pallascope.checks.device_messages import copies_differ, devices_finding, one_axis
from pallascope.checks.diagnoses import (
    Suspect,
    diagnose,
    headline,
    map_of_blocks,
)
from pallascope.checks.diagnoses.suspect import Diagnosis, rms, rounding
from pallascope.checks.diagnoses.uninitialized import (
    no_steps,
    of_unwritten,
    shared_by_parallel_steps,
)
from pallascope.checks.diagnoses.value_patterns import changed_spec
from pallascope.checks.dma_messages import copies_finding, nothing_there
from pallascope.checks.exceptions import FOUND, complaint_finding, interpreter_finding
from pallascope.checks.launch_evidence import LaunchEvidence
from pallascope.checks.phrasing import (
    WIDTH,
    listed,
    number,
    paragraph,
    times,
)
from pallascope.model import (
    BROKEN_PROMISE,
    Accident,
    Array,
    Check,
    Clues,
    DmaHazard,
    Finding,
    KernelCall,
    Lint,
    Mode,
    Observation,
    Operand,
    Reference,
    Repaired,
    Role,
    Stage,
)
from pallascope.tools.arrays import in_float64

#: So many different numbers, wrong in the same way, hardly have two causes.
LEAST_NUMBERS = 2
#: A mistake's result is at least this many times nearer to the judged one than the right one is.
NEARER = 8


def known_mistake(
    results: Sequence[Comparison],
    resembles: Callable[[Callable[[tuple[Array, ...]], bool]], str],
    diagnosis: Diagnosis | None,
    is_mistake: Callable[[], bool] = lambda: False,
) -> Diagnosis | None:
    """The diagnosis of wrong results; it names a known mistake if that has the same results.

    If the wrong elements hold few different numbers, the mistake is only possible, unless the file
    has its text.
    """

    def agree(outputs: tuple[Array, ...]) -> bool:
        return len(outputs) == len(results) and all(map(alike, results, outputs))

    title = resembles(agree)
    if not title:
        return diagnosis
    phrase, same = f"your kernel {title}", "Your result matches that mistake exactly"
    if few_numbers(results) and not is_mistake():
        too = f"A kernel that {title} has this result, too."
        if diagnosis is None or diagnosis.guess:
            few = (
                "But it shows hardly any different numbers, so other mistakes may have it as well."
            )
            return Diagnosis(f"perhaps {phrase}", f"{too} {few}", guess=True)
        return dataclasses.replace(diagnosis, why=f"{diagnosis.why} {too}", guess=True)
    if diagnosis is None or diagnosis.guess:
        return Diagnosis(phrase, f"{same}.")
    return dataclasses.replace(diagnosis, phrase=phrase, why=f"{same}: {diagnosis.phrase}.")


def few_numbers(results: Sequence[Comparison]) -> bool:
    """Whether wrong elements are NaN, zeros or one number: many mistakes have such results."""
    wrong = np.concatenate([result.actual[result.wrong] for result in results])
    numbers = np.unique(wrong[np.isfinite(wrong)])
    return bool(np.count_nonzero(numbers) < LEAST_NUMBERS)


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


MOST_SAID = 200  # characters of an exception's text on a TPU
_FEW = 64  # elements that one can read at a glance


def check(evidence: LaunchEvidence) -> Finding | None:
    """Judge copies started by hand, the interpreter's exceptions and complaints, and the values."""
    trace = evidence.observed.trace
    calls = trace.calls if trace else ()
    faults = evidence.observed.device_faults
    if finding := devices_finding(faults, evidence.file):
        return finding
    if finding := copies_finding(evidence.observed.copy_faults, evidence.file, calls):
        outside = any(one.hazard is DmaHazard.OUTSIDE for one in evidence.observed.copy_faults)
        return _with_change(evidence, finding) if outside else finding
    problem = evidence.problem
    if problem is not None and problem.stage is Stage.RUN:
        if finding := copies_differ(faults, trace.outside if trace else ()):
            return finding
        if FOUND in problem.message and evidence.observed.complaints:  # they know who copied
            return _complained(evidence, calls)
        found = interpreter_finding(problem, evidence.file, calls, evidence.observed.devices)
        return _with_change(evidence, found) if "out of bounds" in found.phrase else found
    results = comparisons(evidence)
    judged = zip(_judged(evidence), results, strict=True)
    wrong = [(position, result) for position, result in judged if result.wrong.any()]
    complaints = evidence.observed.complaints
    if not wrong:
        if complaints:
            return _complained(evidence, calls)
        return _lucky(evidence, results) or _unwritten_used(evidence) or rounded_product(evidence)
    position, result = wrong[0]
    others = tuple(other for other in results if other is not result)
    garbage = np.isnan(result.actual[result.wrong]).any() or result.dtype not in ROUNDOFF
    diagnosis = nothing_there(evidence.observed.copy_faults) if garbage else None
    diagnosis = diagnosis or (no_steps(calls) if garbage else None)
    diagnosis = diagnosis or diagnose(_suspect(evidence, position, result, others))
    if complaints:
        found = _complained(evidence, calls, diagnosis)
        return _with_change(evidence, found) if found.phrase == BROKEN_PROMISE else found
    if diagnosis is None or diagnosis.vague:
        diagnosis = _tested_cause(evidence, position, results, diagnosis)
    elif diagnosis.symptom and (change := _repaired(evidence, results)):
        why = f"{change.why} As it is, {diagnosis.phrase}."
        diagnosis = dataclasses.replace(change, why=why)
    return _finding(evidence, result, diagnosis)


def _tested_cause(
    evidence: LaunchEvidence, position: int, results: list[Comparison], diagnosis: Diagnosis | None
) -> Diagnosis | None:
    """A cause that was tested, in the place of a vague diagnosis; else that diagnosis."""
    result = results[_judged(evidence).index(position)]
    known = known_mistake(results, evidence.resembles, diagnosis, evidence.is_mistake)
    if known is None and evidence.observed.unwritten:
        trace = evidence.observed.trace
        return of_unwritten(evidence.observed.unwritten, trace.calls if trace else ())
    if known is not diagnosis or (known and known.tested):
        # Several mistakes may have the same result in this case; a change names the line.
        sure = known is None or (not known.guess and evidence.is_mistake())
        return (None if sure else _repaired(evidence, results)) or known
    if tested := _tested(evidence, position, result):
        return tested
    if diagnosis and diagnosis.symptom:
        change = _repaired(evidence, results)
        why = f"{diagnosis.why} {change.why}" if change else diagnosis.why
        return dataclasses.replace(diagnosis, why=why)
    garbage = np.isnan(result.actual[result.wrong]).any() or result.dtype not in ROUNDOFF
    unsure = diagnosis is None or diagnosis.guess or garbage
    return (_repaired(evidence, results) if unsure else None) or diagnosis


def _tested(evidence: LaunchEvidence, position: int, result: Comparison) -> Diagnosis | None:
    """The diagnosis that the spec, changed in one thing, gives the judged result."""
    results = [
        (hypothesis, in_float64(hypothesis.results[position]))
        for hypothesis in evidence.hypotheses()
        if position < len(hypothesis.results)
    ]
    return changed_spec(result, results)


def _repaired(evidence: LaunchEvidence, results: Sequence[Comparison]) -> Diagnosis | None:
    """The diagnosis that all results are right if one operation of the kernel is changed."""
    repaired = evidence.repaired()
    judged = (
        [repaired.results[position] for position in _judged(evidence)] if repaired.change else []
    )
    if not judged or not all(map(_is_right, results, map(in_float64, judged))):
        return None
    return _change(repaired)


def _change(repaired: Repaired) -> Diagnosis:
    said = f"line {repaired.line} {repaired.change}"
    return Diagnosis(
        f"right, if {said}",
        f"In this case, all results would be right if {said}: this has been tried. Make sure "
        "that you mean it, and that it doesn't just make up for another mistake.",
        tested=True,
    )


def _with_change(evidence: LaunchEvidence, finding: Finding) -> Finding:
    """An index out of bounds or a false promise, and the change that makes all results right, if
    there is one. The launch itself may have no results.
    """
    if not (repaired := evidence.repaired()).change:
        return finding
    there = dataclasses.replace(
        evidence, attempt=dataclasses.replace(evidence.observed, outputs=repaired.results)
    )
    if any(result.wrong.any() for result in comparisons(there)):
        return finding
    change = _change(repaired)
    phrase = change.phrase if finding.phrase == BROKEN_PROMISE else finding.phrase
    message = f"{finding.message}\n{paragraph('change', change.why)}"
    return dataclasses.replace(finding, phrase=phrase, message=message)


def _is_right(result: Comparison, values: Floats) -> bool:
    return result.close(values, result.expected, result.allowed)


def _complained(
    evidence: LaunchEvidence, calls: tuple[KernelCall, ...], diagnosis: Diagnosis | None = None
) -> Finding:
    observed = evidence.observed
    return complaint_finding(observed.complaints, diagnosis, observed.devices, calls, evidence.file)


def _lucky(evidence: LaunchEvidence, results: list[Comparison]) -> Finding | None:
    """Right values that would be wrong in another order of the parallel grid steps."""
    trace = evidence.observed.trace
    for call in trace.calls if trace and results else ():
        if race := shared_by_parallel_steps(Suspect(results[0], call)):
            return Finding(Check.VALUES, race.phrase, f"{_by_luck(evidence)}.\n{race.why}")
    return None


def _unwritten_used(evidence: LaunchEvidence) -> Finding | None:
    """Right values that change with the contents of memory that nothing has written."""
    use, trace = evidence.observed.unwritten, evidence.observed.trace
    if use is None:
        return None
    diagnosis = of_unwritten(use, trace.calls if trace else ())
    parts = [f"{_by_luck(evidence)}: unwritten memory changes them."]
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


def _by_luck(evidence: LaunchEvidence) -> str:
    if evidence.compared:
        return "The values are right only by luck"
    return "The values are what they are only by luck"


def _place(index: tuple[int, ...]) -> str:
    return listed(index) if len(index) == 1 else str(index)


def rounded_product(evidence: LaunchEvidence) -> Finding | None:
    """Right values that a TPU would have rounded, if the key asks for more precision."""
    trace = evidence.observed.trace
    for call in trace.calls if trace and evidence.full_precision else ():
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


def comparisons(evidence: LaunchEvidence) -> list[Comparison]:
    """Each result of a launch that has run, compared with its expected values; not random ones."""
    reference = evidence.reference
    coarse = coarsest(array.dtype for array in reference.inputs)
    sways = dict(enumerate(reference.sways))
    return [
        _within(
            evidence,
            compare(
                evidence.name_of(position),
                evidence.outputs[position],
                reference.expected[position],
                operand_of(*output_of(evidence, position)),
                evidence.roundings,
                Sum(reference.contraction, coarse, sways.get(position, 0.0)),
                evidence.mode,
            ),
        )
        for position in _judged(evidence)
    ]


def _within(evidence: LaunchEvidence, result: Comparison) -> Comparison:
    """The comparison with the author's tolerances, if there are any."""
    if evidence.within is None:
        return result
    relative, absolute = evidence.within
    allowed = absolute + relative * np.abs(np.nan_to_num(result.expected))
    return dataclasses.replace(result, allowed=allowed)


def wrong_on_tpu(evidence: LaunchEvidence, ran: Observation | Accident) -> str:
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


def _judged(evidence: LaunchEvidence) -> list[int]:
    """The results that aren't random, by position."""
    outcomes = evidence.reference.outcomes or (None,) * len(evidence.outputs)
    pairs = zip(evidence.outputs, outcomes, strict=True)
    return [position for position, (_, may_be) in enumerate(pairs) if may_be is None]


def output_of(evidence: LaunchEvidence, position: int) -> tuple[KernelCall | None, int | None]:
    """The kernel, and which of its outputs result `position` is, if it is one unchanged.

    Outputs of a kernel over a mesh, which stores through Refs, aren't followed: then it is the last
    kernel's, by their order.
    """
    trace = evidence.observed.trace
    if trace is None or not trace.calls:
        return None, None
    held, last = trace.kernel_outputs, len(trace.calls) - 1
    if evidence.result_names or any(pair is not None for pair in held):
        pair = held[position] if position < len(held) else None
    else:
        pair = last, position
    if pair is None or (evidence.result_names and pair[0] != last):
        return None, None  # the key's name says more than that of another kernel's output
    call, number = trace.calls[pair[0]], pair[1]
    outputs = call.role(Role.OUTPUT)
    if number >= len(outputs) or outputs[number].array != trace.results[position]:
        return None, None
    return call, number


def _is_last(evidence: LaunchEvidence, call: KernelCall | None) -> bool:
    """Whether it is the last kernel, whose blocks the clues follow."""
    trace = evidence.observed.trace
    return trace is not None and call is not None and call is trace.calls[-1]


def operand_of(call: KernelCall | None, number: int | None) -> Operand | None:
    return None if call is None or number is None else call.role(Role.OUTPUT)[number]


def _suspect(
    evidence: LaunchEvidence, position: int, result: Comparison, others: tuple[Comparison, ...]
) -> Suspect:
    call, number = output_of(evidence, position)
    clues: Clues = evidence.clues()
    zeros = clues.with_zeros[position] if position < len(clues.with_zeros) else None
    as_xla = clues.as_xla[position] if position < len(clues.as_xla) else None
    finite = clues.finite[position] if position < len(clues.finite) else None
    reference = evidence.reference
    return Suspect(
        result=result,
        call=call,
        output=number,
        output_blocks=clues.output_blocks if _is_last(evidence, call) else None,
        with_zeros=in_float64(zeros) if zeros else None,
        padding=clues.padding,
        edge=clues.edge,
        as_xla=in_float64(as_xla) if as_xla else None,
        finite=in_float64(finite) if finite else None,
        nonfinite_by=clues.nonfinite_by,
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


def _unused(evidence: LaunchEvidence) -> tuple[int, ...]:
    trace = evidence.observed.trace
    return trace.unused if trace else ()


def _finding(evidence: LaunchEvidence, result: Comparison, diagnosis: Diagnosis | None) -> Finding:
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
            f"({_explained(evidence)} at most {number(result.allowed[worst])})",
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


def _explained(evidence: LaunchEvidence) -> str:
    return "rtol and atol allow" if evidence.within else "rounding explains"


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
