"""What the trusted worker knows of a solution: inputs, what must come back, its launch's trace."""

from __future__ import annotations

import contextlib

from grader.exercise import specs
from grader.kernels.carrier import make_ready_for_gpus
from grader.model import Measured, Stage
from grader.sandbox import problems
from grader.sandbox.handing_over import handed_over
from grader.sandbox.messages import (
    Answer,
    EstimateXla,
    Measure,
    NoEstimate,
    Question,
    Refer,
    Shares,
    TakeShares,
    Traced,
    TraceLaunch,
)
from grader.sandbox.tracing import loaded, loaded_for, traced
from grader.tools.arrays import to_numpy
from grader.tpu.chips import named
from grader.tpu.compiler import CompilerUnavailable, xla_cycles
from grader.tpu.measuring import program_of


def answer(question: Question) -> Answer:
    """Answer a question about a solution, which is imported for each: they are few.

    Raises TypeError for any other.
    """
    match question:
        case Refer():
            return _reference(question)
        case TraceLaunch():
            return _trace(question)
        case TakeShares():
            return _shares(question)
        case EstimateXla():
            return _estimate(question)
        case Measure():
            return _measured(question)
    raise TypeError(f"a worker that solves was asked {type(question).__name__}")


def _reference(question: Refer) -> Answer:
    with problems.caught(question.source, Stage.IMPORT) as caught:
        solution = loaded(question.source)
        if not question.spec:
            return specs.plain_reference(solution, question.name, question.case, question.results)
        return specs.reference(solution, question.name, question.case, question.evaluated)
    assert caught.problem
    return caught.problem


def _trace(question: TraceLaunch) -> Traced:
    if question.gpu:
        make_ready_for_gpus()
    with problems.caught(question.source, Stage.TRACE) as caught:
        solution, name = loaded_for(question), question.name
        launch = getattr(solution, name) if question.by_name else handed_over(solution, name)
        return Traced(trace=traced(launch, question))
    return Traced(caught.problem)


def _shares(question: TakeShares) -> Shares:
    with problems.caught(question.source, Stage.RUN):
        spec, keywords = specs.spec_of(loaded(question.source), question.name, question.case)
        inputs = [to_numpy(array) for array in question.inputs]
        return Shares(specs.shares(spec, inputs, keywords, question.calls))
    return Shares()


def _estimate(question: EstimateXla) -> Answer:
    """XLA's estimate for the spec; none where its compiler can't be had."""
    values = list(map(specs.argument, question.inputs))
    with problems.caught(question.source, Stage.IMPORT) as caught:
        spec, keywords = specs.spec_of(loaded(question.source), question.name, question.case)
        with contextlib.suppress(CompilerUnavailable):
            return xla_cycles(spec, values, named(question.chip), **keywords)
    return caught.problem or NoEstimate()


def _measured(question: Measure) -> Answer:
    with problems.caught(question.source, Stage.IMPORT) as caught:
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
