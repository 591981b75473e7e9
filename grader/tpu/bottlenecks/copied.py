"""Arrays that XLA copies around a kernel, so that an output may lie where another array does."""

from __future__ import annotations

from collections.abc import Iterator

from grader.model import CopyReason
from grader.tpu.bottlenecks.bottleneck import Bottleneck
from grader.tpu.prediction import Prediction
from grader.tpu.units import bytes_of

_WHY = {
    CopyReason.KEPT: (
        "XLA copies {} before the kernel, {}: an output takes its place, by input_output_aliases, "
        "and the launch's caller keeps it."
    ),
    CopyReason.READ_LATER: (
        "XLA copies {} before the kernel, {}: an output takes its place, by input_output_aliases, "
        "and it is read once more."
    ),
    CopyReason.ELSEWHERE: (
        "XLA copies {} after the kernel, {}: the caller donates the array that it is to replace, "
        "and the kernel writes it elsewhere."
    ),
    CopyReason.EXCHANGED: (
        "XLA copies {} twice after the kernel, {}: it and another output lie in each other's "
        "places, as input_output_aliases says."
    ),
}
_TRY = {
    CopyReason.KEPT: (
        "Alias an input only if the caller gives it away, by donate_argnames of jax.jit: the "
        "others are no places for results."
    ),
    CopyReason.READ_LATER: (
        "Alias an input only in the last kernel that reads it, and pass it to that kernel once."
    ),
    CopyReason.ELSEWHERE: (
        "Alias the input that the output replaces: input_output_aliases={position among the "
        "inputs: position among the outputs}."
    ),
    CopyReason.EXCHANGED: (
        "Alias each input with its own new value: input_output_aliases={position among the "
        "inputs: position among the outputs}."
    ),
}


def copied(own: Prediction, par: Prediction | None) -> Iterator[Bottleneck]:
    """XLA's copies, unless par has as many."""
    if par and len(own.copied) <= len(par.copied):
        return
    # Where outputs have changed places, that is why each of them is copied.
    ring = any(each.reason is CopyReason.EXCHANGED for each in own.copied)
    for each in own.copied:
        reason, label = each.reason, own.labels[each.operand]
        if ring and reason is CopyReason.ELSEWHERE:
            continue
        size = own.size_of(each) * (len(own.copied) if ring else 1)
        yield Bottleneck(
            f"XLA copies {label} {'after' if reason in _AFTER else 'before'} the kernel",
            _WHY[reason].format(label, f"{bytes_of(size)} in and out"),
            _TRY[reason],
            own.cycles_of(each),
            size if par else 0,
        )


_AFTER = (CopyReason.ELSEWHERE, CopyReason.EXCHANGED)
