"""The predicted timeline in the trace-event format."""

from __future__ import annotations

import dataclasses
import itertools
import json
from typing import Any

import pytest

from pallascope.tpu import Prediction
from pallascope.tpu.perfetto import lanes, trace
from pallascope.tpu.schedule import Transfer
from tests.pallascope.support.sample_predictions import (
    SIZE,
    matmul,
    prediction,
    refused,
    rows,
    schedule,
    stalls,
    transfers,
)
from tests.pallascope.support.trace_events import Drawn, Lanes, read

STEPS, CORE, BUS = "grid steps", "core", "HBM"
CYCLE = 1 / 1.5  # ns, on a v5e


def ran(cycles: float = 9000, grid: tuple[int, ...] = (2, 1, 2), **events: Any) -> Prediction:
    """Four steps: six turns."""
    given: dict[str, Any] = {
        "turns": (30.0, 90.0, 1500.0, 3000.0, 4500.0, 6000.0),
        "transfers": transfers(60, 180, 1600, 3100),
        "stalls": stalls((100, 760), (1700, 2300), (8000, 8900)),
        **events,
    }
    made = schedule(cycles, 100, size=4 * SIZE, **given)
    return prediction(made, traffic=dataclasses.replace(rows(matmul()), grid=grid))


def only(kernel: Prediction, most: int = 100) -> Lanes:
    """The lanes of the one kernel of a trace."""
    (found,) = read(trace([("yours", [kernel])], most)).values()
    return found


def spans(lane: list[Drawn]) -> list[tuple[str, int, int]]:
    return [(one.name, round(one.start / CYCLE), round(one.end / CYCLE)) for one in lane]


def test_a_lane_shows_the_steps_of_the_grid() -> None:
    assert spans(only(ran())[STEPS]) == [
        ("setup", 0, 30),
        ("first blocks move in", 30, 90),
        ("step 0 (0, 0, 0)", 90, 1500),
        ("step 1 (0, 0, 1)", 1500, 3000),
        ("step 2 (1, 0, 0)", 3000, 4500),
        ("step 3 (1, 0, 1)", 4500, 6000),
        ("last blocks move out", 6000, 9000),
    ]


def test_along_one_axis_the_number_of_a_step_is_enough() -> None:
    names = [one.name for one in only(ran(grid=(4,)))[STEPS]]
    assert names[2:4] == ["step 0", "step 1"]


@pytest.mark.parametrize("grid", [(), (1,), (7,), (None, 2)], ids=str)
def test_turns_that_are_no_steps_are_not_called_so(grid: Any) -> None:
    """A loop inside the only step of a grid, or a grid that is not known."""
    names = [one.name for one in only(ran(grid=grid))[STEPS]]
    assert names == ["setup", "turn 0", "turn 1", "turn 2", "turn 3", "turn 4", "turn 5"]


def test_one_step_is_one_slice() -> None:
    assert spans(only(ran(turns=(), grid=()))[STEPS]) == [("double", 0, 9000)]


def test_a_lane_shows_when_the_core_waits() -> None:
    assert spans(only(ran())[CORE]) == [
        ("computes", 0, 100),
        ("waits for x_ref", 100, 760),
        ("computes", 760, 1700),
        ("waits for x_ref", 1700, 2300),
        ("computes", 2300, 8000),
        ("waits for x_ref", 8000, 8900),
        ("computes", 8900, 9000),
    ]


def test_waiting_from_the_first_cycle_to_the_last() -> None:
    waited = ran(stalls=stalls((0, 400), (400, 9000)))
    assert [name for name, _, _ in spans(only(waited)[CORE])] == ["waits for x_ref"] * 2


def test_waiting_for_no_operand_is_for_a_semaphore() -> None:
    (stall,) = stalls((10, 20))
    waited = ran(stalls=(dataclasses.replace(stall, operand=""),))
    assert spans(only(waited)[CORE])[1] == ("waits for a semaphore", 10, 20)


def test_transfers_that_overlap_have_lanes_of_their_own() -> None:
    found = only(ran())
    assert spans(found["x_ref in"]) == [
        ("x_ref in", 60, 760),
        ("x_ref in", 1600, 2300),
        ("x_ref in", 3100, 3800),
    ]
    assert spans(found["x_ref in (2)"]) == [("x_ref in", 180, 880)]
    assert [one.args["bytes"] for one in found["x_ref in"]] == [SIZE] * 3


