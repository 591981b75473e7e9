"""Copies by hand: the slots they use, what a slot does over time, and what overlaps."""

from __future__ import annotations

import jax
import pytest

from pallascope.model import Role
from pallascope.tpu import Prediction, compiler
from pallascope.tpu.dma_buffers import (
    MAX_SLOTS,
    ManualTransfer,
    Phase,
    manual_transfers,
    max_concurrent,
    overlap,
    slot_lanes,
)
from pallascope.tpu.perfetto import lanes
from pallascope.tpu.predict import predictions
from pallascope.tpu.schedule import Landing, Stall, Transfer
from pallascope.tpu.traffic import traffic
from tests.pallascope.support import manual_dma_launches as launches
from tests.pallascope.support.calls import call, operand
from tests.pallascope.support.launches import shape
from tests.pallascope.support.sample_predictions import prediction, schedule

needs_libtpu = pytest.mark.skipif(bool(compiler.unavailable_reason()), reason="libtpu")

#: Where the first and the second scratch operand begin. VMEM is counted in granules of 32 bytes.
BUFFER, FLAG = 3 << 18 << 4, 4 << 18
SLOT = 8 * 128 * 4 // 32
ELSEWHERE = 9 << 18 << 4


def moved(
    start: float, end: float, slot: str = "came[0]", awaited: float | None = None
) -> ManualTransfer:
    return ManualTransfer(Transfer("x_ref", True, start, end, 100), slot, "sem[0]", awaited)


def kernel(*places: int | None, flag: int = FLAG, buffers: int = 1) -> Prediction:
    """One that copies x_ref to each of these places, every 100 cycles, for 150 cycles each."""
    made = call(
        operand("x_ref", (64, 128), space="any"),
        *[operand("came", (2, 8, 128), role=Role.SCRATCH, space="vmem")] * buffers,
        operand("sem", (2,), role=Role.SCRATCH, dtype="dma_sem", space="semaphore_mem"),
        grid=(),
    )
    ran = schedule(
        cycles=1000,
        transfers=tuple(
            Transfer("x_ref", True, 100.0 * n, 100.0 * n + 150, 100) for n in range(len(places))
        ),
        landings=tuple(Landing(place, flag + n % 2, 400.0) for n, place in enumerate(places)),
        stalls=(Stall("x_ref", True, 50, 150), Stall("x_ref", True, 200, 250)),
    )
    return prediction(ran, call=made, traffic=traffic(made, (), (None,) * len(made.operands)))


def test_places_in_scratch_have_its_name_and_index() -> None:
    found = manual_transfers(kernel(BUFFER, BUFFER + SLOT, BUFFER))
    assert [(one.slot, one.semaphore, one.awaited) for one in found] == [
        ("came[0]", "sem[0]", 400.0),
        ("came[1]", "sem[1]", 400.0),
        ("came[0]", "sem[0]", 400.0),
    ]


def test_other_places_are_numbered_as_they_come() -> None:
    found = manual_transfers(kernel(ELSEWHERE + SLOT, ELSEWHERE, ELSEWHERE + SLOT, None))
    assert [one.slot for one in found] == ["slot 0", "slot 1", "slot 0", ""]


@pytest.mark.parametrize("further", [0, 1])
def test_scratch_follows_what_the_compiler_allocates_for_itself(further: int) -> None:
    """How much that is differs between versions: what is a buffer, what a semaphore, tells it."""
    more = further << 18
    (one,) = manual_transfers(kernel(BUFFER + SLOT + 16 * more, flag=FLAG + more))
    assert (one.slot, one.semaphore) == ("came[1]", "sem[0]")


def test_what_could_be_either_of_two_buffers_has_no_name() -> None:
    """A second buffer where one libtpu has the first: nothing tells which it is."""
    (one,) = manual_transfers(kernel(BUFFER, flag=ELSEWHERE, buffers=2))
    assert one.slot == "came[0]"
    (one,) = manual_transfers(kernel(BUFFER + (1 << 18 << 4), flag=ELSEWHERE, buffers=2))
    assert one.slot == "slot 0"


