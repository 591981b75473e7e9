"""Messages of `Pallas` about a fault: its line and file, the names of Refs, the cause."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from pallascope import KernelFault, Pallas

SHAPE = (32, 128)
ROWS = 8


@pytest.fixture
def pallas() -> Pallas:
    return Pallas(seed=1)


def fault(test: Callable[[], Any]) -> KernelFault:
    with pytest.raises(KernelFault) as raised:
        test()
    return raised.value


def doubled(x: Any) -> Any:
    def kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = 2 * x_ref[...]

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


def running_maximum(x: Any, *, order: Literal["parallel", "arbitrary"] = "parallel") -> Any:
    """The maximum of blocks of rows, in scratch; only the last step writes it."""

    def kernel(x_ref: Any, o_ref: Any, m_ref: Any) -> None:
        @pl.when(pl.program_id(1) == 0)
        def _() -> None:
            m_ref[...] = x_ref[...]

        m_ref[...] = jnp.maximum(m_ref[...], x_ref[...])

        @pl.when(pl.program_id(1) == pl.num_programs(1) - 1)
        def _() -> None:
            o_ref[...] = m_ref[...]

    length, width = x.shape
    maxima = pl.pallas_call(
        kernel,
        grid=(width // 128, length // ROWS),
        in_specs=[pl.BlockSpec((ROWS, 128), lambda j, i: (i, j))],
        out_specs=pl.BlockSpec((ROWS, 128), lambda j, i: (0, j)),
        out_shape=jax.ShapeDtypeStruct((ROWS, width), x.dtype),
        scratch_shapes=[pltpu.VMEM((ROWS, 128), x.dtype)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", order)),
    )(x)
    return jnp.max(maxima, axis=0)


def test_values_that_are_right_on_one_core_only(pallas: Pallas) -> None:
    x = pallas.normal((48, 256))
    check = functools.partial(pallas.check, running_maximum, x, expected=lambda x: x.max(axis=0))
    check(order="arbitrary")
    told = " ".join(str(fault(lambda: check(order="parallel"))).split())
    assert "right only if one core takes all steps in their order" in told


def test_an_exception_outside_of_kernels_gets_no_advice_for_them(pallas: Pallas) -> None:
    def launched(x: Any) -> Any:
        return doubled(x) if x.sum() > 0 else x

    told = str(fault(lambda: pallas.check(launched, pallas.normal(SHAPE))))
    assert "jit traces the function once" in " ".join(told.split())
    assert "pl.when" not in told
    assert "traced_launch.py" not in told


@dataclasses.dataclass(frozen=True)
class BlockSizes:
    q: int
    k: int
    v: int
    dq: int
    dk: int
    dv: int


def test_a_long_argument_is_told_by_its_class(pallas: Pallas) -> None:
    blocks = BlockSizes(*(128 for _ in range(6)))
    told = str(
        fault(lambda: pallas.check(lambda x, blocks: x, pallas.normal(SHAPE), blocks=blocks))
    )
    assert "blocks=BlockSizes(…)" in told


def test_a_gradient_of_a_kernel_needs_rules(pallas: Pallas) -> None:
    test = functools.partial(pallas.grad_check, doubled, pallas.normal(SHAPE))
    assert "jax.custom_vjp and defvjp" in " ".join(
        str(fault(lambda: test(expected=lambda x: 2 * x))).split()
    )


def test_a_grid_without_steps(pallas: Pallas) -> None:
    def launched(x: Any) -> Any:
        def kernel(x_ref: Any, o_ref: Any) -> None:
            o_ref[...] = x_ref[...]

        rows = pl.BlockSpec((64, 128), lambda i: (i, 0))
        params = pltpu.CompilerParams(dimension_semantics=("parallel",))
        grid = (len(x) // 64,)
        return pl.pallas_call(
            kernel, x, grid=grid, in_specs=[rows], out_specs=rows, compiler_params=params
        )(x)

    told = str(fault(lambda: pallas.check(launched, pallas.normal(SHAPE), expected=jnp.asarray)))
    assert "makes no steps: its grid is (0,)" in told


def test_a_ref_without_a_name_is_told_by_its_place_in_the_call(pallas: Pallas) -> None:
    def sums(x: Any) -> Any:
        def kernel(*args: Any) -> None:
            x_ref, o_ref, acc_ref = args
            acc_ref[...] += x_ref[...]
            o_ref[...] = acc_ref[...]

        scratch = [pltpu.VMEM(x.shape, x.dtype)]
        return pl.pallas_call(kernel, out_shape=x, scratch_shapes=scratch)(x)

    told = str(fault(lambda: pallas.check(sums, pallas.normal((ROWS, 128)), expected=jnp.asarray)))
    assert "scratch_shapes[0]" in told


HELPERS = """
def copied_early(x_hbm, buffer, sem):
    pltpu.make_async_copy(x_hbm, buffer, sem).start()
    return buffer[...]
"""


def test_a_line_of_another_file_is_told_with_its_file(pallas: Pallas, tmp_path: Path) -> None:
    """The kernel's body is in this file, and a part of it in another."""
    file = tmp_path / "helpers.py"
    file.write_text(HELPERS)
    made: dict[str, Any] = {"pltpu": pltpu}
    exec(compile(HELPERS, str(file), "exec"), made)

    def launch(x: Any) -> Any:
        def kernel(x_hbm: Any, o_ref: Any, buffer: Any, sem: Any) -> None:
            o_ref[...] = made["copied_early"](x_hbm, buffer, sem)

        return pl.pallas_call(
            kernel,
            out_shape=x,
            in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
            scratch_shapes=[pltpu.VMEM(x.shape, x.dtype), pltpu.SemaphoreType.DMA],
        )(x)

    tests = Pallas(tmp_path)
    told = str(fault(lambda: tests.check(launch, pallas.normal((ROWS, 128)))))
    assert "helpers.py:4" in told
    assert "return buffer[...]" in told
    assert "started at helpers.py:3" in told
