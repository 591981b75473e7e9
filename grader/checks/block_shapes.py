"""★★ Does every BlockSpec follow the TPU's block-shape rules?"""

from __future__ import annotations

from collections.abc import Sequence

from grader.checks.evidence import Evidence
from grader.checks.prose import listed, paragraph
from grader.model import Check, Finding, KernelCall
from grader.tpu.refused_blocks import block_paragraphs, block_text, refused_blocks


def check(evidence: Evidence) -> Finding | None:
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
