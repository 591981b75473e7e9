"""★ Is it right in Mosaic GPU's interpreter, and by more than luck?

A kernel fails for a wrong order of accesses in its trace, for a race or an exception in the
interpreter, and for wrong values. This module finds these and words them.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from grader.checks import gpu_compiles
from grader.checks.evidence import GpuEvidence
from pallascope.checks import values
from pallascope.checks.exception_advice import EXCEPTION_ADVICE, exception_advice
from pallascope.checks.exceptions import first_paragraph
from pallascope.checks.phrasing import at, listed, paragraph
from pallascope.model import Check, Finding, GpuFault, GpuHazard, NotJudged, Problem, Stage

#: A phrase, the event, why it is wrong, and a remedy.
Words = tuple[str, str, str, str]


def ordering_finding(fault: GpuFault, file: str) -> Finding:
    """Explain a fault. `file` is the learner's, relative to the root."""
    phrase, happens, why, advice = _words(fault)
    parts = [happens]
    if fault.line:
        parts.append(paragraph("line", at(file, fault.line)))
    if fault.since:
        parts.append(paragraph("since", at(file, fault.since)))
    if fault.others:
        parts.append(paragraph("also", f"So wait {listed(fault.others)}."))
    parts += [paragraph("why", why), paragraph("try", advice)]
    return Finding(Check.VALUES, phrase, "\n".join(parts))


