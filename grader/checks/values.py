"""★ Is it right: every element, within what rounding explains, in the chosen mode?"""

from __future__ import annotations

import re

from grader.arrays import in_float64
from grader.checks.compare import Comparison, compare
from grader.checks.diagnoses import (
    Diagnosis,
    Suspect,
    diagnose,
    headline,
    map_of_blocks,
    shared_by_parallel_steps,
)
from grader.checks.evidence import Evidence
from grader.checks.runs import advice_for
from grader.checks.words import at, listed, number, paragraph, times
from grader.model import Check, Clues, Finding, KernelCall, Operand, Problem, Role, Stage


def check(evidence: Evidence) -> Finding | None:
    """Judge what the interpreter raised, then what it complained of, then the values."""
    problem = evidence.problem
    if problem is not None and problem.stage is Stage.RUN:
        return raised(problem, evidence.file)
    results = _comparisons(evidence)
    wrong = [(position, result) for position, result in enumerate(results) if result.wrong.any()]
    complaints = evidence.observed.complaints
    if not wrong:
        return complained(complaints) if complaints else _lucky(evidence)
    position, result = wrong[0]
    diagnosis = diagnose(_suspect(evidence, position, result))
    return complained(complaints, diagnosis) if complaints else _finding(result, diagnosis)


def _lucky(evidence: Evidence) -> Finding | None:
    """Right values that another order of the parallel grid steps would have made wrong."""
    trace = evidence.observed.trace
    results = _comparisons(evidence)
    for call in trace.calls if trace and results else ():
        if found := shared_by_parallel_steps(Suspect(results[0], call)):
            return Finding(Check.VALUES, found.phrase, f"Right only by luck.\n{found.why}")
    return None


def _comparisons(evidence: Evidence) -> list[Comparison]:
    reference = evidence.reference
    return [
        compare(
            f"result {position}" if len(evidence.outputs) > 1 else "the result",
            actual,
            expected,
            _output(evidence, position)[1],
            evidence.roundings,
            reference.contraction,
            evidence.mode,
        )
        for position, (actual, expected) in enumerate(
            zip(evidence.outputs, reference.expected, strict=True)
        )
    ]


def _output(evidence: Evidence, position: int) -> tuple[KernelCall | None, Operand | None]:
    """The kernel's output that result `position` is, if it is one as it stands."""
    trace = evidence.observed.trace
    if trace is None or not trace.calls:
        return None, None
    call = trace.calls[-1]
    outputs = call.role(Role.OUTPUT)
    if position < len(outputs) and outputs[position].array == trace.results[position]:
        return call, outputs[position]
    return None, None


