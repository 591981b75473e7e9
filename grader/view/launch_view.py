"""Collects a launch's data and verdict from workers, and writes the page as one HTML file; also
the tables, predictions and tested kernels of katas without a launch."""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

import numpy as np

from grader.checks.evidence import Evidence, TpuEvidence
from grader.exercise import repository
from grader.exercise.cases import hidden_cases
from grader.exercise.catalog import Kata
from grader.exercise.key_tables import KataKind
from grader.grading import cost_studies
from grader.grading.grader import evidence_of
from grader.grading.ladder import verdict
from grader.sandbox.client import WorkerClient
from grader.sandbox.launch_client import TpuLaunchClient
from grader.verdict import Case, State
from grader.view.document import (
    SCHEMA,
    CaughtKernels,
    Document,
    KernelView,
    NumberTable,
    PredictedPoint,
    RooflinePicture,
    RoofOfDtype,
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
    Trial,
    TrialVerdict,
)
from pallascope.tools import codec
from pallascope.tools.arrays import dtype_of, to_numpy
from pallascope.tpu import OnChip
from pallascope.tpu.chips import named
from pallascope.tpu.pipeline_steps import BlockMotion, LaunchMotion

#: Seconds for the learner's launch in the interpreter, unless the key has another limit.
PATIENCE = 60.0
#: In that many turns of its loop, a kernel with two slots uses each twice.
MANY_TURNS = 4
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
        return par_document(client, kata, case)
    runs = drawn or _quick(reference, followed)
    judged = _judge(client, kata, case) if runs else _Judged(_UNRUN)
    if judged.found is None:
        judged = replace(judged, found=own.compiled())
    return _document(kata, case, chip, "yours", followed, judged)


def par_document(client: WorkerClient, kata: Kata, case: Case) -> Document:
    """The document about the solution's launch. Raises BrokenKata, SandboxError."""
    reference, chip = client.inputs(kata, case), client.chip(kata)
    par = client.solution(kata, case, reference, EVENTS, TpuLaunchClient)
    judged = _Judged(_TODO, (), par.compiled())
    return _document(kata, case, chip, "par", par.followed(), judged)


def _quick(reference: Reference, followed: LaunchMotion | Accident) -> bool:
    """Whether a case at given sizes is small enough to run in the interpreter."""
    whole = all(array.data for array in reference.inputs)
    steps = [k.steps for k in followed.kernels] if isinstance(followed, LaunchMotion) else []
    return whole and sum(steps) <= MOST_STEPS


def _judge(client: WorkerClient, kata: Kata, case: Case) -> _Judged:
    """Grade the launch like pytest, and keep the data for its picture."""
    evidence = _evidence_of(client, kata, case)
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


# ---- the case ----


def case_of_many_steps(client: WorkerClient, kata: Kata, seed: int) -> Case:
    """The first hidden case of a session whose grids have two steps or more on each axis.

    If there is none, it is the first of those with the fewest axes of one step. If all grids have
    one step in all cases, it is the first whose kernel's own loop has `MANY_TURNS`, so that slots
    are used again, or else the one with the most turns. Raises BrokenKata, SandboxError.
    """
    cases = [case for case in hidden_cases(kata, seed) if not case.production]
    found: list[int] = []
    steps = 1
    for case in cases:
        launch = client.solution(kata, case, client.inputs(kata, case), kind=TpuLaunchClient)
        followed = launch.followed()
        kernels = followed.kernels if isinstance(followed, LaunchMotion) else ()
        found.append(sum(size == 1 for motion in kernels for size in motion.traffic.grid))
        steps = max([steps, *(motion.steps for motion in kernels)])
        if kernels and not found[-1] and steps > 1:
            return case
    if steps > 1 or kata.key.mesh:
        return cases[found.index(min(found))]
    turns: list[int] = []
    for case in cases:
        turns.append(_turns(par_document(client, kata, case)))
        if turns[-1] >= MANY_TURNS:
            break
    return cases[turns.index(max(turns))]


