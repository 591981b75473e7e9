"""Why the compiler refuses a kernel, for a screen that is given no better words."""

from __future__ import annotations

from collections.abc import Iterator

from grader.model import KernelCall
from grader.tpu.libtpu_errors import Failure, Kind
from grader.tpu.smaller_blocks import fitting
from grader.tpu.units import bytes_of


def refusal(call: KernelCall, failure: Failure) -> str:
    """The compiler's reason as a message with labelled paragraphs."""
    return "\n".join([failure.message, *_paragraphs(call, failure)])


def _paragraphs(call: KernelCall, failure: Failure) -> Iterator[str]:
    if failure.wanted and failure.limit:
        yield f"  needs  {bytes_of(failure.wanted)}, of {bytes_of(failure.limit)}"
    for one in sorted(failure.allocations, key=lambda one: -one.size):
        name = one.name or one.use.value
        held = f"{one.buffers} × {one.shape}" if one.buffers > 1 else one.shape
        yield f"           {name}  {held}  {bytes_of(one.size)}"
    if failure.kind is Kind.VMEM and (fits := fitting(call, failure.limit, failure.wanted)):
        yield f"  fits   {', '.join(f'{fit.block} of {fit.name}' for fit in fits)}"
    if failure.place:
        yield f"  line   {failure.file}:{failure.place.line}\n           {failure.place.text}"
