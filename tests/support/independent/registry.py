"""Which code that is not ours a solution is compared with, by the solution's name.

Each function takes what the solution of that name takes, as float32 where it is floating, and
returns what it must return.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Function = Callable[..., Any]
INDEPENDENT: dict[str, Function] = {}


def independent(*names: str) -> Callable[[Function], Function]:
    """Register what the solutions of these names are compared with."""

    def add(function: Function) -> Function:
        INDEPENDENT.update(dict.fromkeys(names, function))
        return function

    return add
