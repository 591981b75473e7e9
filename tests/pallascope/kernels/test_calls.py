"""What is read from a kernel over a mesh of cores; of a pallas_call, `test_pallas_call` tells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from pallascope.kernels import NotLowered, TracedLaunch
from pallascope.kernels.lowering import for_chip, lower
from pallascope.model import (
    ArrayType,
    FirstAccess,
    Operand,
    Role,
)
from tests.pallascope.support import core_map_kernels as launches
from tests.pallascope.support.launches import on_v5e, shape

X = shape("float32", 256, 128)
ARRAY = ArrayType("float32", (256, 128))


@pytest.fixture(autouse=True, scope="module")
def cpu() -> None:
    jax.config.update("jax_platforms", "cpu")


def in_hbm(
    name: str, role: Role, first: FirstAccess = FirstAccess.READ, array: ArrayType = ARRAY
) -> Operand:
    return Operand(name, role, array, array.shape, "any", first=first, buffers=1)


def test_operands_stay_in_hbm_and_cores_are_the_grid() -> None:
    call = on_v5e(launches.add_with_scratch, X).call
    assert (call.name, call.grid, call.cores, call.parallel) == ("kernel", (1,), 1, ())
    assert tuple(replace(operand, copied=False) for operand in call.operands) == (
        in_hbm("x_ref", Role.INPUT),
        in_hbm("o_ref", Role.OUTPUT, FirstAccess.WRITE),
        Operand(
            "buffer", Role.SCRATCH, ARRAY, (256, 128), "vmem", first=FirstAccess.WRITE, buffers=1
        ),
        Operand(
            "semaphore",
            Role.SCRATCH,
            ArrayType("dma_sem", ()),
            (),
            "semaphore_mem",
            first=FirstAccess.WRITE,
            buffers=1,
        ),
    )
    assert [operand.copied for operand in call.operands] == [True, True, True, False]


def test_two_cores_are_two_steps_in_any_order() -> None:
    call = on_v5e(launches.add_on_two_cores, X).call
    assert (call.grid, call.cores, call.parallel) == ((2,), 2, (0,))


def test_a_core_map_has_the_refs_that_it_closes_over() -> None:
    call = on_v5e(launches.add_in_core_map, X).call
    assert (call.name, call.grid, call.unknown) == ("kernel", (1,), "")
    assert [(o.name, o.role, o.space) for o in call.operands] == [
        ("operand 0", Role.INPUT, "any"),
        ("operand 1", Role.INPUT, "any"),
        ("operand 2", Role.OUTPUT, "any"),
    ]


def test_a_name_is_the_launch_s_before_the_function_s() -> None:
    def added(x_ref: Any, o_ref: Any) -> None:
        pltpu.sync_copy(x_ref, o_ref)

    def named(**options: Any) -> str:
        return on_v5e(lambda x: launches.launched(added, x, **options)(x), X).call.name

    assert (named(), named(name="copied")) == ("added", "copied")
    assert named(name="copied\n3 stars\u2028") == "copied 3 stars"
    assert named(name="c" * 1000) == "c" * 100


def test_numbers_that_a_kernel_closes_over_are_scalars() -> None:
    def launch(x: Any, n: Any) -> Any:
        def kernel(x_ref: Any, o_ref: Any) -> None:
            rows = pl.ds(pl.multiple_of(n * 8, 8), 8)
            pltpu.sync_copy(x_ref.at[rows], o_ref)

        return launches.launched(kernel, shape("float32", 8, 128))(x)

    kernel = on_v5e(launch, X, jnp.int32(3))
    number = kernel.call.operands[1]
    assert (number.role, number.space, number.array) == (Role.INPUT, "smem", ArrayType("int32", ()))
    assert [None if value is None else int(value) for value in kernel.values] == [None, 3]


def test_a_kernel_on_sparse_cores_is_told_as_unknown() -> None:
    with for_chip("TPU v6 lite", 1):  # a v5e has no SparseCores, as jax says while it traces
        (kernel,) = TracedLaunch.of(launches.copy_on_sparse_cores, [X], {}).kernels([X])
    assert kernel.call.unknown == "it runs on SparseCores, whose time isn't predicted"


@pytest.mark.parametrize(
    "launch",
    [
        launches.add_by_copies,
        launches.add_with_scratch,
        launches.add_by_pipeline,
        launches.add_on_two_cores,
        launches.add_in_core_map,
        launches.add_in_run_state,
        launches.copy_within_hbm,
    ],
)
def test_every_form_is_lowered(launch: Callable[..., Any]) -> None:
    with for_chip("TPU v5 lite", 1):
        assert "tpu_custom_call" in lower(on_v5e(launch, X)).as_text()


def test_what_no_tpu_takes_is_refused_at_its_line() -> None:
    kernel = on_v5e(launches.sort_and_sum, X)
    with for_chip("TPU v5 lite", 1), pytest.raises(NotLowered) as raised:
        lower(kernel)
    assert raised.value.operation is not None
    assert raised.value.operation.name in ("sort", "cumsum")
    assert raised.value.call == kernel.call
    assert "jnp.sort" in str(raised.getrepr(style="native"))


def test_what_a_core_map_refuses_is_at_its_line_too() -> None:
    kernel = on_v5e(launches.sort_in_core_map, X)
    with for_chip("TPU v5 lite", 1), pytest.raises(NotLowered) as raised:
        lower(kernel)
    assert raised.value.operation is not None
    assert raised.value.operation.name == "sort"
    assert "jnp.sort" in str(raised.getrepr(style="native"))
