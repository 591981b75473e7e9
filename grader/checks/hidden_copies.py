"""Are copies between chips hidden under matrix products, as they are in par?

No time is predicted for a kernel that communicates. But the order in which it starts copies, waits
and multiplies is known, and what is multiplied while nothing is on its way hides nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from grader.checks.prose import paragraph
from grader.model import Check, Finding
from grader.tpu import Prediction

#: Where par covers less than this, copies are not what its products are meant to hide.
WORTH_HIDING = 0.25
#: Of par's part, what is enough.
ENOUGH = 0.5


def waits_first(own: Sequence[Prediction], par: Sequence[Prediction]) -> Finding | None:
    """Reject a launch that multiplies before copies start, or after they have come, if par does so
    meanwhile."""
    mine, best = _covered(own), _covered(par)
    if mine is None or best is None or best < WORTH_HIDING or mine >= best * ENOUGH:
        return None
    part = f"{mine:.0%} of its matrix products are" if mine else "No matrix product is"
    lines = [
        "The links would be idle while the chip multiplies, and the chip while they are busy.",
        paragraph(
            "why",
            f"{part} computed between the start of a copy from another chip and the wait for it; "
            f"in par, {best:.0%} are.",
        ),
        paragraph(
            "try",
            "Start the copy, then multiply what is here already, and wait only when you need what "
            "comes.",
        ),
    ]
    much = "little" if mine else "nothing"
    return Finding(
        Check.COST, f"{much} is multiplied while blocks are on their way", "\n".join(lines)
    )


def _covered(side: Sequence[Prediction]) -> float | None:
    """The least of these kernels; None where it is known of none."""
    return min((one.covered for one in side if one.covered is not None), default=None)
