"""★ Do the results come about by the chances that they should?

What is random cannot be compared with what must come back. The solution says what each element may
be and how often, and the launch is run three times: as it is; with its steps in another order, on
one core; and with the next seed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import cached_property

from grader.checks.chance import (
    Budget,
    Throws,
    bands,
    off_by_chance,
    repeated_between,
    repeated_within,
    told,
)
from grader.checks.evidence import Evidence
from grader.checks.prose import paragraph
from grader.checks.runs import accident_finding
from grader.checks.runtime_errors import complaint_finding, interpreter_finding
from grader.exercise.keys import Randomness
from grader.model import Accident, Array, Finding, Observation, Role


def check(evidence: Evidence) -> Finding | None:
    """Judge one run, then what other runs of the same launch have in common with it."""
    assert evidence.random
    judging = _Judging(evidence, evidence.random)
    finding = next(judging.of_one_run(), None) or next(judging.of_others(), None)
    return finding and _with_mistake(evidence, finding)


@dataclasses.dataclass(frozen=True)
class _Judging:
    """What is said of one attempt, a question at a time."""

    evidence: Evidence
    random: Randomness

    @cached_property
    def thrown(self) -> dict[int, Throws]:
        """The random results, by position."""
        return self._thrown(self.evidence.outputs)

    @property
    def budget(self) -> Budget:
        return Budget(max(len(self.thrown), 1))

    @property
    def words(self) -> told.Words:
        trace = self.evidence.observed.trace
        outputs = [o for call in (trace.calls if trace else ()) for o in call.role(Role.OUTPUT)]
        return told.Words(self.random.names, tuple(output.block for output in outputs))

    def of_one_run(self) -> Iterator[Finding]:
        """Is each element one of its outcomes, as often as it should be, by bits of its own?"""
        for throws in self.thrown.values():
            if throws.neither.any():
                yield told.neither(throws, self.words)
            share, by_chance = off_by_chance(throws, self.budget), bands(throws, self.budget)
            off = share.wrong or any(band.wrong for band in by_chance)
            # Bits that are used often make the share wrong as well, and not the other way round.
            if again := repeated_within(throws, self.budget, centred=off):
                yield told.repetition(throws, again, self.words)
            if share.wrong:
                yield told.share(throws, share, self.words)
            if off:
                yield told.odds(throws, by_chance, self.words)
        for first, *others in self.random.same:
            for other in others:
                yield from self._drawn_alike(self.thrown[first], self.thrown[other])

    def _drawn_alike(self, first: Throws, other: Throws) -> Iterator[Finding]:
        both = first.open & other.open
        differ = both & (first.is_high != other.is_high)
        if differ.any():
            shifted = repeated_between(first, other, self.budget)
            part = float(differ.sum() / both.sum())
            yield told.other_bits(first, other, part, shifted, self.words)

    def of_others(self) -> Iterator[Finding]:
        """Does neither the order of the steps decide, nor how many cores there are; the seed?"""
        repeats = self.evidence.repeats()
        for run in (repeats.again, repeats.other_seed):
            if broken := self._broken(run):
                yield broken
                return
        assert isinstance(repeats.again, Observation)
        assert isinstance(repeats.other_seed, Observation)
        if not _equal(self.evidence.outputs, repeats.again.outputs):
            yield told.by_order(self._results(), self.thrown, self._thrown(repeats.again.outputs))
        next_seed = self._thrown(repeats.other_seed.outputs)
        for position, throws in self.thrown.items():
            if again := repeated_between(throws, next_seed[position], self.budget):
                yield told.same_for_seeds(throws, again, repeats.changed, self.words)

    def _broken(self, run: Observation | Accident) -> Finding | None:
        if isinstance(run, Accident):
            return accident_finding(run, self.evidence.file)
        trace = self.evidence.observed.trace
        if run.problem:
            calls = trace.calls if trace else ()
            return interpreter_finding(run.problem, self.evidence.file, calls)
        return complaint_finding(run.complaints) if run.complaints else None

    def _thrown(self, outputs: tuple[Array, ...]) -> dict[int, Throws]:
        roundings = 0 if self.random.exact else self.evidence.roundings.results
        outcomes = self.evidence.reference.outcomes
        return {
            position: Throws.of(name, actual, may_be, roundings)
            for position, (name, actual, may_be) in enumerate(
                zip(self._results(), outputs, outcomes, strict=True)
            )
            if may_be
        }

    def _results(self) -> list[str]:
        return [self.evidence.name_of(n) for n in range(len(self.evidence.outputs))]


def _equal(one: tuple[Array, ...], other: tuple[Array, ...]) -> bool:
    return [array.data for array in one] == [array.data for array in other]


def _with_mistake(evidence: Evidence, finding: Finding) -> Finding:
    """The finding, and a known mistake that has the same results to the last bit, if one has."""
    title = evidence.resembles(lambda outputs: _equal(outputs, evidence.outputs))
    if not title:
        return finding
    same = paragraph("also", f"The same result comes out of code that {title}.")
    return dataclasses.replace(finding, message=f"{finding.message}\n{same}")
