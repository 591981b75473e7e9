"""[random] of an answer key."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.exercise.key_reader import load
from grader.exercise.key_tables import KeyProblem, Randomness
from tests.exercise.test_kinds import CASES, COMMON

RANDOM = f"""{COMMON}todo = ["x"]
{CASES}
[random]
seed = "seed"
names = ["dropped", "kept"]
same = [[0, 1]]
"""


def read(folder: Path, text: str) -> Randomness | None:
    file = folder / "kata_01_x.toml"
    file.write_text(text)
    return load(file).random


def test_what_is_read(tmp_path: Path) -> None:
    asked = Randomness("seed", ("dropped", "kept"), same=((0, 1),))
    assert read(tmp_path, RANDOM) == asked
    assert read(tmp_path, RANDOM + "exact = true\n") == Randomness(
        "seed", ("dropped", "kept"), same=((0, 1),), exact=True
    )
    assert read(tmp_path, RANDOM.partition("[random]")[0]) is None


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('seed = "seed"', "", "random.seed: needs the name"),
        ('seed = "seed"', 'seed = "a seed"', "random.seed: needs the name"),
        (', "kept"]', "]", "random.names: needs two texts"),
        ("[[0, 1]]", "[[0, 0]]", "random.same: needs lists"),
        ("[[0, 1]]", "[0, 1]", "random.same: needs lists"),
        ("[[0, 1]]", "[[0, true]]", "random.same: needs lists"),
        ("[[0, 1]]", "[[0, 1]]\nexact = 1", "random.exact: needs true or false"),
        ("same =", "sane =", "random.sane: unknown key; did you mean"),
        ('todo = ["x"]', 'todo = ["x"]\nkernel = false', "random: has no meaning with kernel"),
    ],
)
def test_what_is_said_of_others(old: str, new: str, says: str, tmp_path: Path) -> None:
    text = RANDOM.replace(old, new)
    assert text != RANDOM
    with pytest.raises(KeyProblem) as raised:
        read(tmp_path, text)
    assert says in str(raised.value)
