"""★ Are random results distributed as they should be? Messages on values, odds, repeated bits.

The solution gives the possible values of each element and their probabilities. The launch runs
three times: as it is; with its grid steps in another order, on one core; and with the next seed. At
production size nothing runs: there, the seeds of all grid steps are compared.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from grader.checks.evidence import TpuEvidence
from grader.checks.random_statistics import (
    SESSIONS,
    Again,
    Band,
    ErrorBudget,
    RandomResult,
    bands,
    off_by_chance,
    repeated_between,
    repeated_within,
)
from grader.exercise.key_tables import Randomness
from pallascope.checks.exceptions import accident_finding, complaint_finding, interpreter_finding
from pallascope.checks.phrasing import (
    count,
    listed,
    number,
    paragraph,
)
from pallascope.model import (
    Accident,
    Array,
    Check,
    Finding,
    Observation,
    Role,
    SameSeeds,
)

#: Elements that are all off by one factor are this close to it.
NEAR = 2.0**-6


_LIKE_WITH_LIKE = (
    "Compare like with like: pltpu.prng_random_bits returns int32, half of which are negative, and "
    "pltpu.bitcast makes uint32 of them, 0 to 2**32 - 1, all equally likely."
)
_FAIR = (
    "The number that decides must take all values equally often: use as many random bits as the "
    "decision needs, no more and no fewer, and none of them a sign."
)


@dataclass(frozen=True, slots=True)
class Words:
    """The names of an element's two outcomes, and the blocks of the kernels' outputs."""

    names: tuple[str, str]
    blocks: tuple[tuple[int | None, ...], ...] = ()


def neither(throws: RandomResult, words: Words) -> Finding:
    """For elements that equal neither of their outcomes."""
    low, high = words.names
    wrong = int(throws.neither.sum())
    part = f"{wrong:,} of {throws.actual.size:,} elements"
    headline = f"{throws.name}: {part} are neither {low} nor {high}"
    at = _worst(throws)
    where = listed(at) if len(at) == 1 else f"({', '.join(map(str, at))})"
    worst = (
        f"element {where}: got {number(throws.actual[at])}; {low} it would be "
        f"{number(throws.low[at])}, {high} {number(throws.high[at])}"
    )
    if np.isnan(throws.actual).any():
        why = "Some are NaN: nothing has written them, or they were computed from unwritten memory."
    else:
        why = _factor(throws, words)
    return _finding(headline, f"{headline}.", worst=worst, why=why)


def share_message(throws: RandomResult, all_of_it: Band, words: Words) -> Finding:
    """For too many elements, or too few, that are high."""
    low, _ = words.names
    found, wanted = 1 - all_of_it.found, 1 - all_of_it.wanted
    headline = f"{throws.name}: {found:.1%} of the elements are {low}, instead of {wanted:.1%}"
    why = (
        f"Of {all_of_it.elements:,} elements, chance explains {wanted:.1%} ± "
        f"{all_of_it.explained:.1%}: it exceeds that in less than one of {SESSIONS:,} sessions."
    )
    if found in (0, 1):
        why = f"All elements are alike, so nothing is left to chance. {why}"
    elif abs(found + wanted - 1) <= all_of_it.explained:
        why = f"It is the other way round: this is the share that should not be {low}. {why}"
    return _finding(
        headline,
        f"{headline}.",
        why=why,
        remedy=_FAIR if np.ptp(throws.chance) else _LIKE_WITH_LIKE,
    )


def odds(throws: RandomResult, by_chance: Sequence[Band], words: Words) -> Finding:
    """For elements whose own chance doesn't decide."""
    _, high = words.names
    headline = f"{throws.name}: the odds don't follow each element's chance"
    rows = [f"    should be {high}   are"]
    rows += [
        f"    {band.wanted:>{10 + len(high)}.1%}  {band.found:>6.1%}{'  #' if band.wrong else ''}"
        for band in by_chance
    ]
    found = np.array([band.found for band in by_chance])
    wanted = np.array([band.wanted for band in by_chance])
    why = ""
    if np.abs(found - np.round(wanted)).max() < 0.05:
        why = "The likelier outcome always occurs: nothing is left to chance."
    elif np.ptp(found) < 0.05 < np.ptp(wanted):
        why = "All elements have the same odds, whatever theirs should be."
    elif np.abs(found + wanted - 1).max() < 0.05:
        why = "The odds are the wrong way round."
    return _finding(headline, f"{headline}.", odds="\n".join(rows), why=why)