def _turns(document: Document) -> int:
    """The number of turns of the longest loop of a kernel, 0 if no schedule is known."""
    timelines = [kernel.timeline for kernel in document.kernels if kernel.timeline]
    return max((len(timeline.turns) for timeline in timelines), default=0)


# ---- katas without a launch ----


def gather_without_launch(client: WorkerClient, kata: Kata, case: Case) -> Document:
    """The document about a kata that asks for tables, predictions or a test.

    Raises BrokenKata, SandboxError.
    """
    evidence = _evidence_of(client, kata, case)
    judged = _judge_evidence(evidence)
    return WITHOUT_LAUNCH[kata.key.kind](client, kata, evidence, judged, case)


def _evidence_of(client: WorkerClient, kata: Kata, case: Case) -> TpuEvidence:
    evidence = evidence_of(client, kata, case, kata.key.timeout or PATIENCE, EVENTS)
    assert isinstance(evidence, TpuEvidence)
    return evidence


def _judge_evidence(evidence: TpuEvidence) -> VerdictView:
    judged = verdict(evidence)
    if judged.state is State.TODO:
        return VerdictView("todo", _TODO.words, "")
    if judged.finding:
        return VerdictView(judged.state.value, judged.finding.phrase, _text(judged.finding))
    words = f"right, {'★' * judged.stars}" if judged.stars else "right"
    return VerdictView("passed", f"{words}; {judged.not_judged}" if judged.not_judged else words)


def _plain(kata: Kata, case: Case, verdict: VerdictView, chip: str, **fields: Any) -> Document:
    whose = "par" if verdict.state == "todo" else "yours"
    common = (SCHEMA, kata.name, kata.key.title, str(case), chip, whose, verdict)
    return Document(*common, **{"trouble": "", "kernels": (), "other": (), **fields})


def _tables(
    client: WorkerClient, kata: Kata, evidence: TpuEvidence, verdict: VerdictView, case: Case
) -> Document:
    """The inputs, and the learner's tables with their wrong numbers; the solution's if to do."""
    reference = evidence.reference
    own = (
        () if verdict.state == "todo" or isinstance(evidence.attempt, Accident) else _own(evidence)
    )
    arrays = [
        _Numbers(name, "input", to_numpy(array), None)
        for name, array in zip(reference.names, reference.inputs, strict=True)
        if array.data
    ]
    wrong = _wrong_elements(evidence, own)
    for position, (expected, kind) in enumerate(
        zip(reference.expected, reference.results, strict=True)
    ):
        right = to_numpy(expected).astype(dtype_of(kind.dtype))
        given = own[position] if position < len(own) else right
        marks = wrong[position] if position < len(wrong) else None
        arrays.append(_Numbers(evidence.name_of(position), "result", given, marks))
    user = _kernel_that_reads(kata)
    drawn = par_document(client, user, case_of_many_steps(client, user, 0)) if user else None
    whose = "your tables" if own else "the solution's tables"
    return _plain(
        kata,
        case,
        verdict,
        client.chip(kata),
        about=f"{whose}, computed without a kernel",
        numbers=tuple(_number_tables(arrays)),
        kernels=drawn.kernels if drawn else (),
        read_by=_READ_BY.format(name=user.name, case=drawn.case) if user and drawn else "",
    )


_READ_BY = (
    "Below: the solution of {name}, whose index maps read such tables, in its case {case}. "
    "kata view {name} draws your own."
)


def _kernel_that_reads(kata: Kata) -> Kata | None:
    """The kata whose kernel reads these tables, if the key's last words name it."""
    named = re.search(r"\bkata view (\w+)", kata.key.after)
    if not named:
        return None
    try:
        return repository.single_kata(kata.root, named[1])
    except ValueError:
        return None


