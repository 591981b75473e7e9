"""The benchmark of 10_gpu, as far as it can be run without a GPU."""

from __future__ import annotations

import pytest

from grader.exercise.catalog import katas
from pallascope.kernels.serialization import make_ready_for_gpus
from tests.support.repositories import ROOT
from tools.benchmarks import gpu_tracks

KATAS = {kata.name: kata for kata in katas(ROOT, "solutions") if kata.key.target.name == "gpu"}
ROWS = [(name, title) for name, rows in gpu_tracks.JOBS.items() for title in rows]


def test_every_solution_has_a_row() -> None:
    assert set(gpu_tracks.JOBS) == set(KATAS)


@pytest.mark.parametrize(("name", "title"), ROWS, ids="".join)
def test_each_row_lowers_at_its_sizes(
    name: str, title: str, capsys: pytest.CaptureFixture[str]
) -> None:
    make_ready_for_gpus()
    gpu_tracks.main(["--dry", "--sizes", "2048", name])
    (row,) = [line for line in capsys.readouterr().out.splitlines() if f"{name}{title} |" in line]
    assert row.endswith("lowered | | | |")
