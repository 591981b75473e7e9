"""How XLA treats a launch next to its own operations, as katas/2_fusion/README.md states it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from pallascope.tpu import chips, compiler
from pallascope.tpu.hlo import steps_of
from tests.pallascope.support.launches import shape

pytestmark = pytest.mark.skipif(bool(compiler.unavailable_reason()), reason="libtpu")

MIB = 2**20
WIDE, NARROW = shape("float32", 4096, 4096), shape("float32", 4096, 1024)
IN_BFLOAT16, SQUARE = shape("bfloat16", 4096, 1024), shape("float32", 2048, 2048)
ROW = shape("float32", 1, 1024)


def negated(x: jax.Array, fuse: bool, cost: pl.CostEstimate | None = None) -> jax.Array:
    """A launch in blocks of 256 rows."""

    def kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = -x_ref[...]

    spec = pl.BlockSpec((256, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        kernel,
        grid=(x.shape[0] // 256,),
        in_specs=[spec],
        out_specs=spec,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        cost_estimate=cost,
        compiler_params=pltpu.CompilerParams(allow_input_fusion=[fuse]),
    )(x)


def moved(function: Callable[..., Any], args: tuple[Any, ...], chip: str) -> float:
    """The MiB of HBM that the compiled program moves, in all of its operations."""
    with compiler.dump():
        hlo = compiler.compiled(compiler.lower(function, args, chips.named(chip)))
    return math.fsum(step.bytes for step in steps_of(hlo)) / MIB


@pytest.mark.parametrize("chip", ["v5e", "v6e"])
@pytest.mark.parametrize(
    ("producer", "args", "apart", "fused"),
    [
        (jnp.add, (NARROW, NARROW), 80, 48),
        (lambda x: x.astype(jnp.float32), (IN_BFLOAT16,), 56, 24),
        (jnp.multiply, (NARROW, ROW), 64, 32),
        (jnp.transpose, (SQUARE,), 64, 64),
    ],
    ids=["sum", "cast", "row", "transpose"],
)
def test_an_input_may_be_computed_as_it_is_read(
    producer: Callable[..., Any], args: tuple[Any, ...], apart: int, fused: int, chip: str
) -> None:
    def program(fuse: bool) -> Callable[..., Any]:
        return lambda *arrays: negated(producer(*arrays), fuse)

    assert moved(program(False), args, chip) == pytest.approx(apart, rel=0.001)
    assert moved(program(True), args, chip) == pytest.approx(fused, rel=0.001)


def test_the_blocks_of_a_fused_input_must_fit_into_vmem() -> None:
    """Blocks of 4 MiB: two for the result, and two each for x and y, in 16 MiB of VMEM."""

    def program(x: jax.Array, y: jax.Array) -> jax.Array:
        return negated(x + y, True)

    assert moved(program, (WIDE, WIDE), "v5e") == 192 + 128


def test_a_result_is_not_fused() -> None:
    assert moved(lambda x: jnp.exp(negated(x, True)), (NARROW,), "v5e") == 64


def test_xla_knows_no_cost_of_a_kernel_but_the_one_it_is_told() -> None:
    def analysis(cost: pl.CostEstimate | None) -> Any:
        lowered = compiler.lower(lambda x: negated(x, False, cost), (NARROW,), chips.named("v5e"))
        with compiler.dump():
            return lowered.compile().cost_analysis()

    told = pl.estimate_cost(jnp.negative, NARROW)
    assert (told.flops, told.bytes_accessed) == (4096 * 1024, 32 * MIB)
    assert {"flops", "optimal_seconds"}.isdisjoint(analysis(None))
    known = analysis(told)
    assert known["flops"] == told.flops
    assert known["optimal_seconds"] > 0
