"""NaN where numbers belong: from past an edge, from an input, from the arithmetic itself."""

from __future__ import annotations

import numpy as np

from grader.checks.diagnoses.suspect import Diagnosis, Suspect
from grader.checks.prose import listed
from grader.model import Operand, Role


def padding_used(suspect: Suspect) -> Diagnosis | None:
    """NaN from past an input's edge, as a run with no other NaN has shown."""
    if not suspect.wrong_nan.any():
        return None
    used = suspect.padding or ()
    ragged = [place for place in ragged_inputs(suspect) if place[0].name in used]
    return _of_padding(list({place[0].name: place for place in reversed(ragged)}.values()))


def padding_likely(suspect: Suspect) -> Diagnosis | None:
    """NaN from unwritten memory, where the last block of some input overhangs the array."""
    if suspect.padding is not None or not suspect.garbage:
        return None
    ragged = ragged_inputs(suspect)
    summed = [place for place in ragged if not _kept(suspect, place)] or ragged
    return _of_padding(list({place[0].name: place for place in reversed(summed)}.values()))


def _of_padding(ragged: list[tuple[Operand, int]]) -> Diagnosis | None:
    """What to say of the padding of these operands, along these of their dimensions."""
    if not ragged:
        return None
    names = listed(dict.fromkeys(operand.name for operand, _ in reversed(ragged)))
    operand, axis = ragged[-1]
    size, block = operand.array.shape[axis], operand.block[axis] or 1
    whose = "Its" if len(ragged) == 1 else f"{operand.name}'s"
    return Diagnosis(
        f"padding of {names} was used",
        f"The padding of {names} was used. {whose} dimension {axis} has {size} elements in "
        f"blocks of {block}, so the last block holds only {size % block} of them: what is past the "
        "edge is garbage. Before anything is computed with it, replace it by what does not count: "
        "jnp.where(mask, value, 0) for a sum or a product, -inf in place of 0 for a maximum or an "
        "exponential. A product with zero keeps NaN.",
    )


def nan_of_an_input(suspect: Suspect) -> Diagnosis | None:
    """NaN where an input holds NaN or infinity that the result must not depend on."""
    if not suspect.computed_nan:
        return None
    given = [
        (name, "NaN" if np.isnan(value).any() else "infinity")
        for name, value in (suspect.inputs or {}).items()
        if not np.isfinite(value).all()
    ]
    if not given:
        return None
    names = listed(name for name, _ in given)
    held = " and ".join(f"{name} holds {what}" for name, what in given)
    return Diagnosis(
        f"NaN from what {names} {'holds' if len(given) == 1 else 'hold'}",
        f"In this case {held} in places that must not count, and some of it got into the result. "
        "Such elements have to be replaced before anything is computed with them, by "
        "jnp.where(mask, value, 0): zero times NaN is NaN, and so is zero times infinity. Where "
        "that is done, look at the mask, and at rows without any element that counts: -inf minus "
        "-inf is NaN, too.",
        vague=True,
    )


def nan_of_some_kind(suspect: Suspect) -> Diagnosis | None:
    """NaN in a run that cannot tell where it comes from."""
    nan = suspect.wrong_nan
    if suspect.strict or not nan.any():
        return None
    return Diagnosis(
        "NaN where numbers belong",
        "NaN stands where numbers belong: from memory that nothing had written, or from "
        "arithmetic such as 0/0 or inf − inf. The strict interpreter (--kata-mode strict) can "
        "tell which.",
        vague=True,
    )


def computed_nan(suspect: Suspect) -> Diagnosis | None:
    """NaN that the arithmetic itself produced."""
    if not suspect.computed_nan:
        return None
    return Diagnosis(
        "NaN from arithmetic",
        "The arithmetic itself produces NaN, whatever was in memory before: 0/0, inf − inf, "
        "inf × 0, or the logarithm or root of a negative number.",
        vague=True,
    )


def ragged_inputs(suspect: Suspect) -> list[tuple[Operand, int]]:
    """Input dimensions that their block does not divide, the summed ones first.

    A dimension that the result has too only affects what is past the result's own edge.
    """
    ragged = [
        (operand, axis)
        for operand in suspect.refs(Role.INPUT)
        for axis, block in enumerate(operand.block)
        if block and operand.array.shape[axis] % block
    ]
    return sorted(ragged, key=lambda place: _kept(suspect, place))


def _kept(suspect: Suspect, place: tuple[Operand, int]) -> bool:
    """Whether the result has a dimension of the same size."""
    operand, axis = place
    return operand.array.shape[axis] in suspect.result.actual.shape
