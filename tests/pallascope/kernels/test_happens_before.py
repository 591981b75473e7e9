"""What is wrong in an exchange between devices, without running one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from pallascope.kernels.dma_hazards import BufferPart
from pallascope.kernels.happens_before import (
    Area,
    DeviceAccess,
    DeviceCopy,
    DeviceEventLog,
    Signal,
    Wait,
    left_over,
    unbegun,
    unordered,
)
from pallascope.model import DeviceHazard

DEVICES, SIZE, FIRST = 4, 8, 10
#: The barrier semaphore, and those of the kernel.
BARRIER, SEND, RECV, FREE = 0, 20, 30, 40
#: What a device does, one after the other, as a function of its number.
Program = Callable[["Device"], None]


class Device:
    """One device of a ring, which says what it does."""

    def __init__(self, exchange: DeviceEventLog, number: int) -> None:
        self.core, self.exchange = (number, 0), exchange
        self.right, self.left = (number + 1) % DEVICES, (number - 1) % DEVICES

    def _at(self) -> int:
        return self.exchange.at(self.core)

    def signal(self, other: int, semaphore: int) -> None:
        self.exchange.add(Signal(self.core, self._at(), (other, semaphore), 1))

    def wait(self, semaphore: int, count: int = SIZE) -> None:
        self.exchange.add(Wait(self.core, self._at(), (self.core[0], semaphore), count))

    def send(self, slot: int, to: int | None = None, semaphore: int = RECV) -> None:
        """Copy buffer 1 to a row of buffer 2 of the device on the right."""
        there = self.right if to is None else to
        source, target = self._area(1, 0), Area((there, 0), _row(2, slot))
        came, left = (there, semaphore), (self.core[0], SEND)
        self.exchange.add(DeviceCopy(self.core, self._at(), source, target, came, left, SIZE))

    def read(self, slot: int) -> None:
        self._touch(self._area(2, slot), False)

    def write_source(self) -> None:
        self._touch(self._area(1, 0), True)

    def _touch(self, area: Area, writes: bool) -> None:
        self.exchange.touches[DeviceAccess(self.core, self._at(), area, writes)] = None

    def _area(self, buffer: int, row: int) -> Area:
        return Area(self.core, _row(buffer, row))

    def barrier(self) -> None:
        self.signal(self.left, BARRIER)
        self.signal(self.right, BARRIER)
        self.wait(BARRIER, 2)


def _row(buffer: int, row: int) -> BufferPart:
    return BufferPart(buffer, ((row, row + 1, 1),), (4,))


def _found(program: Program) -> list[DeviceHazard]:
    """The hazards of a program that all devices run, each once."""
    exchange = DeviceEventLog(complete=True)
    for number in range(DEVICES):
        device = Device(exchange, number)
        exchange.at(device.core)
        program(device)
    judges = unbegun, left_over, unordered
    wrong = [one.hazard for judge in judges for one in judge(exchange, FIRST)]
    return list(dict.fromkeys(wrong))


def _hop(device: Device, slot: int, semaphore: int = RECV) -> None:
    device.send(slot, semaphore=semaphore)
    device.wait(SEND)
    device.wait(semaphore)
    device.read(slot)


def _ring(device: Device) -> None:
    device.barrier()
    _hop(device, 0)
    device.signal(device.left, FREE)
    device.wait(FREE, 1)
    _hop(device, 0)


def _slots_of_their_own(device: Device) -> None:
    device.barrier()
    for slot in range(3):
        _hop(device, slot, RECV + slot)


def _hears_the_right(device: Device) -> None:
    device.signal(device.left, BARRIER)
    device.wait(BARRIER, 1)
    _hop(device, 0)


def _no_barrier(device: Device) -> None:
    _hop(device, 0)


def _hears_the_left(device: Device) -> None:
    device.signal(device.right, BARRIER)
    device.wait(BARRIER, 1)
    _hop(device, 0)


def _hears_one_of_two(device: Device) -> None:
    device.signal(device.left, BARRIER)
    device.signal(device.right, BARRIER)
    device.wait(BARRIER, 1)
    _hop(device, 0)
    device.wait(BARRIER, 1)


def _two_barriers(device: Device) -> None:
    device.barrier()
    device.barrier()
    _hop(device, 0)


def _no_credit(device: Device) -> None:
    device.barrier()
    _hop(device, 0)
    _hop(device, 0)


def _credit_to_itself(device: Device) -> None:
    device.barrier()
    _hop(device, 0)
    device.signal(device.core[0], FREE)
    device.wait(FREE, 1)
    _hop(device, 0)


def _one_semaphore(device: Device) -> None:
    device.barrier()
    for slot in range(3):
        _hop(device, slot)


def _reads_first(device: Device) -> None:
    device.barrier()
    device.send(0)
    device.read(0)
    device.wait(SEND)
    device.wait(RECV)


def _changes_what_leaves(device: Device) -> None:
    device.barrier()
    device.send(0)
    device.write_source()
    device.wait(SEND)
    device.wait(RECV)


def _never_waits_for_the_send(device: Device) -> None:
    device.barrier()
    device.send(0)
    device.wait(RECV)


def _a_signal_too_many(device: Device) -> None:
    _ring(device)
    device.signal(device.left, FREE)


def _all_to_one_place(device: Device) -> None:
    for other in range(DEVICES):
        device.signal(other, BARRIER)
    device.wait(BARRIER, DEVICES)
    for distance in (1, 2, 3):
        device.send(0, (device.core[0] + distance) % DEVICES)
    device.wait(SEND, 3 * SIZE)
    device.wait(RECV, 3 * SIZE)


@pytest.mark.parametrize("program", [_ring, _slots_of_their_own, _hears_the_right, _two_barriers])
def test_what_is_right_in_every_order_is_right(program: Program) -> None:
    assert _found(program) == []


@pytest.mark.parametrize(
    ("program", "hazards"),
    [
        (_no_barrier, [DeviceHazard.NO_BARRIER]),
        (_hears_the_left, [DeviceHazard.NO_BARRIER]),
        (_hears_one_of_two, [DeviceHazard.NO_BARRIER]),
        (_no_credit, [DeviceHazard.IN_USE]),
        (_credit_to_itself, [DeviceHazard.IN_USE]),
        (_one_semaphore, [DeviceHazard.SHARED]),
        (_reads_first, [DeviceHazard.EARLY]),
        (_changes_what_leaves, [DeviceHazard.STILL_SENT]),
        (_never_waits_for_the_send, [DeviceHazard.NEVER_AWAITED]),
        (_a_signal_too_many, [DeviceHazard.LEFT_OVER]),
        (_all_to_one_place, [DeviceHazard.BOTH_WRITE]),
    ],
)
def test_what_is_wrong_in_some_order_is_found(
    program: Program, hazards: Sequence[DeviceHazard]
) -> None:
    assert set(hazards) <= set(_found(program))
