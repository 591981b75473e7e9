"""★ Does it import, trace and finish? Messages about exceptions, bad indices, races, crashes."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from pallascope.checks import compiles, lowers
from pallascope.checks.diagnoses import Diagnosis
from pallascope.checks.exception_advice import (
    EXCEPTION_ADVICE,
    WITHOUT_KERNEL,
    AdviceTable,
    exception_advice,
)
from pallascope.checks.launch_evidence import LaunchEvidence
from pallascope.checks.phrasing import at, paragraph
from pallascope.model import (
    BROKEN_PROMISE,
    Accident,
    Check,
    Finding,
    KernelCall,
    Operand,
    Problem,
    Role,
    Stage,
)
from pallascope.tpu import OnChip, Prediction

#: The kind of a Problem made from kernels.NotSerializable.
NOT_CARRIED = "NotSerializable"
#: For an exception in the lines around the regions.
GIVEN = (
    "The line that fails is given code and right as it is: look at the values that your line "
    "passes to it, such as blocks, dtypes and arrays in their order."
)


def check(evidence: LaunchEvidence) -> Finding | None:
    """Reject an attempt that did not import, trace, end, or stay in the process."""
    attempt = evidence.attempt
    if isinstance(attempt, Accident):
        return accident_finding(attempt, evidence.file)
    problem = attempt.problem
    if problem is None or problem.stage is Stage.RUN:
        return None
    return raised_finding(
        problem, evidence.file, EXCEPTION_ADVICE if evidence.kernel else WITHOUT_KERNEL
    )


def accident_finding(accident: Accident, file: str) -> Finding:
    """Explain why the process did not answer. `file` is the judged one, relative to the root."""
    parts = [accident.message]
    if accident.place:
        parts.append(paragraph("line", at(file, accident.place)))
    return Finding(Check.RUNS, accident.phrase, "\n".join(parts))


def raised_finding(problem: Problem, file: str, known: AdviceTable = EXCEPTION_ADVICE) -> Finding:
    """Explain an exception of the judged code."""
    if problem.kind == NOT_CARRIED:
        return _not_carried(problem, file)
    first_line = (problem.message.splitlines() or [""])[0]
    if problem.kind == "SystemExit":
        phrase, error = "calls sys.exit", "SystemExit: the kata tried to end the process"
    elif problem.kind == "NoDebugger":
        phrase, error = "opens a debugger", f"no debugger can be opened: {first_line}"
    elif problem.kind == "Skipped":
        phrase, error = "tries to skip itself", f"a kata cannot be skipped ({first_line})"
    elif problem.kind == "MissingGradeCall":
        phrase, error = first_line, problem.message
    else:
        phrase = f"{problem.kind}: {first_line}"
        error = f"{problem.kind}: {problem.message}"
    tracing = "The launch cannot be traced: it fails before a kernel runs"
    if known is WITHOUT_KERNEL:
        tracing = "It cannot be traced by jit"
    importing = "The file cannot be imported"
    if problem.kind == "MissingGradeCall":
        importing = "The file hands over no launch function"
    stages = {Stage.IMPORT: importing, Stage.TRACE: tracing}
    parts = [
        f"{stages.get(problem.stage, 'It fails')}.",
        paragraph("error", first_paragraph(error)),
    ]
    if problem.place:
        parts.append(paragraph("line", at(file, problem.place)))
    if problem.within:
        parts.append(paragraph("from", at(file, problem.within)))
        parts.append(paragraph("note", GIVEN))
    if advice := exception_advice(problem, known):
        parts.append(paragraph("try", advice))
    return Finding(Check.RUNS, phrase, "\n".join(parts), problem.traceback)


def _not_carried(problem: Problem, file: str) -> Finding:
    """A launch whose trace holds an object that no other process can have."""
    advice = (
        "Build it from jax.numpy, jax.lax and jax.experimental.pallas. A function needs no "
        "Primitive: call it, or give it derivatives with jax.custom_vjp."
    )
    if "pl.debug_check" in problem.message:
        advice = (
            "Take it out: it is checked on a TPU only. Here, print if something is wrong: "
            "pl.debug_print under pl.when(wrong)."
        )
    parts = [
        f"The launch cannot be judged: it holds {problem.message}.",
        *([paragraph("line", at(file, problem.place))] if problem.place else []),
        paragraph(
            "why",
            "The grader judges a launch by its trace, in a process that has JAX but not this file: "
            "the trace may hold only JAX's own operations and plain numbers.",
        ),
        paragraph("try", advice),
    ]
    return Finding(
        Check.RUNS, f"cannot be judged: {problem.message}", "\n".join(parts), problem.traceback
    )


def first_paragraph(message: str) -> str:
    """The first paragraph of an exception's text, and where to find the rest."""
    first, _, rest = message.strip().partition("\n\n")
    return f"{first}\n(the whole text: pytest -vv)" if rest else first


