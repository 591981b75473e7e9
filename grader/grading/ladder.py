"""The ladder of each target: the checks in order, up to the first failure; how messages begin."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from grader.checks import (
    communication_cost,
    cost,
    numbers_and_tests,
    production_values,
    randomness,
    shapes_and_dtypes,
)
from grader.checks.disallowed_shortcuts import (
    check_array_sizes,
    check_own_work,
    check_pallas_used,
)
from grader.checks.evidence import Evidence, GpuEvidence
from grader.checks.surrounding_operations import IN_THE_KERNEL
from grader.exercise.key_tables import KataKind
from grader.verdict import MAX_STARS, Cost, State
from pallascope.checks import compiles, exceptions, lowers, values
from pallascope.model import Check, Finding, NotJudged

RIGHT = "The values are right, but"
ACCEPTED = "Right, and a TPU takes it, but"
ACCEPTED_BY_GPU = "Right, and a GPU's compiler takes it, but"
#: Replaces all of them if the launch was not run.
AT_PRODUCTION_SIZE = "At production size"
#: Replaces ACCEPTED if a rung, such as the TPU's compiler, couldn't be judged.
RIGHT_AS_FAR_AS_KNOWN = "Right, as far as it could be judged, but"


def _always(_evidence: Evidence) -> bool:
    return True


def _of_a_kernel(evidence: Evidence) -> bool:
    return evidence.key.kernel


def _run(evidence: Evidence) -> bool:
    return not evidence.production


def _costs(evidence: Evidence) -> bool:
    return evidence.key.kernel and evidence.costs


def _of_values(evidence: Evidence) -> bool:
    judged = evidence.key.kind not in (KataKind.PREDICTIONS, KataKind.TEST)
    return judged and not evidence.key.random and not evidence.production


def _of_production_values(evidence: Evidence) -> bool:
    return evidence.key.kernel and evidence.production


def _of_production_on_a_mesh(evidence: Evidence) -> bool:
    return _of_production_values(evidence) and bool(evidence.key.mesh)


def _of_chance(evidence: Evidence) -> bool:
    return evidence.key.random is not None and not evidence.production


def _of_random_results(evidence: Evidence) -> bool:
    return evidence.key.random is not None


def _of_predictions(evidence: Evidence) -> bool:
    return evidence.key.kind is KataKind.PREDICTIONS


def _of_baselines(evidence: Evidence) -> bool:
    return evidence.key.kind is KataKind.PREDICTIONS and evidence.costs


def _of_a_test(evidence: Evidence) -> bool:
    return evidence.key.kind is KataKind.TEST


def _not_of_a_test(evidence: Evidence) -> bool:
    return evidence.key.kind is not KataKind.TEST


def _of_blocks(evidence: Evidence) -> bool:
    return evidence.key.block_by_block


def _gpu(module: str, name: str) -> Callable[[Any], Finding | NotJudged | None]:
    """A check for GPUs, imported for the first launch for a GPU."""

    def check(evidence: GpuEvidence) -> Finding | NotJudged | None:
        return getattr(importlib.import_module(f"grader.checks.{module}"), name)(evidence)

    return check


@dataclass(frozen=True, slots=True)
class Rung:
    """One check, and the number of stars for a kernel that passed it and all checks before.

    Failing a rung that is `needed` fails the kata; failing another rung only costs the star. The
    rung applies only if `asked` is true. `granted` is the start of a sentence: the result of the
    rungs before, for a case that was run. A finding completes it.
    """

    check: Callable[[Any], Finding | NotJudged | None]
    stars: int
    needed: bool = True
    granted: str = ""
    asked: Callable[[Evidence], bool] = _of_a_kernel


@dataclass(frozen=True, slots=True)
class Ladder:
    """The rungs of a target's katas in order, and the function for the costs of launch and par."""

    rungs: tuple[Rung, ...]
    cost: Callable[[Any], Cost | None]


