"""Each session has the inputs that tell right from wrong: masks, groups and scores of every kind.
Where a key has a `pattern`, or inputs are drawn with a structure, the features are here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

import pytest

from grader.exercise.cases import draw
from grader.exercise.catalog import Kata, katas
from grader.verdict import Case
from pallascope.tools.files import load_module
from tests.support.contract import Plan, demand
from tests.support.input_features import (
    BLOCKS,
    GROUPS,
    MASKS,
    SCORES,
    UNWANTED,
    groups_of,
    mask_of,
    scores_of,
    takes_a_softmax,
)
from tests.support.repositories import ROOT

EVERY = {kata.name: kata for kata in katas(ROOT, "solutions")}
#: Where a pattern decides, what it makes does not depend on chance: few seeds are enough in CI.
SESSIONS, EVERY_SESSION = range(4), range(60)

Reader = Callable[[Kata, ModuleType, Case], Iterator[Any]]

MASKED: Mapping[str, frozenset[str]] = {
    "block_sparse_attention": frozenset(MASKS),
    "splash_attention": frozenset(MASKS),
    "splash_backward_dkv": frozenset(MASKS),
    "splash_tables": frozenset(MASKS),
    "splash_backward_dq": frozenset(MASKS),
    "segment_ids_and_soft_cap": frozenset(n for n in MASKS if n.startswith("a query")),
}
GROUPED: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(
        (
            *("group_offsets", "tiles_per_group", "tile_visits", "group_metadata"),
            *("masked_store", "ragged_grouped_matmul", "launch_grouped_matmul"),
            *("transposed_grouped_matmul", "grouped_matmul_vjp"),
        ),
        frozenset(GROUPS),
    ),
    # Its kernel is given: what decides is how many visits there are, and where.
    "launch_masked_store": frozenset(GROUPS) - {"three groups in one tile"},
    "sharded_experts": frozenset(
        {"a group without rows between others", "visits that are not used"}
    ),
    "ragged_dot_gpu": frozenset(
        {
            *("a first group without rows", "a group without rows between others"),
            *("a group that begins inside a tile", "three groups in one tile"),
        }
    ),
    "moe_layer": frozenset({"a group without rows between others", "visits that are not used"}),
}
#: Katas whose spec takes a softmax, and the reason why their scores may lack features.
OTHER_SCORES: Mapping[str, str] = {
    "softmax_backward": "rows are flat, since p is rounded to bfloat16",
    "linear_cross_entropy_backward": "the log-sum-exp is an input",
    "flash_custom_vjp": "its kernels are given",
    "segment_ids_and_soft_cap": "scores are capped at 50",
    "moe_layer": "its router is given",
    "sharded_vmap": "its kernel is given",
    "top_k_route": "the softmax is over the largest logits",
    "flash_attention_hopper": "nothing is masked",
}
#: Their inputs are numbers of tiles, counted from groups that are drawn as in the katas above.
COUNTED = {"group_ids", "m_tile_ids"}


@pytest.fixture
def seeds(pytestconfig: pytest.Config) -> range:
    return EVERY_SESSION if Plan.of(pytestconfig).every_case else SESSIONS


@pytest.mark.parametrize("name", MASKED)
def test_every_session_has_these_masks(name: str, seeds: range) -> None:
    features = {n: MASKS[n] for n in MASKS if n in MASKED[name]}
    in_every_session(EVERY[name], seeds, mask_of, features)


def test_every_session_has_what_decides_about_tables(seeds: range) -> None:
    in_every_session(EVERY["splash_tables"], seeds, mask_of, BLOCKS)


@pytest.mark.parametrize("name", GROUPED)
def test_every_session_has_these_groups(name: str, seeds: range) -> None:
    features = {n: GROUPS[n] for n in GROUPS if n in GROUPED[name]}
    in_every_session(EVERY[name], seeds, groups_of, features)


def test_every_session_has_rows_of_no_group(seeds: range) -> None:
    in_every_session(EVERY["ragged_dot_gpu"], seeds, groups_of, UNWANTED)


@pytest.mark.parametrize("name", [n for n in EVERY if n not in OTHER_SCORES])
def test_every_session_has_low_scores_and_scores_far_apart(name: str, seeds: range) -> None:
    exercise = EVERY[name]
    if not takes_a_softmax(exercise, load_module(exercise.solution)):
        pytest.skip("no softmax")
    in_every_session(exercise, seeds[:2], scores_of, SCORES)


@pytest.mark.parametrize("name", OTHER_SCORES)
def test_the_others_take_a_softmax_too(name: str) -> None:
    assert takes_a_softmax(EVERY[name], load_module(EVERY[name].solution))


@pytest.mark.parametrize("name", [n for n, kata in EVERY.items() if "pattern" in kata.key.choices])
def test_a_pattern_has_its_features_here(name: str) -> None:
    demand(
        name in {*MASKED, *GROUPED, *COUNTED},
        EVERY[name].key_path,
        "it draws a `pattern`, and nothing says what every session must hold",
        "Add the kata to a table in tests/course/test_masks_and_groups.py, with the features that "
        "decide",
    )


def in_every_session(
    exercise: Kata, seeds: range, read: Reader, features: Mapping[str, Callable[[Any], bool]]
) -> None:
    solution = load_module(exercise.solution)
    for seed in seeds:
        cases = [c for c in draw(exercise.id, exercise.key, seed) if not c.production]
        found = [one for case in cases for one in read(exercise, solution, case)]
        for feature, holds in features.items():
            demand(
                any(map(holds, found)),
                exercise.key_path,
                f"with seed {seed}, no case of the session has {feature}",
                f"Have {exercise.name}_inputs make one in a pattern that every session draws",
            )
