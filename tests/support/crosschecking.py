"""The errors of a solution and of its spec against independent code, on one hidden case."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import numpy as np

from grader.exercise import specs
from grader.exercise.cases import draw
from grader.exercise.catalog import Kata
from grader.verdict import Case
from pallascope.checks.expected_results import as_float64
from pallascope.kernels import TracedLaunch
from pallascope.model import Mode
from pallascope.runs.launch_runs import trace_argument
from pallascope.tools.files import load_module
from tests.support.independent import INDEPENDENT

#: The largest error, relative to the largest element: sums in float32, and operands in bfloat16.
CLOSE = {"float32": 1e-4, "bfloat16": 2e-2}


def error_of_solution(exercise: Kata, dtype: str) -> float:
    """The largest error among all results, each relative to its largest element; no unit."""
    solution, case = load_module(exercise.solution), _case(exercise, dtype)
    reference = specs.reference(solution, exercise.name, case)
    inputs = [trace_argument(array) for array in reference.inputs]
    launch = TracedLaunch.of(getattr(solution, exercise.name), inputs, reference.keywords)
    return _error_of(exercise, case, inputs, launch.run(inputs, Mode.STRICT, case.seed))


def error_of_spec(exercise: Kata, dtype: str) -> float:
    """The same for the expected results: the solution's spec in float64."""
    solution, case = load_module(exercise.solution), _case(exercise, dtype)
    inputs = specs.drawn_inputs(solution, exercise.name, case)
    spec, keywords = specs.spec_of(solution, exercise.name, case)
    with jax.enable_x64(True):
        expected = jax.jit(functools.partial(spec, **keywords))(*map(as_float64, inputs))
    return _error_of(exercise, case, inputs, jax.tree.leaves(expected))


def _case(exercise: Kata, dtype: str) -> Case:
    return dataclasses.replace(draw(exercise.id, exercise.key, 1)[0], dtype=dtype)


def _error_of(exercise: Kata, case: Case, inputs: Sequence[Any], results: Iterable[Any]) -> float:
    compare = INDEPENDENT[exercise.name]
    names = inspect.signature(compare).parameters
    sizes = {name: size for name, size in case.sizes.items() if name in names}
    compared = functools.partial(compare, **sizes)
    wide = list(map(_wide, inputs))
    with jax.default_matmul_precision("highest"):
        try:
            others = jax.tree.leaves(jax.jit(compared)(*wide))  # as a whole, it is compiled sooner
        except (jax.errors.JAXTypeError, TypeError):  # it reads its arrays, or is plain numpy
            others = jax.tree.leaves(compared(*wide))
    return max(_error(one, other) for one, other in zip(results, others, strict=True))


def _wide(value: Any) -> Any:
    return value.astype(np.float32) if jax.numpy.issubdtype(value.dtype, np.floating) else value


def _error(result: Any, other: Any) -> float:
    result, other = np.asarray(result, np.float64), np.asarray(other, np.float64)
    return float(np.abs(result - other).max() / max(np.abs(other).max(), 1e-30))
