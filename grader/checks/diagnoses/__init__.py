"""What a wrong result looks like: one small function for each known pattern.

Each takes a Suspect and returns a Diagnosis, or None where it does not see its pattern. `DIAGNOSES`
lists them in the order in which they are tried: the most specific and most certain first.

    unwritten     blocks that nothing wrote, memory read before it was written, races
    nans          NaN from past an edge, from an input, from the arithmetic
    amounts       wrong numbers: too large, off by a constant, of rows that should be zero
    small_errors  nearly right: another formula, rounded too early
    places        the right numbers in the wrong place, or only some of them
    suspect       a wrong result and what is known about it; what the patterns share
"""

from __future__ import annotations

from collections.abc import Callable

from grader.checks.diagnoses import amounts, nans, places, small_errors, unwritten
from grader.checks.diagnoses.suspect import Diagnosis, Suspect, headline, map_of_blocks

__all__ = ["DIAGNOSES", "Diagnosis", "Suspect", "diagnose", "headline", "map_of_blocks"]

DIAGNOSES: tuple[Callable[[Suspect], Diagnosis | None], ...] = (
    unwritten.shared_by_parallel_steps,
    unwritten.not_aliased,
    unwritten.never_visited,
    nans.padding_used,
    unwritten.never_awaited,
    unwritten.never_stored,
    unwritten.read_before_written,
    nans.padding_likely,
    nans.nan_of_an_input,
    nans.nan_of_some_kind,
    amounts.rows_of_nothing,
    nans.computed_nan,
    places.never_used,
    places.another_result,
    amounts.overflowed,
    amounts.all_zero,
    amounts.input_unchanged,
    amounts.same_amount,
    amounts.same_factor,
    places.another_block,
    places.one_share_of_the_sum,
    places.left_over,
    places.transposed,
    places.rows_reordered,
    amounts.mask_within_reach,
    amounts.factor_of_the_row,
    small_errors.another_formula,
    small_errors.rounded_too_early,
    places.only_the_last,
    places.only_the_first,
    places.only_some_rows,
)


def diagnose(suspect: Suspect) -> Diagnosis | None:
    """The first pattern that explains a wrong result, or None."""
    for diagnosis in DIAGNOSES:
        if explanation := diagnosis(suspect):
            return explanation
    return None