#: By fault: a phrase, the event, why it is wrong, and a remedy.
_WORDS: dict[GpuHazard, Words] = {
    GpuHazard.NO_COMMIT: (
        "{ref} is stored to, and not committed before {reader}",
        "{ref} is stored to, and {reader} reads it without a commit between.",
        "TMA and the tensor cores read shared memory directly, and the threads' stores may not be "
        "visible there yet.",
        "plgpu.commit_smem() after the last store to {ref}, before {reader}.",
    ),
    GpuHazard.NOT_ARRIVED: (
        "{ref} is read before its copy has arrived",
        "{ref} is read, and the copy_gmem_to_smem into it may still be under way: its barrier was "
        "not waited for.",
        "copy_gmem_to_smem only starts a copy, which arrives at its barrier when the data is "
        "there. Copies end in any order: a wait on another barrier, or on another slot's, says "
        "nothing about this one. An interpreter may copy at once, so values can be right there.",
        "plgpu.barrier_wait on the barrier that this copy names, before {ref} is read.",
    ),
    GpuHazard.TOO_EARLY: (
        "the next copy into {ref} starts before it is read",
        "A copy into {ref} starts, and the data of the copy before is read there afterwards.",
        "copy_gmem_to_smem may write at any time from its start. An interpreter may show either "
        "data.",
        "Start the copy after the last read of {ref}, or into a slot that is free: with slots "
        "slots, at most slots - 1 copies are ahead of the box in use.",
    ),
    GpuHazard.READ_BY_THREAD: (
        "{ref} is overwritten while another warpgroup reads it",
        "Something is written to {ref}, and another warpgroup may still be reading it.",
        "Warpgroups run at their own pace. Only a barrier says that another one has gone on.",
        "The reading warpgroup arrives at a barrier after its last read of {ref}, and the writing "
        "one waits on it before it writes.",
    ),
    GpuHazard.READ_BY_WGMMA: (
        "{ref} is overwritten while wgmma reads it",
        "Something is written to {ref}, and the wgmma that reads it may still be under way.",
        "plgpu.wgmma only starts the product: the tensor cores read their operands from shared "
        "memory while the kernel goes on. An interpreter carries it out at once, so the values are "
        "right there.",
        "plgpu.wgmma_wait(0) before {ref} is written again, or before the barrier "
        "that lets another warpgroup do so; wgmma_wait(1) leaves the last one under way.",
    ),
    GpuHazard.READ_BY_MMA: (
        "{ref} is overwritten while tcgen05_mma reads it",
        "Something is written to {ref}, and the tcgen05_mma that reads it may still be under way.",
        "plgpu.tcgen05_mma only starts the product: the tensor cores read their operands from "
        "shared memory while the kernel goes on, and arrive at the product's barrier when they "
        "have. An interpreter may carry it out at once, so the values can be right there.",
        "plgpu.barrier_wait on the barrier that this product arrives at, before "
        "{ref} is written again.",
    ),
    GpuHazard.NOT_MULTIPLIED: (
        "{ref} is loaded while tcgen05_mma adds to it",
        "{ref} is loaded, and a tcgen05_mma that adds to it may still be under way.",
        "plgpu.tcgen05_mma only starts a product. An interpreter may carry it out at "
        "once, so the values can be right there.",
        "plgpu.tcgen05_commit_arrive(barrier) after the last product: the barrier completes when "
        "all before it have ended. plgpu.barrier_wait(barrier) before the load. If a product for "
        "later sums begins too early, let it wait for a barrier at which the loading warpgroup "
        "arrives, after plgpu.wait_load_tmem().",
    ),
    GpuHazard.STILL_LOADED: (
        "tcgen05_mma begins in {ref} while it is loaded",
        "A tcgen05_mma begins in {ref}, and a load from there may not have ended.",
        "async_load_tmem returns values that can be used at once, but only wait_load_tmem says "
        "that tensor memory may be overwritten.",
        "plgpu.wait_load_tmem() after the last load, before the barrier that lets the next "
        "product begin.",
    ),
    GpuHazard.LEAVING: (
        "{ref} is overwritten while it is being copied out",
        "Something is written to {ref}, and the copy_smem_to_gmem that reads it may "
        "still be under way.",
        "copy_smem_to_gmem only starts a copy: TMA reads its source while the kernel goes on.",
        "plgpu.wait_smem_to_gmem(n) returns when at most n copies out are left. With two "
        "slots, wait_smem_to_gmem(1) before a slot is stored to again.",
    ),
    GpuHazard.NOT_DRAINED: (
        "the kernel ends before the copy out of {ref} has",
        "The kernel ends, and the copy out of {ref} may still be under way.",
        "A block's shared memory goes to the next block when it ends, and TMA would copy the data "
        "of that block.",
        "End with plgpu.wait_smem_to_gmem(0).",
    ),
    GpuHazard.NOTHING_AHEAD: (
        "no copy into {ref} is under way while another is used",
        "Each copy into {ref} starts after the box before has been used, so the kernel waits for "
        "all of every copy.",
        "A copy takes about a microsecond to arrive. In a pipeline, the copies for the next boxes "
        "are under way meanwhile.",
        "Start the copies for the first slots - 1 boxes before the loop. In the loop, start the "
        "copy for box i + slots - 1, then wait for box i.",
    ),
    GpuHazard.LAPPED: (
        "{ref} completes twice before a wait on it",
        "When the kernel waits on {ref}, the phase that it waits for may be over, and the next one "
        "as well.",
        "A wait tells one phase from the next by a single bit. Two phases later the bit is the "
        "same again, and the wait goes on until a third: it returns late or never, and the first "
        "phase's data has been overwritten.",
        "Count the arrivals between two waits: with two copies on one barrier, "
        "plgpu.Barrier(num_arrivals=2). And let nothing arrive a second time before this wait: "
        "start at most slots - 1 copies ahead, and between warpgroups use a second barrier that "
        "says when a slot is free.",
    ),
}


def _words(fault: GpuFault) -> Words:
    if fault.hazard is GpuHazard.NEVER_ARRIVES:
        return _hang(fault)
    phrase, happens, why, advice = (
        text.format(ref=fault.ref, reader=fault.reader) for text in _WORDS[fault.hazard]
    )
    return phrase, happens, why, advice