def test_what_index_maps_ask_for_is_not_copied_by_hand() -> None:
    ran = schedule(
        transfers=(Transfer("x_ref", True, 0, 9, 100),), landings=(Landing(BUFFER, FLAG),)
    )
    assert manual_transfers(prediction(ran)) == ()
    assert manual_transfers(prediction(unknown="no libtpu")) == ()


def test_a_slot_is_filled_then_there_then_in_use() -> None:
    found = slot_lanes([moved(10, 30, awaited=50), moved(90, 95, awaited=95)], 100)
    assert found == {
        "x_ref → came[0]": [
            Phase("x_ref in", 10, 30, 100),
            Phase("x_ref there, not waited for yet", 30, 50),
            Phase("x_ref in use", 50, 90),
            Phase("x_ref in", 90, 95, 100),
            Phase("x_ref in use", 95, 100),
        ]
    }


def test_a_copy_that_nobody_waits_for_is_never_in_use() -> None:
    (phases,) = slot_lanes([moved(10, 30)], 100).values()
    assert phases[1:] == [Phase("x_ref there, not waited for yet", 30, 100)]


def test_copies_to_one_slot_at_a_time_are_one_flight() -> None:
    (phases,) = slot_lanes([moved(10, 30, awaited=40), moved(20, 45, awaited=60)], 70).values()
    assert phases[0] == Phase("x_ref in", 10, 45, 200)
    assert phases[1].end == 60


def test_a_slot_that_is_emptied_is_free_once_that_is_waited_for() -> None:
    out = ManualTransfer(Transfer("o_ref", False, 0, 9, 100), "goes", "", 20)
    assert slot_lanes([out], 50) == {
        "goes → o_ref": [
            Phase("o_ref out", 0, 9, 100),
            Phase("o_ref gone, not waited for yet", 9, 20),
        ]
    }


def test_very_many_slots_share_a_lane() -> None:
    rows = [moved(n, n + 3, f"slot {n}", awaited=99) for n in range(MAX_SLOTS + 1)]
    assert list(slot_lanes(rows, 100)) == ["x_ref → 9 places"]
    assert len(slot_lanes(rows[1:], 100)) == MAX_SLOTS


def test_computing_hides_what_is_on_its_way_meanwhile() -> None:
    """The core waits from 50 to 150 and from 200 to 250; copies take 0 to 150 and 100 to 250."""
    made = kernel(BUFFER, BUFFER + SLOT)
    copies = manual_transfers(made)
    found = overlap(made, copies, 1000.0)
    assert (found.computing, found.hidden) == (850, 100)
    assert overlap(made, copies, 300.0).computing == 150
    assert overlap(made, [], 1000.0).share == 0
    assert (max_concurrent(copies), max_concurrent([])) == (2, 0)


def test_the_core_says_in_which_slot_it_waits_for_what() -> None:
    core = [one.name for one in lanes(kernel(BUFFER, BUFFER + SLOT))["core"]]
    waits = ["waits for x_ref (came[0])", "waits for x_ref (came[1])"]
    assert core == ["computes", waits[0], "computes", waits[1], "computes"]


@needs_libtpu
def test_slots_and_overlap_of_what_the_compiler_makes_of_a_double_buffer() -> None:
    jax.config.update("jax_platforms", "cpu")
    x = shape("float32", 512, 256)
    shares: list[float] = []
    for launch in (launches.double_buffer, launches.one_after_another):
        (found,) = predictions(launch, x, events=1000)
        copies = manual_transfers(found)
        names = [(c.transfer.operand, c.slot, c.semaphore) for c in copies if c.transfer.inward]
        assert names == [("x_ref", f"came[{n % 2}]", f"came_sem[{n % 2}]") for n in range(4)]
        assert all(one.awaited and one.awaited >= one.transfer.end for one in copies)
        assert found.schedule is not None
        shares.append(overlap(found, copies, found.schedule.cycles).share)
    assert shares[0] > 0.8 > 0.2 > shares[1]
