"""Chips side by side, in words."""

from __future__ import annotations

import itertools

from grader.model import Act, Deed, SideBySide
from grader.tpu.units import bytes_of
from grader.view.document import Meeting

_CUT = "It goes on: no more than this is drawn."
_STUCK = "From here on, chips wait for what never comes."


def meeting_of(chips: SideBySide) -> Meeting | None:
    """What the page shows of it; None where nothing goes from chip to chip."""
    names = [", ".join(map(str, place)) for place in chips.chips]
    deeds = [deed for moment in chips.moments for chip in moment for deed in chip]
    if not any(deed.act in (Act.SENDS, Act.SIGNALS) for deed in deeds):
        return None
    return Meeting(
        chips=tuple(f"chip {name}" for name in names),
        moments=tuple(
            tuple(tuple(_counted([_said(deed, names) for deed in chip])) for chip in moment)
            for moment in chips.moments
        ),
        links=tuple(
            tuple(
                f"{names[number]} → {names[deed.to]}: {deed.what}, {bytes_of(deed.size)}"
                for number, chip in enumerate(moment)
                for deed in chip
                if deed.act is Act.SENDS
            )
            for moment in chips.moments
        ),
        note=_STUCK if chips.stuck else "" if chips.whole else _CUT,
    )


def _said(deed: Deed, names: list[str]) -> str:
    times = f" {deed.size} times" if deed.size != 1 else ""
    match deed.act:
        case Act.SENDS:
            to = f"chip {names[deed.to]}"
            return f"sends {deed.what} to {to}, into its {deed.into}; {deed.semaphore} counts it"
        case Act.COPIES:
            return f"copies {deed.what} to {deed.into}; {deed.semaphore} counts it"
        case Act.SIGNALS:
            return f"signals {deed.semaphore} of chip {names[deed.to]}{times}"
        case Act.GETS:
            return f"has waited for {deed.semaphore}"
        case Act.WAITS:
            return f"waits for {deed.semaphore}"
        case Act.MULTIPLIES:
            return f"multiplies: {deed.size:,} operations"


def _counted(phrases: list[str]) -> list[str]:
    """The same phrase several times in a row, once."""
    found = []
    for phrase, group in itertools.groupby(phrases):
        count = len(list(group))
        found.append(f"{phrase} ({count} times)" if count > 1 else phrase)
    return found