def _hang(fault: GpuFault) -> Words:
    needed = "arrival" if fault.needed == 1 else "arrivals"
    had = f"{fault.arrived} of {fault.needed} {needed}"
    return (
        f"waits on {fault.ref} for ever: {had}",
        f"The kernel waits on {fault.ref} for ever. It has had {had} since it last completed, and "
        "no thread is left that could arrive.",
        "A barrier completes after num_arrivals arrivals: each copy_gmem_to_smem or tcgen05_mma "
        "that names it arrives once, and so does each plgpu.barrier_arrive or "
        "plgpu.tcgen05_commit_arrive. A wait returns once its phase has completed, and the next "
        "wait is for the next phase.",
        _arrivals(fault),
    )


def _arrivals(fault: GpuFault) -> str:
    """Advice, depending on whether some have arrived."""
    if fault.arrived:
        return (
            f"Let {fault.needed} arrive: is a copy that should name {fault.ref} missing, or on "
            "another barrier? With one copy, or one warpgroup that arrives, num_arrivals is 1."
        )
    return (
        f"Start the copy or product that arrives at {fault.ref} before this wait, in any "
        "warpgroup, and wait once for each phase: a completed phase ends one wait only. With "
        "several slots, it and the wait must name the same slot."
    )


RACE = "RACE DETECTED"
#: "write of HostAllocationKey(memory_space_id=0, …)[(slice(0, 256, 1),)] from 0, 1, FILE:13:12 (F)"
_OF_0_10 = re.compile(
    r"(?P<kind>read|write) of \w+\(memory_space_id=(?P<space>\d)[^\n]*? (?P<file>/?[^\s,]+):"
    r"(?P<line>\d{1,7}):\d+ \("
)
_OF_0_12 = re.compile(
    r"(?P<kind>read|write)[^\n]*?(?P<file>(?<![^\s,:()])/[^\s,:()]++):(?P<line>\d{1,7})(?::\d+)?"
)
SPACES = {"0": "global memory", "1": "shared memory"}
#: Operations that start a copy.
_COPY_IN, _COPY_OUT = "copy_gmem_to_smem", "copy_smem_to_gmem"


@dataclass(frozen=True, slots=True)
class _Access:
    kind: str
    line: int
    text: str
    space: str


def race_finding(texts: Sequence[str], file: str, lines: Sequence[str]) -> Finding | None:
    """The first race that these texts report, if any.

    `lines` are those of the learner's file, which is called `file`.
    """
    told = next((text[text.index(RACE) :] for text in texts if RACE in text), None)
    if told is None:
        return None
    accesses = _accesses(told, file, lines)
    phrase, why, advice = _race_words(accesses)
    parts = [f"A race: {phrase}, and nothing orders the two."]
    for access in accesses:
        at = f"{file}:{access.line}" if access.text else "in given code"
        parts.append(paragraph(access.kind, f"{at}\n    {access.text}" if access.text else at))
    if not accesses:
        parts.append(paragraph("error", _without_clocks(told)))
    parts += [paragraph("why", why), paragraph("try", advice)]
    return Finding(Check.VALUES, f"race: {phrase}", "\n".join(parts), told)


def _accesses(told: str, file: str, lines: Sequence[str]) -> list[_Access]:
    found = []
    for line in told.splitlines():
        match = _OF_0_10.search(line) or _OF_0_12.search(line)
        if match:
            number = int(match["line"])
            own = PurePath(match["file"]).name == PurePath(file).name
            text = lines[number - 1].strip() if own and 0 < number <= len(lines) else ""
            space = SPACES.get(match.groupdict().get("space", ""), "memory")
            found.append(_Access(match["kind"], number, text, space))
    return found[:2]


