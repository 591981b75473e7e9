"""Results that are random are judged by what each may be, how often, and by bits of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from grader.checks import randomness
from grader.checks.evidence import TpuEvidence
from grader.exercise.key_tables import Randomness
from grader.grading.ladder import verdict
from grader.verdict import State
from pallascope.checks import values
from pallascope.model import (
    Accident,
    ArrayType,
    Check,
    Finding,
    Observation,
    Outcomes,
    Problem,
    Reference,
    Repeats,
    SameSeeds,
    Stage,
)
from pallascope.tools.arrays import from_numpy
from tests.pallascope.support.calls import array, doubling, trace
from tests.support.factories import attempt, evidence, with_key

SHAPE, BLOCK, KEPT = (96, 256), (32, 128), 0.75
X = np.random.default_rng(0).standard_normal(SHAPE)
DY = np.random.default_rng(1).standard_normal(SHAPE)
DROPPED = Randomness("seed", ("dropped", "kept"), same=((0, 1),))
CHANGED = "seed[0] = 8 instead of 7"

#: What a launch draws for a seed and the number of cores: one number for each element, from 0 to 1.
Dice = Callable[[int, int], np.ndarray]


def dice(*words: int, shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    return np.random.default_rng(list(words)).random(shape)


def by_block(seed_of: Callable[[int, int], tuple[int, ...]]) -> Dice:
    """A launch whose every block has dice of its own, by the seed and the block's number."""

    def thrown(seed: int, _cores: int) -> np.ndarray:
        down, across = (size // block for size, block in zip(SHAPE, BLOCK, strict=True))
        numbers = np.arange(down * across).reshape(down, across)
        return np.block([[dice(*seed_of(seed, n), shape=BLOCK) for n in row] for row in numbers])

    return thrown


RIGHT = by_block(lambda seed, block: (seed, block))


def wide(values: Any) -> Any:
    return from_numpy(np.broadcast_to(np.asarray(values, np.float64), SHAPE).copy())


def outcomes(kept: float = KEPT) -> tuple[Outcomes, ...]:
    return tuple(Outcomes(wide(0), wide(x / kept), wide(kept)) for x in (X, DY))


def reference() -> Reference:
    return Reference(
        names=("x", "dy", "seed"),
        inputs=(array(X), array(DY), array([7], "int32")),
        keywords={},
        expected=(wide(X), wide(DY)),
        results=(ArrayType("float32", SHAPE),) * 2,
        annotations=('Float[Array, "M N"]',) * 2,
        contraction=1,
        outcomes=outcomes(),
    )


def dropped(thrown: np.ndarray, x: np.ndarray, scale: float = 1 / KEPT) -> np.ndarray:
    return np.where(thrown < KEPT, x * scale, 0)


def observed(y: np.ndarray, dx: np.ndarray) -> Observation:
    types = (ArrayType("float32", SHAPE),) * 2
    traced = trace(doubling(BLOCK), results=types)
    return dataclasses.replace(attempt(traced=traced), outputs=(array(y), array(dx)))


def launched(forward: Dice, backward: Dice | None = None, scale: float = 1 / KEPT) -> TpuEvidence:
    """What is observed of a launch that throws these dice."""

    def run(seed: int, cores: int) -> Observation:
        back = (backward or forward)(seed, cores)
        return observed(dropped(forward(seed, cores), X, scale), dropped(back, DY, scale))

    given = evidence(run(7, 2), reference())
    return dataclasses.replace(
        with_key(given, random=DROPPED), repeats=lambda: Repeats(run(7, 1), run(8, 2), CHANGED)
    )


def told(given: TpuEvidence) -> str:
    finding = randomness.check(given)
    assert finding is not None
    assert finding.check is Check.RANDOM
    assert verdict(given).state is State.FAILED
    assert verdict(given).stars == 0
    return f"{finding.phrase}\n{' '.join(finding.message.split())}"


def test_a_right_launch_passes() -> None:
    assert randomness.check(launched(RIGHT)) is None
    assert verdict(launched(RIGHT)).state is State.PASSED
    assert values.check(launched(RIGHT)) is None


def test_and_also_by_other_dice() -> None:
    for salt in range(20):
        right = by_block(lambda seed, block, salt=salt: (salt, seed, block))
        assert randomness.check(launched(right)) is None


@pytest.mark.parametrize(
    ("dice_of", "says"),
    [
        (by_block(lambda seed, _: (seed,)), "the same bits again"),
        (by_block(lambda seed, _: (seed,)), "Steps that seed alike draw alike"),
        (by_block(lambda _, block: (block,)), "another seed changes nothing"),
        (by_block(lambda _, block: (block,)), CHANGED),
        (
            by_block(lambda seed, block: (seed if block else 0, block)),
            "another seed changes too little",
        ),
        (lambda seed, cores: dice(seed, cores), "depend on the order of the grid's steps"),
        (lambda *_: np.zeros(SHAPE), "0.0% of the elements are dropped, instead of 25.0%"),
        (lambda *_: np.ones(SHAPE), "All elements are alike, so nothing is left to chance"),
        (lambda seed, _: 1 - dice(seed) / 3, "are dropped, instead of 25.0%"),
        (lambda seed, _: dice(seed)[:, :1] + np.zeros(SHAPE), "the same bits again, 1 column"),
    ],
)
def test_wrong_dice(dice_of: Dice, says: str) -> None:
    assert says in told(launched(dice_of))


def test_seed_and_block_added_up() -> None:
    added = by_block(lambda seed, block: (seed + block,))
    said = told(launched(added))
    assert "the next seed draws the same bits" in said
    assert "Do not add the seed and the block's number" in said


def test_the_gradient_is_drawn_by_the_same_bits() -> None:
    other = by_block(lambda seed, block: (seed, block, 1))
    said = told(launched(RIGHT, other))
    assert said.startswith("result 1 is drawn with other bits than result 0\n")
    moved = by_block(lambda seed, block: (seed, block + 2))
    assert "The bits of result 0 are found in result 1, 32 rows further up" in told(
        launched(RIGHT, moved)
    )


@pytest.mark.parametrize(
    ("scale", "says"),
    [
        (1.0, "They are 0.75 times their values if kept"),
        (1.004 / KEPT, "compute in float32, and round once"),
        (float("nan"), "Some are NaN"),
    ],
)
def test_what_is_neither(scale: float, says: str) -> None:
    said = told(launched(RIGHT, scale=scale))
    assert "of 24,576 elements are neither dropped nor kept" in said
    assert says in said


def test_a_single_wrong_element_is_found() -> None:
    given = launched(RIGHT)
    y = dropped(RIGHT(7, 2), X)
    y[5, 7] = 3.0
    said = told(dataclasses.replace(given, attempt=observed(y, dropped(RIGHT(7, 2), DY))))
    assert "1 of 24,576 elements" in said
    assert "element (5, 7): got 3" in said


# ---- rounding: each element has its own chance, and nothing lies between the outcomes ----

ROUNDED = Randomness("seed", ("rounded down", "rounded up"), exact=True)
WAY = np.random.default_rng(2).random(SHAPE)
FLOOR = np.floor(10 * X)


def rounding(up: Callable[[np.ndarray], np.ndarray]) -> TpuEvidence:
    """A launch that rounds FLOOR + WAY; `up` says which elements, of dice."""

    def run(*words: int) -> Observation:
        result = FLOOR + up(dice(*words))
        return attempt(result, trace(doubling(BLOCK), results=(ArrayType("float32", SHAPE),)))

    may_be = (Outcomes(wide(FLOOR), wide(FLOOR + 1), wide(WAY)),)
    against = dataclasses.replace(reference(), expected=(wide(FLOOR + WAY),), outcomes=may_be)
    return dataclasses.replace(
        with_key(evidence(run(7), against), random=ROUNDED),
        repeats=lambda: Repeats(run(7), run(8), CHANGED),
    )


def test_rounding_by_the_odds_passes() -> None:
    assert randomness.check(rounding(lambda thrown: thrown < WAY)) is None


@pytest.mark.parametrize(
    ("up", "says"),
    [
        (lambda _: WAY >= 0.5, "The likelier outcome always occurs"),
        (lambda thrown: thrown < 0.5, "All elements have the same odds"),
        (lambda thrown: thrown >= WAY, "The odds are the wrong way round"),
        (lambda thrown: thrown < WAY**2, "are rounded down, instead of"),
        (
            lambda thrown: thrown < (WAY + WAY.mean()) / 2,
            "the odds don't follow each element's chance",
        ),
        (lambda thrown: 2 * (thrown < WAY), "are neither rounded down nor rounded up"),
        (lambda thrown: (thrown < WAY) + 1e-6, "are neither rounded down nor rounded up"),
        (
            lambda thrown: 2 * (thrown < WAY),
            "Half of them miss the nearer of their two values by 1 times",
        ),
        (
            lambda thrown: (thrown < WAY) - 1.0 * (thrown > WAY),
            "as if the added bits were negative",
        ),
    ],
)
def test_rounding_by_other_odds(up: Callable[[np.ndarray], np.ndarray], says: str) -> None:
    assert says in told(rounding(up))


def test_what_is_certain_has_to_be_so() -> None:
    given = rounding(lambda thrown: thrown < WAY)
    never = WAY.copy()
    never[0, 0] = 0
    may_be = (Outcomes(wide(FLOOR), wide(FLOOR + 1), wide(never)),)
    against = dataclasses.replace(given.reference, outcomes=may_be)
    result = FLOOR + (dice(7) < never)
    right = dataclasses.replace(given, reference=against)
    assert isinstance(right.attempt, Observation)
    result[0, 0] += 1
    wrong = dataclasses.replace(right.attempt, outputs=(array(result),))
    assert "1 of 24,576 elements are neither" in told(dataclasses.replace(right, attempt=wrong))


# ---- at production size, nothing runs ----


@pytest.mark.parametrize(
    ("steps", "seeds", "says"),
    [
        (
            ((1, 7), (2, 3)),
            (0, 0),
            "grid steps (1, 7) and (2, 3) seed the generator alike: with 0 and 11 if seed[0] = 0.",
        ),
        (((2, 3), (2, 3)), (0, 0), "a loop in grid step (2, 3) seeds the generator alike twice"),
        (
            ((0, 0), (0, 0)),
            (0, 256),
            "two seeds, 0 and 256, seed the generator alike: with seed[0] = 0 or 256, step (0, 0) "
            "of the grid seeds it with 0 and 11.",
        ),
        (((0, 1), (0, 0)), (0, 1), "with seed[0] = 0 or 1, steps (0, 1) and (0, 0) of the grid"),
    ],
)
def test_seeds_that_are_alike_at_production_size(
    steps: Any, seeds: tuple[int, int], says: str
) -> None:
    same = SameSeeds(0, steps, seeds, (0, 11))
    given = launched(RIGHT)
    seen = dataclasses.replace(given.observed, same_seeds=same, outputs=())
    at_size = dataclasses.replace(given, attempt=seen, production=True)
    assert says in told(at_size)
    unlike = dataclasses.replace(seen, same_seeds=None)
    assert randomness.check(dataclasses.replace(at_size, attempt=unlike)) is None


# ---- what else may happen ----


def found(given: TpuEvidence, **repeats: Any) -> Finding:
    usual = given.repeats()
    changed = dataclasses.replace(usual, **repeats)
    finding = randomness.check(dataclasses.replace(given, repeats=lambda: changed))
    assert finding is not None
    return finding


def test_another_run_that_fails() -> None:
    given = launched(RIGHT)
    crash = Accident("it crashed", "The process is gone.")
    assert found(given, again=crash).phrase == "it crashed"
    raised = Observation(Problem(Stage.RUN, "NotSeeded", "begins with unseeded generators"))
    assert "begins with unseeded generators" in found(given, other_seed=raised).message
    complained = dataclasses.replace(given.observed, complaints=("RACE DETECTED",))
    assert "race" in found(given, again=complained).phrase


def test_another_run_is_not_asked_for_what_is_wrong_already() -> None:
    def asked() -> Repeats:
        raise AssertionError

    wrong = dataclasses.replace(launched(lambda *_: np.ones(SHAPE)), repeats=asked)
    assert randomness.check(wrong) is not None


def test_a_known_mistake_is_named_if_all_bits_are_alike() -> None:
    given = launched(by_block(lambda _, block: (block,)))

    def resembles(agrees: Callable[[Any], bool]) -> str:
        y, dx = given.outputs
        assert not agrees((y, array(DY)))
        return "forgets the seed" if agrees((y, dx)) else ""

    said = told(dataclasses.replace(given, resembles=resembles))
    assert "Your kernel forgets the seed: your result matches that mistake exactly." in said