FOUND = "RACE DETECTED"

_CREDIT = (
    "A device may write to another's memory only after that device has allowed it. Use another "
    "slot for each hop, or let the neighbour signal your semaphore when it has read its slot, and "
    "wait for that signal before you write the slot again. Read a copy's target only after "
    "wait_recv, and write to its source only after wait_send."
)
_GRID = (
    "Steps along a grid dimension that is marked parallel share an output block or scratch. If "
    "each should write its own block, the output's index map must use that dimension. If they add "
    "to one block, mark the dimension arbitrary in dimension_semantics."
)
_MESH = (
    "Each core of a mesh runs the whole body. Divide the work by jax.lax.axis_index, so that no "
    "two cores write to the same place."
)
_ACCESS = re.compile(
    r"^ *(?P<kind>read|write) of (?:(?P<name>\S+) )?\('(?P<space>\w+)'.*?\)"
    r"\[(?P<part>.*)\] from (?P<copy>a copy by )?\(?\d+, (?P<core>\d+)\)?, ?(?P<line>.*)$",
    re.MULTILINE,
)
_LINE = re.compile(r"(?P<file>.+?):(?P<line>\d+)(:\d+)? \(.*\)$")
#: The interpreter's name, instead of a line, for the copy of a block between two steps.
_BLOCK = "pallas_call"


def race_told(
    text: str, devices: int = 1, calls: Sequence[KernelCall] = (), file: str = ""
) -> tuple[str, str, str]:
    """A race: a phrase, an explanation and a remedy. `file` is the judged one."""
    # The interpreter's vector clocks are of no use to a reader.
    text = "\n".join(line for line in text.splitlines() if "clock:" not in line)
    if devices > 1:
        return (
            "race between devices",
            "A race: a copy from one device, and another device or copy, access the same memory, "
            f"at least one of them writes, and nothing orders the accesses.\n{_error(text)}",
            _CREDIT,
        )
    explanation = (
        "A race: two cores access the same memory, at least one of them writes, and nothing orders "
        "the accesses."
    )
    found = sorted(_by_core(text, file)) or [_error(text)]  # their order is random
    over_mesh = bool(calls) and all(call.cores > 1 for call in calls)
    advice = _MESH if over_mesh else _GRID
    return "race between two cores", "\n".join([explanation, *found]), advice


def _error(text: str) -> str:
    return paragraph("error", text)


def _by_core(text: str, file: str) -> Iterator[str]:
    """Each access: its core, its part of an array, and its line."""
    for access in _ACCESS.finditer(text):
        where = "HBM" if access["space"] in ("hbm", "any") else access["space"].upper()
        array = f"{access['name']} in {where}" if access["name"] else f"an array in {where}"
        does = f"{access['kind']}s {_part(access['part'])} of {array}"
        yield paragraph(f"core {access['core']}", f"{does}, {_how(access, file)}")


