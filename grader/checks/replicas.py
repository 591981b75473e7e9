"""What is said of a result whose copies on several devices differ."""

from __future__ import annotations

from collections.abc import Sequence

from grader.checks.outside import SPELLINGS
from grader.checks.prose import listed, paragraph
from grader.model import Between, Check, DeviceFault, Finding, Operation


def copies_differ(faults: Sequence[DeviceFault], around: Sequence[Operation]) -> Finding | None:
    """Explain that a result which is called replicated is not.

    `around` are the operations outside of the launch's kernels.
    """
    fault = next((one for one in faults if one.hazard is Between.COPIES_DIFFER), None)
    if fault is None:
        return None
    axes = _named(fault.axes)
    phrase, why, advice = _differing(fault.axes, around)
    parts = [
        f"The copies of the result differ along {axes}: device {fault.device} holds other values "
        f"than device {fault.other}, and out_specs does not name {axes}.",
        paragraph(
            "why",
            "An axis of the mesh that out_specs does not name says that all devices along it hold "
            "the same. With check_vma=False nobody checks that, and each device goes on with its "
            f"own values. {why}",
        ),
        paragraph("try", advice),
    ]
    return Finding(Check.VALUES, phrase, "\n".join(parts))


def _differing(axes: tuple[str, ...], around: Sequence[Operation]) -> tuple[str, str, str]:
    """A phrase, what the launch does along these axes, and what to try."""
    phrase = f"the copies of the result differ along {_named(axes)}"
    adding = [one for one in around if one.axes and one.name != "axis_index"]
    over = [one for one in adding if {*one.axes} & {*axes}]
    if over:
        told = _collective(over[-1])
        return (
            f"{phrase} after {told}",
            f"{told[0].upper()}{told[1:]}{_line(over[-1])} does not make them the same: what comes "
            "after it, or beside it, differs from device to device.",
            "Look for what each device computes from its own part after that, or returns without "
            "it.",
        )
    term = (
        "Does each hold one term of a sum, because in_specs cuts the dimension that is summed over "
        f"along {_named(axes)}? Then add them up: jax.lax.psum(…, {_named(axes)}). Does each hold "
        f"a part of its own? Then let out_specs name {_named(axes)}."
    )
    if adding:
        told = _collective(adding[-1])
        why = f"Here {told}{_line(adding[-1])} is all that goes from one device to another."
        return f"{phrase}, and {told} is over another axis", why, term
    why = f"Nothing in this launch goes from one device to another along {_named(axes)}."
    return f"{phrase}, and nothing adds them up", why, term


def _collective(operation: Operation) -> str:
    name = SPELLINGS.get(operation.name, operation.name)
    return f"{name} over {_named(operation.axes)}"


def _line(operation: Operation) -> str:
    return f", on line {operation.line}," if operation.line else ""


def _named(axes: Sequence[str]) -> str:
    return listed(f'"{axis}"' for axis in axes)
