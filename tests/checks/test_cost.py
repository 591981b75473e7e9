"""The third star: bytes and cycles beside par's, and what a learner is told who misses it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from grader.checks import cost
from grader.checks.evidence import TpuEvidence
from grader.exercise.answer_key import Slack
from grader.grading.ladder import Judgement, verdict
from grader.verdict import MAX_STARS, Cost, State
from pallascope.model import (
    Accident,
    Check,
    Finding,
    NotJudged,
    Problem,
    RunCount,
    Stage,
)
from pallascope.tpu import OnChip, Prediction
from tests.pallascope.support.calls import doubling, trace
from tests.pallascope.support.sample_predictions import matmul, prediction, refused, rows, schedule
from tests.support.factories import OwnAndPar, attempt, evidence

PAR = prediction(schedule(cycles=1000, size=1_000_000))


def beside(
    own: Prediction | OnChip | Accident, par: Prediction | OnChip = PAR, **others: Any
) -> TpuEvidence:
    """A right attempt that was predicted as `own`, beside par."""
    both = [OnChip(None, (side,)) if isinstance(side, Prediction) else side for side in (own, par)]
    return evidence(attempt(), on_chips=OwnAndPar(*both), **others)


def finding(judged: TpuEvidence) -> Finding | None:
    found = cost.check(judged)
    assert not isinstance(found, NotJudged), found
    return found


def own(cycles: float = 1000, size: int = 1_000_000, **others: Any) -> Prediction:
    return prediction(schedule(cycles=cycles, size=size, issue=900), **others)


@pytest.mark.parametrize(
    ("cycles", "size", "slack", "passes"),
    [
        (1000, 1_000_000, Slack(), True),
        (500, 500_000, Slack(), True),
        (1149, 1_000_000, Slack(), True),
        (1151, 1_000_000, Slack(), False),
        (1000, 1_100_000, Slack(), True),
        (1000, 1_101_000, Slack(), False),
        (1151, 1_000_000, Slack(cycles=0.2), True),
        (1000, 1_101_000, Slack(bytes=0.2), True),
        (1001, 1_000_000, Slack(cycles=0), False),
    ],
)
def test_what_passes_within_the_slack(cycles: float, size: int, slack: Slack, passes: bool) -> None:
    found = finding(beside(own(cycles, size), slack=slack))
    assert (found is None) == passes
    if found:
        assert found.check is Check.COST


@pytest.mark.parametrize(("most", "passes"), [(None, True), (100, True), (99, False)])
def test_a_loop_that_python_unrolls(most: int | None, passes: bool) -> None:
    call = replace(doubling(), operations=100)
    judged = replace(beside(own(), operations=most), attempt=attempt(traced=trace(call)))
    found = finding(judged)
    assert (found is None) is passes
    assert passes or "has 100 operations" in found.message  # pyright: ignore[reportOptionalMemberAccess]


def test_missing_par_costs_a_star_and_fails_only_where_par_is_required() -> None:
    slow = own(cycles=3000)
    judged = verdict(beside(slow))
    assert (judged.state, judged.stars) == (State.PASSED, MAX_STARS - 1)
    assert judged.finding is not None
    failed = verdict(beside(slow, par_required=True))
    assert (failed.state, failed.stars) == (State.FAILED, MAX_STARS - 1)
    assert verdict(beside(own())) == Judgement(State.PASSED, MAX_STARS)


def test_the_numbers_are_told_beside_pars_with_what_passes() -> None:
    found = finding(beside(own(cycles=3000, size=4_000_000)))
    assert found is not None
    assert found.phrase.startswith("4.0× par's HBM bytes")
    message = " ".join(found.message.split())
    assert "moves 3.81 MiB between HBM and the chip; par moves 977 KiB" in message
    assert "(4.00×, up to 1.10× passes)" in message
    assert "2 µs predicted on a v5e; par 667 ns (3.00×, up to 1.15× passes)" in message


def test_the_limits_that_are_printed_are_those_of_the_key() -> None:
    found = finding(beside(own(cycles=3000, size=4_000_000), slack=Slack(bytes=1.0, cycles=0.06)))
    assert found is not None
    message = " ".join(found.message.split())
    assert "(4.00×, up to 2.00× passes)" in message
    assert "(3.00×, up to 1.06× passes)" in message


def test_only_what_is_over_names_the_phrase() -> None:
    found = finding(beside(own(cycles=3000)))
    assert found is not None
    assert found.phrase.startswith("3.0× par's time")


def test_the_costliest_cause_is_named_with_what_to_try() -> None:
    again = rows(matmul(), counts=(32, 8, 4))
    moving = own(cycles=3000, size=4_000_000, traffic=again)
    found = finding(beside(moving))
    assert found is not None
    assert "reads x_ref 4.0× as much as par" in found.phrase
    assert "  why" in found.message
    assert "  try" in found.message


def test_the_costs_go_into_the_grade() -> None:
    assert cost.cost_beside_par(beside(own(2000, 3_000_000))) == Cost(
        "v5e", 3_000_000, 1_000_000, 2000, 1000
    )


def unscheduled(
    unknown: str = "libtpu is not installed", compiled: bool = False, **of_x: Any
) -> Prediction:
    return prediction(traffic=rows(matmul(), **of_x), unknown=unknown, compiled=compiled)


def test_without_the_compiler_the_bytes_alone_are_judged() -> None:
    par = unscheduled()
    assert cost.check(beside(unscheduled(), par)) is None
    twice = replace(par, traffic=rows(matmul(), counts=(16, 8, 4)))
    found = finding(beside(twice, par))
    assert found is not None
    assert "HBM bytes" in found.phrase
    assert "predicted on" not in found.message
    compared = cost.cost_beside_par(beside(twice, par))
    assert compared is not None
    assert compared.cycles is None
    assert compared.bytes == twice.traffic.bytes


def test_both_sides_are_counted_in_the_same_way() -> None:
    """A schedule on one side only: index maps are compared with index maps."""
    compared = cost.cost_beside_par(beside(own(size=9_000_000), unscheduled("a DMA")))
    assert compared is not None
    assert compared.bytes == compared.par_bytes == own().traffic.bytes


def test_a_chip_whose_times_are_doubtful_is_judged_by_bytes() -> None:
    par = replace(PAR, chip="tpu7x")
    slow = replace(own(cycles=9000), chip="tpu7x")
    assert cost.check(beside(slow, par, chips=("tpu7x",))) is None
    much = replace(own(size=9_000_000), chip="tpu7x")
    assert cost.check(beside(much, par, chips=("tpu7x",))) is not None


def test_the_first_chip_is_the_one_that_is_judged_on() -> None:
    other = replace(own(cycles=9000), chip="v6e")
    par = OnChip(None, (PAR, replace(PAR, chip="v6e")))
    both = OnChip(None, (own(), other))
    assert cost.check(beside(both, par, chips=("v5e", "v6e"))) is None
    assert cost.check(beside(both, par, chips=("v6e", "v5e"))) is not None


def test_several_kernels_are_added_up() -> None:
    par = OnChip(None, (PAR, PAR))
    assert cost.check(beside(own(2000, 2_000_000), par)) is None
    assert cost.check(beside(OnChip(None, (own(), own(2000))), par)) is not None


BY_HAND: dict[str, Any] = {"bytes": None, "moves": None, "note": "copied by itself"}


def test_a_star_is_not_given_on_trust() -> None:
    dark = unscheduled("a DMA from HBM to HBM", compiled=True, **BY_HAND)
    found = finding(beside(dark))
    assert found is not None
    assert found.phrase == "no verdict: a DMA from HBM to HBM"
    judged = verdict(beside(dark))
    assert (judged.state, judged.stars) == (State.PASSED, MAX_STARS - 1)


def bounded(cycles: float = 1000, size: int = 1_000_000) -> Prediction:
    """One whose cycles are a lower bound."""
    return prediction(schedule(cycles=cycles, size=size, issue=900, least="a DMA within HBM"))


def test_a_lower_bound_of_the_cycles_passes_by_its_bytes_and_never_counts_as_a_time() -> None:
    judged = beside(bounded())
    assert cost.check(judged) is None
    assert verdict(judged) == Judgement(State.PASSED, MAX_STARS)
    assert cost.cost_beside_par(judged) == Cost("v5e", 1_000_000, 1_000_000, None, None)
    much = finding(beside(bounded(size=2_000_000)))
    assert much is not None
    assert much.phrase.startswith("2.0× par's HBM bytes")


def test_a_lower_bound_over_pars_cycles_is_too_slow() -> None:
    """Else a useless copy within HBM would hide any time."""
    found = finding(beside(bounded(cycles=3000)))
    assert found is not None
    assert found.phrase.startswith("3.0× par's time")
    assert "at least 2 µs predicted on a v5e" in " ".join(found.message.split())


def test_beside_a_par_whose_cycles_are_a_lower_bound_bytes_alone_are_judged() -> None:
    assert cost.check(beside(own(cycles=3000), bounded())) is None
    assert cost.check(beside(bounded(cycles=3000), bounded())) is None
    assert finding(beside(own(size=2_000_000), bounded())) is not None


def test_a_branch_on_data_hides_the_time_that_par_has() -> None:
    """Its bytes are known and are par's: that says nothing about its time."""
    branch = unscheduled("it branches on a value that the kernel has read", compiled=True)
    found = finding(beside(branch))
    assert found is not None
    assert found.phrase == "no verdict: it branches on a value that the kernel has read"
    assert "jnp.where chooses without a branch" in " ".join(found.message.split())
    assert verdict(beside(branch)).stars == MAX_STARS - 1
    assert verdict(beside(branch, par_required=True)).state is State.FAILED


