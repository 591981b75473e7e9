"""Leaving out the periods of a long run that repeat: the same result as running all of them."""

from __future__ import annotations

import contextlib
import importlib
import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from pallascope.tpu import predictions
from pallascope.tpu.prediction import Prediction
from pallascope.tpu.schedule import scalar_core
from pallascope.tpu.schedule.registers import Address, OperandSource, Unknown
from pallascope.tpu.schedule.scalar_core import Logged

simulating = importlib.import_module("pallascope.tpu.schedule.simulate")
TILE = (8, 128)
Kernel = Callable[..., None]
Map = Callable[..., Any]


def swept(
    grid: tuple[int, ...], index_map: Map, kernel: Kernel, out_map: Map | None = None
) -> Callable[[], tuple[Prediction, ...]]:
    """Predictions of a launch whose input and output have a tile for each step of a grid."""
    spec = pl.BlockSpec(TILE, index_map)
    shape = jax.ShapeDtypeStruct((8 * 512, 128 * 256), jnp.float32)

    def launch(x: Any) -> Any:
        return pl.pallas_call(
            kernel,
            grid=grid,
            in_specs=[spec],
            out_specs=pl.BlockSpec(TILE, out_map or index_map),
            out_shape=shape,
        )(x)

    return lambda: predictions(launch, shape)


def copy(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = x_ref[...]


def below_the_diagonal(x_ref: Any, o_ref: Any) -> None:
    @pl.when(pl.program_id(1) <= pl.program_id(0))
    def _() -> None:
        o_ref[...] = jnp.exp(x_ref[...])


def on_one_step(x_ref: Any, o_ref: Any) -> None:
    @pl.when(pl.program_id(0) == 137)
    def _() -> None:
        o_ref[...] = jnp.exp(x_ref[...])


def on_every_eighth(x_ref: Any, o_ref: Any) -> None:
    @pl.when(pl.program_id(0) % 8 == 7)
    def _() -> None:
        o_ref[...] = jnp.exp(x_ref[...])


def in_a_loop(x_ref: Any, o_ref: Any) -> None:
    def add(_: Any, total: Any) -> Any:
        return total + x_ref[...]

    o_ref[...] = jax.lax.fori_loop(0, pl.program_id(0), add, x_ref[...])


def by_table(table: np.ndarray[Any, Any]) -> Callable[[], tuple[Prediction, ...]]:
    """Input blocks are chosen by a table in SMEM."""
    shape = jax.ShapeDtypeStruct((8 * 64, 128), jnp.float32)

    def launch(x: Any) -> Any:
        spec = pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=table.shape,
            in_specs=[pl.BlockSpec(TILE, lambda i, rows: (rows[i], 0))],
            out_specs=pl.BlockSpec(TILE, lambda i, rows: (i, 0)),
        )
        kernel = lambda rows, x_ref, o_ref: copy(x_ref, o_ref)  # noqa: E731
        return pl.pallas_call(kernel, grid_spec=spec, out_shape=shape)(jnp.asarray(table), x)

    return lambda: predictions(launch, shape)


def by_hand() -> tuple[Prediction, ...]:
    """A loop of 60 DMAs, two at a time, in one step."""
    shape = jax.ShapeDtypeStruct((60, *TILE), jnp.float32)

    def kernel(x_ref: Any, o_ref: Any, slots: Any, sems: Any) -> None:
        def fetch(step: Any) -> Any:
            slot = step % 2
            return pltpu.make_async_copy(x_ref.at[step], slots.at[slot], sems.at[slot])

        fetch(0).start()

        @pl.loop(0, 60)
        def _(step: Any) -> None:
            @pl.when(step + 1 < 60)
            def _() -> None:
                fetch(step + 1).start()

            fetch(step).wait()
            o_ref[...] = slots[step % 2]

    def launch(x: Any) -> Any:
        return pl.pallas_call(
            kernel,
            in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
            out_shape=jax.ShapeDtypeStruct(TILE, jnp.float32),
            scratch_shapes=[pltpu.VMEM((2, *TILE), jnp.float32), pltpu.SemaphoreType.DMA((2,))],
        )(x)

    return predictions(launch, shape)