def _how(access: re.Match[str], file: str) -> str:
    if access["line"] == _BLOCK:
        moved = "in before a step" if access["kind"] == "read" else "out after a step"
        return f"as a block is copied {moved}"
    if match := _LINE.match(access["line"]):
        own = PurePath(match["file"]).parts[-len(PurePath(file).parts) :] == PurePath(file).parts
        name = file if own else PurePath(match["file"]).name
        return f"{'by a copy from ' if access['copy'] else ''}{name}:{match['line']}"
    return "by a copy of a pipeline" if access["copy"] else "in the kernel"


def _part(text: str) -> str:
    """ "[0:8, 0:384]" for "(slice(0, 8, 1), slice(0, 384, 1))"; "all" if there is no slice."""
    parts = [
        f"{match['start']}:{match['stop']}" if match["start"] else match[0]
        for match in re.finditer(r"slice\((?P<start>\d+), (?P<stop>\d+), \w+\)|\d+", text)
    ]
    return f"[{', '.join(parts)}]" if parts else "all"


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
    """Explain an exception of the interpreter while it ran these kernels, in the author's
    terms."""
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


_IN_ANY_ORDER = (
    "Steps along a grid dimension that is marked parallel run in any order. If they add to one "
    "block, they must follow each other: mark the dimension arbitrary in dimension_semantics."
)


def _differ_along_parallel(step: str, other: str, calls: Sequence[KernelCall]) -> bool:
    """Whether two grid steps, such as "(0, 3)", differ along a parallel dimension alone."""
    one, another = (re.findall(r"\d+", text) for text in (step, other))
    axes = {axis for axis, pair in enumerate(zip(one, another, strict=False)) if len(set(pair)) > 1}
    fitting = [call for call in calls if len(call.grid) == len(one)]
    return bool(axes) and any(axes <= set(call.parallel) for call in fitting)


def _translated(problem: Problem, calls: tuple[KernelCall, ...]) -> tuple[str, str, str]:
    message = problem.message
    if match := _BLOCK_INDEX.search(message):
        index, role, name, step = match.groups()
        return (
            f"{name}: block index {index} is out of bounds",
            f"At grid step {step} the index map of {role} {name} returns {index}: that block is "
            f"out of bounds.\n{paragraph('error', message)}",
            _block_numbers(index, name, message, calls) + _handed_over(name, message),
        )
    if match := _REVISITED.search(message):
        output, step, first, last = match.groups()
        return (
            "an output block is revisited",
            f"At grid step {step} output {output} comes back to a block that steps {first} to "
            f"{last} had written: the block is revisited after it was copied out to HBM, and VMEM "
            "no longer holds the values that the kernel stored there.",
            _IN_ANY_ORDER
            if _differ_along_parallel(step, last, calls)
            else "All steps that add to one output block must follow each other: sum over the last "
            "grid dimension.",
        )
    stored = re.search(r"Out-of-bounds (masked swap|swap|write)", message)
    if stored or (problem.kind == "AssertionError" and "swap" in problem.traceback):
        explanation = "The kernel stores out of bounds: part of the store lies outside its Ref."
        told = _access(message, calls, "it stores to") or message
        return (
            "stores out of bounds",
            f"{explanation}\n{paragraph('error', told)}" if told else explanation,
            _within_bounds(message, calls),
        )
    if match := re.search(r"Out-of-bounds index (-?\d+) of an array of semaphores", message):
        return (
            "a semaphore out of bounds",
            f"The kernel uses semaphore {match.group(1)} of an array that has none of this number.",
            "The numbers begin at 0. Compare the index with the size of the array in "
            "scratch_shapes: on a TPU, the kernel would hang or use another semaphore.",
        )
    if "Out-of-bounds" in message or "out of bound" in message.lower():
        return (
            "reads out of bounds",
            "The kernel reads out of bounds.\n"
            + paragraph("error", _access(message, calls, "it reads") or message),
            _within_bounds(message, calls),
        )
    return (
        _unexplained(problem),
        "The kernel raises an exception while it runs.\n"
        + paragraph("error", first_paragraph(f"{problem.kind}: {message}")),
        exception_advice(problem),
    )


def _unexplained(problem: Problem) -> str:
    return f"{problem.kind}: {(problem.message.splitlines() or [''])[0]}"


