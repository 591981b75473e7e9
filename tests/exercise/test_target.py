"""`target` of an answer key: for GPUs, what its kernel uses, and what makes no sense there."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.exercise.key_reader import load
from grader.exercise.key_tables import KeyProblem
from grader.exercise.targets import GPUS, UNITS, GpuTarget, Target, TpuTarget
from pallascope.gpu import CHIPS
from pallascope.gpu.gpu_resources import FAMILIES
from tests.support.repositories import Repository


def loaded(folder: Path, more: str) -> Target:
    file = folder / "key.toml"
    head, _, cases = Repository.KEY.partition("[cases]")
    file.write_text(f"{head}{more}\n[cases]{cases}")
    return load(file).target


def test_tpus_are_meant_unless_a_key_says_otherwise(tmp_path: Path) -> None:
    assert loaded(tmp_path, "") == TpuTarget()
    assert loaded(tmp_path, 'target = "tpu"') == TpuTarget()
    assert loaded(tmp_path, 'target = "gpu"') == GpuTarget()


def test_what_belongs_to_gpus(tmp_path: Path) -> None:
    more = 'target = "gpu"\nunits = ["wgmma"]\nnot_interpreted = "why"\nonly_on = "b200"'
    assert loaded(tmp_path, more) == GpuTarget(("wgmma",), "why", "b200")
    assert loaded(tmp_path, f"{more}\ncopies_ahead = true") == GpuTarget(
        ("wgmma",), "why", "b200", copies_ahead=True
    )


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ('target = "npu"', 'needs "tpu" or "gpu"'),
        ('units = ["wgmma"]', 'has no meaning without target = "gpu"'),
        ('target = "gpu"\nunits = ["HGMMA"]', "has no 'HGMMA'; known: wgmma"),
        ('target = "gpu"\nonly_on = "a100"', "needs one of h100, b200"),
        ('target = "gpu"\nblock_by_block = true', "block_by_block"),
        ('target = "gpu"\ncores = 2', 'cores: has no meaning with target = "gpu"'),
        ('target = "gpu"\nnot_interpreted = ""', "needs a text that is not empty"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, more: str, says: str) -> None:
    with pytest.raises(KeyProblem, match=says):
        loaded(tmp_path, more)


def test_the_names_are_those_of_what_compiles() -> None:
    assert set(UNITS) <= set(FAMILIES)
    assert tuple(CHIPS) == GPUS
