"""What devices send to each other outside of kernels, by the trace of a launch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

from pallascope.kernels import TracedLaunch, for_chip
from pallascope.model import RESHARDING, Collective, collective_sent_bytes

AXES = (("data", 2), ("model", 2))
ROWS = P("x")
RING = (("x", 4),)
X = jax.ShapeDtypeStruct((64, 256), jnp.float32)
PART = 64 * 256 * 4 // 4  # bytes of X on one of four devices


def collectives(
    launch: Callable[[jax.Array], Any], axes: tuple[tuple[str, int], ...] = RING
) -> tuple[Collective, ...]:
    with for_chip("TPU v5 lite", 1, axes):
        traced = TracedLaunch.of(launch, [X], {})
        return traced.collectives(axes, __file__)


def on_each(
    function: Callable[[jax.Array], Any], before: Any = ROWS, after: Any = ROWS
) -> Callable[[jax.Array], Any]:
    """A launch that runs this on each device."""

    def launch(x: jax.Array) -> Any:
        mesh = jax.sharding.get_abstract_mesh()
        split = jax.shard_map(
            function, mesh=mesh, in_specs=before, out_specs=after, check_vma=False
        )
        return split(x)

    return launch


def _round(x: jax.Array) -> jax.Array:
    return lax.ppermute(x, "x", [(at, (at + 1) % 4) for at in range(4)])


@pytest.mark.parametrize(
    ("name", "function", "sent"),
    [
        ("psum", lambda x: lax.psum(x, "x"), 2 * 3 * PART // 4),
        ("pmax", lambda x: lax.pmax(x, "x"), 2 * 3 * PART // 4),
        ("all_gather", lambda x: lax.all_gather(x, "x", tiled=True), 3 * PART),
        ("psum_scatter", lambda x: lax.psum_scatter(x, "x", tiled=True), 3 * PART // 4),
        ("all_to_all", lambda x: lax.all_to_all(x, "x", 0, 0, tiled=True), 3 * PART // 4),
        ("ppermute", _round, PART),
        ("psum", lambda x: lax.psum(x.astype(jnp.bfloat16), "x"), 3 * PART // 4),
    ],
)
def test_what_one_device_sends(name: str, function: Callable[..., Any], sent: int) -> None:
    (one,) = collectives(on_each(function))
    assert (one.name, one.axes, one.devices, one.bytes) == (name, ("x",), 4, sent)
    assert one.line


def test_the_same_where_jax_checks_what_varies() -> None:
    def launch(x: jax.Array) -> jax.Array:
        mesh = jax.sharding.get_abstract_mesh()
        summed = jax.shard_map(
            lambda x: lax.psum(x, "x"), mesh=mesh, in_specs=P("x"), out_specs=P()
        )
        return summed(x)

    (one,) = collectives(launch)
    assert (one.name, one.bytes) == ("psum", 2 * 3 * PART // 4)


def test_only_the_axes_that_are_named_count() -> None:
    half = on_each(lambda x: lax.psum(x, "model"), P("data", "model"), P("data"))
    both = on_each(lambda x: lax.psum(x, ("data", "model")), P("data", "model"), P())
    (one,), (other,) = collectives(half, AXES), collectives(both, AXES)
    assert (one.axes, one.devices, one.bytes) == (("model",), 2, PART)
    assert (other.axes, other.devices, other.bytes) == (("data", "model"), 4, 3 * PART // 2)


def test_groups_send_within_themselves() -> None:
    groups = [[0, 1], [2, 3]]
    (one,) = collectives(on_each(lambda x: lax.psum(x, "x", axis_index_groups=groups)))
    assert (one.devices, one.bytes) == (2, PART)


def test_a_loop_counts_each_turn_and_what_nothing_uses_none() -> None:
    def looped(x: jax.Array) -> jax.Array:
        return lax.scan(lambda c, _: (_round(c), None), x, None, length=3)[0]

    def until(x: jax.Array) -> jax.Array:
        return lax.while_loop(lambda c: c[0, 0] < 9, _round, x)

    def unused(x: jax.Array) -> jax.Array:
        lax.psum(x, "x")
        return x

    assert collective_sent_bytes(collectives(on_each(looped))) == 3 * PART
    assert collective_sent_bytes(collectives(on_each(until))) is None
    assert collectives(on_each(unused)) == ()


def test_nothing_is_sent_where_nothing_changes_places() -> None:
    def stays(x: jax.Array) -> jax.Array:
        return lax.ppermute(x, "x", [(at, at) for at in range(4)])

    assert collectives(on_each(stays)) == ()
    assert collectives(on_each(lambda x: x + lax.axis_index("x"))) == ()


def twice(after: Any, before: Any, between: Callable[..., Any] = lambda x: x) -> Any:
    """A launch of two shard_maps, the second of which takes what the first gives."""

    def launch(x: jax.Array) -> Any:
        return on_each(lambda x: x + 1, before, before)(
            between(on_each(lambda x: x + 1, after, after)(x))
        )

    return launch


@pytest.mark.parametrize(
    ("after", "before", "sent"),
    [
        (P("x"), P("x"), 0),
        (P("x"), P(), 3 * PART),  # as all_gather
        (P("x"), P(None, "x"), 3 * PART // 4),  # as all_to_all
        (P(), P("x"), 0),  # each keeps its part of what it has
    ],
)
def test_what_is_cut_in_another_way_has_to_move(after: Any, before: Any, sent: int) -> None:
    found = collectives(twice(after, before))
    assert collective_sent_bytes(found) == sent
    assert {one.name for one in found} <= {RESHARDING}


def test_what_is_computed_by_elements_lies_as_before() -> None:
    (one,) = collectives(twice(P("x"), P(), lambda x: jax.jit(jnp.tanh)(x) * 2))
    assert (one.name, one.axes, one.bytes) == (RESHARDING, ("x",), 3 * PART)
    assert collectives(twice(P("x"), P(None, "x"), lambda x: x.T.reshape(64, 256))) == ()


def test_axes_that_change_places() -> None:
    (one,) = collectives(twice(P("data", "model"), P("model", "data")), AXES)
    assert (one.name, one.bytes) == (RESHARDING, PART)
    assert set(one.axes) == {"data", "model"}


@pytest.mark.parametrize(
    ("function", "hops"),
    [
        (lambda x: lax.psum(x, "x"), 1.0),
        (lambda x: lax.all_to_all(x, "x", 0, 0, tiled=True), 4 / 3),
        (lambda x: lax.ppermute(x, "x", [(i, (i + 1) % 4) for i in range(4)]), 1.0),
        (lambda x: lax.ppermute(x, "x", [(i, (i + 2) % 4) for i in range(4)]), 2.0),
    ],
)
def test_over_how_many_links_it_goes(function: Callable[..., Any], hops: float) -> None:
    (one,) = collectives(on_each(function))
    assert one.bytes
    assert one.link_bytes == round(one.bytes * hops)
