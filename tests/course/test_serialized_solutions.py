"""Each solution's trace lowers to the same Mosaic module in the process that it is carried to."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

import jax
import pytest
from jax.extend import core

from grader.exercise import specs
from grader.exercise.cases import draw
from grader.exercise.catalog import Kata, katas
from grader.exercise.key_tables import MESH, KataKind
from grader.verdict import Case
from pallascope.runs.launch_runs import trace_argument
from pallascope.tools.arrays import dtype_of
from pallascope.tools.files import load_module
from tests.pallascope.support.sample_traces import carried, same, traced
from tests.support.contract import Plan
from tests.support.repositories import ROOT

CHUNKS = 3
SPECLESS = (KataKind.PREDICTIONS, KataKind.TEST)
ALL = [kata for kata in katas(ROOT, "solutions") if kata.key.kind not in SPECLESS]
SOLUTIONS = [kata for kata in ALL if kata.key.target.uses_libtpu]  # lowered for another chip


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_solutions(chunk: int, pytestconfig: pytest.Config) -> None:
    plan = Plan.of(pytestconfig)
    for solution in plan.share.katas(SOLUTIONS)[chunk::CHUNKS]:
        for closed in solved(solution, plan):
            again = carried(closed, solution.key.mesh)
            assert str(again) == str(closed), solution.id
            assert same([closed, again], solution.key.mesh), solution.id


def solved(kata: Kata, plan: Plan) -> Iterator[core.ClosedJaxpr]:
    """Traces of a solution on one of its hidden cases; with --every-case, on two."""
    most = 2 if plan.every_case else 1
    solution, axes = load_module(kata.solution), kata.key.mesh
    for seed in plan.seeds:
        for case in plan.share.cases(draw(kata.id, kata.key, seed))[:most]:
            launch = getattr(solution, kata.name)
            launch = functools.partial(launch, **_accepted(launch, case))
            args = _outlines(solution, kata, case)
            yield traced(_meshed(launch) if axes else launch, *args, axes=axes)


def _outlines(solution: ModuleType, kata: Kata, case: Case) -> Sequence[Any]:
    """Shapes and dtypes of the inputs; drawn are only those whose shapes depend on that."""
    if make := getattr(solution, f"{kata.name}_inputs", None):
        made = functools.partial(make, dtype=dtype_of(case.dtype), **_accepted(make, case))
        with contextlib.suppress(jax.errors.JAXTypeError):
            return list(jax.eval_shape(made, jax.random.key(0, impl="rbg")))
    reference = specs.reference(solution, kata.name, case, evaluated=False)
    return list(map(trace_argument, reference.inputs))


def _accepted(function: Callable[..., Any], case: Case) -> dict[str, int]:
    """The sizes of a case that a function takes."""
    names = inspect.signature(function).parameters
    return {name: size for name, size in case.sizes.items() if name in names}


def _meshed(launch: Callable[..., Any]) -> Callable[..., Any]:
    """With the mesh that it is traced for."""
    return lambda *args: launch(*args, **{MESH: jax.sharding.get_abstract_mesh()})
