"""Bytes -> a trace, or CarrierError: whatever the bytes are, nothing in them runs."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from typing import Any

import jax
from jax.extend import core

from grader.kernels.carrier import table
from grader.kernels.carrier.errors import CarrierError
from grader.kernels.carrier.layout import BYTES, LARGEST, TRACEBACK, Layout, unpacked
from grader.kernels.carrier.limits import (
    MOST_BYTES,
    MOST_FRAMES,
    MOST_LEVELS,
    MOST_NODES_UNFOLDED,
)
from grader.kernels.carrier.tracebacks import Stack, tracebacks


def loaded(data: bytes) -> core.ClosedJaxpr:
    """The trace that `dumped` has made these bytes of.

    Raises CarrierError for anything that is not a carried trace of this version of jax.
    """
    if len(data) > MOST_BYTES:
        raise CarrierError(f"{len(data) >> 20} MiB are too many for a trace")
    try:
        with _undisturbed():
            return _Load(unpacked(data)).root()
    except CarrierError:
        raise
    except Exception as error:
        reason = _told(error)
    # Not within `except`: who shows an exception's context would print objects made of the data.
    raise CarrierError(f"no carried trace: {reason}")


def _told(error: Exception) -> str:
    """An exception in words, unless those would have to be asked of what the data has made."""
    said = [arg for arg in error.args if type(arg) in (str, int)]
    return ": ".join([type(error).__name__, *(str(arg)[:200] for arg in said)])


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Without collections of garbage: all that is made is kept, and looking costs half the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


class _Load:
    """A table of nodes on its way to objects."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        if layout.jax != jax.__version__:
            raise CarrierError(f"a trace of jax {layout.jax!r}, read by {jax.__version__}")
        known = table.by_name()
        self._builders = [known[name].build for name in layout.forms]
        self._tracebacks = tracebacks(list(map(_short_enough, layout.stacks)))

    def root(self) -> core.ClosedJaxpr:
        found = self._objects()[self._layout.root]
        if not isinstance(found, core.ClosedJaxpr):
            raise CarrierError(f"a trace is no {type(found).__name__}")
        return found

    def _objects(self) -> list[Any]:
        """An object for each node, made of those before it."""
        made: list[Any] = []
        levels: list[int] = []
        sizes: list[int] = []
        for node in self._layout.nodes:
            level = size = 1
            if type(node) is not list:
                value = self._plain(node)
            elif node[0] < 0:
                value = self._special(*node)
            else:
                build, parts = self._builders[node[0]], node[1:]
                if parts:
                    level += max([levels[part] for part in parts])
                    size += sum([sizes[part] for part in parts])
                    if level > MOST_LEVELS or size > MOST_NODES_UNFOLDED:
                        raise CarrierError("objects in objects without end")
                value = build(*[made[part] for part in parts])
            made.append(value)
            levels.append(level)
            sizes.append(size)
        return made

    def _plain(self, value: Any) -> Any:
        kind = type(value)
        if kind is int and abs(value) > LARGEST:
            raise CarrierError("a number of more than 64 bits")
        if kind is dict:
            raise CarrierError("a node is a value or a list")
        return value

    def _special(self, kind: int, number: int) -> Any:
        if kind == TRACEBACK:
            return self._tracebacks[number]
        if kind == BYTES:
            return self._layout.blobs[number]
        raise CarrierError(f"nodes have no kind {kind}")


def _short_enough(stack: Stack) -> Stack:
    if len(stack) > MOST_FRAMES:
        raise CarrierError(f"a stack of {len(stack)} frames")
    return stack
