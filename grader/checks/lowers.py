"""★★ Are block shapes legal, and does Mosaic lower the kernel for a TPU?"""

from __future__ import annotations

import re
from collections.abc import Sequence

from grader.checks.advice.mosaic_advice import workaround_for
from grader.checks.evidence import TpuEvidence
from grader.checks.phrasing import at, listed, paragraph
from grader.verdict import Check, Finding, NotJudged
from pallascope.model import Accident, KernelCall, Operation, Problem
from pallascope.tpu.tiling import block_paragraphs, block_text, refused_blocks


def check_blocks(evidence: TpuEvidence) -> Finding | None:
    """Look at the blocks of every kernel in the trace, without running anything."""
    trace = evidence.observed.trace
    return blocks_finding(trace.calls) if trace else None


def blocks_finding(calls: Sequence[KernelCall]) -> Finding | None:
    """Explain which blocks of these kernels a TPU refuses, if any."""
    refused = [block for call in calls for block in refused_blocks(call)]
    if not refused:
        return None
    names = listed(operand.name for operand, _ in refused)
    first, _ = refused[0]
    parts = [paragraph(*part) for block in refused for part in block_paragraphs(*block)]
    return Finding(
        Check.BLOCKS,
        f"a TPU refuses block {block_text(first.block)} of {names}",
        "\n".join(["A TPU would refuse these blocks.", *parts]),
    )


_NO_RULE = re.compile(r"Unimplemented primitive in Pallas TPU lowering")
#: What Mosaic says to its own developers.
_NOISE = re.compile(
    r"Pallas encountered an internal verification error\. |Error details: |"
    r"Please file (an issue|a bug) at \S+\s*|\n? *see current operation:[\s\S]*|"
    r"\s*error: \"[\s\S]*\):(?= )"
)
#: JAX's name of an operation, and the one that a kernel's author uses.
_CALLED = {
    "get": "load",
    "swap": "store",
    "masked_load": "masked load",
    "masked_swap": "masked store",
    "dma_start": "async copy",
    "dot_general": "dot",
}


NOTHING_LOWERED = "traced for a TPU, the launch shows no kernel that could be lowered"


def check_lowers(evidence: TpuEvidence) -> Finding | NotJudged | None:
    """Look at how far the launch came on its way to a TPU."""
    own = evidence.own_on_chips()
    if isinstance(own, Accident):
        return None  # the next rung tells of it
    if own.problem is not None:
        if own.unsupported:
            return NotJudged(Check.LOWERS, own.problem.message)
        return lowering_finding(own.problem, evidence.file)
    if not all(own.on(chip) for chip in evidence.chips):
        return NotJudged(Check.LOWERS, NOTHING_LOWERED)
    return None


def lowering_finding(problem: Problem, file: str) -> Finding:
    """Explain what was raised while the launch was traced and lowered for a TPU.

    `file` is the learner's, relative to the root.
    """
    advice = workaround_for(problem)
    parts = [
        f"{_sentence(_phrase(problem))}.",
        paragraph("error", _error(problem)),
    ]
    if problem.place:
        parts.append(paragraph("line", at(file, problem.place)))
    if advice:
        parts += [paragraph("why", advice.why), paragraph("try", advice.remedy)]
    elif _NO_RULE.search(problem.message):
        parts.append(paragraph("try", _BUILD))
    return Finding(Check.LOWERS, _phrase(problem), "\n".join(parts), problem.traceback)


_BUILD = (
    "Build it from what a TPU has: arithmetic, comparisons, jnp.where, jnp.dot, sums and maxima "
    "along a dimension. Or do it outside the kernel."
)


def _phrase(problem: Problem) -> str:
    operation = problem.operation
    if operation is None:
        return _when(problem)
    verb = "cannot lower" if _NO_RULE.search(problem.message) else "refuses"
    within = f" (in {operation.within})" if operation.within else ""
    return f"Mosaic {verb} {_called(operation)}{within}"


def _sentence(phrase: str) -> str:
    return f"{phrase[0].upper()}{phrase[1:]}"


def _when(problem: Problem) -> str:
    if problem.kind == "NotLowered":
        return "Mosaic refuses the launch"
    return "the launch cannot be traced for a TPU"


def _error(problem: Problem) -> str:
    hint = "\n(the whole text: pytest -vv)"
    if problem.operation is None:
        return _shortened(problem) + hint
    operation = _described(problem.operation)
    if _NO_RULE.search(problem.message):
        return f"Mosaic has no lowering for {operation}.{hint}"
    return f"in lowering {operation}:\n{_shortened(problem)}{hint}"


def _described(operation: Operation) -> str:
    """ "dot of bfloat16[8, 128] and bfloat16[128, 128]", "sort of …, a part of median"."""
    arrays = [operand for operand in operation.operands if operand.shape] or operation.operands
    text = _called(operation)
    if arrays:
        text += f" of {listed(arrays, 3)}"
    return f"{text}, a part of {operation.within}" if operation.within else text


def _called(operation: Operation) -> str:
    return _CALLED.get(operation.name, operation.name)


def _shortened(problem: Problem) -> str:
    """Mosaic's own message, without what is meant for its developers."""
    kind = "" if problem.kind == "NotLowered" else f"{problem.kind}: "
    text = _NOISE.sub("", kind + problem.message).strip()
    first = (text.splitlines() or [""])[0].strip()
    return f"{first.removesuffix(':')} (without a message)" if first.endswith(":") else first
