"""Sizes that a launch is not made for: what they have to be multiples of, what is not reached."""

from __future__ import annotations

import dataclasses

import pytest

from grader.grading import cost_studies
from grader.grading.cost_studies import NoStudy, case_of, fits, no_multiple, unreached_blocks
from grader.sandbox.client import WorkerClient
from tests.support.repositories import Repository

#: By what M may be, with bm = 16, G = 3 and M = 100: what it has to be a multiple of.
MULTIPLES = {
    ("2*bm", "3*bm"): "bm = 16",
    ("bm", "(5 - G)*bm"): "bm = 16",
    ("2*G*bm", "bm*(G + 1)*G"): "G*bm = 48",
    ("2*G*bm", "bm"): "bm = 16",
    ("2*bm", "3*bm + 5"): "",  # ragged
    ("2*bm", 48): "",
    ("bm*G//3",): "",
    (48, 96): "",
}


@pytest.mark.parametrize(("choices", "unit"), MULTIPLES.items(), ids=str)
def test_what_is_drawn_as_multiples_stays_one(
    repository: Repository, choices: tuple[int | str, ...], unit: str
) -> None:
    key = dataclasses.replace(
        repository.add("double").key, choices={"bm": (8,), "G": (2,), "M": choices}
    )
    said = no_multiple(key, {"bm": 16, "G": 3, "M": 100})
    if unit:
        assert said.startswith(f"M = 100 isn't a multiple of {unit}, but the launch needs one")
        names = unit.partition(" ")[0].replace("*", " and ")
        assert said.endswith(f"Choose another M, or also another {names}")
    else:
        assert said == ""
    assert no_multiple(key, {"bm": 16, "G": 3, "M": 480}) == ""
    assert bool(no_multiple(key, {"bm": 16, "G": 3, "M": 0})) is bool(unit)


def test_what_the_solution_does_not_reach_is_told(
    repository: Repository, asking: WorkerClient
) -> None:
    """Where the key draws numbers, the solution's own launch shows it."""
    numbers = Repository.KEY.replace('M = ["2*bm", "3*bm"]', "M = [48, 96]")
    kata = repository.add("double", key=numbers)
    case = case_of(kata, 0, 0, {"M": "100", "bm": "16"})
    assert unreached_blocks(asking, kata, case) == (
        "the solution's blocks of 16 reach only 96 of the 100 elements of x_ref along dimension 0: "
        "give a multiple of 16"
    )
    assert unreached_blocks(asking, kata, case_of(kata, 0, 0, {"M": "160", "bm": "16"})) == ""
    with pytest.raises(
        NoStudy, match=r"^double with bm=32, M=16, .* grid would be 0, which has no steps"
    ):
        fits(asking, kata, case_of(kata, 0, 0, {"M": "16", "bm": "32"}))


def test_what_the_solution_raises_is_told(repository: Repository, asking: WorkerClient) -> None:
    kata = repository.add("double")
    text = kata.solution.read_text()
    narrow = 'if x.shape[1] > 256:\n        raise ValueError("too wide")\n    rows ='
    kata.solution.write_text(text.replace("rows =", narrow))
    case = case_of(kata, 0, 0, {"N": "512"})
    said = unreached_blocks(asking, kata, case)
    assert said == "the solution doesn't accept these sizes: ValueError: too wide"


def test_what_the_inputs_raise_is_told(repository: Repository, asking: WorkerClient) -> None:
    kata = repository.add("double")
    made = "def double_inputs(key, *, N, dtype):\n    return 1 // (N - 256)\n"
    kata.solution.write_text(kata.solution.read_text() + f"\n\n{made}")
    said = unreached_blocks(asking, kata, case_of(kata, 0, 0, {"N": "256"}))
    assert said.startswith("the solution fails at these sizes: ")


def test_a_sweep_goes_on_behind_sizes_that_do_not_fit(
    repository: Repository, asking: WorkerClient
) -> None:
    kata = repository.add("double")
    case = case_of(kata, 0, 0, {"M": "64", "bm": "16"})
    tries = cost_studies.sweep(asking, kata, case, [{"bm": 48}, {"bm": 32}])
    (misfit_reason, _), (fitting, _) = tries
    assert (misfit_reason.trouble, misfit_reason.kernels) == (cost_studies.MISFIT, ())
    assert fitting.trouble == ""
    assert fitting.kernels
