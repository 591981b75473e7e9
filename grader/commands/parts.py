"""`kata grade --shard` and `--merge`: one file of samples, judged by several runs."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from grader.batch.batch import How
from grader.batch.merging import merge
from grader.batch.samples import Complaint, Sample
from grader.batch.shards import Shard, shard_of
from grader.batch.store import Store
from grader.batch.terms import Terms

_MOST_LINES = 8  # that are named


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--shard",
        type=_shard,
        metavar="I/N",
        help="judge only the I-th of N parts of the samples; each part needs its own --out, "
        "and all the same --seed",
    )
    parser.add_argument(
        "--merge",
        type=Path,
        nargs="+",
        metavar="STORE",
        help="judge nothing: copy the verdicts from the stores of shards into one, and write "
        "results and scores as a single run would",
    )


def _shard(text: str) -> Shard:
    try:
        return Shard.of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def demand_sense(options: argparse.Namespace) -> None:
    """Raises ValueError where the options contradict each other."""
    if options.shard and options.merge:
        raise ValueError("--shard judges and --merge doesn't: give one of them")
    if options.shard and options.seed is None:
        raise ValueError("--shard needs --seed: all shards have to draw the same hidden cases")


def of_shard(
    found: Sequence[Sample | Complaint], shard: Shard | None
) -> Sequence[Sample | Complaint]:
    """What of a file's lines belongs to a shard. Lines that can't be judged are the first's."""
    return [one for one in found if one in shard] if shard else found


def merged(options: argparse.Namespace, store: Store) -> tuple[Terms, ...]:
    """Merge into the store what is to be merged: the terms of each. Raises ValueError."""
    if not options.merge:
        return ()
    terms = merge(options.merge, store)
    if options.seed not in (None, terms[0].seed):
        raise ValueError(f"--seed is {options.seed}, and the stores are of seed {terms[0].seed}")
    return terms


def how(options: argparse.Namespace, merged: Sequence[Terms]) -> How:
    """How samples are judged, or were where stores are merged."""
    if merged:
        (chip,), seed = merged[0].chips, merged[0].seed
        return How(chip, options.isolation, seed, options.k, versions=merged[0].versions)
    shard = str(options.shard or "")
    given = (options.chip, options.isolation, options.seed, options.k, options.limit)
    return How(*given, shard=shard)


def untold(samples: Sequence[Sample], terms: Iterable[Terms]) -> Iterator[str]:
    """What to say of samples that no merged store has a verdict on: who has to judge them."""
    counts = {Shard.of(each.shard).count for each in terms if each.shard}
    if not samples:
        return
    if len(counts) != 1:
        yield f"{_lines(samples)}: no store has a verdict"
        return
    (count,) = counts
    by_shard: dict[Shard, list[Sample]] = {}
    for one in samples:
        by_shard.setdefault(shard_of(one, count), []).append(one)
    for shard in sorted(by_shard, key=lambda shard: shard.number):
        yield f"{_lines(by_shard[shard])}: no verdict, run --shard {shard} (again), and merge"


def _lines(samples: Sequence[Sample]) -> str:
    if len(samples) == 1:
        return f"line {samples[0].line}"
    numbers = ", ".join(str(one.line) for one in samples[:_MOST_LINES])
    more = len(samples) - _MOST_LINES
    return f"lines {numbers}" + (f" and {more} more" if more > 0 else "")
