"""What is said of results that don't come about by chance as they should."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from grader.checks.chance.bounds import SESSIONS
from grader.checks.chance.odds import Band
from grader.checks.chance.repetition import Again
from grader.checks.chance.throws import Throws
from grader.checks.prose import count, listed, number, paragraph
from grader.model import Check, Finding

#: Elements that are all off by one factor lie so near to it.
NEAR = 2.0**-6


_LIKE_WITH_LIKE = (
    "Compare like with like: pltpu.prng_random_bits returns int32, half of which are negative, and "
    "pltpu.bitcast makes uint32 of them, 0 to 2**32 - 1, all equally likely."
)
_FAIR = (
    "What decides has to be any number as likely as any other: as many random bits as are at "
    "stake, no more and no fewer, and none of them a sign."
)


@dataclass(frozen=True, slots=True)
class Words:
    """What an element is called in its two outcomes, and the blocks of the kernels' outputs."""

    names: tuple[str, str]
    blocks: tuple[tuple[int | None, ...], ...] = ()


def neither(throws: Throws, words: Words) -> Finding:
    """Of elements that nothing could have been drawn as."""
    low, high = words.names
    wrong = int(throws.neither.sum())
    part = f"{wrong:,} of {throws.actual.size:,} elements"
    headline = f"{throws.name}: {part} are neither {low} nor {high}"
    at = _worst(throws)
    where = listed(at) if len(at) == 1 else f"({', '.join(map(str, at))})"
    worst = (
        f"element {where}: got {number(throws.actual[at])}; {low} it is "
        f"{number(throws.low[at])}, {high} {number(throws.high[at])}"
    )
    if np.isnan(throws.actual).any():
        why = "Some are NaN: nothing has written them, or they came of something unwritten."
    else:
        why = _factor(throws, words)
    return _finding(headline, f"{headline}.", worst=worst, why=why)


def share(throws: Throws, all_of_it: Band, words: Words) -> Finding:
    """Of too many elements, or too few, that are high."""
    low, _ = words.names
    found, wanted = 1 - all_of_it.found, 1 - all_of_it.wanted
    headline = f"{throws.name}: {found:.1%} of the elements are {low}, instead of {wanted:.1%}"
    why = (
        f"Of {all_of_it.elements:,} elements, chance explains {wanted:.1%} ± "
        f"{all_of_it.explained:.1%}: it goes beyond that in less than one of {SESSIONS:,} sessions."
    )
    if found in (0, 1):
        why = f"All elements are alike, so nothing is left to chance. {why}"
    elif abs(found + wanted - 1) <= all_of_it.explained:
        why = f"It is the other way round: these are as many as should not be {low}. {why}"
    return _finding(
        headline,
        f"{headline}.",
        why=why,
        remedy=_FAIR if np.ptp(throws.chance) else _LIKE_WITH_LIKE,
    )


def odds(throws: Throws, by_chance: Sequence[Band], words: Words) -> Finding:
    """Of elements whose own chance doesn't decide."""
    _, high = words.names
    headline = f"{throws.name}: the odds are not those of each element"
    rows = [f"    should be {high}   are"]
    rows += [
        f"    {band.wanted:>{10 + len(high)}.1%}  {band.found:>6.1%}{'  #' if band.wrong else ''}"
        for band in by_chance
    ]
    found = np.array([band.found for band in by_chance])
    wanted = np.array([band.wanted for band in by_chance])
    why = ""
    if np.abs(found - np.round(wanted)).max() < 0.05:
        why = "The likelier outcome always comes about: nothing is left to chance."
    elif np.ptp(found) < 0.05 < np.ptp(wanted):
        why = "All elements have the same odds, whatever their own are."
    elif np.abs(found + wanted - 1).max() < 0.05:
        why = "The odds are the wrong way round."
    return _finding(headline, f"{headline}.", odds="\n".join(rows), why=why)


def repetition(throws: Throws, again: Again, words: Words) -> Finding:
    """Of bits that are used twice in one result."""
    further = _further(again)
    headline = f"{throws.name}: the same bits again, {further}"
    remedy = "Each element needs bits of its own, drawn in the shape of the block."
    if block := _of_blocks(again, words):
        remedy = (
            f"That is {block}. Steps that seed alike draw alike: let each block's seed depend on "
            "where the block is."
        )
    return _finding(headline, f"{headline}.", why=_alike(again), remedy=remedy)


def other_bits(
    first: Throws, other: Throws, part: float, shifted: Again | None, words: Words
) -> Finding:
    """Of two results that should be drawn by the same bits."""
    low, high = words.names
    headline = f"{other.name} is drawn by other bits than {first.name}"
    what = f"{headline}: {part:.1%} of the elements are {low} in one and {high} in the other."
    why = "Bits follow from the seed, from how often was drawn since, and from the shape."
    if shifted and (shifted.rows or shifted.columns):
        why = f"The bits of {first.name} are found in {other.name}, {_further(shifted)}."
    elif shifted:
        why += (
            f" Some elements do agree: {shifted.agree:.1%}, and by chance {shifted.expected:.1%}."
        )
    return _finding(
        headline,
        what,
        why=why,
        remedy="Draw again what was drawn: the same seed for the same block, in the same shape, "
        "with as many draws before.",
    )


