"""★★★ Are HBM bytes and predicted cycles within the slack of par?

Par is the solution, compiled in the same run for the same case. Nothing here is timed on this
machine: the bytes and cycles are those of the compiler's schedule. A DMA from HBM to HBM leaves a
lower bound of the cycles. If par has one, bytes alone are judged. If only the learner's launch has
one, it is rejected if the bound is over par's cycles, and else judged by its bytes. A kernel that
communicates with other chips has no predicted time. The bytes that it sends count as well, and
those of collectives around the kernels, and whether its products overlap with copies.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from grader.checks.communication_cost import (
    Sender,
    in_words,
    larger_parts,
    links_finding,
    waits_first,
)
from grader.checks.evidence import TpuEvidence
from grader.verdict import Cost
from pallascope.checks.phrasing import allowed, multiple, paragraph
from pallascope.model import Accident, Check, Finding, NotJudged
from pallascope.tools.text import format_bytes, format_time
from pallascope.tpu import OnChip, Prediction
from pallascope.tpu.bottlenecks import bottlenecks
from pallascope.tpu.chips import Trust, named
from pallascope.tpu.excess_traffic import Bottleneck

_TRUSTED = (Trust.VALIDATED, Trust.TWO_CORES)


def cost_beside_par(evidence: TpuEvidence) -> Cost | None:
    """The learner's launch and par in numbers; None where one of them was not compiled.

    Lower bounds of cycles are left out.
    """
    cost, own = _with_lower_bounds(evidence), evidence.own_on_chips()
    if cost is None or not isinstance(own, OnChip) or not _bounded(own.on(cost.chip)):
        return cost
    return dataclasses.replace(cost, cycles=None, par_cycles=None)


def _with_lower_bounds(evidence: TpuEvidence) -> Cost | None:
    """The same; the learner's cycles may be a lower bound."""
    both = _both(evidence)
    if both is None:
        return None
    own, par = both
    chip = evidence.chips[0]
    cycles = par_cycles = own_bytes = par_bytes = None
    scheduled = all(map(_scheduled, (*own, *par)))
    timed = scheduled and not _bounded(par)
    by_index_maps = not any(p.traffic.unknown or p.runs.untold for p in (*own, *par))
    if by_index_maps and not scheduled:
        own_bytes, par_bytes = (
            sum((p.traffic.bytes + p.copied_bytes) * p.runs.times for p in side) for side in both
        )
    elif all(map(_bytes_known, (*own, *par))):
        own_bytes, par_bytes = (sum(p.bytes for p in side) for side in both)
    if timed and named(chip).trust in _TRUSTED:
        cycles, par_cycles = map(_cycles, both)
    return Cost(chip, own_bytes, par_bytes, cycles, par_cycles)


def check(evidence: TpuEvidence) -> Finding | NotJudged | None:
    """Reject a launch that moves more, or takes longer, than the key's slack allows.

    If only the bytes are known, they are judged. A launch without a time gets no verdict if par has
    one: a branch on data can hide anything.
    """
    cost = _with_lower_bounds(evidence)
    if cost is None:
        return NotJudged(Check.COST, _why_not(evidence))
    if found := _unrolled(evidence):
        return found
    if found := _over_the_links(evidence) or _one_after_the_other(evidence):
        return found
    more_bytes = _over(cost.bytes, cost.par_bytes, evidence.key.slack.bytes)
    more_cycles = _over(cost.cycles, cost.par_cycles, evidence.key.slack.cycles)
    if more_bytes or more_cycles:
        return _over_par(evidence, cost, more_bytes, more_cycles)
    if cost.cycles is None and _timed(evidence):
        return _no_verdict(evidence)
    if cost.bytes is None:
        return _bytes_unknown(evidence)
    return None


def _unrolled(evidence: TpuEvidence) -> Finding | None:
    """Reject a kernel whose program grows with its blocks, if the kata is about loops."""
    most, trace = evidence.key.operations, evidence.observed.trace
    count = max((call.operations for call in trace.calls), default=0) if trace else 0
    if most is None or count <= most:
        return None
    phrase = f"the kernel's body has {count:,} operations; up to {most} pass"
    parts = [
        f"The kernel's body has {count:,} operations as it is traced; up to {most} pass.",
        paragraph(
            "why",
            "A Python loop repeats its body in the program, so the code and the time to compile it "
            "grow with the block.",
        ),
        paragraph(
            "try",
            "jax.lax.fori_loop and pl.loop are loops on the TPU, whose body is in the program "
            "once; with unroll=8, eight times.",
        ),
    ]
    return Finding(Check.COST, phrase, "\n".join(parts))


def _over_the_links(evidence: TpuEvidence) -> Finding | None:
    both = _both(evidence)
    assert both is not None
    launch, solution = evidence.own_on_chips(), evidence.par_on_chips()
    assert isinstance(launch, OnChip)
    assert isinstance(solution, OnChip)
    own, par = both
    sides = Sender(own, launch.collectives), Sender(par, solution.collectives)
    return links_finding(*sides, evidence.key.slack.bytes)


def _one_after_the_other(evidence: TpuEvidence) -> Finding | None:
    """Reject a launch that waits for its neighbours where par multiplies."""
    both = _both(evidence)
    assert both is not None
    return waits_first(*both)


