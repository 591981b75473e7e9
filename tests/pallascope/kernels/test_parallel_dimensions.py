"""Parallel dimensions behind others: right kernels come out right, and wrong ones are found."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from pallascope.kernels import TracedLaunch, for_chip, watching
from pallascope.kernels.faster_interpreter import EverySecond
from pallascope.kernels.interpreter import Orders
from pallascope.model import Mode

Function = Callable[..., Any]

X = np.random.default_rng(1).standard_normal((24, 256)).astype(np.float32)
W = np.random.default_rng(2).standard_normal((256, 256)).astype(np.float32)


@pytest.fixture(autouse=True, scope="module")
def cpu() -> None:
    jax.config.update("jax_platforms", "cpu")


def run(function: Function, *args: Any) -> tuple[np.ndarray, tuple[Any, ...]]:
    """The result of a launch, and what the interpreter complained of."""
    with for_chip("TPU v5 lite", 1), watching() as watch:
        launch = TracedLaunch.carried(TracedLaunch.of(function, args, {}).dumped())
        (out,) = launch.run(args, Mode.STRICT, 1)
    return out, tuple(watch.complaints)


def is_right(function: Function, wanted: np.ndarray, *args: Any) -> bool:
    try:
        out, complaints = run(function, *args)
    except jax.errors.JaxRuntimeError as error:  # how jax 0.12 tells of a race
        if "RACE DETECTED" not in str(error):
            raise
        return False
    return not complaints and np.allclose(out, wanted, atol=1e-3)


Semantics = Literal["parallel", "arbitrary"]


def matmul(*semantics: Semantics) -> Function:
    """Blocks along the grid's dimensions (M, N, K), with sums along the last."""

    def kernel(x_ref: Any, w_ref: Any, o_ref: Any, acc_ref: Any) -> None:
        @pl.when(pl.program_id(2) == 0)
        def _() -> None:
            acc_ref[...] = jnp.zeros_like(acc_ref)

        acc_ref[...] += jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32)

        @pl.when(pl.program_id(2) == 1)
        def _() -> None:
            o_ref[...] = acc_ref[...]

    return lambda x, w: pl.pallas_call(
        kernel,
        grid=(3, 2, 2),
        in_specs=[
            pl.BlockSpec((8, 128), lambda i, j, k: (i, k)),
            pl.BlockSpec((128, 128), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((8, 128), lambda i, j, k: (i, j)),
        out_shape=jax.ShapeDtypeStruct((24, 256), jnp.float32),
        scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=semantics),
    )(x, w)


@pytest.mark.parametrize(
    "semantics",
    [("parallel", "arbitrary", "arbitrary"), ("arbitrary", "parallel", "arbitrary")],
    ids=" ".join,
)
def test_a_right_matmul(semantics: tuple[Semantics, ...]) -> None:
    assert is_right(matmul(*semantics), X @ W, X, W)


@pytest.mark.parametrize(
    "semantics",
    [("arbitrary", "parallel", "parallel"), ("arbitrary", "arbitrary", "parallel")],
    ids=" ".join,
)
def test_a_sum_along_a_parallel_dimension(semantics: tuple[Semantics, ...]) -> None:
    assert not is_right(matmul(*semantics), X @ W, X, W)


@pytest.mark.parametrize("semantics", ["parallel", "arbitrary"])
def test_a_grid_without_steps_writes_nothing(semantics: Semantics) -> None:
    def launched(x: Any) -> Any:
        def kernel(x_ref: Any, o_ref: Any) -> None:
            o_ref[...] = x_ref[...]

        rows = pl.BlockSpec((8, 256), lambda i: (i, 0))
        params = pltpu.CompilerParams(dimension_semantics=(semantics,))
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return pl.pallas_call(
            kernel, shape, grid=(0,), in_specs=[rows], out_specs=rows, compiler_params=params
        )(x)

    out, complaints = run(launched, X)
    assert np.isnan(out).all()
    assert not complaints


def grouped(groups: np.ndarray, *, parallel: bool) -> Function:
    """Sums of the rows of each group, in a grid whose length is known only when it runs."""

    def kernel(_: Any, group_ref: Any, x_ref: Any, o_ref: Any) -> None:
        step = pl.program_id(1)
        first = (step == 0) | (group_ref[step] != group_ref[jnp.maximum(step - 1, 0)])

        @pl.when(first)
        def _() -> None:
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += x_ref[...]

    def launched(count: Any, x: Any) -> Any:
        semantics: Semantics = "parallel" if parallel else "arbitrary"
        return pl.pallas_call(
            kernel,
            grid_spec=pltpu.PrefetchScalarGridSpec(
                num_scalar_prefetch=2,
                grid=(2, count[0]),
                in_specs=[pl.BlockSpec((8, 128), lambda j, i, _, groups: (i, j))],
                out_specs=pl.BlockSpec((8, 128), lambda j, i, _, groups: (groups[i], j)),
            ),
            out_shape=jax.ShapeDtypeStruct((8 * len(set(groups)), 256), x.dtype),
            compiler_params=pltpu.CompilerParams(dimension_semantics=("arbitrary", semantics)),
        )(count, jnp.asarray(groups), x)

    return launched


@pytest.mark.parametrize("groups", [[0, 1, 2], [0, 0, 1], [0, 1, 1]], ids=str)
def test_a_parallel_dimension_of_unknown_length(groups: list[int]) -> None:
    """Right where each step has a block of its own; the others are found wherever they are."""
    table, count = np.array(groups, np.int32), np.array([3], np.int32)
    wanted = np.stack([X.reshape(3, 8, 256)[table == g].sum(0) for g in sorted(set(groups))])
    wanted = wanted.reshape(-1, 256)
    alone = len(set(groups)) == len(groups)
    assert is_right(grouped(table, parallel=False), wanted, count, X)
    assert is_right(grouped(table, parallel=True), wanted, count, X) == alone


@pytest.mark.parametrize("size", [1, 2, 3, 6, 7])
def test_every_second_step_comes_first(size: int) -> None:
    order = EverySecond(jnp.int32(size))
    steps = [int(order[at]) for at in range(size)]
    assert sorted(steps) == list(range(size))
    assert steps != list(range(size)) or size == 1
    half = (size + 1) // 2
    assert {step % 2 for step in steps[:half]} == {(size - 1) % 2}


def columns(kernel: Function, out_block: Any, out_rows: int, *semantics: Semantics) -> Function:
    """Blocks of x along the grid's dimensions (rows, columns)."""
    return lambda x: pl.pallas_call(
        kernel,
        grid=(3, 2),
        in_specs=[pl.BlockSpec((8, 128), lambda i, j: (i, j))],
        out_specs=pl.BlockSpec((8, 128), out_block),
        out_shape=jax.ShapeDtypeStruct((out_rows, 256), jnp.float32),
        scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=semantics),
    )(x)


