"""★★ Does every BlockSpec obey the TPU's block-shape rules?"""

from __future__ import annotations

from collections.abc import Sequence

from grader.checks.evidence import Evidence
from grader.checks.prose import listed, paragraph
from grader.model import Check, Finding, KernelCall
from grader.tpu.refused_blocks import explained, refused_blocks, written


def check(evidence: Evidence) -> Finding | None:
    """Look at the blocks of every kernel in the trace, without running anything."""
    trace = evidence.observed.trace
    return finding_for(trace.calls) if trace else None


def finding_for(calls: Sequence[KernelCall]) -> Finding | None:
    """Explain which blocks of these kernels a TPU refuses, if any."""
    refused = [each for call in calls for each in refused_blocks(call)]
    if not refused:
        return None
    names = listed(operand.name for operand, _ in refused)
    first, _ = refused[0]
    parts = [paragraph(*part) for each in refused for part in explained(*each)]
    return Finding(
        Check.BLOCKS,
        f"a TPU refuses block {written(first.block)} of {names}",
        "\n".join(["A TPU would not take these blocks.", *parts]),
    )
