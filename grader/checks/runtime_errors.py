"""What the TPU interpreter raises, or prints, while it runs a kernel, in the learner's terms."""

from __future__ import annotations

import re

from grader.checks.diagnoses import Diagnosis
from grader.checks.prose import at, paragraph
from grader.checks.races import FOUND, race_told
from grader.checks.runs import exception_advice, first_paragraph
from grader.model import Check, Finding, KernelCall, Problem, Role

_BLOCK_INDEX = re.compile(
    r'Out-of-bounds block index (\(.*?\)) for (\w+) "(.*?)" in iteration (\(.*?\))'
)
_REVISITED = re.compile(
    r"Revisited block .* of output (\d+) in iteration (\(.*?\))\. .* in iterations (\(.*?\)) "
    r"through (\(.*?\))"
)


def interpreter_finding(
    problem: Problem, file: str, calls: tuple[KernelCall, ...] = (), devices: int = 1
) -> Finding:
    """What the interpreter raised while it ran these kernels, in the learner's terms."""
    if FOUND in problem.message:
        phrase, explanation, advice = race_told(problem.message, devices, calls, file)
    else:
        phrase, explanation, advice = _translated(problem, calls)
    parts = [explanation]
    if problem.place:
        parts.append(paragraph("line", at(file, problem.place)))
    if advice:
        parts.append(paragraph("try", advice))
    return Finding(Check.VALUES, phrase, "\n".join(parts), problem.traceback)


def _translated(problem: Problem, calls: tuple[KernelCall, ...]) -> tuple[str, str, str]:
    message = problem.message
    if match := _BLOCK_INDEX.search(message):
        index, role, name, step = match.groups()
        return (
            f"{name}: block index {index} is out of bounds",
            f"At grid step {step} the index map of {role} {name} returns {index}: that block is "
            f"out of bounds.\n{paragraph('error', message)}",
            "An index map returns block indices, not element indices: block i starts at element "
            "i × block size. Compare the grid with the number of blocks."
            + _handed_over(name, message),
        )
    if match := _REVISITED.search(message):
        output, step, first, last = match.groups()
        return (
            "an output block is revisited",
            f"At grid step {step} output {output} comes back to a block that steps {first} to "
            f"{last} had written: the block is revisited after it was copied out to HBM, and what "
            "the kernel finds in VMEM is not what it stored there.",
            "All steps that add to one output block must follow each other: sum over the last grid "
            "dimension.",
        )
    stored = re.search(r"Out-of-bounds (masked swap|swap|write)", message)
    if stored or (problem.kind == "AssertionError" and "swap" in problem.traceback):
        explanation = "The kernel stores out of bounds: not all of it lies within its Ref."
        return (
            "stores out of bounds",
            f"{explanation}\n{paragraph('error', message)}" if message else explanation,
            _within_bounds(message, calls),
        )
    if "Out-of-bounds" in message or "out of bound" in message.lower():
        return (
            "reads out of bounds",
            f"The kernel reads out of bounds.\n{paragraph('error', message)}",
            _within_bounds(message, calls),
        )
    first_line = (message.splitlines() or [""])[0]
    return (
        f"{problem.kind}: {first_line}",
        "The kernel raises an exception while it runs.\n"
        + paragraph("error", first_paragraph(f"{problem.kind}: {message}")),
        exception_advice(problem),
    )


def _handed_over(name: str, message: str) -> str:
    """Where all index maps are given, or right, it is another array than they were made for."""
    shape = re.search(r"but input has shape (\(.*?\))", message)
    if not shape:
        return ""
    return (
        f" {name} stands for an array of shape {shape[1]} here: if that is not the one that was "
        "meant, look at the order in which the arrays are passed."
    )


def _within_bounds(message: str, calls: tuple[KernelCall, ...]) -> str:
    """What to try. Where a store fails without a message, its index may have been negative."""
    advice = "Inside the kernel a Ref holds only one block; its indices start at 0."
    if shape := _of_a_whole_array(message, calls):
        last = ", ".join(str(size - 1) for size in shape)
        last = f"({last})" if len(shape) > 1 else last
        advice = f"This Ref holds a whole array; its indices go from 0 to {last}."
    if message and not re.search(r"slice\(-\d", message):
        return advice
    return (
        f"{advice} A negative one is before the start, it does not count from the end: the last "
        "row is ref[ref.shape[0] - 1]. Keep a computed index in bounds with jnp.clip."
    )


def _of_a_whole_array(message: str, calls: tuple[KernelCall, ...]) -> tuple[int, ...]:
    """The shape of the buffer that a message names, if only whole arrays have it; else ()."""
    match = re.search(r"buffer has shape \(([\d, ]*)\)", message)
    shape = tuple(int(size) for size in match[1].split(",") if size.strip()) if match else ()
    operands = [o for call in calls for o in call.operands if o.role is not Role.SCRATCH]
    alike = [o for o in operands if tuple(size for size in o.block if size) == shape]
    return shape if alike and all(o.array.shape == shape for o in alike) else ()


def complaint_finding(
    complaints: tuple[str, ...],
    diagnosis: Diagnosis | None = None,
    devices: int = 1,
    calls: tuple[KernelCall, ...] = (),
    file: str = "",
) -> Finding:
    """What the interpreter printed instead of raising, and what is wrong with the values."""
    races = [text for text in complaints if text.startswith(FOUND)]
    if races:
        phrase, explanation, advice = race_told(races[0], devices, calls, file)
    else:
        phrase = "a semaphore is left non-zero"
        explanation = "A semaphore is left non-zero at the end of the kernel."
        explanation += f"\n{paragraph('error', complaints[0])}"
        advice = "Every signal needs a wait: on a TPU, a leftover count breaks the next kernel."
    parts = [explanation, paragraph("try", advice)]
    if diagnosis:
        parts.append(paragraph("also", diagnosis.why))
    return Finding(Check.VALUES, phrase, "\n".join(parts))
