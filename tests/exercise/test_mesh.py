"""[mesh]: for how many devices a launch is, and what of it makes no sense."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.exercise.key_reader import load
from grader.exercise.key_tables import KeyProblem
from tests.support.mesh_katas import TO_RIGHT_KEY


def _loaded(folder: Path, old: str, new: str) -> object:
    file = folder / "key.toml"
    assert TO_RIGHT_KEY.count(old) == 1
    file.write_text(TO_RIGHT_KEY.replace(old, new))
    return load(file).mesh


def test_axes_are_read_in_their_order(tmp_path: Path) -> None:
    assert _loaded(tmp_path, "x = 4", "rows = 2\ncolumns = 2") == (("rows", 2), ("columns", 2))
    assert _loaded(tmp_path, "[mesh]\nx = 4\n", "") == ()


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("x = 4", "", "needs a table of axes"),
        ("x = 4", "x = 1", "needs 2 or more devices, not 1"),
        ("x = 4", 'x = "4"', "needs 2 or more devices, not '4'"),
        ("x = 4", "x = 3", "has 3 devices; needs 2 or 4"),
        ("x = 4", '"x-y" = 4', "the name of an axis must be a Python name"),
        ("M = [32, 64]", "M = [32, 64]\nmesh = [4]", "is the name of the launch's mesh"),
        ('outside = ["psum"]', "kernel = false", "has no meaning without a kernel"),
    ],
)
def test_a_mesh_that_makes_no_sense_is_refused(
    tmp_path: Path, old: str, new: str, says: str
) -> None:
    with pytest.raises(KeyProblem, match=says):
        _loaded(tmp_path, old, new)
