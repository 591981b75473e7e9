"""★ Is it the file's own work, in a kernel, made of JAX's operations, with no answers baked in?

If a kata has no kernel but asks to go block by block, no array may be as large as all blocks
together. The bound comes from the case alone, as for operations around a kernel."""

from __future__ import annotations

import math

from grader.checks.evidence import Evidence
from grader.checks.surrounding_operations import IN_THE_KERNEL, LARGEST, too_much
from pallascope.checks import values
from pallascope.checks.phrasing import listed, paragraph
from pallascope.model import (
    Array,
    ArrayType,
    Check,
    Constant,
    Finding,
    KernelCall,
    Operation,
    Trace,
)
from pallascope.tools.text import format_bytes


def check_pallas_used(
    evidence: Evidence, launcher: str = "pallas_call and no pl.kernel", advice: str = ""
) -> Finding | None:
    """Look at the trace: a kernel, nothing but layout around it, and results that come from it.

    `launcher` names the functions that launch the target's kernels; `advice` replaces that on
    operations around the kernel.
    """
    trace = evidence.observed.trace
    if trace is None:
        return None
    if not trace.calls:
        return _no_kernel_finding(
            "no pallas_call",
            f"The trace contains no {launcher}: XLA computed the result, not a kernel.",
        )
    if callbacks := sorted({name for call in trace.calls for name in call.callbacks}):
        return _no_kernel_finding(
            "the kernel calls back to the host",
            f"The kernel contains {listed(callbacks)}: that part runs on the host, and a kernel "
            "on a chip can't call the host.",
        )
    extra = too_much(
        trace.outside, evidence.key.outside, evidence.key.outside_floats, evidence.reference
    )
    if extra:
        where = f"{evidence.file}:{extra.line}" if extra.line else ""
        also = _also(evidence)
        return _no_kernel_finding(extra.phrase, extra.reason, where, advice or extra.advice, also)
    if not all(trace.from_kernel):
        return _no_kernel_finding(
            "a result does not come from the kernel",
            "There is a kernel, but the result does not depend on it.",
        )
    return None


def _also(evidence: Evidence) -> str:
    """A note on wrong values, which may be the reason for the work outside."""
    found = None if evidence.production else values.check(evidence)
    return f"The values are wrong, too: {found.phrase}." if found else ""


def _no_kernel_finding(
    phrase: str, reason: str, where: str = "", advice: str = IN_THE_KERNEL, also: str = ""
) -> Finding:
    parts = [reason, *([paragraph("line", where)] if where else []), paragraph("try", advice)]
    if also:
        parts.append(paragraph("also", also))
    return Finding(Check.PALLAS_USED, phrase, "\n".join(parts))


def check_array_sizes(evidence: Evidence) -> Finding | None:
    """Look for an array that is larger than those of the inputs and results explain."""
    trace = evidence.observed.trace
    reference = evidence.reference
    own = max(
        (_array_elements(array) for array in (*reference.inputs, *reference.results)), default=1
    )
    made = [(array, o) for o in (trace.outside if trace else ()) for array in o.results]
    if not made:
        return None
    array, operation = max(made, key=lambda found: _array_elements(found[0]))
    if _array_elements(array) <= LARGEST * own:
        return None
    return _array_size_finding(array, operation, own, evidence.file)


def _array_elements(array: Array | ArrayType) -> int:
    return math.prod(array.shape)


def _array_size_finding(array: ArrayType, operation: Operation, own: int, file: str) -> Finding:
    size = _array_elements(array)
    parts = [
        f"The program makes {array}, {size:,} elements at once. The largest of its inputs and "
        f"results has {own:,}; up to {LARGEST} times as many pass."
    ]
    if operation.line:
        parts.append(paragraph("line", f"{file}:{operation.line}"))
    parts += [
        paragraph(
            "why",
            "Such an array holds all blocks together, and grows with the product of the lengths: "
            "it no longer fits into memory when the results are still small.",
        ),
        paragraph(
            "try",
            "Go through the blocks, or rows of blocks, one after another: jax.lax.scan carries the "
            "result so far, and jax.lax.map stacks the result of each. (jax.vmap makes all of them "
            "at once.)",
        ),
    ]
    return Finding(Check.COST, f"holds all blocks at once: {array}", "\n".join(parts))