def repetition(throws: RandomResult, again: Again, words: Words) -> Finding:
    """For bits that are used twice in one result."""
    further = _further(again)
    headline = f"{throws.name}: the same bits again, {further}"
    remedy = "Each element needs its own bits, drawn in the shape of the block."
    if block := _of_blocks(again, words):
        remedy = (
            f"That is {block}. Steps that seed alike draw alike: let each block's seed depend on "
            "where the block is."
        )
    return _finding(headline, f"{headline}.", why=_alike(again), remedy=remedy)


def other_bits(
    first: RandomResult, other: RandomResult, part: float, shifted: Again | None, words: Words
) -> Finding:
    """For two results that should be drawn with the same bits."""
    low, high = words.names
    headline = f"{other.name} is drawn with other bits than {first.name}"
    what = f"{headline}: {part:.1%} of the elements are {low} in one and {high} in the other."
    why = "Bits depend on the seed, the number of draws since then, and the shape."
    if shifted and (shifted.rows or shifted.columns):
        why = f"The bits of {first.name} are found in {other.name}, {_further(shifted)}."
    elif shifted:
        why += (
            f" Some elements do agree: {shifted.agree:.1%}; by chance it would be "
            f"{shifted.expected:.1%}."
        )
    return _finding(
        headline,
        what,
        why=why,
        remedy="Repeat the same draw: the same seed for the same block, in the same shape, with as "
        "many draws before.",
    )


def by_order(
    names: Sequence[str], one: Mapping[int, RandomResult], other: Mapping[int, RandomResult]
) -> Finding:
    """For results that differ if the steps run in another order, on one core."""
    differ = [n for n in one if (one[n].is_high != other[n].is_high).any()]
    which = listed(names[n] for n in differ or range(len(names)))
    headline = "the draws depend on the order of the grid's steps"
    return _finding(
        headline,
        "With its steps in another order, or on one core instead of two, the launch draws other "
        f"values in {which}.",
        why="A generator that goes on from step to step depends on the draws of the steps before. "
        "Cores share the steps, and each has its own generator.",
        remedy="Seed in every step, with numbers that do not depend on the order: the seed and the "
        "block's place.",
        phrase=headline,
    )


def same_for_seeds(throws: RandomResult, again: Again, changed: str, words: Words) -> Finding:
    """For a launch that draws alike for two seeds."""
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
        why=f"{_alike(again)} Training counts its seeds up from step to step: nearly all bits "
        "would be repeated, only elsewhere.",
        remedy="Do not add the seed and the block's number: many pairs have the same sum. Give "
        "prng_seed both, as two words, or fold the number into a key.",
    )