def _over_par(evidence: TpuEvidence, cost: Cost, more_bytes: float, more_cycles: float) -> Finding:
    both = _both(evidence)
    assert both is not None
    causes = bottlenecks(*both)
    if more_bytes:
        causes = tuple(sorted(causes, key=lambda cause: -cause.size))
    excess = f"{multiple(more_bytes)} par's HBM bytes"
    if not more_bytes:
        excess = f"{multiple(more_cycles)} par's time"
    phrase = f"{excess}: {causes[0].phrase}" if causes else excess
    explained = [text for cause in causes[:3] for text in _explained(cause)]
    several = evidence.observed.devices > 1
    if several and (parts := larger_parts(*([kernel.call for kernel in side] for side in both))):
        more, explained = in_words(parts)
        phrase = f"{excess}: {more}"
    lines = [
        "It would be slower on a TPU than it needs to be.",
        *_numbers(cost, evidence),
        *explained,
    ]
    return Finding(Check.COST, phrase, "\n".join(lines))


def _both(evidence: TpuEvidence) -> tuple[tuple[Prediction, ...], tuple[Prediction, ...]] | None:
    """The kernels of the learner's launch and of par's, on the chip whose cost is judged."""
    launch, solution = evidence.own_on_chips(), evidence.par_on_chips()
    if not (isinstance(launch, OnChip) and isinstance(solution, OnChip)):
        return None
    own, par = launch.on(evidence.chips[0]), solution.on(evidence.chips[0])
    if not own or not par or any(p.failure for p in par):
        return None
    return own, par


def _bytes_known(kernel: Prediction) -> bool:
    return bool(kernel.schedule or not kernel.traffic.unknown) and not kernel.runs.untold


def _scheduled(kernel: Prediction) -> bool:
    """Whether there is a time for all of its runs."""
    return kernel.schedule is not None and not kernel.runs.untold


def _bounded(side: Sequence[Prediction]) -> bool:
    """Whether the cycles of these kernels are no more than a lower bound."""
    return any(p.least for p in side)


def _cycles(side: Sequence[Prediction]) -> int:
    return round(sum(p.cycles for p in side))


def _over(own: int | None, par: int | None, slack: float) -> float:
    """`own` as a multiple of par, where that is more than the slack allows; else 0."""
    if own is None or not par or own <= par * (1 + slack):
        return 0.0
    return own / par


def _timed(evidence: TpuEvidence) -> bool:
    """Whether both sides should have a time on this chip: par's is known and trusted."""
    both = _both(evidence)
    assert both is not None
    _, par = both
    chip = named(evidence.chips[0])
    return chip.trust in _TRUSTED and all(map(_scheduled, par)) and not _bounded(par)


def _bytes_unknown(evidence: TpuEvidence) -> Finding | NotJudged:
    """Neither time nor bytes are known: the kernel's fault, if par's bytes are."""
    both = _both(evidence)
    assert both is not None
    _, par = both
    if not all(map(_bytes_known, par)):
        return NotJudged(Check.COST, _reasons(par)[0])
    return _no_verdict(evidence)


def _no_verdict(evidence: TpuEvidence) -> Finding:
    """Par's cost is known and the kernel's is not, so it can't earn the star."""
    both = _both(evidence)
    assert both is not None
    (reason, *_) = _reasons(both[0])
    parts = [
        "Its cost on a TPU can't be predicted.",
        paragraph("why", reason),
        paragraph("try", _PREDICTABLE),
    ]
    return Finding(Check.COST, f"no verdict: {reason}", "\n".join(parts))


_PREDICTABLE = (
    "Loops and branches that depend on sizes, the grid step or scalar prefetch can be predicted; "
    "those on values that the kernel has read or computed cannot. jnp.where chooses without a "
    "branch."
)


_UNTOLD = "the number of iterations of a loop around the kernel is known only at run time"


def _reasons(side: Sequence[Prediction]) -> tuple[str, ...]:
    """Why the cost of these kernels is not known, at least one reason."""
    if any(p.runs.untold for p in side):
        return (_UNTOLD,)
    unscheduled = [p for p in side if not p.schedule]
    known = [why for p in unscheduled for why in (p.unknown, *p.traffic.unknown) if why]
    return tuple(known) or ("its index maps and its schedule don't show it",)


def _why_not(evidence: TpuEvidence) -> str:
    """Why there is nothing to compare, in words."""
    own, par = evidence.own_on_chips(), evidence.par_on_chips()
    if not isinstance(own, OnChip) or not own.on(evidence.chips[0]):
        return "the kernel did not reach the compiler"
    if isinstance(par, Accident):
        return f"the process that compiled par did not answer: {par.phrase}"
    if par.problem:
        return f"par can't be lowered: {par.problem.kind}: {par.problem.message}"
    failures = [p.failure for p in par.on(evidence.chips[0]) if p.failure]
    if failures:
        return f"a {evidence.chips[0]} refuses par: {failures[0].message}"
    return "par has no kernel"


def _numbers(cost: Cost, evidence: TpuEvidence) -> list[str]:
    lines = []
    if cost.bytes is not None and cost.par_bytes:
        ratio = allowed(cost.bytes / cost.par_bytes, evidence.key.slack.bytes)
        moves = f"moves {format_bytes(cost.bytes)} between HBM and the chip"
        lines.append(
            paragraph("bytes", f"{moves}; par moves {format_bytes(cost.par_bytes)} ({ratio})")
        )
    if cost.cycles is not None and cost.par_cycles:
        ratio = allowed(cost.cycles / cost.par_cycles, evidence.key.slack.cycles)
        clock = named(cost.chip).clock
        own, par = (format_time(cycles / clock) for cycles in (cost.cycles, cost.par_cycles))
        both = _both(evidence)
        least = "at least " if both and _bounded(both[0]) else ""
        words = f"{least}{own} predicted on a {cost.chip}; par {par} ({ratio})"
        lines.append(paragraph("time", words))
    return lines


def _explained(cause: Bottleneck) -> list[str]:
    return [paragraph("why", cause.why), paragraph("try", cause.remedy)]
