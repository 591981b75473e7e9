"""What is said where each device works on a larger part of an array than par's do."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from grader.checks.prose import listed, paragraph
from grader.model import ArrayType, KernelCall, Role

_MOST = 3  # that are told


@dataclass(frozen=True, slots=True)
class LargerPart:
    """An operand of a kernel whose array is larger, on each device, than in par's kernel."""

    kernel: str
    operand: str
    own: ArrayType
    par: ArrayType

    @property
    def ratio(self) -> float:
        """How many times as many elements it has."""
        return _size(self.own) / max(_size(self.par), 1)

    def __str__(self) -> str:
        return f"{self.operand} of {self.kernel} stands for {self.own}, par's for {self.par}"


def larger_parts(own: Sequence[KernelCall], par: Sequence[KernelCall]) -> tuple[LargerPart, ...]:
    """The operands that have the same names in both launches, those with most elements first."""
    return tuple(sorted(_larger(own, par), key=lambda part: -_size(part.own)))


def in_words(parts: Sequence[LargerPart]) -> tuple[str, list[str]]:
    """The end of a phrase, and paragraphs: what is larger, why that costs, and what to try."""
    first = parts[0]
    names = listed(dict.fromkeys(part.operand for part in parts[:_MOST]))
    phrase = f"each chip works on {first.ratio:.1f}× par's part of {first.operand}"
    return phrase, [
        paragraph("parts", "\n".join(map(str, parts[:_MOST]))),
        paragraph(
            "why",
            "Where in_specs doesn't name an axis, all chips along it get the same part: each "
            "reads it, and does the same work as the others.",
        ),
        paragraph("try", f"Let in_specs cut {names} along an axis that isn't named for them yet."),
    ]


def _larger(own: Sequence[KernelCall], par: Sequence[KernelCall]) -> Iterator[LargerPart]:
    beside = {call.name: {o.name: o.array for o in call.operands} for call in par}
    for call in own:
        for operand in call.role(Role.INPUT, Role.OUTPUT):
            array = beside.get(call.name, {}).get(operand.name)
            if array is not None and _size(operand.array) > _size(array):
                yield LargerPart(call.name, operand.name, operand.array, array)


def _size(array: ArrayType) -> int:
    return math.prod(array.shape)