def seeded_alike(same: SameSeeds, name: str) -> Finding:
    """For two grid steps, or two seeds, that seed the generators alike."""
    (one, other), (seed, other_seed) = same.steps, same.seeds
    words = listed([f"{word:,}" for word in same.words])
    seed_name = f"{name}[{same.word}]"
    if seed == other_seed:
        headline = f"grid steps {one} and {other} seed the generator alike"
        if one == other:
            headline = f"a loop in grid step {one} seeds the generator alike twice"
        what = f"At production size, {headline}: with {words} if {seed_name} = {seed}."
        remedy = (
            "Let each block's seed depend on where the block is, for any number of blocks: "
            "pl.program_id(0) * pl.num_programs(1) + pl.program_id(1) counts the steps of a grid "
            "with two axes."
        )
        return _finding(headline, what, remedy=remedy, phrase=headline)
    headline = f"two seeds, {seed} and {other_seed}, seed the generator alike"
    where = f"step {one}" if one == other else f"steps {one} and {other}"
    return _finding(
        headline,
        f"At production size, {headline}: with {seed_name} = {seed} or {other_seed}, {where} of "
        f"the grid {'seeds' if one == other else 'seed'} it with {words}.",
        remedy="Give prng_seed both the seed and the block's number, as two words, or fold the "
        "number into a key. Keep all bits of the seed, and don't add the two: many pairs have the "
        "same sum.",
        phrase=headline,
    )


def _alike(again: Again) -> str:
    return (
        f"{again.agree:.1%} of the elements are drawn like those at that distance; by chance it "
        f"would be {again.expected:.1%}."
    )


def _further(again: Again) -> str:
    """A distance in words: "64 rows further down"."""
    down = f"{count(abs(again.rows), 'row')} further {'down' if again.rows > 0 else 'up'}"
    side = "right" if again.columns > 0 else "left"
    across = f"{count(abs(again.columns), 'column')} further to the {side}"
    return listed([down] * bool(again.rows) + [across] * bool(again.columns))