def test_scratch_carried_along_a_parallel_dimension() -> None:
    """Running sums along the columns: right only where they are taken in their order."""

    def kernel(x_ref: Any, o_ref: Any, sum_ref: Any) -> None:
        @pl.when(pl.program_id(1) == 0)
        def _() -> None:
            sum_ref[...] = jnp.zeros_like(sum_ref)

        sum_ref[...] += x_ref[...]
        o_ref[...] = sum_ref[...]

    wanted = np.cumsum(X.reshape(24, 2, 128), axis=1).reshape(X.shape)
    launch = columns(kernel, lambda i, j: (i, j), 24, "arbitrary", "arbitrary")
    assert is_right(launch, wanted, X)
    launch = columns(kernel, lambda i, j: (i, j), 24, "arbitrary", "parallel")
    assert not is_right(launch, wanted, X)


def test_a_block_that_is_left_and_visited_again() -> None:
    """Sums along the first dimension: what another order of the steps would make right."""

    def kernel(x_ref: Any, o_ref: Any, _: Any) -> None:
        @pl.when(pl.program_id(0) == 0)
        def _() -> None:
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += x_ref[...]

    launch = columns(kernel, lambda i, j: (0, j), 8, "arbitrary", "parallel")
    with pytest.raises(Exception, match="Revisited"):
        run(launch, X)


@pytest.mark.parametrize("sizes", [(2, 3, 2, 4), (1, 2, 1, 3), (3, 1, 2, 2)])
def test_each_step_is_taken_once_and_each_core_keeps_the_order(sizes: Sequence[int]) -> None:
    """("arbitrary", "parallel", "arbitrary", "parallel")."""
    shuffled = [np.random.default_rng(size).permutation(size) for size in sizes]
    rank = [np.argsort(order) for order in shuffled]
    orders = [jnp.array(o if axis % 2 else (), jnp.int32) for axis, o in enumerate(shuffled)]
    found = Orders(tuple(sizes), orders)
    loops = jnp.array(list(itertools.product(*map(range, sizes))), jnp.int32)
    points = [
        tuple(point) for point in np.asarray(jax.vmap(lambda *loop: found.point(loop))(*loops.T))
    ]
    assert sorted(points) == [tuple(loop) for loop in np.asarray(loops)]
    shared = next((axis for axis in (1, 3) if sizes[axis] > 2), None)
    first = (
        len(points)
        if shared is None
        else len(points) // sizes[shared] * (sizes[shared] // 2 + sizes[shared] % 2)
    )
    for core in (points[:first], points[first:]):
        visited = [(a, rank[1][b], c, rank[3][d]) for a, b, c, d in core]
        assert visited == sorted(visited)
    if shared is not None:
        assert not {p[shared] for p in points[:first]} & {p[shared] for p in points[first:]}
