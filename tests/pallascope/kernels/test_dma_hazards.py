"""What one core has under way, as a sequence of starts, waits, reads and writes."""

from __future__ import annotations

import pytest

from pallascope.kernels.dma_hazards import (
    MOST_FAULTS,
    BufferPart,
    Moment,
    OutstandingDma,
    OutstandingDmas,
    WaitsForever,
)
from pallascope.model import DmaHazard, SourceLine

X, SLOTS, OTHER = 100, 101, 102
SEM, SECOND = 2000, 2001
SIZE = 4096


def rows(buffer: int, start: int, stop: int, step: int = 1) -> BufferPart:
    return BufferPart(buffer, ((start, stop, step), (0, 128, 1)), (64, 128))


def flight(slot: int, semaphore: int = SEM, size: int = SIZE, line: int = 1) -> OutstandingDma:
    """A copy of 8 rows of X into the slot's 8 rows."""
    block = slice(8 * slot, 8 * slot + 8)
    target = rows(SLOTS, block.start, block.stop)
    return OutstandingDma(rows(X, 0, 8), target, semaphore, size, Moment(SourceLine(line, "")))


def found(core: OutstandingDmas) -> list[DmaHazard]:
    return [fault.hazard for fault in core.seen()]


NOW = Moment(SourceLine(9, ""))


def test_what_was_waited_for_may_be_read() -> None:
    core = OutstandingDmas()
    core.start(flight(0))
    core.wait(SEM, SIZE, NOW)
    core.read(rows(SLOTS, 0, 8), NOW)
    core.end()
    assert not found(core)


def test_one_slot_may_be_read_while_another_arrives() -> None:
    core = OutstandingDmas()
    core.start(flight(0))
    core.wait(SEM, SIZE, NOW)
    core.start(flight(1))
    core.read(rows(SLOTS, 0, 8), NOW)
    assert not found(core)
    core.read(rows(SLOTS, 7, 9), NOW)
    assert found(core) == [DmaHazard.READ_EARLY]


def test_rows_between_those_that_arrive_may_be_read() -> None:
    core = OutstandingDmas()
    core.start(OutstandingDma(rows(X, 0, 4), rows(SLOTS, 0, 8, 2), SEM, SIZE, NOW))
    core.read(rows(SLOTS, 1, 8, 2), NOW)
    assert not found(core)
    core.read(rows(SLOTS, 2, 8, 2), NOW)
    assert found(core) == [DmaHazard.READ_EARLY]


@pytest.mark.parametrize("waits", [(SIZE,) * 3, (3 * SIZE,), (SIZE, 2 * SIZE)])
def test_copies_that_share_a_semaphore_end_when_all_bytes_were_waited_for(
    waits: tuple[int, ...],
) -> None:
    core = OutstandingDmas()
    for slot in range(3):
        core.start(flight(slot))
    for size in waits[:-1]:
        core.wait(SEM, size, NOW)
    core.read(rows(SLOTS, 0, 8), NOW)
    assert found(core) == [DmaHazard.READ_EARLY]
    core.wait(SEM, waits[-1], NOW)
    core.read(rows(SLOTS, 0, 24), NOW)
    assert len(found(core)) == 1


def test_a_wait_that_nothing_ends_raises() -> None:
    core = OutstandingDmas()
    core.start(flight(0, SECOND))
    with pytest.raises(WaitsForever):
        core.wait(SEM, SIZE, NOW)
    (fault,) = core.seen()
    assert fault.hazard is DmaHazard.NO_START
    assert [one.semaphore for one in fault.elsewhere] == [SECOND]


def test_a_wait_for_nothing_ends() -> None:
    core = OutstandingDmas()
    core.wait(SEM, 0, NOW)
    core.start(flight(0, size=0))
    core.wait(SEM, 0, NOW)
    core.end()
    assert not found(core)


def test_what_is_left_at_the_end_is_told_for_each_semaphore() -> None:
    core = OutstandingDmas()
    for _ in range(3):
        core.start(flight(0))
        core.wait(SEM, SIZE, NOW)
    core.start(flight(0))
    core.start(flight(1, SECOND, line=2))
    core.end()
    last, only = core.seen()
    assert last.hazard is only.hazard is DmaHazard.NEVER_AWAITED
    assert (last.number, last.started) == (1, 4)
    assert (only.number, only.started) == (1, 1)


def test_a_buffer_that_ceases_to_exist_takes_its_copies_along() -> None:
    core = OutstandingDmas()
    core.start(flight(0))
    core.end(of=OTHER)
    assert not found(core)
    core.end(of=SLOTS)
    assert found(core) == [DmaHazard.NEVER_AWAITED]
    core.end()
    assert len(found(core)) == 1


def test_garbage_is_told_only_of_what_copies_fill() -> None:
    for filled in (True, False):
        core = OutstandingDmas()
        core.holds_garbage(SLOTS, (64, 128))
        core.write(rows(SLOTS, 0, 8), NOW)
        core.read(rows(SLOTS, 0, 8), NOW)
        core.read(rows(SLOTS, 8, 16), NOW)
        if filled:
            core.start(flight(1))
            core.wait(SEM, SIZE, NOW)
            core.read(rows(SLOTS, 8, 16), NOW)
        assert found(core) == [DmaHazard.NOTHING_THERE] * filled


def test_only_the_first_faults_are_kept() -> None:
    core = OutstandingDmas()
    core.start(flight(0))
    for _ in range(3 * MOST_FAULTS):
        core.write(rows(SLOTS, 0, 8), NOW)
    assert found(core) == [DmaHazard.OVERWRITES_ARRIVING] * MOST_FAULTS


def test_a_core_that_others_send_to_is_left_alone() -> None:
    core = OutstandingDmas()
    core.start(flight(0))
    core.read(rows(SLOTS, 0, 8), NOW)
    core.leave_alone()
    core.wait(SECOND, SIZE, NOW)
    core.end()
    assert not found(core)
