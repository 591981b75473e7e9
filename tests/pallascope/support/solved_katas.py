"""Solved exercises to look at in this process: launch function, arguments, block sizes."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import jax
import numpy as np

from pallascope.tools.files import load_module
from tests.pallascope.support import ROOT

Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]

NAMES = ("tiled_matmul", "ragged_grouped_matmul", "splash_attention")
#: Rows of each group: without any, in one tile, over several, to the end of one.
GROUPS = (3, 0, 29, 40, 0, 120, 64, 0)
TILE = 32


def arguments(name: str) -> Call:
    """The launch of one of NAMES, and what to call it with: contents only where they decide."""
    (file,) = (ROOT / "solutions").glob(f"*/kata_*_{name}.py")
    solution = load_module(file)
    given, keywords = _GIVEN[name](solution)
    return getattr(solution, name), given, keywords


def _floats(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, np.float32)


def _matmul(_: ModuleType) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """2 x 2 x 3 steps."""
    return (_floats(256, 384), _floats(384, 256)), {"bm": 128, "bn": 128, "bk": 128}


def _grouped(_: ModuleType) -> tuple[tuple[Any, ...], dict[str, Any]]:
    sizes = np.array(GROUPS, np.int32)
    arrays = _floats(int(sizes.sum()), 256), _floats(len(sizes), 256, 256), sizes
    return arrays, {"tm": TILE, "tk": 128, "tn": 128}


def _splash(solution: ModuleType) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A causal mask over 4 x 4 blocks, two heads that share one of keys and values."""
    mask = jax.numpy.tril(jax.numpy.ones((512, 512), bool))
    masks, *tables = solution.splash_tables(mask, 128, 128)
    heads = _floats(1, 2, 512, 128), _floats(1, 1, 512, 128), _floats(1, 1, 512, 128)
    partial = jax.ShapeDtypeStruct(masks.shape, masks.dtype)
    return (*heads, partial, *map(np.asarray, tables)), {}


_GIVEN: dict[str, Callable[[ModuleType], tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "tiled_matmul": _matmul,
    "ragged_grouped_matmul": _grouped,
    "splash_attention": _splash,
}
