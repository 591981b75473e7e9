"""Which ways a copy takes from chip to chip."""

from __future__ import annotations

import pytest

from pallascope.kernels.dma_events import receiver, ways
from pallascope.model import Route, busiest_link_bytes, link_loads, total_link_bytes

RING, TORUS = {"x": 4}, {"x": 2, "y": 4}


def number(one: int | None) -> int | None:
    return one


@pytest.mark.parametrize(
    ("device", "found"),
    [
        ((1, 3), (1, 3)),
        ([0, 2], (0, 2)),
        ({"y": 3}, (1, 3)),
        ({"x": 0, "y": 1}, (0, 1)),
        (6, (1, 2)),
        ((1, 4), None),
        ((1, -1), None),
        ((1,), None),
        ({"z": 0}, None),
        (8, None),
        (None, None),
        ((1, None), None),
    ],
)
def test_who_receives_what_a_copy_sends(device: object, found: tuple[int, ...] | None) -> None:
    assert receiver(device, {"x": 1, "y": 2}, TORUS, number) == found


@pytest.mark.parametrize(
    ("target", "found"),
    [
        (1, ()),
        (2, (("x", 1),)),
        (0, (("x", -1),)),
    ],
)
def test_a_ring_is_closed(target: int, found: tuple[tuple[str, int], ...]) -> None:
    assert ways((1,), (target,), RING) == (found,)
    assert ways((3,), (0,), RING) == ((("x", 1),),)


def test_what_is_across_a_ring_has_two_ways_and_two_chips_have_one() -> None:
    assert ways((0,), (2,), RING) == ((("x", 2),), (("x", -2),))
    assert ways((0, 0), (1, 3), TORUS) == ((("x", 1), ("y", -1)),)
    assert ways((1, 0), (0, 0), TORUS) == ((("x", 1),),)


def test_a_link_is_as_busy_as_all_that_passes_over_it() -> None:
    routes = (Route((("x", 1),), 8), Route((("x", 2),), 4), Route((("x", -2), ("y", 1)), 3))
    assert [route.hops for route in routes] == [1, 2, 3]
    assert total_link_bytes(routes) == 8 + 8 + 9
    assert link_loads(routes) == {("x", 1): 16, ("x", -1): 6, ("y", 1): 3}
    assert busiest_link_bytes(routes) == 16
    assert busiest_link_bytes(()) == 0
