"""What is wrong in an exchange between devices, in names of the kernel and lines of its file."""

from __future__ import annotations

from collections.abc import Callable

from grader.kernels.exchange import Copy, Exchange
from grader.kernels.exchange_faults import Wrong
from grader.kernels.ref_names import RefNames
from grader.model import Axes, Between, DeviceFault, devices_of


def fault_of(
    wrong: Wrong, exchange: Exchange, named: Callable[[int], str], names: RefNames, mesh: Axes
) -> DeviceFault:
    """One thing that is wrong; `named` tells what a kernel calls a semaphore."""
    copy, other = wrong.copy, wrong.other
    there = copy.target.of[0] if isinstance(copy, Copy) else copy.to[0]
    device = copy.core[0]
    if wrong.hazard in (Between.NEVER_AWAITED, Between.LEFT_OVER) and wrong.sem:
        device, there = wrong.sem[0], device
    return DeviceFault(
        wrong.hazard,
        device,
        there,
        devices_of(mesh),
        semaphore=named(wrong.sem[1]) if wrong.sem else "",
        count=wrong.count,
        line=copy.line,
        part=names.part(wrong.area.part) if wrong.area else "",
        use=other.line if other else None,
        why=wrong.why,
        hint=wrong.hint.line if wrong.hint else None,
        turn=exchange.turn(copy),
        use_turn=exchange.turn(other) if isinstance(other, Copy) else 0,
        remote=not isinstance(copy, Copy) or copy.remote,
        mesh=mesh,
    )


def only_axis(exchange: Exchange, mesh: Axes) -> str:
    """The axis along which all copies go, of a mesh that has several; else ""."""
    along = set[str]()
    for copy in exchange.copies():
        here, there = (_within(mesh, device) for device in (copy.core[0], copy.target.of[0]))
        along |= {name for name, _ in mesh if here[name] != there[name]}
    return along.pop() if len(mesh) > 1 and len(along) == 1 else ""


def _within(mesh: Axes, device: int) -> dict[str, int]:
    """A device's number along each axis."""
    found: dict[str, int] = {}
    for name, size in reversed(mesh):
        found[name], device = device % size, device // size
    return found
