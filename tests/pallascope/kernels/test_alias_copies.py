"""What XLA copies because of aliases: by the trace, and by the programs that XLA makes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import pytest
from jax import lax
from jax.experimental import pallas as pl

from pallascope.kernels import TracedLaunch, for_chip
from pallascope.kernels.aliases import alias_copies
from pallascope.model import CopyReason
from pallascope.tpu.chips import CHIPS
from pallascope.tpu.hlo import steps_of
from pallascope.tpu.libtpu import (
    compiled,
    device,
    dump,
    unavailable_reason,
)
from tests.pallascope.support.launches import shape

X = shape("float32", 2048, 1024)
V5E = CHIPS["v5e"]
KEPT, LATER = CopyReason.KEPT, CopyReason.READ_LATER
ELSEWHERE, EXCHANGED = CopyReason.ELSEWHERE, CopyReason.EXCHANGED
Launch = Callable[..., Any]


def update(aliases: dict[int, int]) -> Launch:
    """New p and m from p, g and m."""

    def kernel(p_ref, g_ref, m_ref, p_out, m_out):
        m_out[...] = m_ref[...] + g_ref[...]
        p_out[...] = p_ref[...] - m_ref[...] * g_ref[...]

    def launch(p: Any, g: Any, m: Any) -> Any:
        block = pl.BlockSpec((256, 1024), lambda i: (i, 0))
        return pl.pallas_call(
            kernel,
            grid=(len(p) // 256,),
            in_specs=[block] * 3,
            out_specs=[block] * 2,
            out_shape=[p, m],
            input_output_aliases=aliases,
        )(p, g, m)

    return launch


def doubled(x: Any) -> Any:
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2

    block = pl.BlockSpec((256, 1024), lambda i: (i, 0))
    return pl.pallas_call(
        kernel,
        grid=(x.size // 1024 // 256,),
        in_specs=[block],
        out_specs=block,
        out_shape=x,
        input_output_aliases={0: 0},
    )(x)


def told(launch: Launch, *args: Any) -> list[list[tuple[int, CopyReason]]]:
    """By kernel, which operands XLA copies and why; the trace crosses a process on its way."""
    with for_chip(V5E.kind, V5E.cores):
        traced = TracedLaunch.of(launch, args, {})
        found = alias_copies(TracedLaunch.carried(traced.dumped()).closed)
    return [[(each.operand, each.reason) for each in kernel] for kernel in found]


def made_by_xla(launch: Launch, donated: Sequence[int], *args: Any) -> int:
    """How many copies XLA's program has."""
    sharding = jax.sharding.SingleDeviceSharding(device(V5E))
    placed = [jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding) for x in args]
    with for_chip(V5E.kind, V5E.cores), dump():
        traced = jax.jit(launch, donate_argnums=donated).trace(*placed)
        hlo = compiled(traced.lower(lowering_platforms=("tpu",)))
    return sum("copy" in step.name for step in steps_of(hlo))


IN_PLACE = {0: 0, 2: 1}
CROSSED = {0: 1, 2: 0}
OF_G = {1: 0, 2: 1}
#: Aliases, what is donated, and what is copied: p, g, m are 0, 1, 2, and new p and m are 3, 4.
UPDATES = [
    ({}, (), []),
    ({}, (0, 2), [(3, ELSEWHERE), (4, ELSEWHERE)]),
    (IN_PLACE, (0, 2), []),
    (IN_PLACE, (), [(0, KEPT), (2, KEPT)]),
    (IN_PLACE, (1, 2), [(0, KEPT), (3, ELSEWHERE)]),
    (IN_PLACE, (0, 1, 2), [(2, KEPT), (4, ELSEWHERE)]),
    (CROSSED, (0, 2), [(3, ELSEWHERE), (4, ELSEWHERE), (4, EXCHANGED)]),
    (CROSSED, (1, 2), [(0, KEPT), (3, ELSEWHERE), (4, ELSEWHERE)]),
    (OF_G, (0, 2), [(1, KEPT), (3, ELSEWHERE)]),
    (OF_G, (1, 2), []),
    ({0: 0}, (0, 2), [(4, ELSEWHERE)]),
]
each = pytest.mark.parametrize(("aliases", "donated", "copied"), UPDATES)


@each
def test_copies_are_told(
    aliases: dict[int, int], donated: tuple[int, ...], copied: list[tuple[int, CopyReason]]
) -> None:
    assert told(jax.jit(update(aliases), donate_argnums=donated), X, X, X) == [copied]


@pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")
@pytest.mark.skipif(bool(unavailable_reason()), reason="libtpu compiles")
@each
def test_xla_makes_as_many(
    aliases: dict[int, int], donated: tuple[int, ...], copied: list[tuple[int, CopyReason]]
) -> None:
    assert made_by_xla(update(aliases), donated, X, X, X) == len(copied)


def twice(x: Any) -> Any:
    return doubled(doubled(x))


def and_itself(x: Any) -> Any:
    y = doubled(x)
    return doubled(y), y


def in_another_shape(x: Any) -> Any:
    return doubled(x.reshape(4, 512, 1024).reshape(2048, 1024))


def behind_a_barrier(x: Any) -> Any:
    """The other result of the barrier is read later, and x isn't."""
    x, y = jax.lax.optimization_barrier((x, doubled(x * 3)))
    return doubled(x), y


@pytest.mark.parametrize(
    ("launch", "donated", "copied"),
    [
        (behind_a_barrier, (0,), [[], []]),
        (twice, (0,), [[], []]),
        (twice, (), [[(0, KEPT)], []]),
        (and_itself, (), [[(0, KEPT)], [(0, LATER)]]),
        (in_another_shape, (0,), [[]]),
        (in_another_shape, (), [[(0, KEPT)]]),
    ],
)
def test_arrays_between_kernels_belong_to_the_launch(
    launch: Launch, donated: tuple[int, ...], copied: list[list[tuple[int, CopyReason]]]
) -> None:
    assert told(jax.jit(launch, donate_argnums=donated), X) == copied
    if not unavailable_reason():
        assert made_by_xla(launch, donated, X) == sum(map(len, copied))


def test_of_a_kernel_in_a_loop_nothing_is_told() -> None:
    def launch(x: Any) -> Any:
        return lax.fori_loop(0, 3, lambda _, y: doubled(y), x), doubled(x)

    assert told(launch, X) == [[], [(0, KEPT)]]


def test_the_size_of_a_dynamic_grid_is_no_operand() -> None:
    def launch(x: Any, n: Any) -> Any:
        def kernel(x_ref, o_ref):
            o_ref[...] = x_ref[...] * 2

        block = pl.BlockSpec((256, 1024), lambda i: (i, 0))
        return pl.pallas_call(
            kernel,
            grid=(n,),
            in_specs=[block],
            out_specs=block,
            out_shape=x,
            input_output_aliases={0: 0},
        )(x)

    assert told(launch, X, shape("int32")) == [[(0, KEPT)]]