def _race_words(accesses: Sequence[_Access]) -> tuple[str, str, str]:
    """A phrase, why it is wrong, and advice."""
    kinds = sorted(access.kind for access in accesses)
    started = [a for a in accesses if _COPY_IN in a.text]
    sent = [a for a in accesses if _COPY_OUT in a.text]
    if started and sent:
        return (
            "a copy into shared memory, while a copy out of it is under way",
            "The TMA engine still reads the memory that the next copy overwrites.",
            "plgpu.wait_smem_to_gmem(n) returns when at most n copies out are left: wait for this "
            "slot's before you start a copy into it.",
        )
    if started and kinds == ["read", "write"]:
        return (
            "memory is read while a copy into it is under way",
            "copy_gmem_to_smem only starts a copy. The TMA engine carries it out while the kernel "
            "goes on, and arrives at the barrier when all bytes are there.",
            "Wait on the copy's barrier, plgpu.barrier_wait, after the copy was started and before "
            "its target is read; with several slots, on that slot's barrier.",
        )
    if kinds == ["write", "write"] and len(accesses) == 2:
        return (
            "the same elements are written twice",
            "Blocks and warpgroups run at the same time, in any order. Here two of them write to "
            "the same place, so the result is a matter of luck.",
            "Each block, and each of its warpgroups, needs its own elements: compute their "
            "position from lax.axis_index of the grid's axes and of the threads' axis. If two "
            "share a part, each stores only its own elements.",
        )
    if sent:
        return (
            "memory is copied out while it is being written",
            "The TMA engine reads shared memory directly. It sees the threads' stores after "
            "plgpu.commit_smem(), and threads may overwrite its source after "
            "plgpu.wait_smem_to_gmem.",
            "Store, then plgpu.commit_smem(), then copy_smem_to_gmem; and before the same memory "
            "is stored to again, plgpu.wait_smem_to_gmem.",
        )
    return (
        "the same elements are read and written",
        "Blocks and warpgroups run at the same time, in any order.",
        "Let the read wait for the write: a barrier between warpgroups, plgpu.commit_smem() before "
        "a unit reads, or another kernel between blocks.",
    )


def _without_clocks(told: str) -> str:
    return "\n".join(line for line in told.splitlines() if "clock" not in line)


_AGAIN = re.compile(r"completed again before previous completion|no threads observed phase")
_UNDRAINED = "operations completed before kernel finished"
#: The interpreter's name for an allocation.
_KEY = re.compile(r"\b\w++\(memory_space_id=(\d)[^)]*\)")
_OUT_OF_BOUNDS = re.compile(
    r"out.of.bounds|out of range|could not broadcast input array from shape", re.IGNORECASE
)
#: How jax 0.10's interpreter says that a copy's source, or an operand, isn't all there.
_NOTHING_READ = re.compile(r"assert \w+ is not None")


def not_interpreted(problem: Problem) -> NotJudged | None:
    """The reason, if the interpreter says that it can't run such a kernel; else None."""
    if problem.kind != "NotImplementedError" and "NotImplementedError:" not in problem.message:
        return None
    said = problem.message.strip().splitlines() or [""]
    last = next((line for line in reversed(said) if line.strip()), "")
    reason = last.partition("NotImplementedError:")[2].strip() or last.strip()
    why = f"Mosaic GPU's interpreter can't run it: {reason[:120]}"
    return NotJudged(Check.VALUES, f"{why}; a GPU would show it")


def run_finding(problem: Problem, file: str) -> Finding:
    """Explain an exception of the interpreter while it ran the kernel."""
    text = problem.message
    phrase, happens, advice = _raised_words(text, problem)
    parts = [happens]
    if problem.place:
        parts.append(paragraph("line", at(file, problem.place)))
    if advice:
        parts.append(paragraph("try", advice))
    return Finding(Check.VALUES, phrase, "\n".join(parts), problem.traceback)


