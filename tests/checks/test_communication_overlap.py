"""Products that could hide copies between chips, and don't."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grader.checks.communication_cost import waits_first
from tests.pallascope.support.sample_predictions import prediction, schedule

ANY = prediction(schedule(cycles=1000, size=1_000_000))


@pytest.mark.parametrize(
    ("own", "par", "phrase"),
    [
        (0.0, 0.75, "nothing is multiplied while blocks are on their way"),
        (0.25, 0.75, "little is multiplied while blocks are on their way"),
        (0.5, 0.75, ""),
        (1.0, 0.75, ""),
        (0.0, 0.2, ""),
        (None, 0.75, ""),
        (0.0, None, ""),
    ],
)
def test_par_s_products_hide_its_copies(own: float | None, par: float | None, phrase: str) -> None:
    beside = [(replace(ANY, covered=covered),) for covered in (own, par)]
    found = waits_first(beside[0], beside[1])
    assert (found.phrase if found else "") == phrase


def test_the_kernel_that_hides_least_is_judged() -> None:
    own = (replace(ANY, covered=0.75), replace(ANY, covered=0.1), ANY)
    found = waits_first(own, (replace(ANY, covered=0.75),))
    assert found
    assert "10% of its matrix products" in found.message
