"""Collects a launch's data and verdict from workers, and writes the page as one HTML file."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

from grader.checks.evidence import Evidence, TpuEvidence
from grader.exercise.catalog import Kata
from grader.grading import cost_studies
from grader.grading.grader import evidence_of
from grader.grading.ladder import verdict
from grader.sandbox.client import WorkerClient
from grader.sandbox.launch_client import TpuLaunchClient
from grader.verdict import Case, State
from grader.view.document import (
    SCHEMA,
    Document,
    KernelView,
    VerdictView,
    WrongElements,
)
from grader.view.kernel_view import EVENTS, kernel_of, wrong_of
from pallascope.checks import values
from pallascope.checks.compare import Comparison
from pallascope.checks.exceptions import NO_KERNEL, in_full, problem_finding
from pallascope.model import (
    Accident,
    Check,
    Finding,
    Operand,
    Reference,
    Role,
)
from pallascope.tools import codec
from pallascope.tpu import OnChip
from pallascope.tpu.pipeline_steps import BlockMotion, LaunchMotion

#: Seconds for the learner's launch in the interpreter, unless the key has another limit.
PATIENCE = 60.0
#: A launch at given sizes is run only up to this many grid steps.
MOST_STEPS = 256

_UNRUN = VerdictView(
    "unasked", "not run at these sizes", "Results are checked only at the hidden cases' sizes."
)
_TODO = VerdictView("todo", "still to do", "This is the solution's traffic; its code is not shown.")
_BEFORE = (Check.RUNS, Check.CONTRACT, Check.PALLAS_USED, Check.VALUES, Check.RANDOM)


@dataclass(frozen=True, slots=True)
class _Judged:
    """The verdict, the wrong results, and the launch as compiled, if it was compiled."""

    verdict: VerdictView
    wrong: tuple[Comparison, ...] = ()
    found: OnChip | Accident | None = None
    kernel_outputs: tuple[int | None, ...] = ()  # of the last kernel


def gather(client: WorkerClient, kata: Kata, case: Case, drawn: bool) -> Document:
    """The document about the learner's launch in one case, or about par's if it is still to do.

    `drawn`: the case is an unchanged hidden case. Other cases are run only if that is quick.
    Raises BrokenKata, SandboxError.
    """
    reference, chip = client.inputs(kata, case), client.chip(kata)
    own = client.learner(kata, case, reference, cost_studies.PATIENCE, EVENTS, TpuLaunchClient)
    followed = own.followed()
    if isinstance(followed, LaunchMotion) and followed.problem and followed.problem.todo:
        par = client.solution(kata, case, reference, EVENTS, TpuLaunchClient)
        judged = _Judged(_TODO, (), par.compiled())
        return _document(kata, case, chip, "par", par.followed(), judged)
    runs = drawn or _quick(reference, followed)
    judged = _judge(client, kata, case) if runs else _Judged(_UNRUN)
    if judged.found is None:
        judged = replace(judged, found=own.compiled())
    return _document(kata, case, chip, "yours", followed, judged)


def _quick(reference: Reference, followed: LaunchMotion | Accident) -> bool:
    """Whether a case at given sizes is small enough to run in the interpreter."""
    whole = all(array.data for array in reference.inputs)
    steps = [k.steps for k in followed.kernels] if isinstance(followed, LaunchMotion) else []
    return whole and sum(steps) <= MOST_STEPS


def _judge(client: WorkerClient, kata: Kata, case: Case) -> _Judged:
    """Grade the launch like pytest, and keep the data for its picture."""
    evidence = evidence_of(client, kata, case, kata.key.timeout or PATIENCE, EVENTS)
    assert isinstance(evidence, TpuEvidence)
    judged = verdict(evidence)
    finding = judged.finding
    if judged.state is State.TODO:
        return _Judged(_TODO)
    if finding is None:
        words = f"right, {'★' * judged.stars}"
        if judged.not_judged:
            words = f"right on this case; {judged.not_judged}"
        return _Judged(VerdictView("passed", words), (), evidence.own)
    told = VerdictView(judged.state.value, finding.phrase, _text(finding))
    if finding.check in _BEFORE:
        trace = evidence.observed.trace
        last = len(trace.calls) - 1 if trace else 0
        held = tuple(
            pair[1] if pair and pair[0] == last else None
            for pair in (trace.kernel_outputs if trace else ())
        )
        return _Judged(told, _wrong(evidence, finding), kernel_outputs=held)
    return _Judged(told, (), evidence.own_on_chips())


def _text(finding: Finding) -> str:
    return f"{finding.check.title}: {finding.message}"


def _wrong(evidence: Evidence, finding: Finding) -> tuple[Comparison, ...]:
    """The results compared with the expected ones, if the launch returned all of them."""
    if finding.check is not Check.VALUES or evidence.problem:
        return ()
    return tuple(values.comparisons(evidence))


# ---- put together ----


def _document(
    kata: Kata,
    case: Case,
    chip: str,
    whose: str,
    followed: LaunchMotion | Accident,
    judged: _Judged,
) -> Document:
    file = kata.location()[0] if whose == "yours" else ""
    motions = followed.kernels if isinstance(followed, LaunchMotion) else ()
    side = cost_studies.side_of(whose, judged.found or OnChip(), chip, file)
    trouble = side.trouble
    if not motions and (found := _untraced(followed, file)):
        trouble = found
    last = motions[-1] if motions else None
    of_outputs, other = _placed(judged.wrong, last, judged.kernel_outputs)
    kernels: list[KernelView] = []
    for position, motion in enumerate(motions):
        prediction = side.kernels[position] if position < len(side.kernels) else None
        refusal = side.refusals[position] if position < len(side.refusals) else ""
        wrong = of_outputs if motion is last else ()
        kernels.append(kernel_of(motion, prediction, chip, wrong, refusal))
    return Document(
        schema=SCHEMA,
        name=kata.name,
        title=kata.key.title,
        case=str(case),
        chip=chip,
        whose=whose,
        verdict=judged.verdict,
        trouble=trouble,
        kernels=tuple(kernels),
        other=other,
    )


def _untraced(followed: LaunchMotion | Accident, file: str) -> str:
    """Why the launch has no kernels to draw."""
    if isinstance(followed, Accident):
        return followed.message
    if followed.problem is None:
        return f"The launch has {NO_KERNEL}: nothing of it is a kernel."
    return in_full(problem_finding(followed.problem, file))


def _placed(
    results: Sequence[Comparison], last: BlockMotion | None, held: Sequence[int | None] = ()
) -> tuple[tuple[WrongElements | None, ...], tuple[WrongElements, ...]]:
    """The wrong elements of each output of the last kernel, and those of all other results.

    A result that was reshaped after the kernel is drawn in the output's shape.
    """
    outputs = last.call.role(Role.OUTPUT) if last else ()
    of_outputs: list[WrongElements | None] = [None] * len(outputs)
    other: list[WrongElements] = []
    for position, result in enumerate(results):
        if not result.wrong.any():
            continue
        number = held[position] if position < len(held) else None
        if number is not None and number < len(outputs) and of_outputs[number] is None:
            of_outputs[number] = wrong_of(_shaped(result, outputs[number]))
        else:
            other.append(wrong_of(result))
    return tuple(of_outputs), tuple(other)


def _shaped(result: Comparison, output: Operand) -> Comparison:
    """A result in the shape and the blocks of the output whose elements it holds, in order."""
    shape = output.array.shape
    if result.actual.shape == shape:
        return result
    return replace(
        result,
        name=output.name,
        actual=result.actual.reshape(shape),
        expected=result.expected.reshape(shape),
        allowed=result.allowed.reshape(shape),
        block=tuple(1 if size is None else size for size in output.block),
    )


#: In the order in which they use each other.
SCRIPTS = (
    "numbers",
    "title_and_legend",
    "shapes",
    "arrays",
    "operand_cards",
    "meters",
    "tables",
    "dma_copies",
    "chip_table",
    "timeline",
    "main",
)


def page(document: Document) -> str:
    """The whole page. It loads nothing over a network."""
    parts = {
        "TITLE": html.escape(f"{document.name}: kata view"),
        "STYLE": _web("page.css"),
        "SCRIPT": "\n".join(_web(f"{name}.js") for name in SCRIPTS),
        "DOCUMENT": _json(codec.to_builtins(document)),
    }
    head, *rest = _web("page.html").split("{{")
    filled = (part.partition("}}") for part in rest)
    return head + "".join(parts[name] + after for name, _, after in filled)


def _web(name: str) -> str:
    return (files("grader.view") / "web" / name).read_text(encoding="utf-8")


def _json(value: Any) -> str:
    """JSON for a <script> element: nothing in it ends the element or opens a comment."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.replace("<", "\\u003c")
