"""Watches the copies that a kernel starts by hand, while the strict interpreter runs it.

Only kernels whose bodies start copies are watched; all others run as they do without.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

from jax.extend import core

from grader.kernels.copy_recorder import CopyWatch, Recorder
from grader.kernels.jax_internals import UnsupportedJax
from grader.kernels.jaxprs import primitives
from grader.kernels.ref_names import RefNames, scoped_names


def copies_by_hand(kernel: core.Jaxpr) -> bool:
    """Whether a kernel's body starts copies or waits for them, in JAX's own pipelines included."""
    return not {"dma_start", "dma_wait"}.isdisjoint(primitives(kernel))


@contextlib.contextmanager
def watching_copies(watch: CopyWatch) -> Iterator[None]:
    """Note what goes wrong with the copies of kernels that are run in this context.

    A wait that would never end raises. Where jax keeps the interpreter elsewhere, nothing is noted.
    """
    try:
        from grader.kernels.jax_internals import race_detection_state
        from grader.kernels.jax_internals import tpu_interpreter as interpreter

        usual = interpreter.interpret_pallas_call
        names = _CALLBACKS
        missing = [name for name in names if not hasattr(interpreter, name)]
    except (UnsupportedJax, AttributeError):
        yield
        return
    if missing:
        yield
        return

    @functools.wraps(usual)  # jax names it where it fails
    def interpreted(*args: Any, jaxpr: core.Jaxpr, grid_mapping: Any, **others: Any) -> Any:
        if not copies_by_hand(jaxpr):
            return usual(*args, jaxpr=jaxpr, grid_mapping=grid_mapping, **others)
        names = RefNames.of(jaxpr, grid_mapping, others.get("input_output_aliases", ()))
        recorder = Recorder(watch, interpreter, names, scoped_names(jaxpr), grid_mapping.grid)
        watch.unfinished.append(recorder)
        params = others.pop("interpret_params")
        told: dict[str, Any] = {"grid_point_recorder": recorder.step}
        if hasattr(params, "on_race"):
            told["on_race"] = "warn"
        others["interpret_params"] = dataclasses.replace(params, **told)
        with _replacing(interpreter, recorder.replacements()):
            return usual(*args, jaxpr=jaxpr, grid_mapping=grid_mapping, **others)

    silent = SimpleNamespace(warning=lambda *_, **__: None)
    quiet = {n: silent for n in ("logger", "logging") if hasattr(race_detection_state, n)}
    with (
        _replacing(interpreter, {"interpret_pallas_call": interpreted}),
        _replacing(race_detection_state, quiet),
    ):
        try:
            yield
        finally:
            for recorder in watch.unfinished:
                recorder.finish()
            watch.unfinished.clear()


_CALLBACKS = (
    "dma_start",
    "dma_wait",
    "get",
    "store",
    "swap",
    "_deallocate_buffer",
    "_validate",
    "_interpret_jaxpr",
)


@contextlib.contextmanager
def _replacing(module: ModuleType, by: dict[str, Any]) -> Iterator[None]:
    originals = {name: getattr(module, name) for name in by}
    for name, value in by.items():
        setattr(module, name, value)
    try:
        yield
    finally:
        for name, value in originals.items():
            setattr(module, name, value)
