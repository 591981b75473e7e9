"""What is raised while a launch for GPUs is interpreted, in words."""

from __future__ import annotations

import re

from grader.checks.advice.exceptions import EXCEPTION_ADVICE, exception_advice
from grader.checks.on_gpu.races import SPACES
from grader.checks.prose import at, paragraph
from grader.checks.runs import first_paragraph
from grader.model import Check, Finding, NotJudged, Problem

_AGAIN = re.compile(r"completed again before previous completion|no threads observed phase")
_UNDRAINED = "operations completed before kernel finished"
#: What the interpreter calls an allocation.
_KEY = re.compile(r"\b\w++\(memory_space_id=(\d)[^)]*\)")
_OUT_OF_BOUNDS = re.compile(
    r"out.of.bounds|out of range|could not broadcast input array from shape", re.IGNORECASE
)
#: How jax 0.10's interpreter says that a copy's source, or an operand, isn't all there.
_NOTHING_READ = re.compile(r"assert \w+ is not None")


def not_interpreted(problem: Problem) -> NotJudged | None:
    """Where the interpreter says that it can't run such a kernel; None of all else."""
    if problem.kind != "NotImplementedError" and "NotImplementedError:" not in problem.message:
        return None
    said = problem.message.strip().splitlines() or [""]
    last = next((line for line in reversed(said) if line.strip()), "")
    reason = last.partition("NotImplementedError:")[2].strip() or last.strip()
    why = f"Mosaic GPU's interpreter can't run it: {reason[:120]}"
    return NotJudged(Check.VALUES, f"{why}; a GPU would tell")


def run_finding(problem: Problem, file: str) -> Finding:
    """What the interpreter raised while it ran the kernel."""
    text = problem.message
    phrase, happens, advice = _words(text, problem)
    parts = [happens]
    if problem.place:
        parts.append(paragraph("line", at(file, problem.place)))
    if advice:
        parts.append(paragraph("try", advice))
    return Finding(Check.VALUES, phrase, "\n".join(parts), problem.traceback)


def _words(text: str, problem: Problem) -> tuple[str, str, str]:
    if _AGAIN.search(text):
        return (
            "a barrier completes twice without a wait",
            "A barrier completes for a second time, and nobody has waited for the first. A wait "
            "tells one phase from the next by a single bit: the one that was missed is lost, and "
            "a wait for it returns at the wrong time or never.",
            "Each copy into a slot needs a plgpu.barrier_wait on that slot's barrier before the "
            "next copy into it is started: at most as many copies ahead as there are slots, less "
            "the one that is in use.",
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
            "uneven edge, take only what is there.",
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