def _of_blocks(again: Again, words: Words) -> str:
    """A distance in blocks of one of the kernels' outputs; "" if not a whole number."""
    for block in words.blocks:
        sizes = [size or 1 for size in block]
        rows, columns = ([1, *sizes])[-2:]
        if again.rows % rows == 0 and again.columns % columns == 0:
            steps = count(abs(again.rows) // rows, "block") if again.rows else ""
            beside = count(abs(again.columns) // columns, "block") if again.columns else ""
            return listed(filter(None, (steps and f"{steps} down", beside and f"{beside} across")))
    return ""


def _worst(throws: RandomResult) -> tuple[int, ...]:
    """The element that is furthest from both of its outcomes; NaN where there is one."""
    with np.errstate(invalid="ignore"):
        error = np.minimum(abs(throws.actual - throws.low), abs(throws.actual - throws.high))
    error = np.where(np.isfinite(error), error, np.inf)
    at = int(np.argmax(np.where(throws.neither, error, -1.0)))
    return tuple(int(i) for i in np.unravel_index(at, throws.actual.shape))


def _factor(throws: RandomResult, words: Words) -> str:
    """How far off those elements are: by one factor from being high, or by a number of steps."""
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
            f"They are at most {np.abs(ratios - 1).max():.2%} off from their values if "
            f"{words.names[1]}, but that is more than rounding explains: compute in float32, and "
            "round once, at the end."
        )
    if alike.mean() < 0.9:
        return ""
    return f"They are {number(round(middle, 3))} times their values if {words.names[1]}."


def _steps(throws: RandomResult, words: Words) -> str:
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
            f"All of them lie beyond their values if {words.names[0]}, away from those if "
            f"{words.names[1]}, as if the added bits were negative: pltpu.prng_random_bits returns "
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


def check(evidence: TpuEvidence) -> Finding | None:
    """Judge one run, then compare it with other runs of the same launch; without a run, judge the
    seeds of all grid steps."""
    assert evidence.key.random
    if evidence.production:
        same = evidence.observed.same_seeds
        return same and seeded_alike(same, evidence.key.random.seed)
    judging = _Judging(evidence, evidence.key.random)
    finding = next(judging.of_one_run(), None) or next(judging.of_others(), None)
    return finding and _with_mistake(evidence, finding)


@dataclasses.dataclass(frozen=True)
class _Judging:
    """The findings about one attempt, a question at a time."""

    evidence: TpuEvidence
    random: Randomness

    @cached_property
    def thrown(self) -> dict[int, RandomResult]:
        """The random results, by position."""
        return self._thrown(self.evidence.outputs)

    @property
    def budget(self) -> ErrorBudget:
        return ErrorBudget(max(len(self.thrown), 1))

    @property
    def words(self) -> Words:
        trace = self.evidence.observed.trace
        outputs = [o for call in (trace.calls if trace else ()) for o in call.role(Role.OUTPUT)]
        return Words(self.random.names, tuple(output.block for output in outputs))

    def of_one_run(self) -> Iterator[Finding]:
        """Is each element one of its outcomes, as often as it should be, with its own bits?"""
        for throws in self.thrown.values():
            if throws.neither.any():
                yield neither(throws, self.words)
            share, by_chance = off_by_chance(throws, self.budget), bands(throws, self.budget)
            off = share.wrong or any(band.wrong for band in by_chance)
            # Bits that are used often make the share wrong as well, and not the other way round.
            if again := repeated_within(throws, self.budget, centred=off):
                yield repetition(throws, again, self.words)
            if share.wrong:
                yield share_message(throws, share, self.words)
            if off:
                yield odds(throws, by_chance, self.words)
        for first, *others in self.random.same:
            for other in others:
                yield from self._drawn_alike(self.thrown[first], self.thrown[other])

    def _drawn_alike(self, first: RandomResult, other: RandomResult) -> Iterator[Finding]:
        both = first.open & other.open
        differ = both & (first.is_high != other.is_high)
        if differ.any():
            shifted = repeated_between(first, other, self.budget)
            part = float(differ.sum() / both.sum())
            yield other_bits(first, other, part, shifted, self.words)

    def of_others(self) -> Iterator[Finding]:
        """Are the draws independent of the order of the steps and of the cores, but not of the
        seed?"""
        repeats = self.evidence.repeats()
        for run in (repeats.again, repeats.other_seed):
            if broken := self._broken(run):
                yield broken
                return
        assert isinstance(repeats.again, Observation)
        assert isinstance(repeats.other_seed, Observation)
        if not _equal(self.evidence.outputs, repeats.again.outputs):
            yield by_order(self._results(), self.thrown, self._thrown(repeats.again.outputs))
        next_seed = self._thrown(repeats.other_seed.outputs)
        for position, throws in self.thrown.items():
            if again := repeated_between(throws, next_seed[position], self.budget):
                yield same_for_seeds(throws, again, repeats.changed, self.words)

    def _broken(self, run: Observation | Accident) -> Finding | None:
        if isinstance(run, Accident):
            return accident_finding(run, self.evidence.file)
        trace = self.evidence.observed.trace
        if run.problem:
            calls = trace.calls if trace else ()
            return interpreter_finding(run.problem, self.evidence.file, calls)
        return complaint_finding(run.complaints) if run.complaints else None

    def _thrown(self, outputs: tuple[Array, ...]) -> dict[int, RandomResult]:
        roundings = 0 if self.random.exact else self.evidence.key.roundings.results
        outcomes = self.evidence.reference.outcomes
        return {
            position: RandomResult.of(name, actual, may_be, roundings)
            for position, (name, actual, may_be) in enumerate(
                zip(self._results(), outputs, outcomes, strict=True)
            )
            if may_be
        }

    def _results(self) -> list[str]:
        return [self.evidence.name_of(n) for n in range(len(self.evidence.outputs))]


def _equal(one: tuple[Array, ...], other: tuple[Array, ...]) -> bool:
    return [array.data for array in one] == [array.data for array in other]


def _with_mistake(evidence: TpuEvidence, finding: Finding) -> Finding:
    """The finding, and a known mistake that has the same results to the last bit, if one has."""
    title = evidence.resembles(lambda outputs: _equal(outputs, evidence.outputs))
    if not title:
        return finding
    same = paragraph("also", f"Your kernel {title}: your result matches that mistake exactly.")
    return dataclasses.replace(finding, message=f"{finding.message}\n{same}")