def test_too_many_bytes_are_told_before_a_time_that_is_not_known() -> None:
    much = unscheduled("a branch", compiled=True)
    much = replace(much, traffic=rows(matmul(), counts=(64, 8, 4)))
    found = finding(beside(much))
    assert found is not None
    assert "par's HBM bytes" in found.phrase


def test_a_grid_that_two_cores_share_is_judged_by_the_time_of_its_larger_part() -> None:
    par = replace(PAR, chip="v5p", sharing=2)
    slow = replace(own(cycles=2000), chip="v5p", sharing=2)
    assert finding(beside(par, par, chips=("v5p",))) is None
    found = finding(beside(slow, par, chips=("v5p",)))
    assert found is not None
    assert "2.0× par's time" in found.phrase


def test_a_loop_around_a_kernel_multiplies_its_cost() -> None:
    again = own(runs=RunCount(times=8))
    found = finding(beside(again))
    assert found is not None
    assert found.phrase.startswith("8.0× par's HBM bytes: 8 runs of double")
    assert finding(beside(again, again)) is None


def test_a_loop_whose_turns_nobody_knows_gets_no_verdict() -> None:
    found = finding(beside(own(runs=RunCount(untold=True))))
    assert found is not None
    assert found.phrase.startswith(
        "no verdict: the number of iterations of a loop around the kernel"
    )


