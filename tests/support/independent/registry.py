"""Independent code for comparison with solutions, by the solution's name.

Each function takes the solution's arguments, with floating arrays as float32, and returns the
required results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Function = Callable[..., Any]
INDEPENDENT: dict[str, Function] = {}


def independent(*names: str) -> Callable[[Function], Function]:
    """Register a function for comparison with the solutions of these names."""

    def add(function: Function) -> Function:
        INDEPENDENT.update(dict.fromkeys(names, function))
        return function

    return add