def _wrong_elements(evidence: TpuEvidence, own: Sequence[Any]) -> list[Any]:
    """For each result, which elements are wrong; [] if a result is missing or has another shape."""
    shapes = [result.shape for result in evidence.reference.results]
    if [array.shape for array in own] != shapes:
        return []
    return [result.wrong for result in values.comparisons(evidence)]


def _own(evidence: TpuEvidence) -> tuple[Any, ...]:
    return () if evidence.problem else tuple(map(to_numpy, evidence.outputs))


@dataclass(frozen=True, slots=True)
class _Numbers:
    """An array of the case, and which of its elements are wrong."""

    name: str
    role: str
    values: Any
    wrong: Any


#: Rows and columns of a table of numbers that are shown.
MOST_ROWS, MOST_COLUMNS = 48, 16


def _number_tables(arrays: Sequence[_Numbers]) -> Iterator[NumberTable]:
    """Vectors of equal length share a table; each other array has its own."""
    vectors = [one for one in arrays if one.values.ndim == 1]
    for length in dict.fromkeys(len(one.values) for one in vectors):
        yield _columns([one for one in vectors if len(one.values) == length])
    yield from (_planes(one) for one in arrays if one.values.ndim != 1)


def _columns(vectors: Sequence[_Numbers]) -> NumberTable:
    length, shown = len(vectors[0].values), min(len(vectors[0].values), MOST_ROWS)
    rows = [(str(i), *(_number(one.values[i]) for one in vectors)) for i in range(shown)]
    wrong = tuple(
        row * len(vectors) + column
        for row in range(shown)
        for column, one in enumerate(vectors)
        if one.wrong is not None and one.wrong[row]
    )
    roles = {
        role: [one.name for one in vectors if one.role == role] for role in ("input", "result")
    }
    title = "; ".join(f"{role}: {', '.join(names)}" for role, names in roles.items() if names)
    note = f"The first {shown} of {length:,} rows." if shown < length else ""
    return NumberTable(title, "index", tuple(one.name for one in vectors), tuple(rows), wrong, note)


def _planes(one: _Numbers) -> NumberTable:
    """A scalar, a matrix, or the first matrix of an array with more dimensions."""
    values, wrong = one.values, one.wrong
    shape = ", ".join(map(str, values.shape))
    notes = []
    if values.ndim > 2:
        planes = math.prod(values.shape[:-2])
        notes.append(f"Plane {(0,) * (values.ndim - 2)} of {planes:,}.".replace(",)", ")"))
        first = (0,) * (values.ndim - 2)
        values, wrong = values[first], None if wrong is None else wrong[first]
    values = values.reshape(1, 1) if not values.ndim else values
    rows, columns = min(values.shape[0], MOST_ROWS), min(values.shape[1], MOST_COLUMNS)
    if (rows, columns) != values.shape:
        whole = f"{values.shape[0]:,} rows and {values.shape[1]:,} columns"
        notes.append(f"The first {rows} × {columns} elements of {whole}.")
    marked = () if wrong is None else np.flatnonzero(wrong.reshape(values.shape)[:rows, :columns])
    return NumberTable(
        f"{one.role}: {one.name}, {values.dtype}[{shape}]",
        "index",
        tuple(map(str, range(columns))),
        tuple((str(i), *map(_number, values[i, :columns])) for i in range(rows)),
        tuple(map(int, marked)),
        " ".join(notes),
    )


def _number(value: Any) -> str:
    return str(int(value)) if value.dtype.kind in "biu" else f"{float(value):.6g}"


