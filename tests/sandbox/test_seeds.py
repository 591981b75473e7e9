"""Another seed is the next one, in one of its words."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from grader.sandbox.launch_client import reseeded
from pallascope.model import Reference
from pallascope.tools.arrays import to_numpy
from tests.pallascope.support.calls import array
from tests.support.factories import reference


def seeded(seed: Any, dtype: str = "int32") -> Reference:
    x = reference()
    return dataclasses.replace(x, names=("x", "seed"), inputs=(*x.inputs, array(seed, dtype)))


def test_one_word_is_raised_by_one() -> None:
    given = seeded([[7, 8]], "uint32")
    inputs, changed = reseeded(given, "seed", 3)
    assert inputs[0] == given.inputs[0]
    assert np.array_equal(to_numpy(inputs[1]), [[7, 9]])
    assert changed == "seed[0, 1] = 9 instead of 8"
    assert np.array_equal(to_numpy(reseeded(given, "seed", 2)[0][1]), [[8, 8]])
    assert np.array_equal(to_numpy(given.inputs[1]), [[7, 8]])


def test_after_the_largest_comes_the_smallest() -> None:
    inputs, _ = reseeded(seeded([2**31 - 1]), "seed", 0)
    assert to_numpy(inputs[1]) == [-(2**31)]


@pytest.mark.parametrize(("name", "dtype"), [("speed", "int32"), ("seed", "float32")])
def test_what_is_no_seed(name: str, dtype: str) -> None:
    with pytest.raises(ValueError, match=name):
        reseeded(seeded([7], dtype), name, 0)
