"""How many wrong versions of the solutions are rejected: mutants, graded as learners' files.

    python -m tools.benchmarks.mutants [--count N] [--seeds 1,20] [--minutes M] [--out F]
                                       [--kinds edge,comparison] [--values] [WORD …]

Small changes are made to the regions of all solutions (`tests/support/mutations.py`), the same
number for each kata as far as it has so many, and the same in every run. Each is graded on the
hidden cases of each seed, up to the first that rejects it: that fails, or gives fewer than three
stars. What was found is added to FILE, a line of JSON each, and is not done again by the next run.
Two processes share the work. WORDs choose katas by name or track, --kinds the sorts of change. With
--values only results are judged, which is enough for the edges of comparisons.

It prints the share of mutants that are rejected, and lists those that survive. What survives
because it changes nothing that matters is listed in `equivalent_mutants.toml`, with the reason.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import hashlib
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from grader.checks.evidence import TpuEvidence
from grader.exercise.cases import draw
from grader.exercise.catalog import Kata, katas
from grader.exercise.key_tables import KataKind
from grader.grading.grader import evidence_of
from grader.grading.ladder import Judgement, verdict
from grader.sandbox import devices
from grader.sandbox.client import WorkerClient
from grader.sandbox.launch_client import WorkerQueues
from grader.sandbox.worker_pool import WorkerPool
from grader.verdict import (
    MAX_STARS,
    Case,
    Device,
    State,
)
from pallascope.model import Clues
from pallascope.tools.regions import regions
from tests.support.mutations import Mutation, mutations
from tests.support.repositories import ROOT, with_text

SECONDS = 30
WORKERS = 2
KEPT = 400  # answers about solutions: of all katas of a process, and all their cases
EQUIVALENT = Path(__file__).with_name("equivalent_mutants.toml")
CPU: Device = devices.choose("strict", devices.Hardware(tpu=False, gpu=False))


@dataclasses.dataclass(frozen=True, slots=True)
class Mutant:
    """One changed solution."""

    kata: Kata
    mutation: Mutation
    text: str

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]

    def diff(self) -> tuple[str, str]:
        """The lines that differ: before and after."""
        before, after = self.kata.solution.read_text().splitlines(), self.text.splitlines()
        while before and after and before[0] == after[0]:
            del before[0], after[0]
        while before and after and before[-1] == after[-1]:
            del before[-1], after[-1]
        return _stripped(before), _stripped(after)


def _stripped(lines: Sequence[str]) -> str:
    return "\n".join(line.strip() for line in lines)


def chosen(count: int, words: Sequence[str], kinds: Sequence[str] = ()) -> list[Mutant]:
    """`count` mutants, drawn over katas, and within a kata over kinds of change, evenly."""
    rows = [
        _shuffled(kata, kinds)
        for kata in katas(ROOT, "solutions")
        if kata.key.kind is not KataKind.TEST  # right tests are many
        and (not words or any(word in kata.id for word in words))
    ]
    return list(itertools.islice(_dealt(rows), count))


def _shuffled(kata: Kata, kinds: Sequence[str]) -> list[Mutant]:
    text = kata.solution.read_text()
    found = mutations(text, [(region.begin, region.end) for region in regions(text)])
    deck = random.Random(kata.name)
    deck.shuffle(found)
    by_kind: dict[str, list[Mutant]] = defaultdict(list)
    for mutation in found:
        if not kinds or mutation.kind in kinds:
            by_kind[mutation.kind].append(Mutant(kata, mutation, mutation.of(text)))
    return list(_dealt(list(by_kind.values())))


def _dealt(rows: Sequence[Sequence[Any]]) -> Iterator[Any]:
    """The first of each row, then the second of each, and so on."""
    for column in itertools.zip_longest(*rows):
        yield from (item for item in column if item is not None)


# ---- grading ----


class Right(Exception):
    """The values are right."""


def graded(
    asking: WorkerClient, mutant: Mutant, seed: int, root: Path, only_values: bool = False
) -> dict[str, Any]:
    """What becomes of a mutant on the hidden cases of a seed, as a line of the file.

    Values of all cases come first: they are sooner known than what a compiler says, and with
    `only_values` the rest isn't asked. The cause is not looked for.
    """
    wrong = with_text(mutant.kata, root, mutant.text)
    cases = draw(wrong.id, wrong.key, seed)
    judged, case = Judgement(State.PASSED, MAX_STARS), cases[0]
    values_first = [(case, False) for case in cases if not case.production]
    then = [] if only_values else [(case, True) for case in cases]
    for case, compiled in [*values_first, *then]:
        judged = _judged(asking, wrong, case, compiled)
        if judged.stars < MAX_STARS:
            break
    before, after = mutant.diff()
    finding = judged.finding
    return {
        "kata": mutant.kata.id,
        "digest": mutant.digest,
        "seed": seed,
        "kind": mutant.mutation.kind,
        "before": before,
        "after": after,
        "stars": judged.stars,
        "check": finding.check.value if finding else "",
        "phrase": finding.phrase if finding else "",
        "case": str(case),
    }


def _judged(asking: WorkerClient, wrong: Kata, case: Case, compiled: bool) -> Judgement:
    def right() -> Any:
        raise Right

    evidence = dataclasses.replace(evidence_of(asking, wrong, case, SECONDS), clues=Clues)
    if isinstance(evidence, TpuEvidence) and not compiled:
        evidence = dataclasses.replace(evidence, own_on_chips=right, par_on_chips=right)
    try:
        return verdict(evidence)
    except Right:
        return Judgement(State.PASSED, MAX_STARS)


def work(share: int, arguments: argparse.Namespace) -> None:
    """Grade every WORKERS-th kata's mutants until the time is over."""
    ends = time.monotonic() + 60 * arguments.minutes
    every = chosen(arguments.count, arguments.words, arguments.kinds)
    names = list(dict.fromkeys(mutant.kata.name for mutant in every))
    mine = set(names[share::WORKERS])
    lines = lines_of(arguments.out)
    done = {(line["digest"], line["seed"]) for line in lines}
    # What does not depend on what is drawn can wait.
    raises = {line["digest"] for line in lines if line["check"] in ("runs", "contract")}
    every.sort(key=lambda mutant: mutant.digest in raises)
    pool = WorkerPool(CPU)
    with contextlib.closing(pool), tempfile.TemporaryDirectory() as folder:
        asking = WorkerClient(WorkerQueues(pool, kept=KEPT))
        for seed, mutant in itertools.product(arguments.seeds, every):
            if mutant.kata.name not in mine or (mutant.digest, seed) in done:
                continue
            if time.monotonic() > ends:
                return
            root = Path(folder) / f"{mutant.digest}-{seed}"
            root.mkdir()
            line = json.dumps(graded(asking, mutant, seed, root, arguments.values))
            with arguments.out.open("a") as file:
                file.write(line + "\n")