def _suspect(evidence: Evidence, position: int, result: Comparison) -> Suspect:
    call, operand = _output(evidence, position)
    clues: Clues = evidence.clues()
    zeros = clues.with_zeros[position] if position < len(clues.with_zeros) else None
    reference = evidence.reference
    return Suspect(
        result=result,
        call=call,
        output=position if operand else None,
        walk=clues.walk if operand else None,
        with_zeros=in_float64(zeros) if zeros else None,
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


def _finding(result: Comparison, diagnosis: Diagnosis | None) -> Finding:
    worst = result.worst()
    where = listed(worst) if len(worst) == 1 else str(worst)
    block = f", in block {result.block_of(worst)}" if len(result.indices()) > 1 else ""
    got, wanted = result.actual[worst], result.expected[worst]
    shape = "×".join(map(str, result.actual.shape))
    parts = [
        headline(result),
        paragraph("result", f"{result.dtype}, {shape}, in blocks of {times(result.block)}"),
    ]
    if picture := map_of_blocks(result):
        parts.append(paragraph("blocks", picture + "\n# has wrong elements"))
    parts.append(
        paragraph(
            "worst",
            f"element {where}{block}: got {number(got)}, expected {number(wanted)} "
            f"(rounding explains at most {number(result.allowed[worst])})",
        )
    )
    if diagnosis:
        parts.append(paragraph("why", diagnosis.why))
    phrase = diagnosis.phrase if diagnosis else headline(result)
    return Finding(Check.VALUES, phrase, "\n".join(parts))


# ---- what the TPU interpreter raises or prints while it runs a kernel ----

_BLOCK_INDEX = re.compile(
    r'Out-of-bounds block index (\(.*?\)) for (\w+) "(.*?)" in iteration (\(.*?\))'
)
_REVISITED = re.compile(
    r"Revisited block .* of output (\d+) in iteration (\(.*?\))\. .* in iterations (\(.*?\)) "
    r"through (\(.*?\))"
)


def raised(problem: Problem, file: str) -> Finding:
    """What the interpreter raised, in the learner's words."""
    phrase, what, advice = _translated(problem)
    parts = [what]
    if problem.place:
        parts.append(paragraph("line", at(file, problem.place)))
    if advice:
        parts.append(paragraph("try", advice))
    return Finding(Check.VALUES, phrase, "\n".join(parts))


def _translated(problem: Problem) -> tuple[str, str, str]:
    message = problem.message
    if found := _BLOCK_INDEX.search(message):
        index, role, name, step = found.groups()
        return (
            f"{name}: block index {index} is out of bounds",
            f"At grid step {step} the index map of {role} {name} returns {index}: that block lies "
            f"out of bounds.\n{paragraph('error', message)}",
            "An index map returns block indices, not element indices: block i starts at element "
            "i × block size. Compare the grid with the number of blocks.",
        )
    if found := _REVISITED.search(message):
        output, step, first, last = found.groups()
        return (
            "an output block is revisited",
            f"At grid step {step} output {output} comes back to a block that steps {first} to "
            f"{last} had written and left: the block is revisited after it was copied out to HBM, "
            "and what the kernel finds in VMEM then is not what it had stored.",
            "All steps that add to one output block must follow each other: make the grid axis "
            "that is summed over the last one.",
        )
    if "RACE DETECTED" in message:
        return _race(message)
    if "Out-of-bounds" in message or "out of bound" in message.lower():
        return (
            "reads out of bounds",
            f"The kernel reads out of bounds.\n{paragraph('error', message)}",
            "Inside the kernel a Ref holds one block only; its indices start at 0.",
        )
    if problem.kind == "AssertionError" and "swap" in problem.traceback:
        return (
            "stores out of bounds",
            "The kernel stores out of bounds: past the end of its Ref.",
            "Inside the kernel a Ref holds one block only; its indices start at 0.",
        )
    first_line = (message.splitlines() or [""])[0]
    return (
        f"{problem.kind}: {first_line}",
        f"The kernel raises while it runs.\n{paragraph('error', f'{problem.kind}: {message}')}",
        advice_for(f"{problem.kind}: {message}"),
    )


def _race(text: str) -> tuple[str, str, str]:
    return (
        "race between two cores",
        "A race: two cores touch the same memory, at least one of them writes, and nothing orders "
        f"them.\n{paragraph('error', text)}",
        "A grid dimension is marked parallel although its steps share an output block or scratch: "
        "mark it arbitrary in dimension_semantics.",
    )


def complained(complaints: tuple[str, ...], diagnosis: Diagnosis | None = None) -> Finding:
    """What the interpreter printed instead of raising, and what is wrong with the values."""
    races = [text for text in complaints if text.startswith("RACE")]
    if races:
        phrase, what, advice = _race(races[0])
    else:
        phrase = "a semaphore is left non-zero"
        what = "A semaphore is left non-zero at the kernel's end."
        what += f"\n{paragraph('error', complaints[0])}"
        advice = "Every signal needs its wait: a count left over breaks the next kernel on a TPU."
    parts = [what, paragraph("try", advice)]
    if diagnosis:
        parts.append(paragraph("also", diagnosis.why))
    return Finding(Check.VALUES, phrase, "\n".join(parts))