def by_interpreter(finding: Finding, problem: Problem) -> bool:
    """Whether the finding of `interpreter_finding` knows no cause: the interpreter itself may be at
    fault, which lacks an operation."""
    return finding.phrase == _unexplained(problem)


def _block_numbers(index: str, name: str, message: str, calls: tuple[KernelCall, ...]) -> str:
    """Advice on a block index that is out of bounds, such as "(0, 256)".

    Of several Refs of that name, it is about the one with the shape in the message.
    """
    alike = [one for call in calls for one in call.operands if one.name == name]
    shape = _shape_of_input(message)
    operand = next((one for one in alike if shape in ("", str(one.array.shape))), None)
    numbers = [int(number) for number in re.findall(r"-?\d+", index)]
    compare = "Compare the grid with the number of blocks, and look at each term of the index map."
    if operand is None or len(numbers) != len(operand.block):
        return compare
    for axis, (number, block) in enumerate(zip(numbers, operand.block, strict=True)):
        size, step = operand.array.shape[axis], block or 1
        count = -(-size // step)
        counts_elements = bool(operand.kinds) and operand.kinds[axis] == "Element"
        if 0 <= number < (max(size - step, 0) + 1 if counts_elements else count):
            continue
        if counts_elements:
            return (
                f"Along dimension {axis}, the index map of {name} returns the first element of a "
                f"block (pl.Element), and a block has {step} of the array's {size} elements. "
                "Compare the first element on each grid step with that."
            )
        blocks = f"{count} blocks, 0 to {count - 1}," if count > 1 else "1 block, 0,"
        there = f"{name} has {blocks} along dimension {axis}. "
        if number > 0 and step > 1 and number % step == 0 and number // step < count:
            return (
                f"{there}An index map returns block indices, not element indices: block i starts "
                f"at element i × {step}."
            )
        return there + compare
    return compare


def _shape_of_input(message: str) -> str:
    """The shape of an array in the interpreter's message, such as "(8, 128)"; "" if it has none."""
    found = re.search(r"but input has shape (\(.*?\))", message)
    return found[1] if found else ""


def _handed_over(name: str, message: str) -> str:
    """A hint for a right index map that got the wrong array."""
    if not (shape := _shape_of_input(message)):
        return ""
    return (
        f" {name} is an array of shape {shape} here: if you meant another one, look at the "
        "order in which the arrays are passed."
    )


def _within_bounds(message: str, calls: tuple[KernelCall, ...]) -> str:
    """A remedy. If a store fails without a message, its index may have been negative."""
    advice = "Inside the kernel a Ref holds only one block; its indices start at 0."
    if shape := _of_a_whole_array(message, calls):
        last = ", ".join(str(size - 1) for size in shape)
        last = f"({last})" if len(shape) > 1 else last
        advice = f"This Ref holds a whole array; its indices go from 0 to {last}."
    if message and not re.search(r"[( ]-\d", message):
        return advice
    return (
        f"{advice} A negative index lies before the start; it does not count from the end: the "
        "last row is ref[ref.shape[0] - 1]. Keep a computed index in bounds with jnp.clip."
    )


_PART = re.compile(r"\[\((.*?)\)\] but buffer has shape \(([\d, ]*)\)")
_SLICE = re.compile(r"slice\((-?\d+), (-?\d+), 1\)")


def _access(message: str, calls: tuple[KernelCall, ...], does: str) -> str:
    """An access in the words of numpy: "it reads [1:2, 0:256] of w_ref, which has …"."""
    match = _PART.search(message)
    if match is None:
        return ""
    index = _SLICE.sub(r"\1:\2", match[1]).rstrip(",")
    shape, alike = _alike(message, calls)
    names = list(dict.fromkeys(operand.name for operand in alike))
    if len(names) > 1:
        return f"{does} [{index}] of {' or '.join(names)}, which have the shape {shape}"
    return f"{does} [{index}] of {names[0] if names else 'a Ref'}, which has the shape {shape}"


def _alike(message: str, calls: tuple[KernelCall, ...]) -> tuple[tuple[int, ...], list[Operand]]:
    """The shape of the buffer that a message names, and the operands whose Refs have it."""
    match = _PART.search(message)
    shape = tuple(int(size) for size in match[2].split(",") if size.strip()) if match else ()
    operands = [operand for call in calls for operand in call.operands]
    return shape, [operand for operand in operands if _shape_of_ref(operand) == shape]


def _shape_of_ref(operand: Operand) -> tuple[int, ...]:
    block = tuple(size for size in operand.block if size)
    return operand.array.shape if operand.role is Role.SCRATCH or not block else block


def _of_a_whole_array(message: str, calls: tuple[KernelCall, ...]) -> tuple[int, ...]:
    """The shape of the buffer that a message names, if only whole arrays have it; else ()."""
    shape, alike = _alike(message, calls)
    return shape if alike and all(o.array.shape == shape for o in alike) else ()


def complaint_finding(
    complaints: tuple[str, ...],
    diagnosis: Diagnosis | None = None,
    devices: int = 1,
    calls: tuple[KernelCall, ...] = (),
    file: str = "",
) -> Finding:
    """Explain the interpreter's printed complaints, and the fault of the values, if any."""
    races = [text for text in complaints if text.startswith(FOUND)]
    if races:
        phrase, explanation, advice = race_told(races[0], devices, calls, file)
    elif complaints[0].startswith(BROKEN_PROMISE):
        phrase, _, explanation = complaints[0].partition(": ")
        advice = (
            "Mosaic leaves out the code for all other indices. Promise only a number that divides "
            "the index on each grid step, or nothing."
        )
    else:
        phrase = "a semaphore is left non-zero"
        explanation = "A semaphore is left non-zero at the end of the kernel."
        explanation += f"\n{paragraph('error', complaints[0])}"
        advice = "Every signal needs a wait: on a TPU, a leftover count breaks the next kernel."
    parts = [explanation, paragraph("try", advice)]
    if diagnosis:
        parts.append(paragraph("also", diagnosis.why))
    return Finding(Check.VALUES, phrase, "\n".join(parts))


NO_KERNEL = "no pallas_call"


@dataclass(frozen=True, slots=True)
class LaunchOutcome:
    """A launch's kernels on one chip. `trouble` says why there are none.

    `refusals` align with the kernels: why the compiler refuses one, None where it accepts it.
    """

    kernels: tuple[Prediction, ...] = ()
    trouble: Finding | None = None
    refusals: tuple[Finding | None, ...] = ()


def outcome_of(on_chip: OnChip | Accident, chip: str, file: str) -> LaunchOutcome:
    """Explain how far a launch came. `file` is the judged one, relative to the root."""
    if isinstance(on_chip, Accident):
        return LaunchOutcome(trouble=accident_finding(on_chip, file))
    if on_chip.problem:
        return LaunchOutcome(trouble=problem_finding(on_chip.problem, file))
    kernels = on_chip.on(chip)
    refusals = (compiles.refused_finding([k], file) if k.failure else None for k in kernels)
    return LaunchOutcome(kernels, None, tuple(refusals))


def in_full(finding: Finding) -> str:
    """A finding about the chip alone: its phrase, then the details."""
    if finding.check not in (Check.BLOCKS, Check.LOWERS, Check.COMPILES):
        return finding.message
    _, _, details = finding.message.partition("\n")
    return f"{finding.phrase[0].upper()}{finding.phrase[1:]}.\n{details}"


def problem_finding(problem: Problem, file: str) -> Finding:
    """Explain an exception on the way to the chip; illegal blocks come first."""
    if problem.call and (finding := lowers.blocks_finding([problem.call])):
        return finding
    if problem.kind == "NotLowered":
        return lowers.lowering_finding(problem, file)
    stage = Stage.TRACE if problem.stage is Stage.LOWER else problem.stage
    return raised_finding(dataclasses.replace(problem, stage=stage), file)
