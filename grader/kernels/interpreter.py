"""How kernels are run: in the TPU interpreter, in the plain one, or as they are."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Literal

from jax.experimental.pallas import tpu as pltpu

from grader.kernels.faster_interpreter import faster_interpreter
from grader.kernels.hardware_bits import hardware_bits
from grader.kernels.kept_promises import keep_promises
from grader.kernels.padding import nan_past_the_edge
from grader.kernels.parallel_dimensions import in_any_order
from grader.model import Mode

#: What a kernel's equation is told: not to interpret it, the plain interpreter, the strict one.
Interpret = bool | pltpu.InterpretParams


@contextlib.contextmanager
def running(
    mode: Mode,
    seed: int = 0,
    unwritten: Literal["nan", "zero"] = "nan",
    padded: int | None = None,
    cores: int = 2,
    eager: bool = False,
) -> Iterator[Interpret]:
    """In which a launch is run in `mode`; yields what its kernels are to be told.

    Strict is the TPU interpreter at its least forgiving. `seed` shuffles the order in which the
    steps of "parallel" grid dimensions run; `unwritten` ("nan" or "zero") is what memory holds that
    nothing has written. `padded`: what lies past the edge of this input of the only kernel
    is NaN in any case. So many `cores` share the steps. Copies that a kernel starts by hand happen
    when it waits for them, or, `eager`, when it starts them. Leaves no interpreter state behind,
    also after an exception.
    """
    keep_promises()
    if mode is not Mode.STRICT:
        yield mode is Mode.INTERPRET
        return
    try:
        with (
            faster_interpreter(seed) as remaining,
            in_any_order(),
            hardware_bits(),
            nan_past_the_edge(padded),
        ):
            yield pltpu.InterpretParams(
                num_cores_or_threads=cores,
                detect_races=True,
                uninitialized_memory=unwritten,
                out_of_bounds_reads="raise",
                dma_execution_mode="eager" if eager else "on_wait",
                random_seed=remaining,
            )
    except BaseException:
        _reset()
        raise


def _reset() -> None:
    """Forget the simulated memory, and the tokens that order the failed kernel's callbacks."""
    pltpu.reset_tpu_interpret_mode_state()
    from grader.kernels.jax_internals import runtime_tokens

    runtime_tokens.clear()
