"""All verdicts as JSON lines, to be compared before and after a change to the grader.

    python -m tools.benchmarks.verdicts write FILE [--seed N] [--kinds …] [-k WORD] [--processes N]
    python -m tools.benchmarks.verdicts compare BEFORE AFTER

`write` grades stubs, solutions, known mistakes, variants, hostile files, crashes and hangs, case by
case up to the first that does not pass, and writes one line for each text. It goes on where it was
stopped. `compare` prints each text whose verdict differs, and ends with 1 where there is one. They
leave out times, versions, line breaks, and paths of the repository and of temporary folders. Nine
in ten seconds go to katas' solutions and mistakes: about 40 CPU minutes in all.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from grader.api import examiner
from grader.exercise.cases import hidden_cases
from grader.exercise.catalog import Kata, katas
from grader.exercise.mutants import wrong_version
from grader.exercise.variants import variants
from tests.support import hostile, hostile_launches, hostile_machine
from tests.support.repositories import ROOT
from tools.benchmarks.many.mixture import CRASHES, HANGS

Text = tuple[str, str, str]  # kind, name, contents
KINDS = ("stub", "solution", "mistake", "variant", "hostile", "fault")
#: Fields that differ between two runs, or that quote the files of the grader (`full`, a traceback).
VARYING = {"seconds", "versions", "blob", "full"}
#: The repository's folder, names in temporary folders, addresses, and processes' numbers.
_CHANGING = re.compile(
    rf"{re.escape(str(ROOT))}|/tmp/[^\s'\"]*|0x[0-9a-f]{{6,}}|\bpid \d+|/proc/\d+"
    r"|\b\d+(\.\d+)? (MiB|GB|s|ms)\b|\s+"
)


def texts(kata: Kata, kinds: Sequence[str]) -> Iterator[Text]:
    """The texts that are graded as one kata's."""
    solution = kata.solution.read_text(encoding="utf-8")
    if "stub" in kinds:
        yield "stub", "", kata.stub_text()
    if "solution" in kinds:
        yield "solution", "", solution
    if "mistake" in kinds:
        for mistake in kata.key.mistakes:
            yield "mistake", mistake.title, wrong_version(solution, mistake)
    if "variant" in kinds:
        for variant in variants():
            if variant.kata.id == kata.id:
                yield "variant", variant.style, variant.text()
    if kata.name == "constant_add":
        yield from _attacks(solution, kinds)


def _attacks(solution: str, kinds: Sequence[str]) -> Iterator[Text]:
    """Hostile files, crashes and hangs: all of them are of constant_add."""
    own = re.search(r"def constant_add_kernel[\s\S]*?(?=\n\n\ndef test_)", solution)
    assert own
    if "hostile" in kinds:
        for one in (
            *hostile_machine.REACHES,
            *hostile.FORGED_TRACES,
            *hostile.ANSWERS,
            *hostile.PATCHES,
            *hostile_launches.LAUNCHES,
        ):
            yield "hostile", one.name, solution.replace(own[0], one.source)
    if "fault" in kinds:
        for statements in (*CRASHES, *HANGS):
            body = "".join(f"    {line}\n" for line in statements.splitlines())
            launch = "_launch = constant_add\ndef constant_add(*args):\n"
            yield "fault", statements, f"{solution}\n\n{launch}{body}    return _launch(*args)\n"


def verdicts(grading: examiner.Examiner, kata: Kata, text: str, seed: int) -> list[Any]:
    """The grades of the hidden cases, up to the first that does not pass, without their times."""
    found = []
    for case in hidden_cases(kata, seed):
        with mock.patch.object(examiner, "hidden_cases", lambda *_, case=case: (case,)):
            report = grading.grade(kata.id, text, seed)
        found.append([_lasting(grade) for grade in report.as_dict()["grades"]])
        if report.finding:
            break
    return found


def _lasting(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _lasting(of) for name, of in value.items() if name not in VARYING}
    if isinstance(value, list | tuple):
        return [_lasting(of) for of in value]
    return _CHANGING.sub("…", value) if isinstance(value, str) else value


def write(kata: Kata, kinds: Sequence[str], seed: int, done: set[str]) -> list[str]:
    """The lines of one kata's texts that are not yet `done`."""
    lines = []
    with examiner.Examiner(root=ROOT, seconds=10.0) as grading:
        for kind, name, text in texts(kata, kinds):
            key = f"{kata.id} {kind} {name}"
            if key not in done:
                grades = verdicts(grading, kata, text, seed)
                lines.append(json.dumps({"text": key, "grades": grades}, sort_keys=True))
    return lines


def read(path: Path) -> dict[str, Any]:
    """The grades of a file that `write` has written, by text."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {row["text"]: row["grades"] for row in map(json.loads, lines)}


def compare(before: Path, after: Path) -> int:
    """Print the texts whose verdicts differ. Returns 1 where there is one."""
    old, new = read(before), read(after)
    different = 0
    for key in sorted(old.keys() | new.keys()):
        if key not in old or key not in new:
            print(f"only {'before' if key in old else 'after'}: {key}")
        elif old[key] != new[key]:
            pair = (old[key], new[key])
            print(f"differs: {key}", *(f"    {json.dumps(of)}" for of in pair), sep="\n")
        else:
            continue
        different += 1
    print(f"{len(old)} and {len(new)} texts, {different} differ")
    return int(bool(different))


def _write_one(arguments: tuple[Kata, Sequence[str], int, set[str]]) -> list[str]:
    return write(*arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="verdicts")
    commands = parser.add_subparsers(dest="command", required=True)
    writing = commands.add_parser("write")
    writing.add_argument("file", type=Path)
    writing.add_argument("--seed", type=int, default=1)
    writing.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    writing.add_argument("-k", dest="word", default="")
    writing.add_argument("--processes", type=int, default=1)
    comparing = commands.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    options = parser.parse_args(arguments)
    if options.command == "compare":
        return compare(options.before, options.after)
    done = set(read(options.file))
    chosen = [kata for kata in katas(ROOT, "solutions") if options.word in kata.id]
    jobs = [(kata, options.kinds, options.seed, done) for kata in chosen]
    with (
        multiprocessing.get_context("spawn").Pool(options.processes) as pool,
        options.file.open("a", encoding="utf-8") as stream,
    ):
        for lines in pool.imap(_write_one, jobs):
            stream.writelines(f"{line}\n" for line in lines)
            stream.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
