"""Mosaic GPU's interpreter: a launch for a GPU, run on a CPU, with its races.

jax 0.12 raises for a race, jax 0.10 prints it and goes on: either way it is noted as a text that
begins with "RACE DETECTED" and names both lines. The backend has to be known (`carrier`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend import core
from jax.typing import ArrayLike

from grader.kernels.carrier import with_interpret
from grader.kernels.gpu_block_races import between_blocks
from grader.kernels.gpu_tensor_memory import in_shared_memory, run_by_interpreter
from grader.kernels.traced_launch import TracedLaunch


def run_interpreted(
    launch: TracedLaunch, args: Sequence[ArrayLike], noted: list[str]
) -> list[np.ndarray]:
    """The results, flat, on the host; races go to `noted` as they are found.

    Raises what the interpreter raises, and leaves none of its state behind.
    """
    with interpreted(launch, noted) as program:
        return program(args)


@contextlib.contextmanager
def interpreted(
    launch: TracedLaunch, noted: list[str]
) -> Iterator[Callable[[Sequence[ArrayLike]], list[np.ndarray]]]:
    """Yields the launch as a function of its inputs, which is compiled at its first call."""
    _keep_layouts_to_the_gpu()
    closed = launch.closed if run_by_interpreter() else in_shared_memory(launch.closed)
    program = jax.jit(core.jaxpr_as_fun(with_interpret(closed, _params())))
    with (
        jax.default_device(jax.devices("cpu")[0]),
        _noting_races(noted),
        between_blocks(noted.append),
        _phases_may_be_left(),
        _afterwards_reset(),
    ):
        yield lambda args: [np.asarray(leaf) for leaf in program(*args)]


def _keep_layouts_to_the_gpu() -> None:
    """Let jax 0.10 run `layout_cast`: it moves values between registers, and changes none."""
    from grader.kernels.jax_internals import layout_cast_p, mlir

    mlir.register_lowering(layout_cast_p, lambda _, x, **__: [x], platform="cpu")


def _params() -> Any:
    """Memory that nothing has written holds NaN; what is out of bounds raises."""
    from jax.experimental.pallas import mosaic_gpu

    kind: Any = getattr(mosaic_gpu, "InterpretParams", None)
    if kind is None:
        from grader.kernels.jax_internals import InterpretGPUParams

        kind = InterpretGPUParams
    return kind(detect_races=True)


@contextlib.contextmanager
def _noting_races(noted: list[str]) -> Iterator[None]:
    """Keep what jax 0.10 prints of a race, and print nothing."""
    from grader.kernels.jax_internals import race_detection_state as module

    def note(*texts: object, **_: object) -> None:
        noted.append(" ".join(map(str, texts)).strip())

    module.print = note
    try:
        yield
    finally:
        del module.print


@contextlib.contextmanager
def _phases_may_be_left() -> Iterator[None]:
    """jax 0.10 wants each phase of a barrier waited for, the last one too, for which a GPU has no
    use: the producer of a pipeline need not know when its last slot is free."""
    from grader.kernels.jax_internals import Barrier

    original = Barrier.deallocate
    if "phase" not in original.__code__.co_names:
        yield
        return

    def deallocate(barrier: Any) -> None:
        with barrier.cv:
            barrier.ref_count -= 1

    Barrier.deallocate = deallocate
    try:
        yield
    finally:
        Barrier.deallocate = original


@contextlib.contextmanager
def _afterwards_reset() -> Iterator[None]:
    """After an exception, the next kernel would find this one's barriers still allocated."""
    try:
        yield
    except BaseException:
        _reset()()
        raise


def _reset() -> Callable[[], None]:
    from grader.kernels.jax_internals import gpu_interpreter, runtime_tokens

    def both() -> None:
        gpu_interpreter.reset_gpu_interpret_mode_state()
        runtime_tokens.clear()

    return both