CASES = {
    "one_axis": swept((64,), lambda i: (i, 0), copy),
    "two_axes": swept((32, 48), lambda i, j: (i, j), copy),
    "three_axes": swept((6, 10, 96), lambda i, j, k: (i, j + k), copy),
    "an_odd_number": swept((7, 9, 11), lambda i, j, k: (i, j * k), copy),
    "kept_blocks": swept((24, 32), lambda i, j: (i, 0), copy),
    "added_up": swept((24, 32), lambda i, j: (i, j), copy, lambda i, j: (i, 0)),
    "groups_of_four": swept((128, 3), lambda i, j: (i // 4, j), copy),
    "by_three": swept((120, 3), lambda i, j: (i // 3, j), copy),
    "remainders": swept((128, 5), lambda i, j: (i % 4, j), copy),
    "backwards": swept((64,), lambda i: (63 - i, 0), copy),
    "below_the_diagonal": swept((32, 128), lambda i, j: (i, j), below_the_diagonal),
    "on_one_step": swept((256,), lambda i: (i, 0), on_one_step),
    "on_every_eighth": swept((512,), lambda i: (i, 0), on_every_eighth),
    "longer_and_longer": swept((48,), lambda i: (i, 0), in_a_loop),
    "a_table_in_order": by_table(np.arange(64, dtype=np.int32)),
    "a_table_by_chance": by_table(np.random.default_rng(0).integers(0, 64, 64, np.int32)),
    "a_table_with_one_change": by_table(np.where(np.arange(64) < 50, 3, 4).astype(np.int32)),
    "by_hand": by_hand,
}
#: In these, no period repeats itself, or none for long.
NEVER = {
    "a_table_by_chance",
    "a_table_with_one_change",
    "a_table_in_order",
    "by_three",
    "longer_and_longer",
}


@pytest.mark.parametrize("name", CASES)
def test_nothing_changes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("libtpu")
    (whole,) = CASES[name]()
    left_out: list[int] = []
    leave_out = simulating.RepeatedTurns._leave_out

    def counted(self: Any, times: int, period: int, *rest: Any) -> None:
        left_out.append(times * period)
        leave_out(self, times, period, *rest)

    monkeypatch.setattr(simulating.RepeatedTurns, "_leave_out", counted)
    monkeypatch.setattr(scalar_core, "SHORT_RUN", 40)
    (found,) = CASES[name]()
    assert bool(left_out) is (name not in NEVER)
    assert found.schedule is not None
    assert whole.schedule is not None
    assert found.schedule.cycles == pytest.approx(whole.schedule.cycles, rel=1e-9)
    assert found.schedule.issue == whole.schedule.issue
    assert found.schedule.busy == whole.schedule.busy
    for one, other in zip(found.schedule.moved, whole.schedule.moved, strict=True):
        assert (one.operand, one.inward, one.size, one.count) == (
            (other.operand, other.inward, other.size, other.count)
        )
        assert one.stalled == pytest.approx(other.stalled, rel=1e-9)


def test_thirty_million_steps_take_seconds() -> None:
    """The time of a step is that of a smaller launch; each of 33.5 million can't be run here."""
    pytest.importorskip("libtpu")
    small, large = (
        swept((n, 256, 256), lambda i, j, k: (j, k), copy)()[0].seconds for n in (2, 512)
    )
    assert small is not None
    assert large == pytest.approx(256 * small, rel=1e-3)


def test_a_long_run_that_does_not_repeat_itself_is_refused_early() -> None:
    """Remainders by 7 in an index map: numbers that don't grow evenly."""
    pytest.importorskip("libtpu")
    launch = swept((64, 256, 1024), lambda i, j, k: (j % 7, k * k % 7), copy)
    (found,) = launch()
    assert found.schedule is None
    expected = "16,777,216 grid steps, too many to simulate, since they don't repeat each other"
    assert found.unknown == expected


UNKNOWN = Unknown("data")
PLACE = OperandSource("input", 0)


@pytest.mark.parametrize(
    ("kind", "first", "second", "limit"),
    [
        (Logged.CONSTANT, (5, 5, 5), (1, 1, 1), None),
        (Logged.CONSTANT, (5, 6, 7), (1, 1, 1), 0),
        (Logged.COMPARED, (1, 2, 3), (10, 10, 10), 6),
        (Logged.COMPARED, (1, 3, 5), (10, 10, 10), 2),
        (Logged.COMPARED, (10, 9, 8), (2, 2, 2), 5),
        (Logged.COMPARED, (11, 12, 13), (10, 10, 10), None),
        (Logged.COMPARED, (8, 9, 10), (10, 10, 10), 0),
        (Logged.COMPARED, (1, 2, 3), (11, 12, 13), None),
        (Logged.COMPARED, (1, 2, 4), (10, 10, 10), 0),
        (Logged.COMPARED, (UNKNOWN, UNKNOWN, UNKNOWN), (1, 2, 3), None),
        (Logged.COMPARED, (UNKNOWN, 1, 2), (1, 2, 3), 0),
        (Logged.UNSIGNED, (1, 2, 3), (10, 10, 10), 6),
        (Logged.UNSIGNED, (-7, -6, -5), (10, 10, 10), 4),
        (Logged.UNSIGNED, (9, 7, 5), (10, 10, 10), 2),
        (Logged.MULTIPLIED, (2**28, 2**28 + 1, 2**28 + 2), (4, 4, 4), 268435453),
        (Logged.MULTIPLIED, (2**29, 2**29 + 1, 2**29 + 2), (4, 4, 4), 0),
        (Logged.MULTIPLIED, (1, 2, 3), (4, 4, 4), None),
        (Logged.MULTIPLIED, (1, 2, 3), (4, 5, 6), 0),
        (Logged.SCALED, (1, 2, 3), (4, 4, 4), None),
        (Logged.SCALED, (1, 1, 1), (4, 5, 6), 0),
        (Logged.LOW_BITS, (1, 2, 3), (7, 7, 7), 0),
        (Logged.LOW_BITS, (1, 9, 17), (7, 7, 7), None),
        (Logged.LOW_BITS, (7, 7, 7), (1, 9, 17), None),
        (Logged.LOW_BITS, (0, 8, 16), (-8, -8, -8), None),
        (Logged.LOW_BITS, (0, 4, 8), (-8, -8, -8), 0),
        (Logged.SHIFTED, (1, 9, 17), (3, 3, 3), None),
        (Logged.SHIFTED, (1, 2, 3), (3, 3, 3), 0),
        (Logged.SHIFTED, (-40, -32, -24), (3, 3, 3), 2),
        (Logged.DIVIDED, (1, 4, 7), (3, 3, 3), None),
        (Logged.DIVIDED, (1, 2, 3), (3, 3, 3), 0),
    ],
)
def test_how_long_an_effect_grows_evenly(
    kind: Logged, first: tuple[Any, ...], second: tuple[Any, ...], limit: int | None
) -> None:
    """`limit` is the number of periods; 0 if not at all, None if for millions."""
    entries = [(kind.value, *pair) for pair in zip(first, second, strict=True)]
    if limit == 0:
        with contextlib.suppress(simulating._Uneven):
            assert simulating._limit(entries) == 0
    elif limit is None:
        assert simulating._limit(entries) > 1_000_000
    else:
        assert simulating._limit(entries) == limit


def test_events_are_those_of_the_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("libtpu")
    monkeypatch.setattr(scalar_core, "SHORT_RUN", 40)
    shape = jax.ShapeDtypeStruct((8 * 64, 128), jnp.float32)
    spec = pl.BlockSpec(TILE, lambda i: (i, 0))
    launch = pl.pallas_call(copy, grid=(64,), in_specs=[spec], out_specs=spec, out_shape=shape)
    (found,) = predictions(launch, shape, events=1000)
    assert found.schedule
    steps = found.schedule.turns
    assert 20 < len(steps) < 64
    assert max(b - a for a, b in itertools.pairwise(steps)) < 1000
    assert found.schedule.transfers[-1].start < steps[-1] + 1000


def test_words_do_not_outgrow_themselves() -> None:
    entries = [(Logged.MULTIPLIED.value, step * 2**29, 1) for step in (0, 1, 2)]
    assert simulating._limit(entries) == 1


def test_other_blocks_are_no_repetition() -> None:
    compared = (Logged.COMPARED.value, 1, 2)
    for entries in ((5, 5, 7), (5, compared, compared), (compared, compared, 5)):
        with pytest.raises(simulating._Uneven):
            simulating._limit(entries)
    assert simulating._limit((5, 5, 5)) > 1_000_000


def test_addresses_grow_within_their_operand() -> None:
    assert simulating._growth([Address(PLACE, n) for n in (4, 6, 8)]) == 2
    with pytest.raises(simulating._Uneven):
        simulating._growth([Address(PLACE, 4), Address(OperandSource("input", 1), 6)])
