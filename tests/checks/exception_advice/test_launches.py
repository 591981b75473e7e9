"""Advice on launches whose specs, arrays, scratch and names do not fit together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from tests.checks.exception_advice.raising import ARRAY, ROWS, WRONGLY, copies, launching, told

TPU: Any = pltpu


@pytest.fixture(autouse=True, scope="module")
def cpu() -> None:
    jax.config.update("jax_platforms", "cpu")


def of_a_launch(**changes: Any) -> Callable[[], None]:
    return lambda: launching(copies, **changes)


def of_a_kernel(kernel: Any) -> Callable[[], None]:
    return lambda: launching(kernel)


def mapped(index_map: Any) -> Callable[[], None]:
    return of_a_launch(in_specs=[pl.BlockSpec((8, 128), index_map)])


def asks_too_far(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = x_ref[...] * pl.program_id(1)


def asks_nothing(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = x_ref[...] * WRONGLY.program_id()


def returns_from_when(x_ref: Any, o_ref: Any) -> None:
    @pl.when(pl.program_id(0) == 0)
    def value() -> Any:
        return x_ref[...]

    o_ref[...] = value


def nests_too_little(x_ref: Any, o_ref: Any) -> None:
    numbers: Any = ((1,), (1,))
    o_ref[...] = jax.lax.dot_general(x_ref[...], x_ref[...], numbers)


def calls_a_helper(x_ref: Any, o_ref: Any) -> None:
    def doubled(x: Any, y: Any) -> Any:
        return x + y

    o_ref[...] = doubled(x_ref[...])  # pyright: ignore[reportCallIssue]


def takes_one(x_ref: Any) -> None:
    x_ref[...] = x_ref[...]


def pipes(view: Callable[[Any], Any] = lambda ref: ref, **specs: Any) -> Callable[[], None]:
    """Runs a pipeline over views of an input and an output in HBM, with some specs changed."""
    given = {"in_specs": [ROWS], "out_specs": [ROWS], **specs}

    def kernel(x_hbm: Any, o_hbm: Any) -> None:
        pltpu.emit_pipeline(copies, grid=(4,), **given)(view(x_hbm), view(o_hbm))

    hbm = pl.BlockSpec(memory_space=pltpu.HBM)
    return lambda: launching(kernel, grid=(1,), in_specs=[hbm], out_specs=hbm)


def forgets_the_list() -> None:
    scratch: Any = pltpu.VMEM((8, 128), jnp.float32)
    pl.pallas_call(copies, ARRAY, scratch_shapes=scratch)(jnp.ones((32, 128)))


def forgets_the_parentheses() -> Any:
    return pl.BlockSpec((8, 128), lambda i, j: i, j)  # noqa: F821  # pyright: ignore


def launch_that_asks() -> Any:
    return pl.program_id(0)


def without_rules() -> None:
    launch = jax.custom_vjp(jnp.exp)
    jax.vjp(launch, 1.0)


@pytest.mark.parametrize(
    ("action", "says"),
    [
        (of_a_launch(grid=(32 / 8,)), "pl.cdiv(n, bn) to round up"),
        (of_a_launch(in_specs=[ROWS, ROWS]), "one BlockSpec for each array"),
        (of_a_launch(out_specs=[ROWS]), "one of each, or two lists"),
        (of_a_launch(out_shape=[ARRAY]), "one of each, or two lists"),
        (of_a_launch(in_specs=[lambda i: (i, 0)]), "hold BlockSpecs, not bare index maps"),
        (of_a_launch(scratch_shapes=[ARRAY]), "describes memory and holds no arrays"),
        (of_a_launch(scratch_shapes=[(8, 128)]), "describes memory and holds no arrays"),
        (forgets_the_parentheses, "A lambda ends at the first comma"),
        (forgets_the_list, "is a list, also of one"),
        (lambda: TPU.VMEM((8, 128)), "give the dtype, too"),
        (of_a_launch(mosaic_params={}), "A launch looks like this"),
        (lambda: WRONGLY.pallas_call(copies), "A launch looks like this"),
        (lambda: WRONGLY.CompilerParams(dimension_semantics=()), "pltpu., and spelled like this"),
        (lambda: TPU.CompilerParams(semantics=()), "pltpu., and spelled like this"),
        (lambda: WRONGLY.VMEM((8, 128), jnp.float32), "write pltpu. instead of pl."),
        (of_a_kernel(asks_too_far), "the first entry of grid is axis 0"),
        (of_a_kernel(asks_nothing), "the first entry of grid is axis 0"),
        (launch_that_asks, "Only a kernel with a grid can ask for its step"),
        (of_a_kernel(returns_from_when), "The function under @pl.when returns nothing"),
        (of_a_kernel(nests_too_little), "The dimension numbers of dot_general are two pairs"),
        (pipes(out_specs=[]), "one spec for each Ref of the step's function"),
        (pipes(in_specs=[ROWS, ROWS]), "one spec for each Ref of the step's function"),
        (pipes(lambda ref: ref.at[0]), "one spec for each Ref of the step's function"),
        (of_a_kernel(takes_one), "A kernel takes one Ref for each input"),
        (mapped(lambda i, j: (i, j)), "an index map after its indices"),
        (mapped(lambda i: (i,)), "one block index for each dimension"),
        (without_rules, "f.defvjp(forward, backward)"),
    ],
)
def test_advice_fits_what_is_raised(action: Callable[[], Any], says: str) -> None:
    assert says in told(action, __file__, Path(__file__).read_bytes())


def test_a_helper_is_no_kernel() -> None:
    """A function that the kernel itself calls wrongly is not told what Pallas passes to kernels."""
    said = told(of_a_kernel(calls_a_helper), __file__, Path(__file__).read_bytes())
    assert "missing 1 required positional argument" in said
    assert "A kernel takes one Ref" not in said