TPU_LADDER = Ladder(
    (
        Rung(exceptions.check, 0, asked=_always),
        Rung(shapes_and_dtypes.check, 0, asked=_not_of_a_test),
        Rung(check_own_work, 0, asked=_not_of_a_test),
        Rung(check_pallas_used, 0),
        Rung(values.check, 0, asked=_of_chance),  # results that aren't random, and the run's end
        Rung(numbers_and_tests.check_predictions, 1, asked=_of_predictions),
        Rung(values.check, 1, asked=_of_values),
        Rung(randomness.check, 1, asked=_of_random_results),
        Rung(check_array_sizes, 1, granted=RIGHT, asked=_of_blocks),
        Rung(lowers.check_blocks, 1, granted=RIGHT),
        Rung(lowers.check_lowers, 1, granted=RIGHT),
        Rung(compiles.check, 2, granted=RIGHT),
        Rung(communication_cost.check_sends, 2, asked=_of_production_on_a_mesh),
        Rung(production_values.check_production, 2, asked=_of_production_values),
        Rung(cost.check, MAX_STARS, needed=False, granted=ACCEPTED, asked=_costs),
        Rung(numbers_and_tests.check_against_xla, MAX_STARS, asked=_of_baselines),
        Rung(numbers_and_tests.check_planted, MAX_STARS, asked=_of_a_test),
    ),
    cost.cost_beside_par,
)
GPU_LADDER = Ladder(
    (
        Rung(_gpu("gpu_compiles", "check_gpu_traced"), 0),
        Rung(shapes_and_dtypes.check, 0),
        Rung(check_own_work, 0),
        Rung(partial(check_pallas_used, launcher="plgpu.kernel", advice=IN_THE_KERNEL), 0),
        Rung(_gpu("gpu_interpreted", "check_gpu_interpreted"), 1, asked=_run),
        Rung(_gpu("gpu_compiles", "check_gpu_lowers"), 1, granted=RIGHT),
        Rung(_gpu("gpu_compiles", "check_gpu_compiles"), 2, granted=RIGHT, asked=_costs),
        Rung(_gpu("gpu_hardware", "check_gpu_ran"), 2),
        Rung(
            _gpu("gpu_hardware", "check_gpu_timed"),
            MAX_STARS,
            needed=False,
            granted=ACCEPTED_BY_GPU,
            asked=_costs,
        ),
    ),
    lambda _evidence: None,  # times on GPUs are not predicted
)
LADDERS = {"tpu": TPU_LADDER, "gpu": GPU_LADDER}


@dataclass(frozen=True, slots=True)
class Judgement:
    """State, stars, the first failing rung's finding, and the first rung that wasn't judged."""

    state: State
    stars: int
    finding: Finding | None = None
    not_judged: NotJudged | None = None


def verdict(evidence: Evidence) -> Judgement:
    """Climb the ladder until a rung fails.

    After a rung that could not be judged, the others are still judged, and their findings count.
    But they give no stars; and if that rung judges the kata's main point, the kernel gets no stars
    at all.
    """
    if evidence.problem and evidence.problem.todo:
        return Judgement(State.TODO, 0)
    stars = 0
    unasked: NotJudged | None = None
    for rung in LADDERS[evidence.key.target.name].rungs:
        if not rung.asked(evidence):
            continue
        found = rung.check(evidence)
        if isinstance(found, Finding):
            failed = rung.needed or evidence.key.par_required
            state = State.FAILED if failed else State.PASSED
            stars = stars if failed else _known(evidence, stars, unasked)
            # wrong at production size, or the kernel doesn't do the work there
            stars = 0 if found.check in (Check.VALUES, Check.PALLAS_USED) else stars
            granted = RIGHT_AS_FAR_AS_KNOWN if unasked and not rung.needed else rung.granted
            granted = AT_PRODUCTION_SIZE if evidence.production and granted else granted
            return Judgement(state, stars, _after(granted, found), unasked)
        unasked = unasked or found
        stars = stars if unasked else rung.stars
    stars = _known(evidence, stars, unasked) if unasked else MAX_STARS
    return Judgement(State.PASSED, stars, None, unasked)


def _known(evidence: Evidence, stars: int, unasked: NotJudged | None) -> int:
    """The stars of a kernel that no rung has failed."""
    return 0 if unasked and evidence.key.is_about(unasked.check) else stars


def _after(granted: str, finding: Finding) -> Finding:
    """A finding that completes a sentence: "The values are right, but a TPU …"."""
    if not granted:
        return finding
    first, _, rest = finding.message.partition(" ")
    first = first.lower() if first in ("A", "The", "It", "What") else first
    return dataclasses.replace(finding, message=f"{granted} {first} {rest}")
