"""The worker of the solution: inputs, references, the solution's trace."""

from __future__ import annotations

import contextlib

from grader.exercise import specs
from grader.sandbox.messages import (
    Answer,
    EstimateXla,
    EvaluateBlocks,
    EvaluateReference,
    Measure,
    NoEstimate,
    Question,
    Shares,
    Traced,
    TraceLaunch,
)
from grader.sandbox.trace_worker import handed_over, loaded, loaded_for, traced
from pallascope.model import Measured, Stage
from pallascope.runs import exception_reports
from pallascope.runs.launch_runs import trace_argument
from pallascope.tools.arrays import to_numpy
from pallascope.tpu.chips import named
from pallascope.tpu.compiler import program_of, xla_cycles
from pallascope.tpu.libtpu import CompilerUnavailable


def answer(question: Question) -> Answer:
    """Answer a question about a solution. Imports the solution each time, as questions are few.

    Raises TypeError for any other question.
    """
    match question:
        case EvaluateReference():
            return _reference(question)
        case TraceLaunch():
            return _trace(question)
        case EvaluateBlocks():
            return _shares(question)
        case EstimateXla():
            return _estimate(question)
        case Measure():
            return _measured(question)
    raise TypeError(f"the solution's worker got a question {type(question).__name__}")


def _reference(question: EvaluateReference) -> Answer:
    with exception_reports.caught(question.source, Stage.IMPORT) as caught:
        solution = loaded(question.source)
        if not question.spec:
            return specs.plain_reference(solution, question.name, question.case, question.results)
        return specs.reference(solution, question.name, question.case, question.evaluated)
    assert caught.problem
    return caught.problem


def _trace(question: TraceLaunch) -> Traced:
    with exception_reports.caught(question.source, Stage.TRACE) as caught:
        solution, name = loaded_for(question), question.name
        launch = getattr(solution, name) if question.by_name else handed_over(solution, name)
        return Traced(trace=traced(launch, question))
    return Traced(caught.problem)


def _shares(question: EvaluateBlocks) -> Shares:
    with exception_reports.caught(question.source, Stage.RUN):
        spec, keywords = specs.spec_of(loaded(question.source), question.name, question.case)
        given = spec, [to_numpy(array) for array in question.inputs], keywords, question.calls
        if question.outputs:
            outputs = list(map(to_numpy, question.outputs))
            return Shares((), specs.hypotheses(*given, outputs, question.source.file))
        return Shares(specs.block_shares(*given))
    return Shares()


def _estimate(question: EstimateXla) -> Answer:
    """XLA's estimate for the spec; NoEstimate without its compiler."""
    values = list(map(trace_argument, question.inputs))
    with exception_reports.caught(question.source, Stage.IMPORT) as caught:
        spec, keywords = specs.spec_of(loaded(question.source), question.name, question.case)
        with contextlib.suppress(CompilerUnavailable):
            return xla_cycles(spec, values, named(question.chip), **keywords)
    return caught.problem or NoEstimate()


def _measured(question: Measure) -> Answer:
    with exception_reports.caught(question.source, Stage.IMPORT) as caught:
        solution, chip = loaded(question.source), named(question.chip)
        found = specs.programs_of(solution, question.programs, question.case)
        return Measured(
            tuple(
                program_of(name, function, arrays, chip, question.ask_xla)
                for name, (function, arrays) in zip(question.programs, found, strict=True)
            )
        )
    assert caught.problem
    return caught.problem
