"""Chips side by side, in words."""

from __future__ import annotations

from grader.view.kernel_view import chip_table_of
from pallascope.model import ActionKind, CommTimeline, DeviceAction

SENDS = DeviceAction(ActionKind.SENDS, "x_ref", "o_ref[0]", 1, "recv[0]", 2048)
WAITS = DeviceAction(ActionKind.WAITS, semaphore="recv[0]", size=2048)
CHIPS = ((0, 0), (0, 1))


def test_a_send_is_with_the_chip_and_on_its_link() -> None:
    found = chip_table_of(CommTimeline(CHIPS, (((SENDS, WAITS), (WAITS,)),)))
    assert found
    assert found.chips == ("chip 0, 0", "chip 0, 1")
    first = "sends x_ref to chip 0, 1, into its o_ref[0]; recv[0] counts it"
    assert found.moments == (((first, "waits for recv[0]"), ("waits for recv[0]",)),)
    assert found.links == (("0, 0 → 0, 1: x_ref, 2 KiB",),)
    assert found.note == ""


def test_what_is_done_often_in_a_row_is_said_once() -> None:
    signal = DeviceAction(ActionKind.SIGNALS, to=1, semaphore="free", size=2)
    copy = DeviceAction(
        ActionKind.COPIES, "x_ref", "a buffer of a pipeline", semaphore="sem", size=512
    )
    found = chip_table_of(
        CommTimeline(
            CHIPS, (((signal, copy, copy), (DeviceAction(ActionKind.MULTIPLIES, size=4096),)),)
        )
    )
    assert found
    ((mine, others),) = found.moments
    assert mine[0] == "signals free of chip 0, 1 2 times"
    assert mine[1] == "copies x_ref to a buffer of a pipeline; sem counts it (2 times)"
    assert others == ("multiplies: 4,096 operations",)


def test_what_is_stuck_or_cut_short_says_so() -> None:
    stuck = chip_table_of(CommTimeline(CHIPS, (((SENDS,), (WAITS,)),), stuck=True))
    cut = chip_table_of(CommTimeline(CHIPS, (((SENDS,), ()),), whole=False))
    assert stuck
    assert cut
    assert "never comes" in stuck.note
    assert "goes on" in cut.note


def test_chips_that_have_nothing_to_do_with_each_other_are_not_drawn() -> None:
    assert chip_table_of(CommTimeline(CHIPS, (((WAITS,), ()),))) is None
