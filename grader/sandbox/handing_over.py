"""How a kata's file hands its launch function to the grader: by its own visible test."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from grader.sandbox.problems import NotGraded


class _Case:
    """What a kata's visible test receives: it hands over the launch function, no more."""

    def __init__(self) -> None:
        self.launch: Callable[..., Any] | None = None

    def grade(self, launch: Callable[..., Any]) -> None:
        """Grade a launch function: `hidden_case.grade(constant_add)`."""
        self.launch = launch


def handed_over(module: ModuleType | None, name: str) -> Callable[..., Any]:
    """The launch function that the kata's own test hands over. Raises NotGraded."""
    case = _Case()
    test = getattr(module, f"test_{name}", None)
    if test is None:
        raise NotGraded(f"the file has lost its test: def test_{name}(hidden_case): …")
    try:
        test(case)
    except NameError as error:
        raise NotGraded(_missing(name, error)) from error
    if case.launch is None:
        raise NotGraded(f"test_{name} does not call hidden_case.grade({name})")
    if not callable(case.launch):
        kind = type(case.launch).__name__
        raise NotGraded(f"test_{name} hands over {name}, which is no function but of type {kind}")
    return case.launch


def _missing(name: str, error: NameError) -> str:
    missing = error.name or name
    return f"there is no function {missing}, which test_{name} hands over"