def _raised_words(text: str, problem: Problem) -> tuple[str, str, str]:
    if _AGAIN.search(text):
        return (
            "a barrier completes twice without a wait",
            "A barrier completes for a second time, and nobody has waited for the first. A wait "
            "tells one phase from the next by a single bit: the missed phase is lost, and a wait "
            "for it returns at the wrong time or never.",
            "Each copy into a slot needs a plgpu.barrier_wait on that slot's barrier before the "
            "next copy into it is started: at most slots - 1 copies ahead.",
        )
    if _UNDRAINED in text:
        return (
            "the kernel ends before its last copy out",
            "The kernel ends while a copy_smem_to_gmem may still be reading its shared memory, "
            "which then belongs to the next block.",
            "End with plgpu.wait_smem_to_gmem(0): it returns when no copy out is left.",
        )
    asserted = not _last(text) and _NOTHING_READ.search(problem.traceback)
    named = "IndexError" in (problem.kind, text.partition(":")[0])
    if _OUT_OF_BOUNDS.search(text) or named or asserted:
        error = _last(text) or "a box that is copied or multiplied does not lie within its buffer"
        return (
            "reads or writes out of bounds",
            "The kernel reaches beyond an array.\n" + paragraph("error", first_paragraph(error)),
            "Compare the grid, the threads and the rows of each with the sizes of the array; at an "
            "uneven edge, take only elements that exist.",
        )
    return (
        f"{problem.kind}: {_last(text)}",
        "The kernel raises an exception while it is interpreted.\n"
        + paragraph("error", first_paragraph(f"{problem.kind}: {_last(text)}")),
        exception_advice(problem, EXCEPTION_ADVICE),
    )


def _last(text: str) -> str:
    """The last line that says something: a callback's exception comes with its traceback."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if re.match(r"\w*(?:Error|Exception)\b", line)]
    return _KEY.sub(_space, (named or lines or [""])[-1])


def _space(key: re.Match[str]) -> str:
    return SPACES.get(key[1], "memory")


_PROGRAM_ID = re.compile(r"^[^#]*\bprogram_id\(")


def check_gpu_interpreted(evidence: GpuEvidence) -> Finding | NotJudged | None:
    """Judge the trace, races, the interpreter's exceptions, and the values.

    Causes come before consequences: a wait that never ends, a race, an exception.
    """
    observed = evidence.observed
    if finding := _disorder(evidence, (GpuHazard.NEVER_ARRIVES,)):
        return finding
    problem = evidence.problem
    raised = problem if problem is not None and problem.stage is Stage.RUN else None
    texts = [*observed.complaints, *([raised.message] if raised else [])]
    race = race_finding(texts, evidence.file, evidence.lines)
    optional = () if evidence.target.copies_ahead else (GpuHazard.NOTHING_AHEAD,)
    other = _disorder(evidence, tuple(kind for kind in GpuHazard if kind not in optional))
    if other:
        return other
    if race:
        return _beside_program_id(race, evidence.lines)
    if evidence.target.not_interpreted:
        why = f"{evidence.target.not_interpreted}; a GPU would show it"
        return None if _a_gpu_tells(evidence) else NotJudged(Check.VALUES, why)
    if raised and not raised.message.rpartition("AssertionError")[2].strip(": \n"):
        refused = gpu_compiles.check_gpu_lowers(
            evidence
        )  # the interpreter asserts some rules without a word
        if isinstance(refused, Finding):
            return refused
    if raised and (unable := not_interpreted(raised)):
        return None if _a_gpu_tells(evidence) else unable
    if raised:
        return run_finding(raised, evidence.file)
    wrong = values.check(evidence)
    return _beside_program_id(wrong, evidence.lines) if wrong else None


def _beside_program_id(finding: Finding, lines: Sequence[str]) -> Finding:
    """Add a possible cause to a finding: the interpreter takes each block for the first."""
    asks = next((n for n, line in enumerate(lines, 1) if _PROGRAM_ID.search(line)), 0)
    if not asks:
        return finding
    also = (
        f"Line {asks} uses pl.program_id, which is 0 in each block here: in Mosaic GPU's "
        "interpreter, only lax.axis_index tells a block's position, with the name of an axis of "
        "the grid."
    )
    return dataclasses.replace(finding, message=f"{finding.message}\n{paragraph('also', also)}")


def _a_gpu_tells(evidence: GpuEvidence) -> bool:
    """Whether the launch has been run on a GPU, which rung `ran` judges."""
    run = evidence.ran()
    return run is not None and not run.why_not


def _disorder(evidence: GpuEvidence, kinds: tuple[GpuHazard, ...]) -> Finding | None:
    faults = [fault for fault in evidence.observed.gpu_faults if fault.hazard in kinds]
    return ordering_finding(faults[0], evidence.file) if faults else None
