"""Races and semaphores are noted as the interpreter finds them, whatever becomes of its prints."""

from __future__ import annotations

import builtins
import contextlib
import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from pallascope.kernels import TracedLaunch, watching
from pallascope.kernels.race_detection import RaceWatch
from pallascope.model import Mode

Function = Callable[..., Any]

X = np.ones((32, 128), np.float32)
ROWS = pl.BlockSpec((8, 128), lambda i: (i, 0))
FIRST = pl.BlockSpec((8, 128), lambda i: (0, 0))


@pytest.fixture(autouse=True, scope="module")
def cpu() -> None:
    jax.config.update("jax_platforms", "cpu")


def launch(kernel: Function, outs: Any = ROWS, **others: Any) -> Function:
    semantics = "parallel" if outs is FIRST else "arbitrary"
    params = pltpu.CompilerParams(dimension_semantics=(semantics,))

    def launched(x: Any) -> Any:
        return pl.pallas_call(
            kernel,
            grid=(4,),
            in_specs=[ROWS],
            out_specs=outs,
            out_shape=jax.ShapeDtypeStruct((8 if outs is FIRST else 32, 128), jnp.float32),
            compiler_params=params,
            **others,
        )(x)

    return launched


def summed(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] += x_ref[...]


def doubled(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = x_ref[...] * 2


def signalled(x_ref: Any, o_ref: Any, sem: Any) -> None:
    o_ref[...] = x_ref[...]
    pl.semaphore_signal(sem, 2)


RACING = launch(summed, FIRST)
LEAVING = launch(signalled, scratch_shapes=[pltpu.SemaphoreType.REGULAR])


def watched(*functions: Function) -> RaceWatch:
    """What is found in launches that run one after another; jax 0.12 raises for a race."""
    with watching() as watch:
        for function in functions:
            with contextlib.suppress(jax.errors.JaxRuntimeError):
                TracedLaunch.of(function, (X,), {}).run((X,), Mode.STRICT, 1)
    return watch


def test_a_race_is_noted_with_its_two_accesses() -> None:
    watch = watched(RACING)
    race = watch.races[0]
    assert race.kernel == 0
    assert "write" in {access.kind for access in race.accesses}
    assert all(access.part and access.by and access.line for access in race.accesses)
    assert race.accesses[0].by != race.accesses[1].by
    assert not watch.left_over


def test_a_semaphore_that_is_left_over_is_noted_with_its_count() -> None:
    watch = watched(LEAVING)
    assert [left.count for left in watch.left_over] == [8]
    assert not watch.races


def test_the_kernels_are_counted() -> None:
    watch = watched(launch(doubled), launch(doubled), LEAVING)
    assert watch.kernels == 3
    assert {left.kernel for left in watch.left_over} == {2}


def test_a_right_kernel_has_nothing_to_complain_of() -> None:
    assert watched(launch(doubled)).complaints == ()


@pytest.mark.parametrize("function", [RACING, LEAVING], ids=["race", "semaphore"])
def test_swallowed_prints_swallow_nothing(
    function: Function, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(builtins, "print", lambda *_, **__: None)
    assert watched(function).complaints
    monkeypatch.undo()
    assert watched(function).complaints
    assert not re.search("RACE|Semaphore", "".join(capfd.readouterr())), "the interpreter is silent"


def test_the_interpreter_is_left_as_it_was() -> None:
    from jax._src.pallas.mosaic.interpret import interpret_pallas_call
    from jax._src.pallas.mosaic.interpret import race_detection_state as detection
    from jax._src.pallas.mosaic.interpret import shared_memory as memory

    def state() -> tuple[Any, ...]:
        found = memory.SharedMemory.get_sempahores_with_nonzero_count
        return (
            vars(interpret_pallas_call)["RaceDetectionState"],
            vars(detection).get("print"),
            found,
        )

    before = state()
    watched(RACING)
    with pytest.raises(KeyError), watching():
        raise KeyError
    assert state() == before
