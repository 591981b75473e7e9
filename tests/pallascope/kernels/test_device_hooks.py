"""What the numbers of devices along the axes of a mesh stand for."""

from __future__ import annotations

from typing import Any

import pytest

from pallascope.kernels.device_hooks import OUTSIDE, within_axes

SIZES, HERE = {"x": 2, "y": 2}, {"x": 0, "y": 1}


def _logical(coordinates: Any, axis_sizes: Any, axis_indices: Any) -> int:
    if isinstance(coordinates, dict):
        coordinates = [coordinates.get(name, axis_indices[name]) for name in axis_sizes]
    return coordinates[0] * axis_sizes["y"] + coordinates[1]


@pytest.mark.parametrize(
    ("coordinates", "device"), [((0, 1), 1), ((1, 0), 2), ({"x": 1}, 3), ({"y": 0}, 0)]
)
def test_a_device_of_the_mesh_has_its_number(coordinates: Any, device: int) -> None:
    assert int(within_axes(_logical)(coordinates, SIZES, HERE)) == device


@pytest.mark.parametrize("coordinates", [(0, 2), (1, -1), (2, 0), {"x": 2}, {"y": -1}])
def test_a_number_beyond_its_axis_is_no_other_device(coordinates: Any) -> None:
    """Device (0, 2) of two by two would be device (1, 0)."""
    assert int(within_axes(_logical)(coordinates, SIZES, HERE)) >= OUTSIDE
