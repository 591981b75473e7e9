"""Patterns of wrong results: one small function for each.

Each takes a Suspect and returns a Diagnosis, or None if the pattern doesn't fit. `DIAGNOSES` lists
them in the order of trial, the most specific and most certain first.

position_patterns  Diagnoses of right values in wrong positions
suspect            A wrong result with its context, and helpers of all diagnoses
uninitialized      Diagnoses of NaN, infinity, and memory that nothing has written
value_patterns     Diagnoses of wrong values: offsets, factors, rounding
"""

from __future__ import annotations

from collections.abc import Callable

from pallascope.checks.diagnoses import (
    position_patterns,
    uninitialized,
    value_patterns,
)
from pallascope.checks.diagnoses.suspect import (
    Diagnosis,
    Suspect,
    headline,
    map_of_blocks,
)

__all__ = ["DIAGNOSES", "Diagnosis", "Suspect", "diagnose", "headline", "map_of_blocks"]

DIAGNOSES: tuple[Callable[[Suspect], Diagnosis | None], ...] = (
    uninitialized.shared_by_parallel_steps,
    value_patterns.edge_of_an_operation,
    uninitialized.not_aliased,
    uninitialized.never_visited,
    uninitialized.padding_used,
    uninitialized.never_awaited,
    uninitialized.never_stored,
    uninitialized.read_before_written,
    uninitialized.padding_likely,
    uninitialized.nan_of_an_input,
    uninitialized.nan_of_some_kind,
    value_patterns.rows_of_nothing,
    uninitialized.computed_nan,
    position_patterns.never_used,
    position_patterns.another_result,
    uninitialized.overflowed,
    value_patterns.all_zero,
    value_patterns.input_unchanged,
    value_patterns.same_amount,
    value_patterns.same_factor,
    position_patterns.another_block,
    position_patterns.one_share_of_the_sum,
    position_patterns.left_over,
    position_patterns.transposed,
    position_patterns.rows_reordered,
    value_patterns.mask_within_reach,
    value_patterns.factor_of_the_row,
    value_patterns.another_formula,
    value_patterns.rounded_too_early,
    position_patterns.only_the_last,
    position_patterns.only_the_first,
    position_patterns.only_some_rows,
)


def diagnose(suspect: Suspect) -> Diagnosis | None:
    """The first pattern that explains a wrong result, or None."""
    for diagnosis in DIAGNOSES:
        if explanation := diagnosis(suspect):
            return explanation
    return None
