"""What is said where the TPU's compiler gives no answer: it crashes, or takes too long."""

from __future__ import annotations

import re

from grader.checks.advice.libtpu import IN_32_BITS
from grader.checks.evidence import Evidence
from grader.checks.prose import listed, paragraph
from grader.model import Accident, Check, Finding, Narrow, Observation

#: How libtpu's internal names end that say of which integers an operation is: kVectorAddS16.
_WIDTH = re.compile(r"k[A-Z]\w*?[SU](\d+)\b")
_UNROLLED = (
    "The compiler writes out each operation once for every register that its operands fill, and a "
    "Python loop once for every turn. Use smaller blocks, jax.lax.fori_loop, or fewer operations."
)


def accident_finding(accident: Accident, evidence: Evidence) -> Finding:
    """What is said of a compiler that crashed, or that was stopped, over the learner's kernel."""
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


def _given_up_at(accident: Accident, evidence: Evidence) -> Narrow | None:
    """The kernel's integers that the compiler crashed at, by the width in its last words."""
    width = _WIDTH.search(accident.last_words)
    trace = evidence.attempt.trace if isinstance(evidence.attempt, Observation) else None
    if not width or trace is None:
        return None
    used = (narrow for call in trace.calls for narrow in call.narrow)
    return next((one for one in used if re.search(rf"[a-z]{width[1]}$", one.dtype)), None)


def _narrow(accident: Accident, narrow: Narrow, evidence: Evidence) -> Finding:
    chips = listed(evidence.chips)
    lines = [
        f"The TPU's compiler crashes over the {narrow.dtype} numbers of the kernel.",
        paragraph("error", f"on {chips}, it ended with: {accident.last_words}"),
    ]
    if narrow.line:
        lines.append(paragraph("line", f"{evidence.file}:{narrow.line}"))
    lines += [
        paragraph("why", IN_32_BITS),
        paragraph(
            "try",
            f"Compute in jnp.int32 in place of jnp.{narrow.dtype}: an index or a mask is "
            "jax.lax.broadcasted_iota(jnp.int32, shape, dimension), and what is loaded is cast "
            "after the load and back before the store.",
        ),
    ]
    phrase = f"{narrow.dtype} arithmetic crashes the TPU's compiler"
    return Finding(Check.COMPILES, phrase, "\n".join(lines), accident.message)
