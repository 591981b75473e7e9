"""Every session reaches both sides of each comparison in a region, and its edge.

Equality has to be reached, or the key gives a reason. So have the other sides and branches if the
inputs' contents decide; if only sizes do, those that some session reaches.
"""

from __future__ import annotations

from pathlib import Path

import jax
import numpy as np
import pytest

from grader.checks.evidence import Evidence
from grader.exercise.cases import hidden_cases
from grader.exercise.catalog import Kata, katas
from grader.grading.grader import evidence_of
from grader.sandbox.client import WorkerClient
from pallascope.checks.values import comparisons
from pallascope.kernels import TracedLaunch
from pallascope.tools.files import load_module
from tests.support.contract import Plan, demand
from tests.support.edges import Edges, Sessions, is_evaluated
from tests.support.repositories import ROOT, with_text

EVERY = [kata for kata in katas(ROOT, "solutions") if is_evaluated(kata)]
SESSIONS, EVERY_SESSION = range(1, 3), range(1, 41)
SECONDS = 60


@pytest.fixture
def seeds(pytestconfig: pytest.Config) -> range:
    return EVERY_SESSION if Plan.of(pytestconfig).every_case else SESSIONS


@pytest.mark.parametrize("exercise", EVERY, ids=lambda kata: kata.name)
def test_every_session_reaches_the_edges(exercise: Kata, seeds: range) -> None:
    sessions, allowed = Sessions(exercise), exercise.key.edges
    seen = [(seed, sessions.seen(seed)) for seed in seeds]
    missing = {
        f"{one.text}: {side}": (seed, one)
        for seed, found in seen
        for place, one in found.items()
        for side in one.missing()
        if not one.unknown
        and (one.drawn or side == "equal" or any(side not in f[place].missing() for _, f in seen))
    }
    for place, (seed, one) in missing.items():
        demand(
            place in allowed,
            exercise.key_path,
            f"with seed {seed}, no case of the session reaches {place}, in line {one.line}",
            f"Have {exercise.name}_inputs or [cases] draw it; or say under [edges] why no session "
            f'has to: "{place}" = "…"',
        )
    for place in allowed:
        demand(
            place in missing,
            exercise.key_path,
            f"every session reaches what [edges] excuses: {place}",
            "Delete the entry",
        )


#: Wrong only at an edge, and right in all cases of some sessions before these were drawn.
WRONG_AT_AN_EDGE = [
    ("chunked_prefill", "j * page <= last", "j * page < last"),
    ("ragged_paged_attention", "when(end <= bkv)", "when(end < bkv)"),
    ("speculative_tree_mask", "left + T > 0", "left + T > 1"),
    ("mla_absorbed", "left >= bs", "left > bs"),
    ("sliding_window_and_sinks", "1 - key < window", "1 - key <= window"),
]


@pytest.mark.parametrize(("name", "old", "new"), WRONG_AT_AN_EDGE, ids=lambda text: text)
def test_a_wrong_edge_is_rejected(
    name: str, old: str, new: str, asking: WorkerClient, tmp_path: Path
) -> None:
    (exercise,) = (kata for kata in EVERY if kata.name == name)
    text = exercise.solution.read_text()
    assert text.count(old) == 1
    wrong = with_text(exercise, tmp_path, text.replace(old, new))
    cases = [case for case in hidden_cases(wrong, 1) if not case.production]
    assert not all(is_right(evidence_of(asking, wrong, case, SECONDS)) for case in cases)


def is_right(evidence: Evidence) -> bool:
    within = (np.abs(one.actual - one.expected) <= one.allowed for one in comparisons(evidence))
    return all(each.all() for each in within)


LAUNCH = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def kernel(lengths_ref, x_ref, o_ref):
    o_ref[...] = x_ref[...]
    # BEGIN SOLUTION
    left = lengths_ref[pl.program_id(0)] - 8 * pl.program_id(1)

    @pl.when(left >= 8)
    def _():
        o_ref[...] += 1

    @pl.when((left > 0) & (pl.program_id(1) == 1))
    def _():
        row = jax.lax.broadcasted_iota(jnp.int32, o_ref.shape, 0)
        o_ref[...] = jnp.where(row < left, x_ref[...], 0.0)

    @pl.loop(0, left // 8)
    def _(n):
        o_ref[...] += 2

    # END SOLUTION


def launch(lengths, x):
    block = pl.BlockSpec((None, 8, 128), lambda b, j, *_: (b, j, 0))
    grid_spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1, grid=(len(lengths), 2), in_specs=[block], out_specs=block
    )
    return pl.pallas_call(
        kernel, grid_spec=grid_spec, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype)
    )(lengths // 1, x)
"""


def missing(folder: Path, *lengths: int) -> dict[str, list[str]]:
    """The sides that the launch doesn't reach with these lengths, by the text of the place."""
    file = folder / "launch.py"
    file.write_text(LAUNCH)
    edges = Edges(str(file), LAUNCH)
    x = jax.ShapeDtypeStruct((len(lengths), 16, 128), np.float32)
    inputs = [np.array(lengths, np.int32), None]
    structs = [jax.ShapeDtypeStruct((len(lengths),), np.int32), x]
    edges.launch(TracedLaunch.of(load_module(file).launch, structs, {}).closed, inputs)
    return {one.text: one.missing() for one in edges.seen.values()}


BRANCH, LOOP = "pl.when((left > 0) & (pl.program_id(1) == 1))", "pl.loop(0, left // 8)"
NEVER = ["below", "equal", "above"]


def test_one_length_in_a_second_block(tmp_path: Path) -> None:
    assert missing(tmp_path, 9) == {
        "left >= 8": ["equal"],
        "left > 0": ["below", "equal"],
        "pl.program_id(1) == 1": ["above"],
        BRANCH: [],
        "row < left": [],
        LOOP: ["more turns"],
    }


def test_lengths_at_the_ends_of_blocks(tmp_path: Path) -> None:
    found = missing(tmp_path, 0, 8, 16)
    assert found["left >= 8"] == []
    assert found["left > 0"] == []
    assert found["row < left"] == ["equal", "above"]
    assert found[LOOP] == []


def test_a_comparison_that_never_runs_reaches_nothing(tmp_path: Path) -> None:
    found = missing(tmp_path, 8)
    assert found["row < left"] == NEVER
    assert found[BRANCH] == ["branch 1"]


def test_what_depends_on_sizes_alone(tmp_path: Path) -> None:
    file = tmp_path / "launch.py"
    missing(tmp_path, 8)
    edges = Edges(str(file), LAUNCH)
    structs = [
        jax.ShapeDtypeStruct(s, t) for s, t in (((1,), np.int32), ((1, 16, 128), np.float32))
    ]
    trace = TracedLaunch.of(load_module(file).launch, structs, {}).closed
    edges.launch(trace, [np.array([8], np.int32), None])
    drawn = {one.text for one in edges.seen.values() if one.drawn}
    assert drawn == {"left >= 8", "left > 0", BRANCH, LOOP}