# ---- the account ----


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def equivalent() -> set[tuple[str, str, str]]:
    """The mutants that were set aside by hand: kata, before, after."""
    found = tomllib.loads(EQUIVALENT.read_text()).get("mutant", []) if EQUIVALENT.exists() else []
    return {(one["kata"], one["before"].strip(), one["after"].strip()) for one in found}


def told(arguments: argparse.Namespace) -> None:
    """Print what was found of the mutants that are chosen."""
    every = chosen(arguments.count, arguments.words, arguments.kinds)
    wanted = {mutant.digest: mutant for mutant in every}
    aside = equivalent()
    for seed in arguments.seeds:
        lines = [
            line
            for line in lines_of(arguments.out)
            if line["seed"] == seed and line["digest"] in wanted
        ]
        meant = [line for line in lines if _place(line) not in aside]
        alive = [line for line in meant if line["stars"] == MAX_STARS]
        share = 1 - len(alive) / max(len(meant), 1)
        checks = Counter(line["check"] for line in meant if line["check"])
        print(
            f"seed {seed}: of {len(wanted)} mutants {len(lines)} graded, {len(lines) - len(meant)} "
            f"of them equivalent; {len(meant) - len(alive)} of {len(meant)} rejected ({share:.1%})"
        )
        print("  " + ", ".join(f"{check} {count}" for check, count in checks.most_common()))
        for line in alive:
            print(f"  {line['kata']}  {line['kind']}")
            print(f"    - {line['before']}\n    + {line['after']}")


def _place(line: dict[str, Any]) -> tuple[str, str, str]:
    return line["kata"], line["before"].strip(), line["after"].strip()


def main() -> None:
    """Grade what is not graded yet, and print the account."""
    parser = argparse.ArgumentParser(description="Grade mutants of the solutions.")
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--count", type=int, default=540)
    parser.add_argument("--seeds", type=_seeds, default=(1, 20))
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--out", type=Path, default=Path("mutants.jsonl"))
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=())
    parser.add_argument("--values", action="store_true")
    parser.add_argument("--share", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.share is not None:
        work(arguments.share, arguments)
        return
    command = [sys.executable, "-m", "tools.benchmarks.mutants", *sys.argv[1:]]
    started = [subprocess.Popen([*command, f"--share={share}"]) for share in range(WORKERS)]
    codes = [process.wait() for process in started]  # of both, even if one fails
    if any(codes):
        sys.exit("a process of the two has failed")
    told(arguments)


def _seeds(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


if __name__ == "__main__":
    main()
