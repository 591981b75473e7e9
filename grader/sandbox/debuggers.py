"""Debuggers that a kata tries to open: refused, since a worker has no terminal to talk through."""

from __future__ import annotations

import bdb
from typing import Any

import jax


class NoDebugger(Exception):
    """Raised at the line that would stop in a debugger."""


def refuse() -> None:
    """From now on, in this process, NoDebugger is raised instead.

    By `breakpoint()`, `pdb.set_trace()` and whatever else is built on Python's bdb, and by
    `jax.debug.breakpoint()`.
    """
    bdb.Bdb.set_trace = _refuse
    jax.debug.breakpoint = _refuse


def _refuse(*_: Any, **__: Any) -> None:
    raise NoDebugger("kernels run in a process without a terminal")