def _predictions(
    client: WorkerClient, kata: Kata, evidence: TpuEvidence, verdict: VerdictView, case: Case
) -> Document:
    """The chip's roofline, and on it the learner's own numbers: never the right ones."""
    assert kata.key.predictions
    chip = named(client.chip(kata))
    todo = verdict.state == "todo" or isinstance(evidence.attempt, Accident)
    answers = next(iter(() if todo else _own(evidence)), None)
    points = tuple(
        _point(name, () if answers is None else answers[row])
        for row, name in enumerate(kata.key.predictions.programs)
    )
    peaks = {"bfloat16": chip.peak, "int8": chip.peak_of(8)}
    return _plain(
        kata,
        case,
        verdict,
        chip.name,
        about=f"your predictions, for a TPU {chip.name}",
        roofline=RooflinePicture(
            bandwidth=chip.bandwidth,
            roofs=tuple(RoofOfDtype(name, peak) for name, peak in peaks.items()),
            points=points,
            note=_NO_POINTS if answers is None else _POINTS,
        ),
    )


_POINTS = (
    "Each point is a program with your numbers: your operations per byte, and your operations "
    "divided by your shortest time. A point below the roof has a time that is longer than the "
    "bytes and the operations need; one above it is impossible."
)
_NO_POINTS = (
    "This is the chip's roofline, for the sizes of this case. Once you have answered, each point "
    "is a program with your numbers."
)


def _point(name: str, answers: Sequence[float]) -> PredictedPoint:
    """A program's bytes, operations and time; the fourth answer isn't on the roofline."""
    numbers = [float(value) for value in answers[:3]]
    if len(numbers) < 3 or not all(math.isfinite(one) and one > 0 for one in numbers):
        return PredictedPoint(name, 0.0, 0.0, 0.0)
    moved, operations, micros = numbers
    return PredictedPoint(name, moved, operations, micros * 1e-6)


def _tested(
    client: WorkerClient, kata: Kata, evidence: TpuEvidence, verdict: VerdictView, case: Case
) -> Document:
    """How many of the planted kernels the test catches, in all cases of the session; not which."""
    assert kata.key.tested
    found = {(trial.kernel, trial.right): trial.verdict for trial in _trials(evidence)}
    for other in hidden_cases(kata, case.session_seed) if found else ():
        if other.index == case.index:
            continue
        evidence = _evidence_of(client, kata, other)
        for trial in _trials(evidence):
            key = trial.kernel, trial.right
            rejected = TrialVerdict.REJECTED in (trial.verdict, found.get(key))
            found[key] = TrialVerdict.REJECTED if rejected else TrialVerdict.PASSED
        if verdict.state == "passed":
            verdict = _judge_evidence(evidence)
    rejected = [right for (_, right), each in found.items() if each is TrialVerdict.REJECTED]
    planted = [one.right for one in kata.key.tested.planted]
    of_right = planted.count(True) + 1  # and the kernel as it is given
    caught, of = rejected.count(False), planted.count(False)
    if found and verdict.state == "failed" and not rejected.count(True) and caught < of:
        words = f"{caught} of {of} wrong kernels caught"
        verdict = VerdictView("failed", words, _SURVIVED.format(number=of - caught, of=of))
    return _plain(
        kata,
        case,
        verdict,
        client.chip(kata),
        about=f"your test, run on versions of {kata.key.tested.launch}",
        trials=CaughtKernels(
            ran=bool(found),
            caught=caught,
            of=of,
            accepted=of_right - rejected.count(True),
            of_right=of_right,
        ),
    )


#: Not the finding, which names a kernel's mistake.
_SURVIVED = (
    "planted: The test passes for {number} of {of} wrong kernels.\n"
    "  try    For which sizes and inputs would a kernel with your test still be wrong?\n"
    "         pytest names the mistakes of the kernels that it passes for."
)


def _trials(evidence: TpuEvidence) -> tuple[Trial, ...]:
    attempt = evidence.attempt
    return () if isinstance(attempt, Accident) or attempt.problem else attempt.trials


#: By kind of kata: its document.
WITHOUT_LAUNCH: Mapping[KataKind, Callable[..., Document]] = {
    KataKind.TABLES: _tables,
    KataKind.PREDICTIONS: _predictions,
    KataKind.TEST: _tested,
}


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
    "positions",
    "meters",
    "tables",
    "dma_copies",
    "chip_table",
    "timeline",
    "without_launch",
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