#: Operations that leave the device. jax.debug.print is none of them: it computes nothing.
CALLBACKS = ("pure_callback", "io_callback", "debug_callback")


def check_own_work(evidence: Evidence) -> Finding | None:
    """Look for parts of the trace that aren't the learner's own work."""
    trace = evidence.observed.trace
    if trace is None:
        return None
    if trace.from_spec:
        return _from_spec(trace.from_spec, evidence.file)
    if foreign := [call for call in trace.calls if call.foreign]:
        return _foreign(foreign[0], evidence.file)
    if trace.constants:
        return _constants(trace.constants, evidence.file)
    if trace.draws is not None and not evidence.key.random:
        return _random(trace.draws, evidence.file)
    return None if evidence.key.kernel else _on_the_host(trace, evidence.file)


def _from_spec(line: int, file: str) -> Finding:
    return _finding(
        "it calls the spec",
        "A part of the trace comes from the kata's own spec.",
        (file, line),
        "The spec only defines the right result. Called under another name, it is still the spec.",
        "Write the computation yourself, in the solution's region.",
    )


def _foreign(call: KernelCall, file: str) -> Finding:
    return _finding(
        f"the kernel is not yours: {call.foreign}",
        f"The body of {call.name}, or a part of it, is written in {call.foreign}, not here.",
        (file, call.line),
        "A kata asks for your own kernel. A library's kernel earns nothing here, however good it "
        "is.",
        "Write the body in this file. It may call functions of this file, jax.numpy, and "
        "pltpu.emit_pipeline with a body from this file.",
    )


def _constants(constants: tuple[Constant, ...], file: str) -> Finding:
    first = max(constants, key=lambda constant: constant.size)
    others = f", and {len(constants) - 1} more" if len(constants) > 1 else ""
    return _finding(
        f"a table of {format_bytes(first.size)} in the launch: {first.array}",
        f"The launch holds {first.array}, {format_bytes(first.size)} of numbers that were computed "
        f"before it was traced{others}.",
        (file, first.line),
        "Such numbers are baked into the program: they lie in HBM next to the inputs, and other "
        "inputs don't change them.",
        "Compute it from the inputs inside of the launch, with jax.numpy instead of numpy; or in "
        "the kernel, where jax.lax.broadcasted_iota and a comparison make an index or a mask at no "
        "cost.",
    )


def _random(line: int, file: str) -> Finding:
    return _finding(
        "draws random bits",
        "It draws random bits from the chip's generator, and nothing in this kata is random.",
        (file, line),
        "The bits of a TPU are not those of the interpreter, which makes up others: a launch that "
        "depends on them would return one result here and another on a TPU.",
        "Compute the result from the inputs alone.",
    )


def _on_the_host(trace: Trace, file: str) -> Finding | None:
    """In a kata without a kernel, all work must be jax.numpy in jit."""
    calls = [operation for operation in trace.outside if operation.name in CALLBACKS]
    if not calls:
        return None
    names = listed(dict.fromkeys(operation.name for operation in calls))
    return _finding(
        f"calls back to the host: {names}",
        f"A part of it is done by Python on the host, through {names}.",
        (file, calls[0].line),
        "The tables are made next to the kernel that reads them, on the device and within jit. A "
        "callback stops the device, and copies the arrays to the host and back.",
        "Use jax.numpy. To look at values while it runs: jax.debug.print.",
    )


def _finding(phrase: str, what: str, place: tuple[str, int], why: str, remedy: str) -> Finding:
    file, line = place
    parts = [what]
    if line:
        parts.append(paragraph("line", f"{file}:{line}"))
    parts += [paragraph("why", why), paragraph("try", remedy)]
    return Finding(Check.OWN_WORK, phrase, "\n".join(parts))