def by_order(
    names: Sequence[str], one: Mapping[int, Throws], other: Mapping[int, Throws]
) -> Finding:
    """Of results that are others when the steps are taken in another order, on one core."""
    differ = [n for n in one if (one[n].is_high != other[n].is_high).any()]
    which = listed(names[n] for n in differ or range(len(names)))
    headline = "what is drawn depends on the order of the grid's steps"
    return _finding(
        headline,
        f"With its steps in another order, or on one core instead of two, the launch draws "
        f"something else in {which}.",
        why="A generator that goes on from step to step draws what the steps before have left. "
        "Cores share the steps, and each has a generator of its own.",
        remedy="Seed in every step, by what does not depend on the order: the seed and the "
        "block's place.",
        phrase=headline,
    )


def same_for_seeds(throws: Throws, again: Again, changed: str, words: Words) -> Finding:
    """Of a launch that draws alike for two seeds."""
    if not again.rows and not again.columns:
        headline = f"{throws.name}: another seed changes too little"
        if again.agree == 1:
            headline = f"{throws.name}: another seed changes nothing"
        what = (
            f"{headline}. With {changed}, {again.agree:.1%} of the elements are drawn as before; "
            f"by chance it would be {again.expected:.1%}."
        )
        remedy = "Let the generator's seed, or the key, depend on all of the seed that is given."
        return _finding(headline, what, remedy=remedy)
    further = _further(again)
    headline = f"{throws.name}: the next seed draws the same bits, {further}"
    return _finding(
        headline,
        f"{headline}: with {changed}.",
        why=f"{_alike(again)} Training counts its seeds up from step to step: nearly all "
        "bits would come again, only elsewhere.",
        remedy="Do not add up the seed and the block's number: the sum of one pair is the sum of "
        "many. Give prng_seed both, as two words, or fold the number into a key.",
    )


def _alike(again: Again) -> str:
    return (
        f"{again.agree:.1%} of the elements are drawn like those at that distance; by chance it "
        f"is {again.expected:.1%}."
    )


def _further(again: Again) -> str:
    """A distance in words: "64 rows further down"."""
    down = f"{count(abs(again.rows), 'row')} further {'down' if again.rows > 0 else 'up'}"
    side = "right" if again.columns > 0 else "left"
    across = f"{count(abs(again.columns), 'column')} further to the {side}"
    return listed([down] * bool(again.rows) + [across] * bool(again.columns))


def _of_blocks(again: Again, words: Words) -> str:
    """What a distance is in blocks of one of the kernels' outputs; "" if not a whole number."""
    for block in words.blocks:
        sizes = [size or 1 for size in block]
        rows, columns = ([1, *sizes])[-2:]
        if again.rows % rows == 0 and again.columns % columns == 0:
            steps = count(abs(again.rows) // rows, "block") if again.rows else ""
            beside = count(abs(again.columns) // columns, "block") if again.columns else ""
            return listed(filter(None, (steps and f"{steps} down", beside and f"{beside} across")))
    return ""


def _worst(throws: Throws) -> tuple[int, ...]:
    """The element that is furthest from both of its outcomes; NaN where there is one."""
    with np.errstate(invalid="ignore"):
        error = np.minimum(abs(throws.actual - throws.low), abs(throws.actual - throws.high))
    error = np.where(np.isfinite(error), error, np.inf)
    at = int(np.argmax(np.where(throws.neither, error, -1.0)))
    return tuple(int(i) for i in np.unravel_index(at, throws.actual.shape))


def _factor(throws: Throws, words: Words) -> str:
    """How far off those elements are: by one factor from being high, or by so many steps."""
    if not (throws.allowed[0].any() or throws.allowed[1].any()):
        return _steps(throws, words)
    wrong = throws.neither & (throws.high != 0)
    ratios = throws.actual[wrong] / throws.high[wrong]
    if not ratios.size:
        return ""
    middle = float(np.median(ratios))
    alike = np.abs(ratios - middle) <= NEAR * abs(middle)
    if np.abs(ratios - 1).max() <= NEAR:
        return (
            f"They are at most {np.abs(ratios - 1).max():.2%} off from what they are "
            f"{words.names[1]}, but that is more than rounding explains: compute in float32, and "
            "round once, at the end."
        )
    if alike.mean() < 0.9:
        return ""
    return f"They are {number(round(middle, 3))} times what they are {words.names[1]}."


def _steps(throws: Throws, words: Words) -> str:
    """How far off elements are that should be one of two neighbours."""
    wrong = throws.neither & (throws.high != throws.low)
    low, high, actual = throws.low[wrong], throws.high[wrong], throws.actual[wrong]
    off = np.minimum(abs(actual - low), abs(actual - high)) / abs(high - low)
    if not off.size:
        return ""
    beyond = abs(actual - low) < abs(actual - high)
    beyond &= np.sign(actual - low) != np.sign(high - low)
    if beyond.all():
        return (
            f"All of them lie beyond what they are {words.names[0]}, away from what they are "
            f"{words.names[1]}, as if what was added were negative: pltpu.prng_random_bits returns "
            "int32, half of which are negative, and >> copies the sign. pltpu.bitcast makes uint32 "
            "of them."
        )
    distances = number(round(float(np.median(off)), 3))
    return (
        f"Half of them miss the nearer of their two values by {distances} times the distance "
        "between the two, or more."
    )


def _finding(headline: str, what: str, phrase: str = "", remedy: str = "", **parts: str) -> Finding:
    lines = [what[0].upper() + what[1:]]
    lines += [paragraph(label, text) for label, text in parts.items() if text]
    if remedy:
        lines.append(paragraph("try", remedy))
    return Finding(Check.RANDOM, phrase or headline, "\n".join(lines))