def test_copies_by_hand_are_judged_by_the_schedule_of_the_side_that_makes_them() -> None:
    """Neither both index maps nor both schedules tell."""
    by_hand = replace(own(size=9_000_000), traffic=rows(matmul(), **BY_HAND))
    compared = cost.cost_beside_par(beside(by_hand, unscheduled("shared by two")))
    assert compared is not None
    assert compared.bytes == 9_000_000
    assert compared.par_bytes == unscheduled().traffic.bytes


@pytest.mark.parametrize(
    ("par", "why"),
    [
        (refused(), "a v5e refuses par: it needs more VMEM than it may have"),
        (
            OnChip(Problem(Stage.LOWER, "NotLowered", "sort")),
            "par can't be lowered: NotLowered: sort",
        ),
        (OnChip(), "par has no kernel"),
    ],
)
def test_where_par_itself_has_no_cost_the_star_is_not_judged(
    par: Prediction | OnChip, why: str
) -> None:
    assert cost.check(beside(own(cycles=9000), par)) == NotJudged(Check.COST, why)
    assert verdict(beside(own(cycles=9000), par)).stars == MAX_STARS - 1


def test_where_pars_bytes_are_not_known_the_star_is_not_judged() -> None:
    dark = unscheduled("a DMA", compiled=True, **BY_HAND)
    assert cost.check(beside(dark, dark)) == NotJudged(Check.COST, "a DMA")


def test_a_process_that_died_while_par_was_compiled_costs_the_star() -> None:
    died = OwnAndPar(OnChip(None, (own(),)), Accident("crashed", "It crashed."))
    found = cost.check(evidence(attempt(), on_chips=died))
    assert found == NotJudged(Check.COST, "the process that compiled par did not answer: crashed")
