"""★ Is it the file's own work, made of JAX's operations, with no answers baked in?"""

from __future__ import annotations

from grader.checks.evidence import Evidence
from grader.checks.prose import listed, paragraph
from grader.model import Check, Constant, Finding, KernelCall, Trace
from grader.tpu.units import bytes_of

#: Operations that leave the device. jax.debug.print is none of them: it computes nothing.
CALLBACKS = ("pure_callback", "io_callback", "debug_callback")


def check(evidence: Evidence) -> Finding | None:
    """Look at what the trace is made of."""
    trace = evidence.observed.trace
    if trace is None:
        return None
    if trace.from_spec:
        return _from_spec(trace.from_spec, evidence.file)
    if foreign := [call for call in trace.calls if call.foreign]:
        return _foreign(foreign[0], evidence.file)
    if trace.constants:
        return _constants(trace.constants, evidence.file)
    if trace.draws is not None and not evidence.random:
        return _random(trace.draws, evidence.file)
    return None if evidence.kernel else _on_the_host(trace, evidence.file)


def _from_spec(line: int, file: str) -> Finding:
    return _finding(
        "it calls the spec",
        "A part of the trace comes from the kata's own spec.",
        (file, line),
        "The spec only says what must come back. Called under another name, it is still the spec.",
        "Write the computation yourself, in the solution's region.",
    )


def _foreign(call: KernelCall, file: str) -> Finding:
    return _finding(
        f"the kernel is not yours: {call.foreign}",
        f"The body of {call.name}, or a part of it, is written in {call.foreign}, not here.",
        (file, call.line),
        "A kata asks for a kernel of your own. One that comes ready from a library earns nothing "
        "here, however good it is.",
        "Write the body in this file. It may call functions of this file, jax.numpy, and "
        "pltpu.emit_pipeline with a body that stands here.",
    )


def _constants(constants: tuple[Constant, ...], file: str) -> Finding:
    first = max(constants, key=lambda constant: constant.size)
    others = f", and {len(constants) - 1} more" if len(constants) > 1 else ""
    return _finding(
        f"a table of {bytes_of(first.size)} in the launch: {first.array}",
        f"The launch holds {first.array}, {bytes_of(first.size)} of numbers that were computed "
        f"before it was traced{others}.",
        (file, first.line),
        "Such numbers are baked into the program: they lie in HBM beside the inputs, and another "
        "input changes nothing about them.",
        "Compute it from the inputs inside of the launch, with jax.numpy instead of numpy; or in "
        "the kernel, where jax.lax.broadcasted_iota and a comparison make an index or a mask for "
        "nothing.",
    )


def _random(line: int, file: str) -> Finding:
    return _finding(
        "draws random bits",
        "It draws random bits from the chip's generator, and nothing in this kata is random.",
        (file, line),
        "The bits of a TPU are not those of the interpreter, which has none and makes up others: "
        "what depends on them would be one launch here and another on a TPU.",
        "Compute the result from the inputs alone.",
    )


def _on_the_host(trace: Trace, file: str) -> Finding | None:
    """Where a kata has no kernel, all of it is to be jax.numpy in jit."""
    calls = [operation for operation in trace.outside if operation.name in CALLBACKS]
    if not calls:
        return None
    names = listed(dict.fromkeys(operation.name for operation in calls))
    return _finding(
        f"calls back to the host: {names}",
        f"A part of it is done by Python on the host, through {names}.",
        (file, calls[0].line),
        "The tables are made beside the kernel that reads them, on the device and within jit. A "
        "callback stops the device, and copies the arrays to the host and back.",
        "Say it in jax.numpy. To look at values while it runs: jax.debug.print.",
    )


def _finding(phrase: str, what: str, place: tuple[str, int], why: str, remedy: str) -> Finding:
    file, line = place
    parts = [what]
    if line:
        parts.append(paragraph("line", f"{file}:{line}"))
    parts += [paragraph("why", why), paragraph("try", remedy)]
    return Finding(Check.OWN_WORK, phrase, "\n".join(parts))