def test_each_operand_and_direction_has_its_lanes() -> None:
    out = Transfer("o_ref", False, 200, 900, SIZE)
    back = Transfer("x_ref", False, 300, 1000, SIZE)
    found = only(ran(transfers=(*transfers(60), *transfers(130, operand="y_ref"), out, back)))
    assert list(found) == [STEPS, CORE, BUS, "x_ref in", "y_ref in", "o_ref out", "x_ref out"]


def test_one_lane_shows_the_bytes_on_their_way() -> None:
    found = spans(only(ran())[BUS])
    assert found[:2] == [("x_ref in", 60, 120), ("x_ref in", 180, 240)]  # 32 KiB at 819 GB/s


@pytest.mark.parametrize("cycles", [9000, 9000.4, 123_456.789])
def test_the_steps_take_all_cycles(cycles: float) -> None:
    steps = only(ran(cycles))[STEPS]
    assert steps[0].start == 0
    assert steps[-1].end == round(cycles * CYCLE)
    assert all(a.end == b.start for a, b in itertools.pairwise(steps))
    assert sum(one.end - one.start for one in only(ran(cycles))[CORE]) == round(cycles * CYCLE)


def test_slices_that_touch_do_not_overlap_when_rounded() -> None:
    """A third of a cycle is no whole number of nanoseconds."""
    turns = tuple(30 + n / 3 for n in range(3000))
    assert len(only(ran(turns=turns, grid=()), 5000)[STEPS]) == 3001


# ---- what is too long to be shown ----


@pytest.mark.parametrize(
    ("events", "end"),
    [
        (
            {"turns": (30.0, 90.0, 1500.0, 3000.0), "stalls": stalls((1, 2), (2990, 3010))},
            3000,
        ),
        ({"transfers": transfers(60, 180, 1600, 2900)}, 2900),
        ({"stalls": stalls((100, 760), (1700, 2300), (2400, 2500), (2600, 2700))}, 2700),
    ],
    ids=["turns", "transfers", "stalls"],
)
def test_all_lanes_end_where_the_first_list_does(events: Any, end: int) -> None:
    few = {"turns": (30.0,), "transfers": transfers(60), "stalls": stalls((100, 760)), **events}
    found = only(ran(**few), most=4)
    name, last, stop = spans(found[STEPS])[-1]
    assert (name, stop) == ("the rest, not shown", 9000)
    assert last == max(turn for turn in (0, *few["turns"]) if turn < end)
    assert spans(found[CORE])[-1][2] == end
    starts = [one.start for lane, drawn in found.items() if lane != STEPS for one in drawn]
    assert max(starts) * 1.5 <= end


def test_steps_keep_their_names_where_the_end_is_not_shown() -> None:
    names = [one.name for one in only(ran(turns=(30.0, 90.0, 1500.0, 3000.0)), most=4)[STEPS]]
    assert names == ["setup", "first blocks move in", "step 0 (0, 0, 0)", "the rest, not shown"]


# ---- kernels and launches ----


def test_kernels_of_a_launch_follow_one_another() -> None:
    second = dataclasses.replace(ran(), call=dataclasses.replace(matmul(), name="second"))
    found = read(trace([("yours", [ran(), second]), ("par", [ran()])]))
    assert list(found) == ["v5e yours: double", "v5e yours: second", "v5e par: double"]
    starts = [lanes_of[STEPS][0].start for lanes_of in found.values()]
    assert starts == [0, round(9000 * CYCLE), 0]


def test_kernels_of_one_name_are_told_apart() -> None:
    found = read(trace([("yours", [ran(), ran()])]))
    assert list(found) == ["v5e yours: double", "v5e yours: double (2)"]


def test_a_kernel_without_a_schedule_is_left_out() -> None:
    found = read(trace([("yours", [refused(), ran(), prediction()])]))
    assert list(found) == ["v5e yours: double"]
    assert found["v5e yours: double"][STEPS][0].start == 0


def test_it_says_that_nothing_was_run() -> None:
    content = json.loads(trace([("yours", [ran()])]))
    assert "nothing was run" in content["otherData"]["notice"]


def test_lanes_are_sorted_as_they_come() -> None:
    events = json.loads(trace([("yours", [ran()])]))["traceEvents"]
    order = [e["args"]["sort_index"] for e in events if e["name"] == "thread_sort_index"]
    assert order == list(range(1, len(lanes(ran())) + 1))
